"""What physics says of one decode step: the numbers that calibration builds on."""

from __future__ import annotations

import re
from dataclasses import replace

from boundby.llm.calibration import Features, fp32_rate
from boundby.llm.engines import Engine, host_speed, recognise_engine
from boundby.llm.fit import Observation
from boundby.llm.formats import WeightFormat, cache_bytes_per_element, weight_format
from boundby.llm.hardware import Hardware, find_hardware, hardware_from_spec
from boundby.llm.kernels import Work, step_kernels
from boundby.llm.models import find_model
from boundby.llm.rows import Row
from boundby.llm.structure import ModelStructure


def features_of(
    model: ModelStructure,
    hardware: Hardware,
    engine: Engine,
    work: Work,
    *,
    devices: float = 1,
    speed: float = 1.0,
    launches: int | None = None,
) -> Features:
    """Bytes, unpacking, products and launches of a step on one of ``devices`` devices.

    Args:
        model: the model.
        hardware: one device.
        engine: how the step is cut and issued.
        work: what the step does.
        devices: over how many devices weights and cache are divided.
        speed: of one core of the host, 1 being a 2024 desktop.
        launches: kernels of a step, where they are known better than from the engine's profile.
    """
    kernels = step_kernels(model, hardware, work, partition="fused", devices=devices)
    cached = work.batch * model.cache_bytes(work.context, work.cache_element_bytes, devices=devices) / devices
    weights = sum(kernel.bytes_read for kernel in kernels) - cached
    peak = hardware.peak(work.weights.name)
    # On processors there is nothing to launch, and unpacking goes with reading.
    on_cpu = hardware.kind == "cpu"
    count = launches if launches is not None else launches_of_engine(model, engine)
    return Features(
        weight_bytes=weights,
        cache_bytes=cached,
        unpacked_weights=0.0 if on_cpu else _unpacked(model, work) / devices,
        launches=0 if on_cpu else count,
        bytes_per_s=hardware.bytes_per_s,
        fp32_flops_per_s=fp32_rate(hardware),
        attention_flops=sum(kernel.flops for kernel in kernels if kernel.name == "attention"),
        compute_s=sum(kernel.flops for kernel in kernels) / peak[1] if peak else 0.0,
        graphs=engine.graphs,
        newly_replayed=engine.graphs and engine.calibrated_as != engine.name and engine.known,
        host_speed=speed,
    )


def launches_of_engine(model: ModelStructure, engine: Engine) -> int:
    """Kernels of one decode step of a model by an engine's profile."""
    return engine.launches(
        len(model.layers),
        sparse=sum(n for layer, n in model.kinds if layer.experts),
        latent=sum(n for layer, n in model.kinds if layer.latent),
    )


def _unpacked(model: ModelStructure, work: Work) -> float:
    """Quantised weights that a step multiplies, each widened once."""
    form: WeightFormat = work.weights
    experts = sum(n * layer.experts_touched(work.tokens) * layer.expert for layer, n in model.kinds)
    body = sum(n * layer.shared for layer, n in model.kinds)
    return (
        (experts if form.expert_bits < 16 else 0.0)
        + (body if form.body_bits < 16 else 0.0)
        + (model.head_read if form.head_bits < 16 else 0.0)
    )


def placed(hardware: Hardware, engine_text: str) -> Hardware:
    """The hardware as an engine uses it: a chip's processor where the engine's name says CPU."""
    if hardware.kind != "cpu" and re.search(r"\bcpu\b", engine_text.lower()):
        return replace(hardware, kind="cpu")
    return hardware


def row_parts(row: Row) -> tuple[ModelStructure, Hardware, Engine, Work]:
    """What a row is about, from its names.

    Raises:
        BoundbyError: a name in it is not known.
    """
    hardware = placed(_hardware(row), row.engine)
    engine = recognise_engine(row.engine, row.source)
    work = Work(
        batch=row.batch,
        context=row.context,
        weights=weight_format(engine.formats.get(row.weights, row.weights)),
        cache_element_bytes=cache_bytes_per_element(row.cache),
    )
    return find_model(row.model), hardware, engine, work


def _hardware(row: Row) -> Hardware:
    """The shipped device of that name; where the row gives a bandwidth, one of that bandwidth."""
    if row.bytes_per_s is None:
        return find_hardware(row.hardware)
    spec: dict[str, object] = {"name": row.hardware, "bandwidth_gb_per_s": row.bytes_per_s / 1e9}
    return hardware_from_spec(spec | ({"kind": row.hardware_kind} if row.hardware_kind else {}), name=row.hardware)


def row_host_speed(row: Row) -> float:
    """The relative speed of a row's host: as given, as its note says, or 1."""
    return row.host_speed or host_speed(row.note) or 1.0


def observe(row: Row) -> Observation:
    """A row ready for calibration, as a single device sees it.

    Raises:
        BoundbyError: a name in it is not known.
    """
    from boundby.llm.calibration import cell_of

    model, hardware, engine, work = row_parts(row)
    speed = row_host_speed(row)
    return Observation(
        id=row.id,
        cell=cell_of(engine, hardware),
        features=features_of(model, hardware, engine, work, devices=row.devices, speed=speed),
        step_s=row.step_s,
        weak=row.confidence.startswith("C"),
    )
