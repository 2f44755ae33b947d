"""The matmul peak of a dtype: the shape it was reached with, and the size that reaches half of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from boundby.results.interval import Interval, interval
from boundby.results.machine import Ceiling

PRODUCTS = ("mm", "mm_nt", "mm_tn")
# A crossing between two sizes, to a millionth of their distance.
_HALVINGS = 20


def best_product(ceilings: Sequence[Ceiling], dtype: str, *, threads: int | None = None) -> Ceiling | None:
    """The fastest plain product of a dtype over the shapes measured, convolutions and attention left out.

    Args:
        ceilings: a machine's.
        dtype: ``fp32``, ``bf16``...
        threads: the thread count; the highest that plain products of the dtype were measured at where None.
    """
    return max(_products(ceilings, dtype, threads, PRODUCTS), key=lambda one: one.value, default=None)


def half_performance_size(ceilings: Sequence[Ceiling], dtype: str, *, threads: int | None = None) -> Interval | None:
    """The n at which a product of two n x n matrices, called from Python, first reaches half the best rate of any n.

    A measured rate is free of what every call costs; that is put back here where it is known (the ceiling
    ``matmul/mm DTYPE``), since at these sizes it is a good part of the time. Between measured sizes the rate runs
    straight in log-log. The band is the widest that the ceilings' bands allow.

    Args:
        ceilings: a machine's, among them square products (``mm``) of several sizes.
        dtype: ``fp32``, ``bf16``...
        threads: the thread count; the highest that squares of the dtype were measured at where None.

    Returns:
        The size; None where fewer than two sizes were measured, or the smallest of them reaches half already.

    Source:
        R. W. Hockney and C. R. Jesshope, "Parallel Computers 2" (Adam Hilger, 1988), the half-performance length.
    """
    squares = {_side(one): one for one in _products(ceilings, dtype, threads, ("mm",)) if _side(one)}
    if len(squares) < 2:
        return None
    used = next(iter(squares.values())).threads
    call = next(
        (
            one
            for one in ceilings
            if one.kind == "overhead" and one.name == f"matmul/mm {dtype}" and one.threads == used
        ),
        None,
    )
    fixed_s = (0.0, 0.0, 0.0) if call is None else (call.value, call.low, call.high)
    value = _Curve([(n, one.value) for n, one in sorted(squares.items())], fixed_s[0])
    fast = _Curve([(n, one.high) for n, one in sorted(squares.items())], fixed_s[1])
    slow = _Curve([(n, one.low) for n, one in sorted(squares.items())], fixed_s[2])
    size = value.first_reach(value.peak / 2)
    if size is None:
        return None
    # A fast curve reaches half of a low peak soonest; one that never reaches half of a high peak has no end known.
    soonest, latest = fast.first_reach(slow.peak / 2), slow.first_reach(fast.peak / 2)
    return interval(size, min(squares) if soonest is None else soonest, max(squares) if latest is None else latest)


@dataclass(frozen=True, slots=True)
class _Curve:
    """FLOP/s of square products beyond what a call costs, by size, and the seconds that a call costs."""

    rates: Sequence[tuple[float, float]]
    call_s: float

    @property
    def peak(self) -> float:
        """FLOP/s of whole calls at the best of the sizes."""
        return max(self.whole(size, rate) for size, rate in self.rates)

    def whole(self, size: float, rate: float) -> float:
        """FLOP/s of a whole call: 2 n^3 over the time at ``rate`` and the call's own."""
        flops = 2.0 * size**3
        return flops / (flops / rate + self.call_s)

    def first_reach(self, level: float) -> float | None:
        """The first size at which whole calls reach the level; None where they start above or never do."""
        if self.whole(*self.rates[0]) >= level:
            return None
        for (n0, r0), (n1, r1) in pairwise(self.rates):
            if self.whole(n1, r1) < level:
                continue
            below, above = 0.0, 1.0
            for _ in range(_HALVINGS):
                middle = (below + above) / 2
                size, rate = (a ** (1 - middle) * b**middle for a, b in ((n0, n1), (r0, r1)))
                below, above = (below, middle) if self.whole(size, rate) >= level else (middle, above)
            share = (below + above) / 2
            return float(n0 ** (1 - share) * n1**share)
        return None


def _products(ceilings: Sequence[Ceiling], dtype: str, threads: int | None, names: Sequence[str]) -> list[Ceiling]:
    """The measured products of these names through eager torch, at one thread count."""
    found = [
        one
        for one in ceilings
        if one.kind == "matmul" and one.name in names and one.dtype == dtype and one.shape and one.stack == "torch"
    ]
    if threads is None:
        threads = max((one.threads for one in found), default=1)
    return [one for one in found if one.threads == threads and one.unit == "flop/s"]


def _side(ceiling: Ceiling) -> int:
    """The n of a single product of n x n matrices; 0 where it is not one."""
    batch, m, n, k = ceiling.shape or (0, 0, 0, 0)
    return n if batch == 1 and m == n == k else 0
