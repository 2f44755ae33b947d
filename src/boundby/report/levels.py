"""Levels of memory, found from a bandwidth curve: where it is flat and then falls. What the system says is not asked.

A level is a run of working sets with about the same bandwidth, a factor of four in size at least, that ends in a
clear drop or with the curve. So a cache whose size lies between two neighbouring ones may not show, and what falls
steadily has no levels at all. Working sets are over all threads together: private caches add up, and a level of four
threads' 1 MiB caches ends at 4 MiB.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

from boundby.results.interval import Interval, interval
from boundby.results.machine import Ceiling

# A level's rates lie within this ratio of the lowest of them; noise of a shared machine is a tenth.
_FLAT = 1.25
# What follows within a factor of four in size is lower by this ratio at least...
_DROP = 1.25
# ...and the drop is this many times (in the logarithm) what the level itself fell in its last factor of four.
_SHARPER = 2.0
_REACH = 4.0
# Rates this far under the level are of sizes at which something else binds: a small op's own costs, one thread only.
_BELOW = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A level of memory: working sets from ``smallest_bytes`` to ``largest_bytes`` that move at ``bytes_per_s``.

    The rate is the median over the level's sizes; its band holds each size's value and the bands that most have.

    ``open_ended``: the curve ends within the level, so its largest working set is only the largest measured. The last
    level is main memory if the sweep went past the caches, which the curve alone cannot tell.
    """

    smallest_bytes: int
    largest_bytes: int
    bytes_per_s: Interval
    open_ended: bool


def bandwidth_levels(
    ceilings: Sequence[Ceiling], name: str, *, threads: int | None = None, stack: str = "torch"
) -> tuple[Level, ...]:
    """The levels in one op's curve, the fastest first; as many as are clear, none where there is no plateau.

    Sizes at which an op's own costs or too few threads hold it back are counted as the level that larger ones reach.

    Args:
        ceilings: a machine's; those of kind bandwidth with this name, thread count and stack make the curve.
        name: ``read``, ``write``, ``copy``, ``inplace`` or ``triad``.
        threads: the thread count; the highest that the curve was measured at where None.
        stack: through what it was measured.
    """
    found = [one for one in ceilings if one.kind == "bandwidth" and one.name == name and one.stack == stack]
    if threads is None:
        threads = max((one.threads for one in found), default=1)
    curve = sorted(
        {one.size_bytes: one for one in found if one.threads == threads and one.size_bytes and one.low > 0}.items()
    )
    sizes = [size for size, _ in curve]
    points = [one for _, one in curve]
    if len(points) < 2:
        return ()
    # The best that this or any larger working set reaches: it never rises, as memory by itself never would.
    reached = list(accumulate((one.value for one in reversed(points)), max))[::-1]
    ends = [place for place in range(len(points)) if _ends_level(sizes, reached, place)]
    levels: list[Level] = []
    start = 0
    for place, end in enumerate(ends):
        later = ends[place + 1] if place + 1 < len(ends) else None
        if later is not None and reached[end] <= _FLAT * reached[later]:
            continue
        while start < end and reached[start] > _FLAT * reached[end]:
            start += 1
        level = _level(sizes[start : end + 1], points[start : end + 1], reached[end], open_ended=end == len(points) - 1)
        levels.append(level)
        start = end + 1
    return tuple(levels)


def _ends_level(sizes: Sequence[int], reached: Sequence[float], place: int) -> bool:
    """Whether the curve is flat for a factor of four up to here, and clearly lower a factor of four further on."""
    before = [k for k in range(place) if sizes[k] * _REACH <= sizes[place]]
    if not before:
        return False
    fell = math.log(reached[before[-1]] / reached[place])
    if fell > math.log(_FLAT):
        return False
    if place == len(sizes) - 1:
        return True
    beyond = next((k for k in range(place + 1, len(sizes)) if sizes[k] >= sizes[place] * _REACH), len(sizes) - 1)
    drop = math.log(reached[place] / reached[beyond])
    return drop >= max(math.log(_DROP), _SHARPER * fell)


def _level(sizes: Sequence[int], points: Sequence[Ceiling], reached: float, *, open_ended: bool) -> Level:
    own = [one for one in points if one.value >= _BELOW * reached]
    values = [one.value for one in own]
    # One size whose windows were disturbed has a band of its own, which is none of the level's.
    low, high = median(one.low for one in own), median(one.high for one in own)
    return Level(
        smallest_bytes=sizes[0],
        largest_bytes=sizes[-1],
        bytes_per_s=interval(median(values), min(low, *values), max(high, *values)),
        open_ended=open_ended,
    )
