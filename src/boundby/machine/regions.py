"""Parallel regions: what it costs to give work to all threads and to wait for the last of them, and which ops do it.

torch shares an op out in pieces of at least 32 Ki elements. So a fill of that many bytes runs on the thread that asks,
and a fill of as many for each thread runs on all of them: every thread then does what the one did, and the difference
in time is the region's. The bytes stay in the first cache, and calls follow each other closely, so that the other
threads still wait for work awake; where a script pauses between its ops, waking them costs more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import repeat

import torch

from boundby.machine.one_thread import at_one_thread
from boundby.machine.probe import Probe, ProbeSet, Reading, slope
from boundby.timing.clock import Clock, monotonic_ns

NAME = "parallel_region"
# at::internal::GRAIN_SIZE: what torch leaves to one thread.
GRAIN_ELEMENTS = 32 * 1024
SHARED_KEY, SHARE_KEY = "overhead shared fill", "overhead one share of it"
# A window of a first look, and how many of each: together a tenth of a second for a hundred ops.
_CALLS, _WINDOWS = 8, 5
# Where threads wait for a core, a region takes 20 ms: no second window of an op is taken then, and not all the ops.
_LONG_S = 2e-3
_LOOK_S = 0.4
# The most that an op on almost nothing is believed to enter: five were seen.
MOST_REGIONS = 8
# An op that costs less than this part of a region more with all threads than with one does not enter one.
_ENTERS = 0.5


def region_probes(threads: int) -> ProbeSet:
    """The cost of entering and leaving a parallel region of all threads; nothing at one thread, which has none.

    Args:
        threads: how many threads torch is set to.
    """
    if threads <= 1:
        return ProbeSet()
    shared, share = _fills(threads)
    return ProbeSet(
        probes=(Probe(key=SHARED_KEY, call=shared), Probe(key=SHARE_KEY, call=share)),
        readings=(Reading(kind="overhead", name=NAME, keys=(SHARED_KEY, SHARE_KEY), formula=slope(1.0), unit="s"),),
    )


def regions_entered(probes: Sequence[Probe], *, threads: int, clock: Clock = monotonic_ns) -> Mapping[str, int]:
    """How many parallel regions each of these ops enters, by key; those that enter none, or raise, are left out.

    The ops have next to nothing to do, so what they take longer with all threads than with one is regions. A disturbed
    look errs by a region or two, which a band can bear; it ends after 0.4 s, and of the ops left over nothing is known.

    Args:
        probes: of ops on almost no data.
        threads: how many threads torch is set to, and is set to again.
        clock: nanoseconds.
    """
    if threads <= 1:
        return {}
    deadline_ns = clock() + int(_LOOK_S * 1e9)
    shared, share = _fills(threads)
    region_s = _fastest(shared, clock) - _fastest(share, clock)
    if region_s <= 0:
        return {}
    entered = {}
    for probe in probes:
        if clock() >= deadline_ns:
            break
        try:
            more_s = (
                _fastest(probe.call, clock) - _fastest(at_one_thread(probe.call, threads, _CALLS), clock, 1) / _CALLS
            )
        except (RuntimeError, NotImplementedError):
            continue
        if more_s > _ENTERS * region_s:
            entered[probe.key] = min(MOST_REGIONS, max(1, round(more_s / region_s)))
    return entered


def _fills(threads: int) -> tuple[Callable[[], object], Callable[[], object]]:
    shared = torch.zeros(threads * GRAIN_ELEMENTS, dtype=torch.uint8, device="cpu")
    return partial(shared.fill_, 1), partial(shared[:GRAIN_ELEMENTS].fill_, 1)


def _fastest(call: Callable[[], object], clock: Clock, calls: int = _CALLS) -> float:
    """Seconds a call in the fastest of a few windows, after one that is not counted; of one call where that is long."""
    began = clock()
    call()
    if (best := (clock() - began) * 1e-9) > _LONG_S:
        return best
    for window in range(_WINDOWS + 1):
        before = clock()
        for _ in repeat(None, calls):
            call()
        seconds = (clock() - before) * 1e-9
        best = seconds / calls if window <= 1 else min(best, seconds / calls)
        if seconds > _LONG_S:
            break
    return best
