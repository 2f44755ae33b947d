"""Measures this machine's ceilings, within a time and a memory bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from boundby.machine.anchors import NAMES, Anchors, anchor_memory
from boundby.machine.bands import across_runs, by_regions
from boundby.machine.consistency import checked
from boundby.machine.data import DataSource
from boundby.machine.describe import available_memory, describe_machine, now_text, process_affinity, threads_findings
from boundby.machine.memory import memory_allowance, memory_findings, peak_memory
from boundby.machine.modes import finish_work, prepare_work
from boundby.machine.noise import noise_findings
from boundby.machine.other_load import beside_load, cores_of_others, load_findings, read_use
from boundby.machine.probe import Reading, Window, seconds_of
from boundby.machine.regions import NAME as PARALLEL_REGION
from boundby.machine.rounds import (
    MAX_ROUNDS,
    Rounds,
    read_ceilings,
    take_rounds,
    unconfirmed_readings,
)
from boundby.machine.store import PROBES
from boundby.results.machine import Machine, Measuring, Mode
from boundby.timing.clock import Clock, monotonic_ns

_MOST_ROUNDS: dict[Mode, int] = {"quick": MAX_ROUNDS, "default": MAX_ROUNDS, "full": 2 * MAX_ROUNDS}

Progress = Callable[[float, str], None]


def measure_machine(
    *,
    threads: int | None = None,
    mode: Mode = "default",
    budget_s: float = 18.0,
    progress: Progress | None = None,
    affinity: tuple[int, ...] | None = None,
    clock: Clock = monotonic_ns,
    started_ns: int | None = None,
) -> Machine:
    """This computer and its ceilings, measured in this process.

    Args:
        threads: how many threads torch is to use; as many as it uses now where None. The setting is put back.
        mode: how much is measured; see ``modes``.
        budget_s: how long it may take, seconds. At least one round of all probes is taken, however small the budget.
        progress: told (share done, what is being done) now and then.
        affinity: the CPUs this process may run on, where they were read before torch bound its threads to some of
            them; asked of the operating system where None.
        clock: nanoseconds.
        started_ns: when the budget began, by ``clock``; now where None.

    Returns:
        The machine. Ceilings that no probe could give are absent; findings say what is unusable or was unsteady.
    """
    started_ns = clock() if started_ns is None else started_ns
    deadline_ns = started_ns + int(budget_s * 1e9)
    available = available_memory()
    tell = progress or (lambda share, what: None)
    tell(0.0, "preparing")
    with _settings(threads) as used:
        memory = memory_allowance(available, compiling=mode == "full")
        data = DataSource()
        anchors = Anchors(used, memory_bytes=anchor_memory(available))
        try:
            work = prepare_work(mode, data, threads=used, memory_bytes=memory, budget_s=budget_s, clock=clock)
            # The share of the time that is left for what comes after the rounds.
            late = work.after_s / budget_s if budget_s else 0.0
            anchor_windows: dict[str, list[Window]] = {f"anchor {name}": [] for name in NAMES}

            def between() -> None:
                for name, seconds in anchors.read(clock).seconds.items():
                    anchor_windows[f"anchor {name}"].append(Window(seconds=seconds))

            cpus = process_affinity() if affinity is None else affinity
            use_before = read_use(cpus, clock=clock)
            rounds = take_rounds(
                work.probes.probes,
                deadline_ns=deadline_ns - int(work.after_s * 1e9),
                clock=clock,
                max_rounds=_MOST_ROUNDS[mode],
                between=between,
                progress=lambda share: tell(share * (1.0 - late), "measuring"),
            )
            others = cores_of_others(use_before, read_use(cpus, clock=clock))
        finally:
            anchors.close()
        everything = Rounds(
            windows={**rounds.windows, **anchor_windows},
            rounds=rounds.rounds,
            dropped=rounds.dropped,
            broken=rounds.broken,
            unconfirmed=rounds.unconfirmed,
        )
        ceilings = (
            *read_ceilings(work.probes.readings + _anchor_readings(), everything, threads=used),
            *read_ceilings(work.alone.readings, everything, threads=1),
        )
        more, found = finish_work(
            mode,
            data,
            ceilings,
            threads=used,
            memory_bytes=memory,
            clock=clock,
            tell=lambda what: tell(1.0 - late, what),
        )
    description = describe_machine(threads=used, affinity=affinity, measured_at=now_text())
    measuring = Measuring(
        mode=mode,
        seconds=round((clock() - started_ns) * 1e-9, 3),
        rounds=rounds.rounds,
        unconfirmed=unconfirmed_readings((*work.probes.readings, *work.alone.readings), rounds),
        peak_memory_bytes=peak_memory(),
        probes=PROBES,
    )
    region = next((one.value for one in ceilings if one.name == PARALLEL_REGION), None)
    moved = by_regions(work.probes.readings, everything, threads=used, entered=work.entered, region_s=region)
    tell(1.0, "done")
    noise = noise_findings(everything, ceilings)
    machine = Machine(
        description=description,
        ceilings=(*ceilings, *more),
        findings=(
            *threads_findings(description),
            *noise,
            *(
                ()
                if any(one.code == "machine-busy" for one in noise)
                else load_findings(others, description.usable_cores)
            ),
            *memory_findings(measuring.peak_memory_bytes, available),
            *work.findings,
            *found,
        ),
        measuring=measuring,
    )
    # What is held against each other was measured in one run; what is told is to hold for others.
    found_true = checked(machine)
    ceilings = beside_load(across_runs(found_true.ceilings, moved), others, description.usable_cores)
    return replace(found_true, ceilings=ceilings)


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
