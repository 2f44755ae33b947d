"""What samples say: pure functions of numbers, all in the unit of the samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# Over this, the median is no longer a fair account of the fastest (measuring.md: "best-of-N hides contention").
SPREAD_LIMIT = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Samples in short, in the samples' unit; ``spread`` is median over minimum, ``unsteady`` where it is over 1.25."""

    count: int
    minimum: float
    low: float
    median: float
    high: float
    spread: float
    unsteady: bool


def quantile(samples: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the samples lie, linear between neighbours.

    Args:
        samples: at least one number, in any order.
        share: from 0 (the minimum) to 1 (the maximum).

    Raises:
        ValueError: there are no samples, or ``share`` is not within 0 and 1.

    Source:
        Hyndman and Fan, "Sample Quantiles in Statistical Packages" (1996), definition 7.
    """
    if not samples:
        raise ValueError("a quantile needs at least one sample")
    if not 0 <= share <= 1:
        raise ValueError(f"a quantile's share lies within 0 and 1; got {share}")
    ordered = sorted(samples)
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    first, second = ordered[below], ordered[above]
    # Written so that equal neighbours give exactly that value, whatever the rounding.
    return first if first == second else min(max(first + (position - below) * (second - first), first), second)


def median(samples: Sequence[float]) -> float:
    """The middle sample, or the mean of the two in the middle.

    Raises:
        ValueError: there are no samples.
    """
    return quantile(samples, 0.5)


def band(samples: Sequence[float], *, low: float = 0.1, high: float = 0.9) -> tuple[float, float]:
    """The ends between which most samples lie.

    Args:
        samples: at least one number.
        low: the share below the lower end.
        high: the share below the upper end.

    Raises:
        ValueError: there are no samples.
    """
    return quantile(samples, low), quantile(samples, high)


def spread(samples: Sequence[float]) -> float:
    """Median over minimum of positive samples: 1 where all are equal.

    Raises:
        ValueError: there are no samples, or one is not positive.
    """
    smallest = min(samples, default=0.0)
    if smallest <= 0:
        raise ValueError("a spread needs samples, all of them positive")
    return median(samples) / smallest


def summarise(samples: Sequence[float]) -> Summary:
    """The samples in short.

    Raises:
        ValueError: there are no samples, or one is not positive.
    """
    ratio = spread(samples)
    low, high = band(samples)
    return Summary(
        count=len(samples),
        minimum=min(samples),
        low=low,
        median=median(samples),
        high=high,
        spread=ratio,
        unsteady=ratio > SPREAD_LIMIT,
    )
