"""What predictions read off the report's op rows: tensor shapes, and what a step takes once some of its rows change.

A row's seconds are those inside the step: with its caches, its neighbours and the machine's speed at the time. Those of
a probe are not, but the ratio of two that took turns carries over. So the rows say how long, and the probe says how
many times as long.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from boundby.remedies.contract import CannotTell, Prediction
from boundby.remedies.predicting import LEAST_LEFT, PROBE_BAND, WIDEST_RATIO
from boundby.results.interval import Interval
from boundby.results.language import tr
from boundby.results.remedy import Predicted
from boundby.results.report import OpRow, Report
from boundby.results.units import format_time

Shape = tuple[int, ...]
# Where less than this is seen, the rest is not spread over it.
MOST_UNSEEN = 0.8
# A disturbed probe still says something where the step it makes is known to this factor, or longer or shorter for sure.
WIDEST_STEP = 1.5
# An op may take so many times its floor before what it takes is called unexplained.
SLACK = 2.0


def base_name(op: str) -> str:
    """``aten.addmm.default`` without namespace and overload: ``addmm``."""
    parts = op.split(".")
    return parts[1] if len(parts) > 1 and parts[0] in ("aten", "prims", "quantized") else parts[0]


def at_line(path: str | None, line: int | None) -> str:
    """A source line as it is named in reasons: ``train.py:12``; nothing where it is not known."""
    return f"{os.path.basename(path)}:{line}" if path and line else ""


def tensor_shapes(row: OpRow) -> tuple[Shape, ...]:
    """The shapes of the first call's tensors, in the order of its arguments; ``()`` is a scalar's."""
    found: list[Shape] = []
    for word in row.shapes.split():
        if word == "scalar":
            found.append(())
        elif all(part.isdecimal() for part in word.split("x")):
            found.append(tuple(int(part) for part in word.split("x")))
        else:
            break  # what follows is no shape: more tensors than are told
    return tuple(found)


def seconds_of(report: Report, rows: Iterable[OpRow]) -> float:
    """What the rows take of the unwatched step (s): their shares of it."""
    return sum(row.share for row in rows) * report.step.time_s.median


def in_fp32(row: OpRow) -> bool:
    """Whether the row's work is in fp32, or what it is in was not recorded."""
    return row.dtype in (None, "fp32")


def explained_s(report: Report, row: OpRow) -> float:
    """Seconds of the step that the row's work takes by this machine's ceilings, products apart, with some slack.

    What an op takes beyond that is nobody's: a change of its memory traffic or of its code may leave it as it is.
    """
    faults = report.page_faults.seconds_each if report.page_faults is not None else None
    floor = max(row.floors.memory_s, row.floors.pointwise_s) + row.faults * (faults or 0.0)
    return min(seconds_of(report, [row]), SLACK * floor)


def savable_s(report: Report, rows: Iterable[OpRow]) -> float:
    """The most that fusing can save of these rows (s): what starting their ops takes, and their explained work.

    Args:
        report: the report.
        rows: some of it.
    """
    total = 0.0
    for row in rows:
        work = 0.0 if row.matmul_flops else explained_s(report, row)
        total += min(seconds_of(report, [row]), SLACK * row.floors.overhead_s + work)
    return total


def replaced_rows(
    report: Report,
    base_s: float,
    ratio: Interval,
    *,
    what: str,
    change: str,
    band: float = PROBE_BAND,
    beside_s: float = 0.0,
) -> Prediction:
    """The step once ``base_s`` of it take ``ratio`` times as long; undecided where the probe was disturbed.

    The band is that of the ratio and ``band`` of the seconds saved, or of the seconds left where that is narrower: what
    is wrong with a saving of nine tenths is wrong with the remaining tenth. Time of the step that no row and no gap
    explains may be nobody's, or everybody's in proportion: the band holds both.

    Args:
        report: the report; its step time is the whole.
        base_s: seconds of the step that change, all in all.
        ratio: their seconds with the remedy over those without.
        what: what they do, for the reason.
        change: what the user would change.
        band: the share by which seconds inside a step differ from a probe's.
        beside_s: seconds between ops that may be theirs as well and are then gone: the freeing of their memory.
    """
    step = report.step.time_s.median
    fewest = min(base_s, step)
    most = min(base_s / (1.0 - _unseen(report)), step)
    base, gone = (fewest + most) / 2.0, min(beside_s, step - most)
    left = step - base * (1.0 - ratio.value) - gone
    corners = [
        step - seconds * (1.0 - one) - beside
        for seconds, beside in ((fewest, 0.0), (most, gone))
        for one in (ratio.low, ratio.high)
    ]
    shortest, longest = min(corners), max(corners)
    shortest = max(shortest - band * abs(step - shortest), shortest * (1.0 - band))
    longest = min(longest + band * abs(step - longest), longest * (1.0 + band))
    disturbed = ratio.high > WIDEST_RATIO * ratio.low and longest > WIDEST_STEP * shortest
    if disturbed and shortest < step < longest:
        return CannotTell(tr("the machine was not quiet enough for its probe"), change=change)
    speedup, low, high = (step / max(seconds, LEAST_LEFT * step) for seconds in (left, longest, shortest))
    return Predicted(
        speedup=speedup,
        low=min(low, speedup),
        high=max(high, speedup),
        reason=tr(
            "{what} takes {time} of the step's {step}; it would take {left}",
            what=what,
            time=format_time(base),
            step=format_time(step),
            left=format_time(base * ratio.value),
        ),
        change=change,
        changes_numbers=True,
    )


def _unseen(report: Report) -> float:
    """The share of the step that is neither in its ops, nor input, nor host code."""
    seen = sum(row.share for row in report.ops) + report.split.input.value + report.overhead_parts.host
    return min(max(0.0, 1.0 - seen), MOST_UNSEEN)


def slow_dtype(report: Report, dtype: str) -> bool:
    """Whether the machine's ceilings say that products in ``dtype`` are slower than in fp32, shape by shape."""
    rates: dict[str, dict[object, float]] = {"fp32": {}, dtype: {}}
    for one in report.machine.ceilings:
        if one.kind == "matmul" and one.dtype in rates and one.shape is not None:
            rates[one.dtype][(one.name, one.shape)] = one.value
    shared = rates["fp32"].keys() & rates[dtype].keys()
    return bool(shared) and all(rates[dtype][key] < 0.5 * rates["fp32"][key] for key in shared)
