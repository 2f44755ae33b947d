"""Look ceilings up: interpolate between what was measured, and tie it to the machine's speed at the time of the run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from boundby.results.counts import MatmulShape
from boundby.results.interval import Interval, interval
from boundby.results.machine import MAIN_MEMORY_BYTES, Ceiling, Machine
from boundby.results.trace import AnchorReading

# Which anchor tells how a kind of ceiling has moved.
_ANCHOR = {"matmul": "matmul", "function": "cache", "overhead": "dispatch"}
CACHE_BYTES = 1 << 20
FASTEST_CHANGE = 2.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How fast the machine was during the run relative to when its ceilings were measured: 0.8 is slower."""

    matmul: Interval
    cache: Interval
    memory: Interval
    dispatch: Interval

    @staticmethod
    def unknown() -> Speed:
        """As fast as it was then, for all we know."""
        one = interval(1.0)
        return Speed(matmul=one, cache=one, memory=one, dispatch=one)


def measure_speed(machine: Machine, readings: Sequence[AnchorReading]) -> Speed:
    """The speeds from the anchors' readings around the steps.

    The probes are short and see a part of what a ceiling is made of (memory bandwidth moved by 1.24 where its probe
    said 1.67), so half of the change they tell is believed, in the logarithm; the band holds no change, all of it, and
    the middle half of the readings. A machine does not change its speed by more than 2.5: readings slower than the
    fastest by more than that were held up by other load, which is no property of the ceilings, and are left out.
    """
    found: dict[str, Interval] = {}
    for name in ("matmul", "cache", "memory", "dispatch"):
        then = [one for one in machine.ceilings if one.kind == "anchor" and one.name == name]
        now = sorted(one.seconds[name] for one in readings if one.seconds.get(name, 0) > 0)
        if not then or not now:
            found[name] = interval(1.0)
            continue
        now = [seconds for seconds in now if seconds <= FASTEST_CHANGE * now[0]]
        slow, fast = now[(3 * (len(now) - 1)) // 4], now[(len(now) - 1) // 4]
        value, low, high = (_plausible(then[0].value / seconds) for seconds in (median(now), slow, fast))
        found[name] = interval(math.sqrt(value), min(1.0, low), max(1.0, high))
    return Speed(**found)


def speed_moved(readings: Sequence[AnchorReading]) -> float:
    """By what factor the probes' times moved during the run, of the probe that moved most; 1 with too few readings."""
    moved = [1.0]
    for name in readings[0].seconds if readings else ():
        now = sorted(one.seconds[name] for one in readings if one.seconds.get(name, 0) > 0)
        if len(now) >= 2:
            moved.append(now[(3 * (len(now) - 1)) // 4] / now[(len(now) - 1) // 4])
    return max(moved)


def _plausible(speed: float) -> float:
    return min(max(speed, 1 / FASTEST_CHANGE), FASTEST_CHANGE)


class Ceilings:
    """A machine's ceilings at one thread count, scaled to the speed of the run."""

    def __init__(self, machine: Machine, speed: Speed, *, threads: int) -> None:
        mine = [one for one in machine.ceilings if one.threads == threads and one.stack == "torch"]
        self._machine, self._threads = machine, threads
        self.speed = speed
        # A few are measured at other thread counts too, to see what more threads bring: not the whole set.
        self.threads_measured = bool(mine) and machine.description.threads == threads
        self._overhead = {one.name: one for one in mine if one.kind == "overhead"}
        self._function = {(one.name, one.dtype): one for one in mine if one.kind == "function"}
        self._bandwidth: dict[str, list[Ceiling]] = {}
        for one in mine:
            if one.kind == "bandwidth" and one.size_bytes:
                self._bandwidth.setdefault(one.name, []).append(one)
        for curve in self._bandwidth.values():
            curve.sort(key=lambda one: one.size_bytes or 0)
        self._products: dict[tuple[str, str | None], list[Ceiling]] = {}
        for one in mine:
            if one.kind == "matmul" and one.shape:
                # Which operand is transposed is not told by an op's shape: such products stand side by side.
                name = "mm" if one.name in ("mm_nt", "mm_tn") else one.name
                self._products.setdefault((name, one.dtype), []).append(one)

    def of_their_run(self) -> Ceilings:
        """The same with the bands that the ceilings had in the run that measured them, without what runs differ by.

        They say by how much an op's own windows may lie above its floor and still be at it; by how much the floor may
        be another is in the wider ones.
        """
        narrow = tuple(
            one if one.own is None else replace(one, low=one.own[0], high=one.own[1], own=None)
            for one in self._machine.ceilings
        )
        return Ceilings(replace(self._machine, ceilings=narrow), self.speed, threads=self._threads)

    def overhead(self, kind: str, *names: str) -> Interval | None:
        """Seconds one op takes on almost no data: the op of the first of ``names`` measured, else ops of its kind."""
        keys = (*(f"{kind}/{name}" for name in names), kind)
        one = next((self._overhead[key] for key in keys if key in self._overhead), None)
        return None if one is None else _slowed(one, self.speed.dispatch)

    def function(self, name: str, dtype: str) -> Interval | None:
        """Seconds an element takes through a scalar function, in cache."""
        one = self._function.get((name, dtype))
        return None if one is None else _slowed(one, self.speed.cache)

    def bandwidth(self, pattern: str, working_set: float) -> Interval | None:
        """Bytes a second of a pattern (read, write, copy, inplace, triad) over a working set in bytes.

        None where it was not measured: for sets past the largest one, where that lies in a cache.
        """
        curve = self._bandwidth.get(pattern)
        if not curve:
            return None
        if (curve[-1].size_bytes or 0) < MAIN_MEMORY_BYTES and working_set > (curve[-1].size_bytes or 0):
            # The sweep ended in a cache, for want of memory: what is farther away is not known.
            return None
        found = _interpolate([(float(one.size_bytes or 1), one) for one in curve], max(working_set, 1.0))
        return _times(found, self._memory_speed(working_set))

    def matmul(self, dtype: str, shape: MatmulShape | None, *, name: str = "mm") -> Interval | None:
        """FLOP a second of a product, from the measured ones nearest in shape; the peak where there is no shape."""
        known = [one for one in self._products.get((name, dtype), ()) if one.unit == "flop/s"]
        if not known:
            return None
        if shape is None:
            # A value above what another ceiling allows is likely the wrong one of the two.
            best = max((one for one in known if not one.contradicted), key=lambda one: one.value, default=known[0])
            return _times(Interval(value=best.value, low=best.low, high=best.high), self.speed.matmul)
        near = sorted((_distance(shape, one.shape or ()), i) for i, one in enumerate(known))[:4]
        weights = [1.0 / (0.05 + distance) ** 2 for distance, _ in near]
        total = sum(weights)

        def mean(of: Iterable[float]) -> float:
            return math.exp(sum(w * math.log(x) for w, x in zip(weights, of, strict=True)) / total)

        chosen = [known[i] for _, i in near]
        value = mean(one.value for one in chosen)
        low, high = mean(one.low for one in chosen), mean(one.high for one in chosen)
        # The farther the nearest measured shape, the less is known.
        slack = 1.0 + 0.1 * min(near[0][0], 4.0)
        return _times(interval(value, low / slack, high * slack), self.speed.matmul)

    def peak(self, dtype: str) -> Interval | None:
        """The best FLOP a second of any matmul of this dtype."""
        return self.matmul(dtype, None)

    def matvec(self, dtype: str, rows: int, depth: int, working_set: float) -> Interval | None:
        """Bytes a second at which a product with few rows, and inner dimension ``depth``, reads its weights."""
        known = [one for one in self._products.get(("mv", dtype), ()) if one.unit == "byte/s" and one.shape]
        if not known:
            return None
        rows = max(1, rows)
        at_rows = min({one.shape[1] for one in known if one.shape}, key=lambda m: abs(math.log(m / rows)))
        width = 2 if dtype in ("bf16", "fp16") else 8 if dtype == "fp64" else 4
        # One weight a size: the one whose inner dimension is nearest.
        nearest: dict[float, tuple[float, Ceiling]] = {}
        for one in known:
            if one.shape and one.shape[1] == at_rows:
                size = min(float(one.shape[2] * one.shape[3] * width), float(MAIN_MEMORY_BYTES))
                unlike = abs(math.log(one.shape[3] / max(1, depth)))
                if size not in nearest or unlike < nearest[size][0]:
                    nearest[size] = (unlike, one)
        found = _interpolate([(size, nearest[size][1]) for size in sorted(nearest)], working_set)
        return _times(found, self._memory_speed(working_set))

    def _memory_speed(self, working_set: float) -> Interval:
        if working_set <= CACHE_BYTES:
            return self.speed.cache
        if working_set >= MAIN_MEMORY_BYTES:
            return self.speed.memory
        a, b = self.speed.cache, self.speed.memory
        return interval(math.sqrt(a.value * b.value), min(a.low, b.low), max(a.high, b.high))


def _distance(shape: MatmulShape, other: Sequence[int]) -> float:
    """How unlike two products are: in powers of two of each dimension, where beyond 512 a dimension hardly matters."""
    mine = (shape.m, shape.n, shape.k)
    total = sum(abs(_squash(a) - _squash(b)) for a, b in zip(mine, other[1:], strict=True))
    return total + 0.25 * abs(_squash(shape.batch) - _squash(other[0]))


def _squash(size: int) -> float:
    x = math.log2(max(size, 1))
    return x if x <= 9 else 9 + 0.25 * (x - 9)


def _interpolate(points: Sequence[tuple[float, Ceiling]], at: float) -> Interval:
    """Between the two nearest sizes, straight in log-log; the end points beyond."""
    if at <= points[0][0]:
        one = points[0][1]
        return Interval(value=one.value, low=one.low, high=one.high)
    for (x0, a), (x1, b) in pairwise(points):
        if at <= x1:
            t = math.log(at / x0) / math.log(x1 / x0)
            value, low, high = (
                math.exp((1 - t) * math.log(p) + t * math.log(q))
                for p, q in ((a.value, b.value), (a.low, b.low), (a.high, b.high))
            )
            return interval(value, low, high)
    one = points[-1][1]
    return Interval(value=one.value, low=one.low, high=one.high)


def _times(rate: Interval, speed: Interval) -> Interval:
    return interval(rate.value * speed.value, rate.low * speed.low, rate.high * speed.high)


def _slowed(ceiling: Ceiling, speed: Interval) -> Interval:
    return interval(ceiling.value / speed.value, ceiling.low / speed.high, ceiling.high / speed.low)
