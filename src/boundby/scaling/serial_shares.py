"""What more threads bring, ceiling by ceiling: the speed-up and the share that did not get faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from boundby.results.interval import Interval, interval
from boundby.results.machine import Ceiling
from boundby.scaling.laws import karp_flatt


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialShare:
    """One ceiling at one thread and at more of them.

    ``speedup`` is how many times as fast it is at the threads of ``many``; ``serial_share`` what that amounts to by
    Karp and Flatt: all that did not get faster, serial code, waiting and a shared memory bus alike.
    """

    one: Ceiling
    many: Ceiling
    speedup: Interval
    serial_share: Interval


def serial_shares(ceilings: Sequence[Ceiling]) -> tuple[SerialShare, ...]:
    """Each ceiling that is known at one thread and at more, by thread count and then in the order given.

    Only like is compared with like: the same kind, name, dtype, stack, shape and working set. Anchors are left out:
    they say how fast the machine was at a moment.

    The bands are the widest that the two ceilings' bands allow.

    Args:
        ceilings: of any thread counts.
    """
    alone = {_what(one): one for one in ceilings if one.threads == 1}
    found = []
    for many in ceilings:
        one = alone.get(_what(many))
        if one is None or many.threads <= 1 or many.kind == "anchor":
            continue
        speedup = _speedup(one, many)
        if speedup is None:
            continue
        share, least, most = (karp_flatt(s, many.threads) for s in (speedup.value, speedup.high, speedup.low))
        found.append(SerialShare(one=one, many=many, speedup=speedup, serial_share=interval(share, least, most)))
    return tuple(sorted(found, key=lambda share: share.many.threads))


def _what(ceiling: Ceiling) -> tuple[object, ...]:
    c = ceiling
    return (c.kind, c.name, c.dtype, c.stack, c.size_bytes, c.shape, c.unit, c.source)


def _speedup(one: Ceiling, many: Ceiling) -> Interval | None:
    """None where a ceiling has no positive value or band, from which no ratio can be had."""
    if min(one.low, many.low) <= 0:
        return None
    if one.unit == "s":
        return interval(one.value / many.value, one.low / many.high, one.high / many.low)
    return interval(many.value / one.value, many.low / one.high, many.high / one.low)
