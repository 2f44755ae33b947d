"""Timing one callable, or several in turns: warmed up, in windows long enough for the clock, every sample kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat

from boundby.timing.clock import Clock, clock_resolution_ns, monotonic_ns

# A window of this many clock steps is known to a tenth of a percent.
STEPS_PER_WINDOW = 1000
MAX_LOOPS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """What was timed of one callable.

    ``seconds`` are seconds per call, one entry a window of ``loops`` calls, in the order they were taken.
    ``dropped`` windows came out at zero or less (a clock that stepped back). ``warmed_up`` is False where the last
    warm-up windows still disagreed when the bound was reached; ``warmup_windows`` were timed and not kept.
    """

    seconds: tuple[float, ...]
    loops: int
    dropped: int = 0
    warmup_windows: int = 0
    warmed_up: bool = True


def time_window(call: Callable[[], object], loops: int, clock: Clock = monotonic_ns) -> float:
    """Seconds per call over one window of ``loops`` calls; zero or less where the clock stood still or stepped back.

    Args:
        call: what to time; its result is dropped.
        loops: calls in the window, at least 1.
        clock: nanoseconds.
    """
    before = clock()
    for _ in repeat(None, loops):
        call()
    return (clock() - before) * 1e-9 / loops


def find_loops(call: Callable[[], object], *, window_s: float, clock: Clock = monotonic_ns) -> int:
    """How many calls make a window of at least ``window_s`` (within a fifth), found by timing ever longer windows.

    Args:
        call: what will be timed.
        window_s: how long a window is to last, seconds.
        clock: nanoseconds.
    """
    loops = 1
    while loops < MAX_LOOPS:
        seconds = time_window(call, loops, clock) * loops
        if seconds >= 0.8 * window_s:
            break
        # A window that was too short to be timed says nothing about how many calls are needed, so grow tenfold.
        growth = 10.0 if seconds <= 0 else min(10.0, 1.05 * window_s / seconds)
        loops = min(MAX_LOOPS, max(loops + 1, int(loops * growth)))
    return loops


def warm_up(
    call: Callable[[], object],
    loops: int,
    *,
    clock: Clock = monotonic_ns,
    agree: int = 3,
    within: float = 0.05,
    max_windows: int = 25,
) -> tuple[int, bool]:
    """Runs windows until the last ``agree`` lie ``within`` a share of the smallest of them, at most ``max_windows``.

    Args:
        call: what will be timed.
        loops: calls in a window.
        clock: nanoseconds.
        agree: how many windows in a row have to agree.
        within: how far apart the slowest and the fastest of them may be, as a share.
        max_windows: the bound.

    Returns:
        The windows run, and whether they came to agree.
    """
    last: list[float] = []
    for windows in range(1, max_windows + 1):
        last.append(time_window(call, loops, clock))
        del last[:-agree]
        if len(last) == agree and min(last) > 0 and max(last) <= (1 + within) * min(last):
            return windows, True
    return max_windows, False


def sample(
    call: Callable[[], object],
    *,
    windows: int = 5,
    window_s: float = 1e-3,
    clock: Clock = monotonic_ns,
    max_warmup_windows: int = 25,
) -> Samples:
    """Times ``call``: finds a loop count, warms up, takes ``windows`` windows and keeps them all.

    Args:
        call: what to time; its result is dropped.
        windows: how many windows to take.
        window_s: how long each is to last, seconds; never less than 1000 steps of the clock.
        clock: nanoseconds.
        max_warmup_windows: the bound on warming up.
    """
    return interleave((call,), windows=windows, window_s=window_s, clock=clock, max_warmup_windows=max_warmup_windows)[
        0
    ]


def interleave(
    calls: Sequence[Callable[[], object]],
    *,
    windows: int = 5,
    window_s: float = 1e-3,
    clock: Clock = monotonic_ns,
    max_warmup_windows: int = 25,
) -> tuple[Samples, ...]:
    """Times several callables in turns (A B C, A B C...), so that a slow second hits all of them alike.

    Args:
        calls: what to time; results are dropped.
        windows: how many windows to take of each.
        window_s: how long each window is to last, seconds; never less than 1000 steps of the clock.
        clock: nanoseconds.
        max_warmup_windows: the bound on warming up each of them.

    Returns:
        One entry a callable, in their order.
    """
    window_s = max(window_s, STEPS_PER_WINDOW * clock_resolution_ns(clock) * 1e-9)
    loops = [find_loops(call, window_s=window_s, clock=clock) for call in calls]
    warm = [
        warm_up(call, count, clock=clock, max_windows=max_warmup_windows)
        for call, count in zip(calls, loops, strict=True)
    ]
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(windows):
        for call, count, seconds in zip(calls, loops, taken, strict=True):
            seconds.append(time_window(call, count, clock))
    return tuple(
        Samples(
            seconds=tuple(one for one in seconds if one > 0),
            loops=count,
            dropped=sum(one <= 0 for one in seconds),
            warmup_windows=run,
            warmed_up=agreed,
        )
        for seconds, count, (run, agreed) in zip(taken, loops, warm, strict=True)
    )
