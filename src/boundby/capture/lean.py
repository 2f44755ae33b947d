"""The lean watcher: two clock reads an op and nothing else, for op times."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from boundby.capture.regions import REGION, CompiledCalls
from boundby.capture.usage import NO_USAGE, StepUsage
from boundby.capture.watcher import CLEARING, OpWatcher


@dataclass(frozen=True, slots=True)
class LeanStep:
    """One leanly watched step: ops in order with their raw windows, all times in ns of the same clock.

    ``stamps`` holds begin and end of each op in turn. ``input_at`` are (index of the next op, ns spent) of each wait
    for input inside the step, ``clearing_at`` those of each clearing of gradients by an optimizer that ran no op.
    """

    ops: list[Any]
    stamps: array[int]
    begin: int
    end: int
    input_at: list[tuple[int, int]]
    usage: StepUsage = NO_USAGE
    turn: int = 0
    clearing_at: Sequence[tuple[int, int]] = ()

    @property
    def seconds(self) -> float:
        """Wall time of the watched step."""
        return (self.end - self.begin) / 1e9


class LeanWatcher(OpWatcher):
    """Reads the clock before and after each op. The rest (counts, lines) is known from the attributed steps."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[Any] = []
        self.stamps: array[int] = array("q")
        self.clearings: list[tuple[int, int]] = []
        self._clearing_from: tuple[int, int] | None = None
        self._ranges_inside = 0
        self._note = self.ops.append
        self._stamp = self.stamps.append
        self._regions = CompiledCalls(self._run_region)

    def start(self) -> None:
        """Watch from now on."""
        self._regions.open()
        super().start()

    def stop(self) -> None:
        """Watch no more."""
        super().stop()
        self._regions.close()

    def run_op(self, func: Any, args: Any, kwargs: Any, clock: Any = time.perf_counter_ns) -> Any:
        """Run the op between two clock reads; one in a compiled region is the region's own affair."""
        if self._regions.inside:
            return func(*args, **kwargs)
        begin = clock()
        out = func(*args, **kwargs)
        end = clock()
        self._note(func)
        self._stamp(begin)
        self._stamp(end)
        return out

    def run_marker(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run it, and note how long optimizers take to clear gradients where that runs no op."""
        begins = bool(args) and isinstance(args[0], str)
        if self._clearing_from is None:
            if begins and args[0].startswith(CLEARING):
                self._clearing_from = (len(self.ops), time.perf_counter_ns())
        elif begins:
            self._ranges_inside += 1
        elif self._ranges_inside:
            self._ranges_inside -= 1
        else:
            (at, since), self._clearing_from = self._clearing_from, None
            if at == len(self.ops):
                self.clearings.append((at, time.perf_counter_ns() - since))
        return func(*args, **kwargs)

    def missed_op(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """An op none of whose inner ops could be seen has its place in the sequence, without a time."""
        now = time.perf_counter_ns()
        self._note(func)
        self._stamp(now)
        self._stamp(now)

    def _run_region(self, call: Callable[[], Any]) -> Any:
        begin = time.perf_counter_ns()
        out = call()
        self._stamp(begin)
        self._stamp(time.perf_counter_ns())
        self._note(REGION)
        return out
