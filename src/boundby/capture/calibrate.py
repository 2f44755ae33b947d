"""What watching costs, measured in the same process and at the same moments as the steps.

The yardstick is a miniature training step of some hundred small ops, run bare and watched in turns: a loop of one op
alone is too kind to caches and branch prediction to stand for a user's step.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from boundby.capture.lean import LeanWatcher
from boundby.capture.profiled import ProfiledStep, ProfilingWatcher, can_profile, profile_once
from boundby.timing.set_aside import modes_set_aside

TURNS = 4
LOOP = 150

Floats = np.ndarray[Any, np.dtype[np.float64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchCost:
    """Seconds that watching adds: the profiler to each operator call, a lean watcher to each op; None: not measured.

    A call noted by the profiler costs ``hot_call_s`` in a loop of one op and ``hot_nested_s`` where it is made by
    another such call, a good deal less. In the miniature step a call costs ``mixed_call_s`` on average, of which the
    share ``mixed_nested`` is nested; its outermost calls bear ``mixed_names`` different names and are that much less at
    home in the caches.
    """

    hot_call_s: float | None
    hot_nested_s: float | None
    mixed_call_s: float | None
    mixed_nested: float
    mixed_names: int
    per_op_s: float | None

    def calls_s(self, step: ProfiledStep) -> Floats:
        """Seconds by call of a profiled step, an entry a call; 0 where nothing was measured."""
        outermost = outermost_calls(step)
        if self.hot_call_s is None or self.hot_nested_s is None or self.mixed_call_s is None:
            return np.zeros(len(outermost))
        names = len({name for name, outer in zip(step.names, outermost, strict=True) if outer})
        # Half as many kinds of calls as the miniature has are enough to be as far from home as it is.
        share = min(1.0, 2.0 * max(0, names - 1) / max(1, self.mixed_names - 1))
        hot = self.hot_call_s + self.mixed_nested * (self.hot_nested_s - self.hot_call_s)
        colder = 1.0 + share * (self.mixed_call_s / hot - 1.0) if hot > 0 else 1.0
        return colder * np.where(outermost, self.hot_call_s, self.hot_nested_s)


NO_COST = WatchCost(
    hot_call_s=None, hot_nested_s=None, mixed_call_s=None, mixed_nested=0.0, mixed_names=1, per_op_s=None
)


def outermost_calls(step: ProfiledStep) -> Flags:
    """Which calls of a profiled step are made by no other, an entry a call."""
    begins, ends = np.frombuffer(step.begins, dtype=np.int64), np.frombuffer(step.ends, dtype=np.int64)
    if not len(begins):
        return np.zeros(0, dtype=np.bool_)
    latest = np.concatenate(([begins[0]], np.maximum.accumulate(ends)[:-1]))
    return begins >= latest


class Calibration:
    """Measures the cost of watching on a miniature step. Uses no random numbers and none of the user's tensors."""

    def __init__(self) -> None:
        plain: Any = {"device": "cpu", "dtype": torch.float32}
        with modes_set_aside(grad=False):
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
        self._nesting: list[float] = []
        self._per_op: list[float] = []

    def read(self) -> None:
        """Take one sample of each cost: some 20 ms."""
        with modes_set_aside(grad=True):
            if can_profile():
                self._hot.append(self._per_call(self._loop))
                self._nesting.append(self._per_call(self._nesting_loop))
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
        if not self._hot:
            return replace(NO_COST, per_op_s=statistics.median(self._per_op) if self._per_op else None)
        hot, mean = statistics.median(self._hot), statistics.median(self._nesting)
        nested = self._nested_share(self._nesting_loop)
        mixed = self._calls[self._step]
        outermost = outermost_calls(mixed)
        return WatchCost(
            hot_call_s=hot,
            hot_nested_s=(mean - (1.0 - nested) * hot) / nested if nested else hot,
            mixed_call_s=statistics.median(self._mixed),
            mixed_nested=self._nested_share(self._step),
            mixed_names=len({name for name, outer in zip(mixed.names, outermost, strict=True) if outer}),
            per_op_s=statistics.median(self._per_op) if self._per_op else None,
        )

    def _nested_share(self, work: Callable[[], None]) -> float:
        return 1.0 - float(outermost_calls(self._calls[work]).mean())

    def _loop(self) -> None:
        total, other = self._sum, self._other
        with torch.no_grad():
            for _ in range(LOOP):
                torch.add(other, other, out=total)

    def _nesting_loop(self) -> None:
        total = self._sum
        with torch.no_grad():
            for _ in range(LOOP):
                total.add_(0.0)  # a Python number becomes a tensor first, which takes four calls more

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
