"""What the rows of several demonstrations share: a time as numbers for JSON, and what a set of times says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from boundby.report.demonstration import Line
from boundby.results.call_time import CallTime
from boundby.results.language import tr
from boundby.timing.statistics import SPREAD_LIMIT

# Below it, a single thread that is always busy did not have a core to itself.
LEAST_CPU_SHARE = 0.9


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


def noise_notes(times: Sequence[CallTime], *, one_thread: bool = False) -> tuple[Line, ...]:
    """A line that says what disturbed the times, as other processes do; none where nothing was seen to.

    Args:
        times: those of a demonstration.
        one_thread: whether the work is in one thread, so that processor time that is missing is others'.
    """
    unsteady = sum(
        time.median_s > SPREAD_LIMIT * time.fastest_s
        or (one_thread and time.cpu_share is not None and time.cpu_share < LEAST_CPU_SHARE)
        for time in times
    )
    if not unsteady:
        return ()
    return (
        Line(
            text=tr(
                "The machine was disturbed: for {unsteady} of {all} calls, rounds disagree by a quarter, or other work "
                "took a tenth of the core's time. Close what else runs, and run this again before you trust a ratio.",
                unsteady=str(unsteady),
                all=str(len(times)),
            ),
            timed=True,
        ),
    )
