"""The best remedies together: which can be, and what they should do, from what each did alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from boundby.remedies.predicting import LEAST_LEFT
from boundby.remedies.registry import compatible, remedy_named
from boundby.results.language import tr
from boundby.results.remedy import Measured, Predicted, Remedy

# What a step is made of, as far as remedies change it.
PARTS = frozenset({"input", "model", "optimizer"})


def best_together(tried: Sequence[Remedy]) -> list[str]:
    """Names of the remedies that were each worth it and can hold at a time, the best first.

    A remedy that makes a step do other work (twice the batch) is left out: it is another training, whose results say
    nothing of the others.

    Args:
        tried: each alone.
    """
    worth = [one for one in tried if one.advice == "do" and one.measured is not None]
    worth.sort(key=lambda one: -(one.measured.speedup if one.measured is not None else 0.0))
    same_work = [one.name for one in worth if getattr(remedy_named(one.name), "WORK", 1.0) == 1.0]
    return compatible(same_work)


def predict_together(tried: Sequence[Remedy], names: Sequence[str]) -> Predicted:
    """What remedies together should do, by what each measured alone.

    Of those that change different parts of a step the savings add up. Those that change the same part may find no more
    than the best of them leaves to save, or each save as much as it does alone; in between, each takes its share of
    what the others leave.

    Args:
        tried: each alone.
        names: those to be together, all of them measured.
    """
    left = _Left(1.0, 1.0, 1.0)
    touched: frozenset[str] = frozenset()
    shared = False
    for one in tried:
        if one.name not in names or one.measured is None:
            continue
        own = _left_by(one.measured)
        parts = getattr(remedy_named(one.name), "TOUCHES", PARTS)
        if parts & touched:
            shared = True
            left = _Left(
                _rest(left.value * own.value),
                _rest(left.least - (1.0 - own.least)),
                min(left.most, own.most),
            )
        else:
            left = _Left(
                _rest(left.value - (1.0 - own.value)),
                _rest(left.least - (1.0 - own.least)),
                _rest(left.most - (1.0 - own.most)),
            )
        touched |= parts
    speedup, low, high = 1.0 / left.value, 1.0 / left.most, 1.0 / left.least
    alone = tr(", ").join(
        f"{one.name} {one.measured.speedup:.3g}x" for one in tried if one.name in names and one.measured is not None
    )
    return Predicted(
        speedup=speedup,
        low=min(low, speedup),
        high=max(high, speedup),
        reason=tr("from what each did alone ({alone}); some of them save the same time", alone=alone)
        if shared
        else tr("from what each did alone ({alone}), on different parts of the step", alone=alone),
        change=tr("all of them"),
        changes_numbers=any(remedy_named(name).CHANGES_NUMBERS for name in names),
    )


@dataclass(frozen=True, slots=True)
class _Left:
    """What is left of a step's time, as shares of it."""

    value: float
    least: float
    most: float


def _left_by(measured: Measured) -> _Left:
    return _Left(1.0 / measured.speedup, 1.0 / measured.high, 1.0 / measured.low)


def _rest(share: float) -> float:
    return max(LEAST_LEFT, share)
