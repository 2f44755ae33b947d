"""Measures this machine's ceilings through eager torch, within a time and a memory bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from boundby.machine.anchors import NAMES, Anchors, anchor_memory
from boundby.machine.bandwidth import bandwidth_probes
from boundby.machine.data import DataSource
from boundby.machine.describe import available_memory, describe_machine, now_text, threads_findings
from boundby.machine.functions import function_probes
from boundby.machine.matmul import matmul_probes, usable_dtypes
from boundby.machine.overhead import overhead_probes
from boundby.machine.probe import Reading, Window, join, seconds_of
from boundby.machine.rounds import Rounds, read_ceilings, take_rounds, unsteady_probes
from boundby.results.machine import Finding, Machine
from boundby.timing.clock import Clock, monotonic_ns

MOST_MEMORY_BYTES = 2 << 30
MOST_MEMORY_SHARE = 0.25
# torch itself, its workspaces, and the probes whose size does not depend on memory.
_FIXED_MEMORY_BYTES = 480 << 20
# With fewer rounds than this, one bad moment decides a ceiling.
FEWEST_ROUNDS = 5
# Above this share of probes whose median is over 1.25 times their fastest, the machine was not quiet.
_UNSTEADY_SHARE = 0.1

Progress = Callable[[float, str], None]


def measure_machine(
    *,
    threads: int | None = None,
    budget_s: float = 18.0,
    progress: Progress | None = None,
    affinity: tuple[int, ...] | None = None,
    clock: Clock = monotonic_ns,
) -> Machine:
    """This computer and its ceilings, measured in this process.

    Args:
        threads: how many threads torch is to use; as many as it uses now where None. The setting is put back.
        budget_s: how long it may take, seconds. At least one round of all probes is taken, however small the budget.
        progress: told (share done, what is being done) now and then.
        affinity: the CPUs this process may run on, where they were read before torch bound its threads to some of
            them; asked of the operating system where None.
        clock: nanoseconds.

    Returns:
        The machine. Ceilings that no probe could give are absent; findings say what is unusable or was unsteady.
    """
    deadline_ns = clock() + int(budget_s * 1e9)
    tell = progress or (lambda share, what: None)
    tell(0.0, "preparing")
    with _settings(threads) as used:
        memory = memory_allowance(available_memory())
        data = DataSource()
        anchors = Anchors(used, memory_bytes=anchor_memory(available_memory()))
        try:
            dtypes, slow, findings = usable_dtypes(data, clock=clock)
            probes = join(
                (
                    overhead_probes(data),
                    function_probes(data, threads=used),
                    matmul_probes(data, dtypes=dtypes, memory_bytes=memory // 2),
                    slow,
                    bandwidth_probes(data, memory_bytes=memory // 4),
                )
            )
            anchor_windows: dict[str, list[Window]] = {f"anchor {name}": [] for name in NAMES}

            def between() -> None:
                for name, seconds in anchors.read(clock).seconds.items():
                    anchor_windows[f"anchor {name}"].append(Window(seconds=seconds))

            rounds = take_rounds(
                probes.probes,
                deadline_ns=deadline_ns,
                clock=clock,
                between=between,
                progress=lambda share: tell(share, "measuring"),
            )
        finally:
            anchors.close()
        everything = Rounds(
            windows={**rounds.windows, **anchor_windows},
            rounds=rounds.rounds,
            dropped=rounds.dropped,
            broken=rounds.broken,
        )
        ceilings = read_ceilings(probes.readings + _anchor_readings(), everything, threads=used)
    description = describe_machine(threads=used, affinity=affinity, measured_at=now_text())
    tell(1.0, "done")
    return Machine(
        description=description,
        ceilings=ceilings,
        findings=(*threads_findings(description), *findings, *_noise_findings(everything)),
    )


def memory_allowance(available_bytes: int | None) -> int:
    """How much memory the probes' data may take (bytes): within 2 GiB and a quarter of what is there, torch included.

    Args:
        available_bytes: the memory this process can still take; None where unknown.
    """
    most = MOST_MEMORY_BYTES
    if available_bytes is not None:
        most = min(most, int(available_bytes * MOST_MEMORY_SHARE))
    return max(32 << 20, min(1 << 30, most - _FIXED_MEMORY_BYTES))


@contextmanager
def _settings(threads: int | None) -> Iterator[int]:
    """Grad off and torch at ``threads``; both put back afterwards."""
    before = torch.get_num_threads()
    if threads is not None and threads != before:
        torch.set_num_threads(threads)
    try:
        with torch.no_grad():
            yield torch.get_num_threads()
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


def _anchor_readings() -> tuple[Reading, ...]:
    return tuple(
        Reading(kind="anchor", name=name, keys=(f"anchor {name}",), formula=seconds_of, unit="s", dtype="fp32")
        for name in NAMES
    )


def _noise_findings(rounds: Rounds) -> tuple[Finding, ...]:
    findings = []
    if rounds.broken:
        names = ", ".join(key for key, _ in rounds.broken)
        findings.append(
            Finding(
                code="op-unavailable",
                message=f"Not measured, since this torch does not run them here: {names} ({rounds.broken[0][1]}).",
                advice="Ops of these kinds are judged by the others.",
            )
        )
    if rounds.rounds < FEWEST_ROUNDS:
        findings.append(
            Finding(
                code="machine-busy",
                message=f"The machine was so busy that only {rounds.rounds} of at least {FEWEST_ROUNDS} rounds of "
                "measuring fitted in the time: its ceilings may be far too low.",
                advice="Measure again when it is quiet: boundby machine --again.",
            )
        )
    unsteady = unsteady_probes(rounds)
    if len(unsteady) > _UNSTEADY_SHARE * len(rounds.windows):
        findings.append(
            Finding(
                code="machine-unsteady",
                message=f"{len(unsteady)} of {len(rounds.windows)} ceilings moved by more than a quarter while they "
                "were measured: something else was using the machine, or its clock changed.",
                advice="Measure again when it is quiet: boundby machine --again.",
            )
        )
    if rounds.dropped:
        findings.append(
            Finding(
                code="clock-stepped-back",
                message=f"{rounds.dropped} timed windows came out at zero or less and were dropped.",
                advice="Measure on a machine whose clock is steady.",
            )
        )
    return tuple(findings)
