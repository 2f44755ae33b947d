"""Probes (something to time) and readings (what their times say).

A probe is one call of the stack. A reading is a ceiling still to be had: a formula over the windows of one or more
probes of the same rounds, so that a slow second of a shared machine falls on both sides of every difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

from boundby.results.machine import CeilingKind
from boundby.timing.clock import Clock
from boundby.timing.statistics import median

# Where a call's work takes less than this share of its fixed cost, the difference of the two is mostly noise.
LEAST_NET_SHARE = 0.25
# How many calls a short try takes.
_CALLS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One timed window of a probe: seconds and minor page faults, both per call."""

    seconds: float
    faults: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One thing to time: ``key`` names it among all, ``call`` does it once.

    ``prepare`` is run untimed before each visit. Without it, short calls are run once untimed, which brings their data
    back into the caches.
    """

    key: str
    call: Callable[[], object]
    prepare: Callable[[], object] | None = None


Unit = Literal["flop/s", "byte/s", "s"]
# From one window of each of a reading's probes, in the order of its keys, to the ceiling's value in its unit.
Formula = Callable[[Sequence[Window]], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A ceiling to be had from the probes named by ``keys``; the formula gives its value, or None where it has none.

    A reading with ``span`` joins several representative ops: its low and high are the cheapest and the dearest op.
    ``other_ways`` are the keys of probes that do what the first of ``keys`` does in other ways; the fastest of them all
    is the one that counts, which leans to the fast side by a part of what the windows of one scatter. ``at_times`` is
    the key of a probe that does the same under worse conditions that scripts meet too: the band reaches to it.
    """

    kind: CeilingKind
    name: str
    keys: tuple[str, ...]
    formula: Formula
    unit: Unit
    dtype: str | None = None
    size_bytes: int | None = None
    shape: tuple[int, ...] | None = None
    arguments: str | None = None
    span: bool = False
    stack: str = "torch"
    other_ways: tuple[str, ...] = ()
    at_times: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSet:
    """Probes and the readings they serve."""

    probes: tuple[Probe, ...] = ()
    readings: tuple[Reading, ...] = ()


def join(sets: Sequence[ProbeSet]) -> ProbeSet:
    """All probes and readings in one; of two probes with one key the first is kept."""
    probes: dict[str, Probe] = {}
    for one in sets:
        for probe in one.probes:
            probes.setdefault(probe.key, probe)
    return ProbeSet(probes=tuple(probes.values()), readings=tuple(reading for one in sets for reading in one.readings))


def taking_turns(calls: Sequence[Callable[[], object]]) -> Callable[[], object]:
    """One callable that does the next of ``calls`` each time, round and round.

    A pass over much memory is split this way into calls of a millisecond or two: another process that takes the core
    now and then would fall into every long call, and only into some short ones.
    """
    turns = cycle(calls)
    return lambda: next(turns)()


def fastest_ns(call: Callable[[], object], clock: Clock) -> int:
    """The nanoseconds of the fastest of a few calls, after one that is not timed.

    Args:
        call: what to try.
        clock: nanoseconds.
    """
    call()
    times = []
    for _ in range(_CALLS):
        before = clock()
        call()
        times.append(clock() - before)
    return min(times)


def seconds_of(windows: Sequence[Window]) -> float:
    """The first probe's seconds a call."""
    return windows[0].seconds


def median_of(windows: Sequence[Window]) -> float:
    """The median of all the probes' seconds a call."""
    return median([window.seconds for window in windows])


def net_seconds(windows: Sequence[Window]) -> float | None:
    """The first probe's seconds less the second's (the same op on almost nothing); None where little would be left."""
    net = windows[0].seconds - windows[1].seconds
    return net if net >= LEAST_NET_SHARE * windows[1].seconds else None


def rate_of(work: float) -> Formula:
    """``work`` (FLOP or bytes a call) over the net seconds of (probe, its tiny twin)."""

    def formula(windows: Sequence[Window]) -> float | None:
        net = net_seconds(windows)
        return None if net is None else work / net

    return formula


def per_element(elements: int) -> Formula:
    """Net seconds of (probe, its tiny twin) over ``elements``."""

    def formula(windows: Sequence[Window]) -> float | None:
        net = net_seconds(windows)
        return None if net is None else net / elements

    return formula


def slope(steps: float, *, less: bool = False) -> Formula:
    """(first - second) / ``steps``: what one more of something costs; with ``less``, minus the same of the next two."""

    def formula(windows: Sequence[Window]) -> float | None:
        value = windows[0].seconds - windows[1].seconds
        if less:
            value -= windows[2].seconds - windows[3].seconds
        return value / steps

    return formula


def fixed_part(small: int, large: int) -> Formula:
    """From the times of (a small list, a large list): what the call costs with nothing in the list."""

    def formula(windows: Sequence[Window]) -> float | None:
        per_item = (windows[1].seconds - windows[0].seconds) / (large - small)
        return windows[0].seconds - small * per_item

    return formula
