"""What samples say: pure functions of numbers, all in the unit of the samples."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

# Over this, the median is no longer a fair account of the fastest (measuring.md: "best-of-N hides contention").
SPREAD_LIMIT = 1.25
# A comparison needs as many samples of each side, and cuts what it has into at most so many rounds.
FEWEST_SAMPLES = 3
MOST_ROUNDS = 6


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


def mean(samples: Sequence[float]) -> float:
    """The sum of the samples over their number: what counts where a few long ones are part of the matter.

    Raises:
        ValueError: there are no samples.
    """
    if not samples:
        raise ValueError("a mean needs at least one sample")
    return math.fsum(samples) / len(samples)


def median_error(samples: Sequence[float]) -> float:
    """The median's standard error, 1.25 sigma / sqrt n, sigma from the middle half; of fewer than three, their range.

    Raises:
        ValueError: there are no samples.
    """
    if len(samples) < 3:
        return quantile(samples, 1.0) - quantile(samples, 0.0)
    sigma = (quantile(samples, 0.75) - quantile(samples, 0.25)) / 1.35
    return 1.25 * sigma / math.sqrt(len(samples))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The median of one set of samples over that of another, with the interval it is believed to lie in.

    ``spread_a`` and ``spread_b`` are the standard deviations of the rounds' medians (as a share: 0.02 is 2%),
    ``floor`` the share that two runs are allowed to differ by for no reason.
    """

    value: float
    low: float
    high: float
    spread_a: float
    spread_b: float
    floor: float


def compare_medians(
    a: Sequence[float],
    b: Sequence[float],
    *,
    floor: float,
    middle: Callable[[Sequence[float]], float] = median,
    confidence: float = 0.95,
) -> Ratio | None:
    """How many times as large the median of ``b`` is as that of ``a``; None with fewer than three samples of either.

    Samples of one run are not independent: the machine drifts, and its drift from one second to the next is most of
    what makes two runs differ. So each side is cut into consecutive rounds, and the interval is Welch's for the
    difference of the rounds' log medians, widened by ``floor``, the drift between runs that no look at one run shows.

    Args:
        a: positive samples in the order they were taken.
        b: positive samples in the order they were taken.
        floor: by what share two runs may differ for no reason (half of the interval's width where rounds agree).
        middle: what stands for several samples; the median unless a few of them are to count in full.
        confidence: how often the interval is to hold the true ratio.

    Raises:
        ValueError: a sample is not positive.

    Source:
        Welch, "The generalization of 'Student's' problem when several different population variances are involved"
        (Biometrika 34, 1947), on batch means: Law and Kelton, "Simulation Modeling and Analysis", section 9.5.3.
    """
    if min(len(a), len(b)) < FEWEST_SAMPLES:
        return None
    if min(*a, *b) <= 0:
        raise ValueError("a ratio needs samples that are positive")
    rounds_a, rounds_b = _round_logs(a, middle), _round_logs(b, middle)
    error_a, error_b = (statistics.variance(logs) / len(logs) for logs in (rounds_a, rounds_b))
    half = math.hypot(
        _welch_quantile(error_a, len(rounds_a), error_b, len(rounds_b), confidence) * math.sqrt(error_a + error_b),
        math.log1p(floor),
    )
    value = middle(b) / middle(a)
    return Ratio(
        value=value,
        low=value / math.exp(half),
        high=value * math.exp(half),
        spread_a=math.expm1(statistics.stdev(rounds_a)),
        spread_b=math.expm1(statistics.stdev(rounds_b)),
        floor=floor,
    )


def _round_logs(samples: Sequence[float], middle: Callable[[Sequence[float]], float]) -> list[float]:
    """Log middles of consecutive rounds of at least three samples; of single samples where there are few."""
    count = min(MOST_ROUNDS, len(samples) // 3)
    if count < FEWEST_SAMPLES:
        count = len(samples)
    edges = [index * len(samples) // count for index in range(count + 1)]
    return [math.log(middle(samples[begin:end])) for begin, end in pairwise(edges)]


def _welch_quantile(error_a: float, count_a: int, error_b: float, count_b: int, confidence: float) -> float:
    """Student's quantile for the difference of two means with these squared standard errors."""
    from scipy.special import stdtrit

    if error_a + error_b <= 0:
        return 0.0
    share_a, share_b = error_a / (error_a + error_b), error_b / (error_a + error_b)
    freedom = 1.0 / (share_a**2 / (count_a - 1) + share_b**2 / (count_b - 1))
    return float(stdtrit(freedom, 0.5 + confidence / 2))
