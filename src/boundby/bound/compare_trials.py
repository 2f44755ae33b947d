"""What remedies did in two reports that `boundby try` wrote: pure."""

from __future__ import annotations

from boundby.results.comparison import TrialChange
from boundby.results.interval import Interval, interval
from boundby.results.remedy import Remedy
from boundby.results.report import Report


def compare_trials(a: Report, b: Report) -> tuple[TrialChange, ...]:
    """The remedies that were measured in one report or both, in the order of ``b``.

    Two measured speed-ups differ where their intervals do not meet.
    """
    in_a, in_b = ({one.name: one for one in report.remedies} for report in (a, b))
    changes = []
    for name in dict.fromkeys((*in_b, *in_a)):
        of_a, of_b = in_a.get(name), in_b.get(name)
        speed_a, speed_b = _speedup(of_a), _speedup(of_b)
        if speed_a is None and speed_b is None:
            continue
        changes.append(
            TrialChange(
                name=name,
                a=speed_a,
                b=speed_b,
                advice_a=None if of_a is None else of_a.advice,
                advice_b=None if of_b is None else of_b.advice,
                differs=None
                if speed_a is None or speed_b is None
                else speed_a.high < speed_b.low or speed_b.high < speed_a.low,
            )
        )
    return tuple(changes)


def _speedup(remedy: Remedy | None) -> Interval | None:
    if remedy is None or remedy.measured is None:
        return None
    measured = remedy.measured
    return interval(measured.speedup, measured.low, measured.high)
