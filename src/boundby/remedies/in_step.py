"""What predictions read off the report's op rows: tensor shapes, and what a step takes once some of its rows change.

A row's seconds are those inside the step: with its caches, its neighbours and the machine's speed at the time. Those of
a probe are not, but the ratio of two that took turns carries over. So the rows say how long, and the probe says how
many times as long.
"""

from __future__ import annotations

from collections.abc import Iterable

from boundby.remedies.contract import CannotTell, Prediction
from boundby.remedies.predicting import LEAST_LEFT, PROBE_BAND, WIDEST_RATIO
from boundby.results.interval import Interval
from boundby.results.remedy import Predicted
from boundby.results.report import OpRow, Report

Shape = tuple[int, ...]
# Where less than this is seen, the rest is not spread over it.
MOST_UNSEEN = 0.8
# A disturbed probe still says something where the step it makes is known to this factor, or longer or shorter for sure.
WIDEST_STEP = 1.5


def base_name(op: str) -> str:
    """``aten.addmm.default`` without namespace and overload: ``addmm``."""
    parts = op.split(".")
    return parts[1] if len(parts) > 1 and parts[0] in ("aten", "prims", "quantized") else parts[0]


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


def replaced_rows(
    report: Report, base_s: float, ratio: Interval, *, what: str, change: str, band: float = PROBE_BAND
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
    """
    step = report.step.time_s.median
    fewest = min(base_s, step)
    most = min(base_s / (1.0 - _unseen(report)), step)
    base = (fewest + most) / 2.0
    left = step - base * (1.0 - ratio.value)
    corners = [step - seconds * (1.0 - one) for seconds in (fewest, most) for one in (ratio.low, ratio.high)]
    shortest, longest = min(corners), max(corners)
    shortest = max(shortest - band * abs(step - shortest), shortest * (1.0 - band))
    longest = min(longest + band * abs(step - longest), longest * (1.0 + band))
    disturbed = ratio.high > WIDEST_RATIO * ratio.low and longest > WIDEST_STEP * shortest
    if disturbed and shortest < step < longest:
        return CannotTell("the machine was not quiet enough for its probe", change=change)
    speedup, low, high = (step / max(seconds, LEAST_LEFT * step) for seconds in (left, longest, shortest))
    return Predicted(
        speedup=speedup,
        low=min(low, speedup),
        high=max(high, speedup),
        reason=f"{what} takes {base * 1e3:.3g} ms of the step's {step * 1e3:.3g} ms; it would take "
        f"{base * ratio.value * 1e3:.3g} ms",
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
