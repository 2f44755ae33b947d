"""Fits of time against size: a fixed cost, a rate, and the size at which half of that rate is reached."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from boundby.results.interval import Interval, interval
from boundby.results.sweep import GrowthFit

POWERS = (1, 2, 3)
FEWEST_POINTS = 3
# A higher power has to leave this many times less unexplained (in squares) than the one before it.
CLEARLY_BETTER = 4.0
# Squares of relative misses below this are rounding.
EXACT = 1e-24
# Student's t for 95% two-sided, by degrees of freedom from 1; beyond them the normal's.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120)
_T95_MANY = 1.96


def fit_growth(points: Sequence[tuple[float, float]], *, power: int | None = None) -> GrowthFit:
    """``fixed + each * n ** power`` by least squares of relative misses, both parts at least 0.

    Relative, because times over a range of sizes are as uncertain as they are long. The intervals are 95%, from what
    the fit misses; a part that comes out below 0 is 0, with what it might be at most.

    Args:
        points: (n, seconds) of at least three different n, all positive.
        power: of n; None: 1, unless 2 or 3 leaves clearly less unexplained.

    Raises:
        ValueError: there are too few points, or one is not positive.

    Source:
        R. W. Hockney and C. R. Jesshope, "Parallel Computers 2" (1988), section 1.3.2: t = (n + n_1/2) / r_inf.
    """
    if len({n for n, _ in points}) < FEWEST_POINTS or any(n <= 0 or t <= 0 for n, t in points):
        raise ValueError(f"a fit needs at least {FEWEST_POINTS} different positive sizes and positive times")
    if power is not None:
        return _as_growth(points, _solve(points, power))
    best = _solve(points, POWERS[0])
    for candidate in POWERS[1:]:
        other = _solve(points, candidate)
        if best.squares > max(CLEARLY_BETTER * other.squares, EXACT):
            best = other
    return _as_growth(points, best)


def student_95(freedom: int) -> float:
    """Student's t for 95% two-sided; ``freedom`` is at least 1."""
    return _T95[freedom - 1] if freedom <= len(_T95) else _T95_MANY


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A fitted line in x = n ** power with the covariance of its parts, and the sum of squared relative misses."""

    power: int
    fixed: float
    each: float
    fixed_variance: float
    each_variance: float
    covariance: float
    squares: float
    freedom: int


def _solve(points: Sequence[tuple[float, float]], power: int) -> _Line:
    """Weighted least squares with weights 1 / t^2; a negative part is held at 0 and the other solved alone."""
    # Scaled so that sums of very unlike sizes keep their digits.
    scale = max(n for n, _ in points) ** power
    rows = [(n**power / scale, t) for n, t in points]
    w = math.fsum(1 / t**2 for _, t in rows)
    wx = math.fsum(x / t**2 for x, t in rows)
    wxx = math.fsum(x * x / t**2 for x, t in rows)
    wt = math.fsum(1 / t for _, t in rows)
    wxt = math.fsum(x / t for x, t in rows)
    determinant = w * wxx - wx * wx
    fixed, each = (wxx * wt - wx * wxt) / determinant, (w * wxt - wx * wt) / determinant
    freedom = len(rows) - 2
    if fixed < 0:
        fixed, each = 0.0, wxt / wxx
    elif each < 0:
        fixed, each = wt / w, 0.0
    squares = math.fsum(((fixed + each * x) / t - 1.0) ** 2 for x, t in rows)
    variance = 0.0 if squares <= EXACT * len(rows) else squares / freedom
    return _Line(
        power=power,
        fixed=fixed,
        each=each / scale,
        fixed_variance=variance * wxx / determinant,
        each_variance=variance * w / determinant / scale**2,
        covariance=-variance * wx / determinant / scale,
        squares=squares,
        freedom=freedom,
    )


def _as_growth(points: Sequence[tuple[float, float]], line: _Line) -> GrowthFit:
    t95 = student_95(line.freedom)
    fixed = _at_least_0(line.fixed, t95 * math.sqrt(line.fixed_variance))
    each = _at_least_0(line.each, t95 * math.sqrt(line.each_variance))
    misses = [((line.fixed + line.each * n**line.power) / t - 1.0, n) for n, t in points]
    miss, at = max(misses, key=lambda one: abs(one[0]))
    return GrowthFit(
        power=line.power,
        fixed_s=fixed,
        each_s=each,
        rate_per_s=_rate(each),
        half_at=_half(line, fixed, each, t95),
        largest_miss=abs(miss),
        missed_at=round(at),
    )


def _at_least_0(value: float, half: float) -> Interval:
    return interval(value, max(0.0, value - half), value + half)


def _rate(each: Interval) -> Interval | None:
    """1 / each; None where the data do not exclude that time does not grow at all."""
    if each.low <= 0:
        return None
    return interval(1.0 / each.value, 1.0 / each.high, 1.0 / each.low)


def _half(line: _Line, fixed: Interval, each: Interval, t95: float) -> Interval | None:
    """(fixed / each) ** (1 / power), its interval in the logarithm from the covariance of both."""
    if each.low <= 0:
        return None
    root = 1.0 / line.power
    value = (fixed.value / each.value) ** root
    if fixed.low <= 0:
        return interval(value, 0.0, (fixed.high / each.low) ** root)
    relative = (
        line.fixed_variance / line.fixed**2
        + line.each_variance / line.each**2
        - 2.0 * line.covariance / (line.fixed * line.each)
    )
    spread = math.exp(root * t95 * math.sqrt(max(0.0, relative)))
    return interval(value, value / spread, value * spread)
