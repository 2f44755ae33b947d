"""What each way of measuring takes on: ``quick`` and ``default`` what verdicts rest on, ``full`` all there is.

Beside eager torch, ``default`` has what the hardware does in native loops, a few ceilings at one thread, and the
argument ranges that are slow; ``full`` sweeps finer and farther, and has compiled functions and what is left of the
ceilings after seconds of work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from boundby.machine.bandwidth import FULL_LARGEST_BYTES, FULL_STEP, LARGEST_BYTES, STEP, bandwidth_probes
from boundby.machine.compiled import compiled_probes
from boundby.machine.data import DataSource
from boundby.machine.functions import function_probes
from boundby.machine.matmul import matmul_probes, usable_dtypes
from boundby.machine.native import native_probes
from boundby.machine.one_thread import scaling_probes
from boundby.machine.overhead import overhead_probes
from boundby.machine.probe import ProbeSet, join
from boundby.machine.ranges import FULL_RANGES, RANGES, flushed_factors, range_findings, range_probes
from boundby.machine.regions import region_probes, regions_entered
from boundby.machine.sustained import sustained_ceilings
from boundby.results.machine import Ceiling, Finding, Mode
from boundby.timing.clock import Clock
from boundby.timing.one_thread import in_one_thread

# What part of the memory allowance the sweep over working sets takes; matrices and the rest share the others.
_SWEEP_SHARE: dict[Mode, float] = {"quick": 0.25, "default": 0.25, "full": 0.5}
_MATRIX_SHARE = 0.5
# Compiling takes some ten seconds; where it takes more, the rest of the measuring goes before it.
_COMPILING_SHARE = 0.25
# A load a dtype and one for memory run without a rest.
_SUSTAINED_S = 3.0
_SUSTAINED_SHARE = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The probes that take turns, what was found in preparing them, and the time to leave for what comes after.

    ``probes`` holds those of ``alone`` too, whose readings are at one thread. ``entered`` is how many parallel regions
    the ops on almost nothing enter, by probe key.
    """

    probes: ProbeSet
    alone: ProbeSet
    findings: tuple[Finding, ...]
    entered: Mapping[str, int]
    after_s: float


def prepare_work(
    mode: Mode, data: DataSource, *, threads: int, memory_bytes: int, budget_s: float, clock: Clock
) -> Work:
    """The probes of a mode, their data in place.

    Args:
        mode: which.
        data: where the numbers come from.
        threads: how many threads torch is set to.
        memory_bytes: how much memory the probes' data may take.
        budget_s: how long all measuring may take, seconds.
        clock: nanoseconds.
    """
    full = mode == "full"
    sweep_bytes = int(memory_bytes * _SWEEP_SHARE[mode])
    dtypes, slow, findings = usable_dtypes(data, clock=clock)
    sets: list[ProbeSet] = []
    step, largest = (FULL_STEP, FULL_LARGEST_BYTES) if full else (STEP, LARGEST_BYTES)
    if mode != "quick":
        # The larger buffer first, which the stack's sweep then shares.
        native, more = native_probes(
            data, threads=threads, memory_bytes=sweep_bytes, step=step, largest_bytes=largest, clock=clock
        )
        sets.append(native)
        findings = (*findings, *more)
    streams = bandwidth_probes(data, memory_bytes=sweep_bytes, step=step, largest_bytes=largest)
    with in_one_thread():
        sets += [
            overhead_probes(data),
            region_probes(threads),
            function_probes(data, threads=threads, clock=clock),
            matmul_probes(data, dtypes=dtypes, memory_bytes=int(memory_bytes * _MATRIX_SHARE), full=full),
            slow,
            streams,
        ]
    if mode != "quick":
        sets.append(range_probes(data, threads=threads, ranges=FULL_RANGES if full else RANGES, clock=clock))
    if full:
        compiled, more = compiled_probes(data, threads=threads, budget_s=_COMPILING_SHARE * budget_s, clock=clock)
        sets.append(compiled)
        findings = (*findings, *more)
    every = join(sets)
    tiny = {key for one in every.readings if one.kind == "overhead" and one.stack == "torch" for key in one.keys}
    entered = regions_entered([one for one in every.probes if one.key in tiny], threads=threads, clock=clock)
    alone = scaling_probes(every, threads=threads) if mode != "quick" else ProbeSet()
    return Work(
        probes=replace(every, probes=(*every.probes, *alone.probes)),
        alone=alone,
        findings=findings,
        entered=entered,
        after_s=_SUSTAINED_SHARE * budget_s if full else 0.0,
    )


def finish_work(
    mode: Mode,
    data: DataSource,
    ceilings: Sequence[Ceiling],
    *,
    threads: int,
    memory_bytes: int,
    clock: Clock,
    tell: Callable[[str], None],
) -> tuple[tuple[Ceiling, ...], tuple[Finding, ...]]:
    """What a mode measures or finds once the ceilings are known.

    Args:
        mode: which.
        data: where the numbers come from.
        ceilings: what the probes gave.
        threads: how many threads torch is set to.
        memory_bytes: how much memory the probes' data may take.
        clock: nanoseconds.
        tell: told what is being done.

    Returns:
        More ceilings, and findings.
    """
    if mode == "quick":
        return (), ()
    flushed = flushed_factors(data, ceilings, clock=clock)
    findings = range_findings(ceilings, flushed=flushed)
    if mode == "default":
        return (), findings
    tell("sustained")
    sustained, more = sustained_ceilings(
        data,
        ceilings,
        threads=threads,
        memory_bytes=int(memory_bytes * _SWEEP_SHARE[mode]),
        seconds=_SUSTAINED_S,
        clock=clock,
    )
    return sustained, (*findings, *more)
