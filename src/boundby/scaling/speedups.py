"""Amdahl's and the universal scalability law fitted to speed-ups, with intervals, and what they say of more workers.

Both laws are linear in their parts once written for n / S: n / S = 1 + a (n - 1) + b n (n - 1), Amdahl's with b = 0
and the serial share as a. The least squares are those of relative misses of the speed-ups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from boundby.results.interval import Interval, interval
from boundby.results.scaling import AmdahlFit, LawValue, Projection, ScalingPoint, UslFit
from boundby.scaling.fits import EXACT, student_95
from boundby.scaling.laws import amdahl, gustafson, karp_flatt, usl_peak

# The universal law has two parts; with one speed-up more there is something to check it with.
FEWEST_FOR_USL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """The laws fitted to some speed-ups, and what they say of other numbers of workers.

    ``superlinear`` says that the speed-ups are beyond what any serial share allows, so that 0 was taken.
    """

    amdahl: AmdahlFit
    usl: UslFit | None
    superlinear: bool
    project: Callable[[int], Projection]


def point(
    workers: int,
    speedup: Interval,
    *,
    time_s: Interval | None = None,
    oversubscribed: bool = False,
    turns: int | None = None,
) -> ScalingPoint:
    """A speed-up with its efficiency and Karp-Flatt share.

    Args:
        workers: n, at least 1.
        speedup: over one worker, its band positive.
        time_s: seconds of a step.
        oversubscribed: whether there are more threads than usable cores.
        turns: pairs of turns it rests on.
    """
    share = None
    if workers > 1:
        value, low, high = (karp_flatt(one, workers) for one in (speedup.value, speedup.high, speedup.low))
        share = interval(value, low, high)
    return ScalingPoint(
        workers=workers,
        speedup=speedup,
        time_s=time_s,
        serial_share=share,
        efficiency=speedup.scaled(1.0 / workers),
        oversubscribed=oversubscribed,
        turns=turns,
    )


def fit_speedups(points: Sequence[ScalingPoint]) -> Fits:
    """Amdahl's law, and where at least three speed-ups are known the universal one, with 95% intervals.

    Intervals hold both what the speed-ups' own bands allow and, by Student's t, what the law misses them by. With a
    single speed-up there is only the former, and nothing says whether the law holds.

    Args:
        points: with distinct numbers of workers, at least one above 1; those at 1 and oversubscribed ones are left out.

    Raises:
        ValueError: no speed-up is left.

    Source:
        N. J. Gunther, "Guerrilla Capacity Planning" (Springer, 2007), chapter 5: least squares for n / S - 1.
    """
    used = [one for one in points if one.workers > 1 and not one.oversubscribed]
    if not used:
        raise ValueError("a law needs a speed-up of more than one worker")
    line = _solve(used, parts=1)
    # Of one speed-up the share is Karp and Flatt's, ends and all, however wide its band.
    share = _clipped(used[0].serial_share) if len(used) == 1 else _within(line, 0, high=1.0)
    most = max(one.workers for one in used)
    miss, missed_at = _largest_miss(used, line.clipped)
    law = AmdahlFit(
        serial_share=share,
        freedom=line.freedom,
        largest_miss=miss,
        missed_at=missed_at,
        limit=_inverse(share.value),
        limit_low=_inverse(share.high),
        limit_high=_inverse(share.low),
        share_at_most=interval(*(_share_at(one, most) for one in (share.value, share.low, share.high))),
    )
    pair = _solve(used, parts=2) if len(used) >= FEWEST_FOR_USL else None

    def project(workers: int) -> Projection:
        fixed = [amdahl(one, workers) for one in (share.value, share.high, share.low)]
        grown = [
            gustafson(one, workers) for one in (law.share_at_most.value, law.share_at_most.high, law.share_at_most.low)
        ]
        return Projection(
            workers=workers,
            amdahl=interval(*fixed),
            gustafson=interval(*grown),
            usl=None if pair is None else _at(pair, workers),
        )

    return Fits(
        amdahl=law,
        usl=None if pair is None else _usl_fit(used, pair),
        superlinear=line.solved[0] < 0,
        project=project,
    )


def law_values(shares: Sequence[float], workers: Sequence[int | None]) -> tuple[LawValue, ...]:
    """Both laws for each share and each number of workers, by share.

    Args:
        shares: serial shares, 0 to 1.
        workers: at least 1 each; None is endless workers.
    """
    found = []
    for share in shares:
        for count in workers:
            n = math.inf if count is None else count
            fixed, grown = amdahl(share, n), gustafson(share, n)
            found.append(
                LawValue(
                    serial_share=share,
                    workers=count,
                    amdahl=fixed if math.isfinite(fixed) else None,
                    gustafson=grown if math.isfinite(grown) else None,
                )
            )
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Solved:
    """Least squares for n / S - 1: the parts as solved, and held within what they can be.

    ``spread`` is their covariance C, scaled so that the square root of x' C x is half a 95% interval of x times parts.
    """

    solved: tuple[float, ...]
    clipped: tuple[float, ...]
    spread: tuple[tuple[float, ...], ...]
    freedom: int


def _terms(workers: float, parts: int) -> tuple[float, ...]:
    return (workers - 1.0, workers * (workers - 1.0))[:parts]


def _solve(used: Sequence[ScalingPoint], *, parts: int) -> _Solved:
    # Relative misses: a row is divided by its n / S.
    rows = []
    for one in used:
        grown = one.workers / one.speedup.value
        terms = tuple(term / grown for term in _terms(one.workers, parts))
        rows.append((terms, (grown - 1.0) / grown, _relative_half(one.speedup)))
    normal = [[math.fsum(x[i] * x[j] for x, _, _ in rows) for j in range(parts)] for i in range(parts)]
    right = [math.fsum(x[i] * y for x, y, _ in rows) for i in range(parts)]
    inverse = _inverted(normal)
    solved = tuple(math.fsum(inverse[i][j] * right[j] for j in range(parts)) for i in range(parts))
    clipped = _held(solved, normal, right)
    freedom = len(used) - parts
    squares = math.fsum((math.fsum(c * term for c, term in zip(clipped, x, strict=True)) - y) ** 2 for x, y, _ in rows)
    by_misses = student_95(freedom) ** 2 * squares / freedom if freedom > 0 and squares > EXACT * len(used) else 0.0
    # How far each part moves with each row, times the row's own half width.
    moved = [
        [math.fsum(inverse[i][j] * x[j] for j in range(parts)) * half for x, _, half in rows] for i in range(parts)
    ]
    spread = tuple(
        tuple(
            by_misses * inverse[i][j] + math.fsum(a * b for a, b in zip(moved[i], moved[j], strict=True))
            for j in range(parts)
        )
        for i in range(parts)
    )
    return _Solved(solved=solved, clipped=clipped, spread=spread, freedom=freedom)


def _relative_half(speedup: Interval) -> float:
    return 0.5 * (speedup.high - speedup.low) / speedup.value


def _inverted(matrix: list[list[float]]) -> list[list[float]]:
    if len(matrix) == 1:
        return [[1.0 / matrix[0][0]]]
    (a, b), (c, d) = matrix
    determinant = a * d - b * c
    return [[d / determinant, -b / determinant], [-c / determinant, a / determinant]]


def _held(solved: tuple[float, ...], normal: list[list[float]], right: list[float]) -> tuple[float, ...]:
    """The best parts that are at least 0, the first at most 1."""
    if len(solved) == 1:
        return (min(max(solved[0], 0.0), 1.0),)
    if solved[1] < 0:
        return (min(max(right[0] / normal[0][0], 0.0), 1.0), 0.0)
    if not 0.0 <= solved[0] <= 1.0:
        first = min(max(solved[0], 0.0), 1.0)
        return (first, max(0.0, (right[1] - normal[0][1] * first) / normal[1][1]))
    return solved


def _clipped(share: Interval | None) -> Interval:
    if share is None:
        raise ValueError("a speed-up of more than one worker has a serial share")
    return interval(*(min(max(one, 0.0), 1.0) for one in (share.value, share.low, share.high)))


def _within(line: _Solved, part: int, *, high: float = math.inf) -> Interval:
    half = math.sqrt(line.spread[part][part])
    value, centre = line.clipped[part], line.solved[part]
    return interval(value, min(max(0.0, centre - half), high), max(0.0, min(high, centre + half)))


def _at(pair: _Solved, workers: int) -> Interval:
    """The universal law at ``workers``, its interval from both parts' together."""
    terms = _terms(workers, 2)
    grown = 1.0 + math.fsum(c * term for c, term in zip(pair.clipped, terms, strict=True))
    square = math.fsum(terms[i] * terms[j] * pair.spread[i][j] for i in range(2) for j in range(2))
    half = math.sqrt(max(0.0, square))
    # No law of this kind promises more than n times.
    return interval(workers / grown, workers / (grown + half), workers / max(1.0, grown - half))


def _usl_fit(used: Sequence[ScalingPoint], pair: _Solved) -> UslFit:
    contention, coherence = _within(pair, 0, high=1.0), _within(pair, 1)
    miss, missed_at = _largest_miss(used, pair.clipped)
    return UslFit(
        contention=contention,
        coherence=coherence,
        freedom=pair.freedom,
        largest_miss=miss,
        missed_at=missed_at,
        peak_workers=_finite(usl_peak(contention.value, coherence.value)),
        peak_low=_finite(usl_peak(contention.high, coherence.high)),
        peak_high=_finite(usl_peak(contention.low, coherence.low)),
    )


def _largest_miss(used: Sequence[ScalingPoint], parts: tuple[float, ...]) -> tuple[float, int]:
    misses = []
    for one in used:
        grown = 1.0 + math.fsum(c * term for c, term in zip(parts, _terms(one.workers, len(parts)), strict=True))
        misses.append((abs(one.workers / grown / one.speedup.value - 1.0), one.workers))
    return max(misses)


def _share_at(share: float, workers: int) -> float:
    """The serial share of the time on ``workers`` workers, from that of the time on one."""
    return share * amdahl(share, workers)


def _inverse(share: float) -> float | None:
    return 1.0 / share if share > 0 else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
