"""What watching costs, measured in the same process and at the same moments as the steps.

The yardstick is a miniature training step of some hundred small ops, run bare and watched in turns: a loop of one op
alone is too kind to caches and branch prediction to stand for a user's step.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import _disable_current_modes

from boundby.capture.lean import LeanWatcher
from boundby.capture.profiled import ProfilingWatcher, can_profile, count_calls

TURNS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchCost:
    """Seconds that watching adds: the profiler to each operator call, a lean watcher to each op; None: not measured."""

    per_call_s: float | None
    per_op_s: float | None


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
        for one in self._weights:
            one.requires_grad_(True)
        self._calls = 0
        self._per_call: list[float] = []
        self._per_op: list[float] = []

    def read(self) -> None:
        """Take one sample of each cost: some 20 ms."""
        with _by_itself():
            lean, profiled = [], []
            self._step()
            bare = [self._seconds() for _ in range(TURNS)]
            if can_profile():
                # As in a burst of steps: the profiler stays on, and its first step is not counted.
                profiler = ProfilingWatcher()
                profiler.start()
                self._step()
                profiled = [self._seconds() for _ in range(TURNS)]
                profiler.stop()
                self._calls = self._calls or count_calls(self._step)
                self._step()
            for _ in range(TURNS):
                bare.append(self._seconds())
                watcher = LeanWatcher()
                watcher.start()
                lean.append(self._seconds())
                watcher.stop()
                ops = len(watcher.ops)
        base = min(bare)
        self._per_op.append((min(lean) - base) / ops)
        if profiled:
            self._per_call.append((min(profiled) - base) / self._calls)

    def cost(self) -> WatchCost:
        """The medians of the samples so far."""
        return WatchCost(
            per_call_s=statistics.median(self._per_call) if self._per_call else None,
            per_op_s=statistics.median(self._per_op) if self._per_op else None,
        )

    def _seconds(self) -> float:
        begin = time.perf_counter_ns()
        self._step()
        return (time.perf_counter_ns() - begin) / 1e9

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


@contextmanager
def _by_itself() -> Iterator[None]:
    """Without the user's own modes, which must not see the miniature's ops, nor change them."""
    with ExitStack() as stack:
        stack.enter_context(_disable_current_modes())
        stack.enter_context(torch._C.DisableTorchFunction())
        stack.enter_context(torch.inference_mode(False))
        if torch.is_autocast_enabled("cpu"):
            stack.enter_context(torch.autocast("cpu", enabled=False))
        yield
