"""What the rows of several demonstrations share: a time as numbers for JSON, and what a set of times says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from boundby.report.demonstration import Line
from boundby.results.call_time import CallTime
from boundby.results.language import tr
from boundby.timing.statistics import SPREAD_LIMIT, median

# Below it, a single thread that is always busy did not have a core to itself.
LEAST_CPU_SHARE = 0.9
# The same of several threads, which also wait for one another.
LEAST_CPU_SHARE_OF_THREADS = 0.75
# A call whose slowest round takes more than so many times as long as its fastest was disturbed in some of them.
_UNLIKE_ROUNDS = 2.0
# A ratio of times that changes by more from turn to turn says nothing of its cause.
_UNSTEADY_RATIO = 1.5


def times_data(time: CallTime | None) -> dict[str, Any]:
    """A time for JSON, in seconds a call; null where it was not taken."""
    if time is None:
        return {"time_s": None, "median_s": None, "slowest_s": None}
    return {"time_s": time.fastest_s, "median_s": time.median_s, "slowest_s": time.slowest_s}


def last_flat(times: Sequence[CallTime]) -> int:
    """The index of the last of growing calls that still takes at most twice as long as the first, as all before it."""
    last = 0
    for index, time in enumerate(times):
        if time.fastest_s > 2 * times[0].fastest_s:
            break
        last = index
    return last


def ratio_band(over: CallTime, under: CallTime) -> tuple[float, float]:
    """The least and the most that the ratio of two times was in one turn, or by the fastest rounds of both."""
    turns = zip(over.rounds_s, under.rounds_s, strict=False)
    ratios = [over.fastest_s / under.fastest_s, *(one / other for one, other in turns)]
    return min(ratios), max(ratios)


def turns_ratio(over: CallTime, under: CallTime) -> float:
    """The ratio of two times as the median of the turns; that of the medians where rounds were not kept."""
    ratios = [one / other for one, other in zip(over.rounds_s, under.rounds_s, strict=False)]
    return median(ratios) if ratios else over.median_s / under.median_s


def is_unsteady(over: CallTime, under: CallTime) -> bool:
    """Whether the ratio of two times differs so much from turn to turn that no cause can be read from it."""
    low, high = ratio_band(over, under)
    return high > _UNSTEADY_RATIO * low


def goes_down(times: Sequence[CallTime]) -> bool:
    """Whether a call with more work took clearly less time than one before it: no cost of a call does that."""
    longest = 0.0
    for time in times:
        if SPREAD_LIMIT * time.fastest_s < longest:
            return True
        longest = max(longest, time.fastest_s)
    return False


def noise_notes(times: Sequence[CallTime], *, one_thread: bool = False, threads: int | None = None) -> tuple[Line, ...]:
    """A line that says what disturbed the times, as other processes do; none where nothing was seen to.

    Args:
        times: those of a demonstration.
        one_thread: whether the work is in one thread, so that processor time that is missing is others'.
        threads: how many threads the work is divided over, each on a core of its own; None where that is not known,
            as on an accelerator.
    """
    least = LEAST_CPU_SHARE if one_thread or threads == 1 else LEAST_CPU_SHARE_OF_THREADS * (threads or 0)
    unsteady = sum(
        time.median_s > SPREAD_LIMIT * time.fastest_s
        or time.slowest_s > _UNLIKE_ROUNDS * time.fastest_s
        or (time.cpu_share is not None and time.cpu_share < least)
        for time in times
    )
    if not unsteady:
        return ()
    return (
        Line(
            text=tr(
                "The machine was disturbed: for {unsteady} of {all} calls, rounds disagree by a quarter, one took "
                "twice as long as another, or other work took a good part of the cores' time. Close what else "
                "runs, and run this again before you trust a ratio.",
                unsteady=str(unsteady),
                all=str(len(times)),
            ),
            timed=True,
        ),
    )
