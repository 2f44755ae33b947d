"""What watching costs, measured in the same process and at the same moments as the steps.

The yardstick is a miniature training step of some hundred small ops, run bare and watched in turns: a loop of one op
alone is too kind to caches and branch prediction to stand for a user's step.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.nn import functional as F
from torch.utils._python_dispatch import _disable_current_modes

from boundby.capture.lean import LeanWatcher
from boundby.capture.profiled import ProfiledStep, ProfilingWatcher, can_profile, profile_once

TURNS = 4
LOOP = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchCost:
    """Seconds that watching adds: the profiler to each operator call, a lean watcher to each op; None: not measured.

    A call noted by the profiler costs ``hot_call_s`` in a loop of one op, and ``mixed_call_s`` in the miniature step,
    whose calls bear ``mixed_names`` different names and are that much less at home in the caches.
    """

    hot_call_s: float | None
    mixed_call_s: float | None
    mixed_names: int
    per_op_s: float | None

    def per_call_s(self, names: int) -> float:
        """Seconds a call in a step whose calls bear so many different names; 0 where nothing was measured."""
        if self.hot_call_s is None or self.mixed_call_s is None:
            return 0.0
        # Half as many kinds of calls as the miniature has are enough to be as far from home as it is.
        share = min(1.0, 2.0 * (names - 1) / max(1, self.mixed_names - 1))
        return self.hot_call_s + share * (self.mixed_call_s - self.hot_call_s)


class Calibration:
    """Measures the cost of watching on a miniature step. Uses no random numbers and none of the user's tensors."""

    def __init__(self) -> None:
        plain: Any = {"device": "cpu", "dtype": torch.float32}
        with _by_itself(), torch.no_grad():
            self._x = torch.linspace(-1, 1, 64, **plain).view(8, 8)
            self._target = torch.arange(8, device="cpu")
            self._weights = [torch.linspace(-0.5, 0.5, 64, **plain).view(8, 8) for _ in range(4)]
            self._weights += [torch.ones(8, **plain) for _ in range(4)]
            self._first = [torch.zeros_like(one) for one in self._weights]
            self._second = [torch.ones_like(one) for one in self._weights]
            self._other = torch.ones(8, **plain)
            self._sum = torch.zeros(8, **plain)
            for one in self._weights:
                one.requires_grad_(True)
        self._calls: dict[Callable[[], None], ProfiledStep] = {}
        self._mixed: list[float] = []
        self._hot: list[float] = []
        self._per_op: list[float] = []

    def read(self) -> None:
        """Take one sample of each cost: some 20 ms."""
        with _by_itself():
            if can_profile():
                self._hot.append(self._per_call(self._loop))
                self._mixed.append(self._per_call(self._step))
            bare, lean, ops = [], [], 1
            for _ in range(TURNS):
                bare.append(_seconds(self._step))
                watcher = LeanWatcher()
                watcher.start()
                lean.append(_seconds(self._step))
                watcher.stop()
                ops = len(watcher.ops)
        self._per_op.append((min(lean) - min(bare)) / ops)

    def _per_call(self, work: Callable[[], None]) -> float:
        """Seconds that the profiler adds to a call, in a burst: it stays on, and its first step is not counted."""
        if work not in self._calls:
            self._calls[work] = profile_once(work)
        work()
        bare = [_seconds(work) for _ in range(TURNS)]
        profiler = ProfilingWatcher()
        profiler.start()
        work()
        profiled = [_seconds(work) for _ in range(TURNS)]
        profiler.stop()
        work()
        bare += [_seconds(work) for _ in range(TURNS)]
        return (min(profiled) - min(bare)) / len(self._calls[work].names)

    def cost(self) -> WatchCost:
        """The medians of the samples so far."""
        known = self._calls.get(self._step)
        return WatchCost(
            hot_call_s=statistics.median(self._hot) if self._hot else None,
            mixed_call_s=statistics.median(self._mixed) if self._mixed else None,
            mixed_names=len(set(known.names)) if known is not None else 1,
            per_op_s=statistics.median(self._per_op) if self._per_op else None,
        )

    def _loop(self) -> None:
        total, other = self._sum, self._other
        with torch.no_grad():
            for _ in range(LOOP):
                torch.add(other, other, out=total)

    def _step(self) -> None:
        w, scale = self._weights[:4], self._weights[4:]
        with torch.enable_grad():
            h = F.layer_norm(self._x, (8,), scale[0], scale[1])
            q = F.linear(h, w[0], scale[2]).view(2, 4, 2, 4).transpose(1, 2)
            k = F.linear(h, w[1]).view(2, 4, 2, 4).transpose(1, 2)
            seen = torch.softmax(q @ k.transpose(-2, -1) * 0.5, dim=-1)
            h = self._x + F.linear((seen @ k).transpose(1, 2).reshape(8, 8), w[2])
            h = F.layer_norm(h, (8,), scale[3], None)
            loss = F.cross_entropy(F.linear(F.gelu(h), w[3]), self._target)
            grads = torch.autograd.grad(loss, self._weights)
        with torch.no_grad():
            for weight, grad, first, second in zip(self._weights, grads, self._first, self._second, strict=True):
                first.lerp_(grad, 0.1)
                second.mul_(0.999).addcmul_(grad, grad, value=0.001)
                # A step of length zero: the miniature stays what it is.
                weight.addcdiv_(first, second.sqrt().add_(1e-8), value=0.0)


def _seconds(work: Callable[[], None]) -> float:
    begin = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - begin) / 1e9


def _as_it_is(tensor: Any) -> Any:
    return tensor


@contextmanager
def _by_itself() -> Iterator[None]:
    """Without the user's own modes, which must not see the miniature's ops, nor change them."""
    with ExitStack() as stack:
        stack.enter_context(_disable_current_modes())
        stack.enter_context(torch._C.DisableTorchFunction())
        stack.enter_context(torch.inference_mode(False))
        if torch._C._functorch.peek_interpreter_stack() is not None:
            stack.enter_context(temporarily_clear_interpreter_stack())
        if torch._C._autograd._top_saved_tensors_default_hooks(False) is not None:
            stack.enter_context(torch.autograd.graph.saved_tensors_hooks(_as_it_is, _as_it_is))
        if torch.is_autocast_enabled("cpu"):
            stack.enter_context(torch.autocast("cpu", enabled=False))
        yield
