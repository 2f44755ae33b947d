"""Ceilings of a device with a queue: launches, synchronisation, graph replay, products and bandwidth.

Work on such a device is queued by the host and done later, so a call that returns says nothing. Each probe queues some
ops and waits for them; the same wait with fewer ops is subtracted, which leaves what the ops add:

- ``launch`` ``back_to_back``: one more launch in a full queue, of a kernel with next to nothing to do: what the host
  needs to issue one or the device to begin one, whichever is more;
- ``launch`` ``launch_and_wait``: one launch and the wait for it; ``synchronize``: a wait with nothing queued;
- ``launch`` ``graph_kernel``: one more kernel in a graph that is replayed as one launch; absent without graphs;
- ``matmul`` ``mm`` per dtype over square sizes, ``bandwidth`` ``inplace``, ``copy`` and ``read`` over working sets,
  with bytes counted as for the CPU.

A dtype that the device refuses is left out and named in a finding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import repeat

import torch

from boundby.machine.consistency import checked
from boundby.machine.data import DTYPES
from boundby.machine.describe import describe_machine, now_text
from boundby.machine.noise import noise_findings
from boundby.machine.probe import Formula, Probe, ProbeSet, Reading, rate_of, seconds_of, slope
from boundby.machine.rounds import read_ceilings, take_rounds
from boundby.results.language import tr
from boundby.results.machine import Finding, Machine
from boundby.timing.clock import Clock, monotonic_ns
from boundby.timing.device import Device, device_of

FEW, MANY = 8, 72
SHORT, LONG = 2, 10
SQUARES = (1024, 2048, 4096, 8192)
WORKING_SETS = (1 << 20, 16 << 20, 128 << 20, 1 << 30)
PRODUCT_DTYPES = ("fp32", "bf16", "fp16", "fp64")
_SEED = 20_220_101
_PIECE = 1 << 18
MOST_MEMORY_BYTES = 4 << 30


def measure_accelerator(
    name: str,
    *,
    budget_s: float,
    progress: Callable[[float, str], None] = lambda share, what: None,
    clock: Clock = monotonic_ns,
) -> Machine:
    """This computer with the ceilings of one of its devices, measured in this process.

    Args:
        name: the type torch knows the device by.
        budget_s: how long it may take, seconds; one round is taken however long that lasts.
        progress: told (share done, what is being done) now and then.
        clock: nanoseconds.

    Raises:
        BoundbyError: ``no-device``.
    """
    began_ns = clock()
    device = device_of(name)
    about = device.properties()
    progress(0.0, "preparing")
    memory = MOST_MEMORY_BYTES if about.memory_bytes is None else min(MOST_MEMORY_BYTES, about.memory_bytes // 4)
    with torch.no_grad():
        probes, findings = accelerator_probes(device, memory_bytes=memory)
        rounds = take_rounds(
            probes.probes,
            deadline_ns=began_ns + int(budget_s * 1e9),
            clock=clock,
            progress=lambda share: progress(share, "measuring"),
        )
    threads = torch.get_num_threads()
    description = describe_machine(threads=threads, measured_at=now_text())
    ceilings = read_ceilings(probes.readings, rounds, threads=threads)
    return checked(
        Machine(
            description=replace(description, device=name, device_name=about.name),
            ceilings=ceilings,
            findings=(*noise_findings(rounds, ceilings), *findings),
        )
    )


def accelerator_probes(device: Device, *, memory_bytes: int) -> tuple[ProbeSet, tuple[Finding, ...]]:
    """The probes above, and a finding for each dtype that the device does not multiply.

    Args:
        device: what to measure.
        memory_bytes: how much of the device's memory the probes may take.
    """
    probes: list[Probe] = []
    readings: list[Reading] = []

    def queued(key: str, op: Callable[[], object], count: int) -> str:
        probes.append(Probe(key=key, call=partial(_queue_and_wait, device, op, count)))
        return key

    tiny = torch.ones(8, device=device.kind)
    step = partial(tiny.mul_, 1.0)
    few, many = (queued(f"launch {count}", step, count) for count in (FEW, MANY))
    one, none = queued("launch 1", step, 1), queued("launch 0", step, 0)
    readings.append(_launch("back_to_back", (many, few), slope(MANY - FEW)))
    readings.append(_launch("launch_and_wait", (one,), seconds_of))
    readings.append(_launch("synchronize", (none,), seconds_of))
    graphs = [device.graph(partial(_repeat, step, count)) for count in (FEW, MANY)]
    if None not in graphs:
        small, large = (
            queued(f"graph of {count}", graph, 1)
            for count, graph in zip((FEW, MANY), graphs, strict=True)
            if graph is not None
        )
        readings.append(_launch("graph_kernel", (large, small), slope(MANY - FEW)))

    generator = torch.Generator().manual_seed(_SEED)
    findings = _products(device, memory_bytes, generator, queued, readings)
    for size in (size for size in WORKING_SETS if 2 * size <= memory_bytes):
        _streams(device, size, generator, queued, readings)
    return ProbeSet(probes=tuple(probes), readings=tuple(readings)), findings


def _products(
    device: Device,
    memory_bytes: int,
    generator: torch.Generator,
    queued: Callable[[str, Callable[[], object], int], str],
    readings: list[Reading],
) -> tuple[Finding, ...]:
    refused: list[str] = []
    left_bytes = memory_bytes
    for dtype in PRODUCT_DTYPES:
        kind = DTYPES[dtype]
        for n in SQUARES:
            needed = 2 * n * n * kind.itemsize
            if needed > left_bytes:
                break
            try:
                left = torch.randn(n, n, generator=generator).to(device.kind, kind)
                product = torch.mm(left, left)
                device.synchronize()
            except torch.OutOfMemoryError:
                break  # others use the device's memory too; what was measured so far stands
            except (RuntimeError, TypeError, NotImplementedError):
                refused.append(dtype)
                break
            left_bytes -= needed
            op = partial(torch.mm, left, left, out=product)
            keys = tuple(queued(f"mm {n} {dtype} {count}", op, count) for count in (LONG, SHORT))
            readings.append(
                Reading(
                    kind="matmul",
                    name="mm",
                    keys=keys,
                    formula=rate_of(2.0 * n**3 * (LONG - SHORT)),
                    unit="flop/s",
                    dtype=dtype,
                    shape=(1, n, n, n),
                )
            )
    return tuple(
        Finding(
            code="dtype-unusable",
            message=tr(
                "{dtype} matrix products do not run on this {kind} device with this torch.",
                dtype=dtype,
                kind=device.kind,
            ),
            advice=tr("Do not use {dtype} here.", dtype=dtype),
        )
        for dtype in refused
    )


def _streams(
    device: Device,
    size: int,
    generator: torch.Generator,
    queued: Callable[[str, Callable[[], object], int], str],
    readings: list[Reading],
) -> None:
    # A random piece again and again: numbers that are all alike may move faster than others.
    piece = torch.randn(min(size // 4, _PIECE), generator=generator)
    whole = piece.to(device.kind).repeat(size // 4 // piece.numel())
    half = whole[: size // 8]
    other = whole[size // 8 : 2 * (size // 8)]
    for name, op, counted in (
        ("inplace", partial(whole.mul_, 1.0), 2 * size),
        ("copy", partial(half.copy_, other), 2 * half.numel() * 4),
        ("read", partial(torch.sum, whole), size),
    ):
        keys = tuple(queued(f"{name} {size} {count}", op, count) for count in (LONG, SHORT))
        readings.append(
            Reading(
                kind="bandwidth",
                name=name,
                keys=keys,
                formula=rate_of(counted * (LONG - SHORT)),
                unit="byte/s",
                dtype="fp32",
                size_bytes=size,
            )
        )


def _launch(name: str, keys: tuple[str, ...], formula: Formula) -> Reading:
    return Reading(kind="launch", name=name, keys=keys, formula=formula, unit="s")


def _queue_and_wait(device: Device, op: Callable[[], object], count: int) -> None:
    for _ in repeat(None, count):
        op()
    device.synchronize()


def _repeat(op: Callable[[], object], count: int) -> None:
    for _ in repeat(None, count):
        op()
