"""How much of the processors others had while the ceilings were measured, and what that may have taken from them.

Other load that lasts shows in no ceiling: each window is slowed alike. What the system counts shows it: the time that
the CPUs this process may use were busy, less its own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import psutil

from boundby.machine.bands import moved_bytes
from boundby.results.language import tr, trn
from boundby.results.machine import Ceiling, Finding
from boundby.timing.clock import Clock, monotonic_ns

# Of one core. Less than that is the system's own, or ends before it matters.
LEAST_CORES = 0.3
# What one more busy core of all takes from an op that no other process waits for: caches emptied, a core's clock, or a
# sibling's share of it.
_SLOWED_SHARE = 0.1
# From this working set on others may use the same memory, or the same last cache.
SHARED_BYTES = 4 << 20
# However busy the others: half of a machine that is theirs alone cannot be guessed at.
_MOST_TAKEN = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorUse:
    """Seconds so far: by the clock, of the usable CPUs at work or taken by the host, and of this process."""

    wall_s: float
    busy_s: float
    own_s: float


def read_use(affinity: Collection[int] | None, *, clock: Clock = monotonic_ns) -> ProcessorUse:
    """The counters as they stand now.

    Args:
        affinity: the CPUs that this process may use; None: all.
        clock: nanoseconds.
    """
    cpus = [one for cpu, one in enumerate(psutil.cpu_times(percpu=True)) if affinity is None or cpu in affinity]
    return ProcessorUse(
        wall_s=clock() * 1e-9, busy_s=math.fsum(_busy_s(one) for one in cpus), own_s=time.process_time()
    )


def cores_of_others(before: ProcessorUse, after: ProcessorUse) -> float:
    """How many of the usable CPUs others kept busy between two readings; 0 where too little time passed to tell.

    Args:
        before: at the begin.
        after: at the end.
    """
    passed_s = after.wall_s - before.wall_s
    # The system counts in hundredths of a second.
    if passed_s < 0.2:
        return 0.0
    return max(0.0, (after.busy_s - before.busy_s - (after.own_s - before.own_s)) / passed_s)


def load_findings(others: float, cpus: int) -> tuple[Finding, ...]:
    """Says that others had more than a third of a core.

    Args:
        others: how many CPUs others kept busy.
        cpus: how many this process may use.
    """
    if others < LEAST_CORES:
        return ()
    return (
        Finding(
            code="machine-busy",
            message=tr(
                "Other processes, or the host of this virtual machine, had {others} of {CPUs} while the ceilings were "
                "measured: they are of what was left, main memory's most of all.",
                others=f"{others:.1f}",
                CPUs=trn("{count} CPU", "{count} CPUs", cpus),
            ),
            advice=tr("Measure again when it is quiet: boundby machine --again."),
        ),
    )


def beside_load(ceilings: tuple[Ceiling, ...], others: float, cpus: int) -> tuple[Ceiling, ...]:
    """The ceilings with bands that reach to what a quiet machine may have given; as they are beside little load.

    Memory and the last cache are shared out among all that ask for them, so where others kept so many of the CPUs busy,
    their part may be missing here. Everything else is measured by its fast windows, between which others had the core.

    Args:
        ceilings: with bands for other runs.
        others: how many CPUs others kept busy.
        cpus: how many this process may use.
    """
    if others < LEAST_CORES:
        return ceilings
    part = min(1.0, others / cpus)
    shared = min(_MOST_TAKEN, 1.0 / max(1.0 - part, 1e-9))
    return tuple(
        one
        if one.kind == "anchor"
        else _faster(one, shared if moved_bytes(one) >= SHARED_BYTES else 1.0 + _SLOWED_SHARE * part)
        for one in ceilings
    )


def _faster(one: Ceiling, times: float) -> Ceiling:
    """The ceiling with a fast end so many times as fast."""
    if one.unit == "s":
        return replace(one, low=one.low / times)
    return replace(one, high=one.high * times)


def _busy_s(times: Any) -> float:
    idle = times.idle + getattr(times, "iowait", 0.0)
    # A guest's seconds are among the user's already.
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return float(math.fsum(times) - idle - guests)
