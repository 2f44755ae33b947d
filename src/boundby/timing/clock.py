"""The clock everything is timed by, and how fine it is."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Anything that returns a time in nanoseconds, from any fixed origin; ``time.perf_counter_ns`` is one."""

    def __call__(self) -> int: ...


monotonic_ns: Clock = time.perf_counter_ns


def clock_resolution_ns(clock: Clock = monotonic_ns, *, reads: int = 64) -> int:
    """The smallest step the clock is seen to make (ns), at least 1.

    It is measured, not asked for: what the operating system states may be finer than what two reads can tell apart.

    Args:
        clock: the clock to look at.
        reads: how many pairs of reads to look at; a clock that never moves within them gives 1.
    """
    smallest = 0
    before = clock()
    for _ in range(reads):
        now = clock()
        step = now - before
        if step > 0 and (smallest == 0 or step < smallest):
            smallest = step
        before = now
    return max(1, smallest)
