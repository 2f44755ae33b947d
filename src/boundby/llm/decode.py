"""Decode and prefill on paper: floors by physics, expected times by calibration, and where batch stops paying.

Physics: bytes over bandwidth and FLOPs over the dense peak, with a launch cost that is an assumption or measured.
Calibrated: what engines reach of that, from published rows (`boundby.llm.calibration`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from boundby.llm.calibration import Expected, cell_of, coefficients, expected_step
from boundby.llm.decode_settings import LARGEST_BATCH, check_partition, check_settings
from boundby.llm.engines import PARTITIONS, Engine, Partition, find_engine, recognise_engine
from boundby.llm.features import features_of, launches_of_engine, placed
from boundby.llm.formats import cache_bytes_per_element, weight_format
from boundby.llm.hardware import Hardware
from boundby.llm.kernels import Kernel, Work, launches_of, step_kernels
from boundby.llm.parallel import AllReduce, all_reduces
from boundby.llm.spread import key_of, shipped_spread, width
from boundby.llm.structure import ModelStructure
from boundby.results.interval import Interval
from boundby.results.language import tr

# Seconds a launch costs; assumptions from what CUDA launches have been measured at, not a property of any one device.
ASSUMED_LAUNCH_S = (2e-6, 4e-6, 8e-6)
# A prefill reaches this share of the dense peak; low and high of what engines are published to reach.
_PREFILL_SHARE = (0.35, 0.55, 0.8)
# Weights and cache can fill this share of memory; the rest is for activations and the engine itself.
USABLE_MEMORY = 0.9
SWEEP = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXT_SWEEP = (256, 1024, 4096, 16384, 65536)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCost:
    """A decode step by launch cost, in seconds; ``overhead`` is the share of launches in the serial step.

    ``serial_s`` adds all launches to the device's time, ``overlapped_s`` is the greater of the two; tokens/s lie
    between.
    """

    partition: Partition
    launches: int
    launch_s: float
    serial_s: float
    overlapped_s: float
    overhead: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A decode step at one batch. ``step_s`` is expected, ``floor_s`` what physics allows; seconds.

    ``mbu`` and ``mfu`` are shares of bandwidth and of the dense peak that the expected step makes use of; None where
    the peak is unknown. ``fits`` is None where the memory is unknown. ``experts_read`` is the mean number of experts a
    sparse layer reads; None in a dense model.
    """

    batch: int
    context: int
    step_s: Interval
    floor_s: float
    bound: str
    tokens_per_s_user: Interval
    tokens_per_s: Interval
    mbu: Interval
    mfu: Interval | None
    launch_share: float
    weight_bytes: float
    cache_bytes: float
    experts_read: float | None
    fits: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefill:
    """Reading a prompt of ``tokens`` tokens: the floor and what is expected, in seconds; None where the peak is
    unknown.
    """

    tokens: int
    floor_s: float | None
    expected_s: Interval | None
    flops: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeEstimate:
    """All of `estimate_decode`. Bytes are those of one device, unless named otherwise; ``model_bytes`` are of all.

    ``engine_known`` is False where no engine was named; expected times then are those of kernels of no engine in
    particular.

    ``compute_bound_batch`` is the least batch at which multiplying by the weights takes longer than reading them,
    ``step_compute_bound_batch`` the least at which all of a step's products do, with the cache of each sequence at this
    context read as well. ``memory_full_batch`` is the largest that fits. None: none up to a million, or unknown.
    """

    model: str
    model_source: str
    hardware: str
    hardware_source: str
    hardware_origin: str
    bytes_per_s: float
    peak_flops_per_s: float | None
    memory_bytes: float | None
    engine: str
    engine_about: str
    engine_known: bool
    graphs: bool
    devices: float
    batch: int
    context: int
    weights: str
    cache: str
    parameters_total: int
    parameters_active: int
    parameters_streamed: float
    model_bytes: float
    cache_bytes_per_token: float
    cache_bytes_one: float
    step: Step
    parts: Expected
    kernels: tuple[Kernel, ...]
    launch_costs: tuple[LaunchCost, ...]
    launch_source: str
    all_reduce: AllReduce | None
    prefill: Prefill
    sweep: tuple[Step, ...]
    context_sweep: tuple[Step, ...]
    compute_bound_batch: int | None
    step_compute_bound_batch: int | None
    memory_full_batch: int | None
    calibrated_rows: int
    calibrated_here: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    model: ModelStructure
    hardware: Hardware
    engine: Engine
    work: Work
    devices: float
    speed: float


def estimate_decode(
    model: ModelStructure,
    hardware: Hardware,
    *,
    batch: int = 1,
    context: int = 1024,
    prompt: int | None = None,
    weights: str | None = None,
    cache: str = "bf16",
    engine: str | None = None,
    partition: Partition | None = None,
    launch_s: float | None = None,
    host_speed: float = 1.0,
    devices: float = 1,
) -> DecodeEstimate:
    """What a model takes to decode on a device.

    Args:
        model: the model.
        hardware: one device.
        batch: sequences that a step decodes.
        context: tokens in the cache of each.
        prompt: tokens of the prompt that prefill is told for; ``context`` where None.
        weights: the weights' format; what the config says, or bf16, where None.
        cache: the format of the cache.
        engine: whose profile to expect times by; fused kernels of no particular engine where None.
        partition: how the table of floors cuts a layer; the engine's own where None.
        launch_s: what one launch costs, in seconds; 2, 4 and 8 us, or what the machine measured, where None.
        host_speed: of one core of the host, 1 being a 2024 desktop.
        devices: over how many devices each product is divided (tensor parallel); 0.5 is one die of two.

    Raises:
        BoundbyError: ``decode-setting`` for a setting out of its range, ``unknown-format``, ``unknown-engine``.
    """
    check_settings(batch, context, prompt, launch_s, host_speed, devices, hardware=hardware)
    profile = find_engine(engine) if engine is not None else recognise_engine(partition or "fused")
    chosen: Partition = partition or profile.partition
    check_partition(chosen)
    text = weights if weights is not None else model.weights_format or "bf16"
    form = weight_format(profile.formats.get(text.lower(), text))
    place = placed(hardware, engine or "")
    work = Work(batch=batch, context=context, weights=form, cache_element_bytes=cache_bytes_per_element(cache))
    setting = _Setting(model=model, hardware=place, engine=profile, work=work, devices=devices, speed=host_speed)
    kernels = step_kernels(model, place, work, partition=chosen, devices=devices)
    costs = tuple(
        _launch_cost(setting, one, cost)
        for one in PARTITIONS
        for cost in ([launch_s] if launch_s is not None else [place.launch_s] if place.launch_s else ASSUMED_LAUNCH_S)
    )
    step, parts = _step(setting)
    peak = place.peak(form.name)
    cell = cell_of(profile, place)
    counts = shipped_spread().rows
    return DecodeEstimate(
        model=model.name,
        model_source=model.source,
        hardware=place.name,
        hardware_source=place.source,
        hardware_origin=place.origin,
        bytes_per_s=place.bytes_per_s,
        peak_flops_per_s=peak[1] if peak else None,
        memory_bytes=place.memory_bytes,
        engine=profile.name,
        engine_about=profile.about,
        engine_known=engine is not None,
        graphs=profile.graphs,
        devices=devices,
        batch=batch,
        context=context,
        weights=form.name,
        cache=cache,
        parameters_total=model.total,
        parameters_active=model.active,
        parameters_streamed=model.streamed(batch) if model.is_sparse else model.streamed_by_one,
        model_bytes=stored_bytes(model, work),
        cache_bytes_per_token=model.cache_bytes_per_token(work.cache_element_bytes),
        cache_bytes_one=model.cache_bytes(context, work.cache_element_bytes),
        step=step,
        parts=parts,
        kernels=kernels,
        launch_costs=costs,
        launch_source="given" if launch_s is not None else "measured here" if place.launch_s else "assumed",
        all_reduce=all_reduces(model, place, work, devices) if devices > 1 else None,
        prefill=_prefill(setting, prompt if prompt is not None else context),
        sweep=tuple(_step(_at(setting, one))[0] for one in SWEEP),
        context_sweep=tuple(_step(_within(setting, one))[0] for one in CONTEXT_SWEEP),
        compute_bound_batch=_least_batch(setting, cached=False),
        step_compute_bound_batch=_least_batch(setting, cached=True),
        memory_full_batch=_largest_batch(setting),
        calibrated_rows=sum(counts.values()),
        calibrated_here=counts.get(key_of(cell), 0),
        notes=_notes(model, place, setting, peak is None, launch_s),
    )


def stored_bytes(model: ModelStructure, work: Work) -> float:
    """What the weights take in memory, over all devices, in bytes."""
    form = work.weights
    layers = sum(
        n
        * (
            (layer.shared - layer.norms - layer.attention_small - layer.router) * form.body_bits / 8
            + (layer.norms + layer.attention_small + layer.router) * work.small_bytes
            + layer.experts * layer.expert * form.expert_bits / 8
        )
        for layer, n in model.kinds
    )
    table_bits = form.head_bits if model.tied else form.table_bits
    return (
        layers
        + model.embedding * table_bits / 8
        + model.head * form.head_bits / 8
        + model.final_norm * work.small_bytes
    )


def expected_interval(
    model: ModelStructure, hardware: Hardware, engine: Engine, work: Work, *, devices: float = 1, speed: float = 1.0
) -> tuple[Interval, Expected]:
    """The expected time of a step in seconds, with its interval, and its parts; communication included."""
    setting = _Setting(model=model, hardware=hardware, engine=engine, work=work, devices=devices, speed=speed)
    cell = cell_of(engine, hardware)
    found = expected_step(features_of(model, hardware, engine, work, devices=devices, speed=speed), coefficients(cell))
    half = width(shipped_spread(), cell, known_engine=engine.known)
    extra = 0.0
    if devices > 1:
        reduce = all_reduces(model, hardware, work, devices)
        extra = reduce.expected_s
        half = math.hypot(half, 0.35 * extra / (found.step_s + extra) + 0.15)
    if work.batch > 1:
        # No row of several sequences on one device was calibrated on: what more rows add is by formula alone.
        half = math.hypot(half, 0.15)
    total = found.step_s + extra
    floor = _floor_s(setting)
    value = max(total, floor)
    return Interval(value=value, low=min(value, max(floor, value / math.exp(half))), high=value * math.exp(half)), found


def _floor_s(setting: _Setting) -> float:
    kernels = step_kernels(setting.model, setting.hardware, setting.work, partition="fused", devices=setting.devices)
    return sum(kernel.floor_s for kernel in kernels)


def _step(setting: _Setting) -> tuple[Step, Expected]:
    kernels = step_kernels(setting.model, setting.hardware, setting.work, partition="fused", devices=setting.devices)
    floor = sum(kernel.floor_s for kernel in kernels)
    band, parts = expected_interval(
        setting.model,
        setting.hardware,
        setting.engine,
        setting.work,
        devices=setting.devices,
        speed=setting.speed,
    )
    reading = sum(kernel.bytes_read for kernel in kernels) / setting.hardware.bytes_per_s
    peak = setting.hardware.peak(setting.work.weights.name)
    computing = sum(kernel.flops for kernel in kernels) / peak[1] if peak else None
    batch = int(setting.work.batch)
    cached = batch * setting.model.cache_bytes(
        setting.work.context, setting.work.cache_element_bytes, devices=setting.devices
    )
    sparse = [layer for layer in setting.model.layers if layer.experts]
    step = Step(
        batch=batch,
        context=int(setting.work.context),
        step_s=band,
        floor_s=floor,
        bound=_bound(kernels),
        tokens_per_s_user=_inverse(band, 1),
        tokens_per_s=_inverse(band, batch),
        mbu=_inverse(band, reading),
        mfu=None if computing is None else _inverse(band, computing),
        launch_share=(parts.launches_s + parts.host_s) / band.value,
        weight_bytes=sum(kernel.bytes_read for kernel in kernels) - cached / setting.devices,
        cache_bytes=cached / setting.devices,
        experts_read=sum(layer.experts_touched(batch) for layer in sparse) / len(sparse) if sparse else None,
        fits=_fits(setting, batch),
    )
    return step, parts


def _bound(kernels: Sequence[Kernel]) -> str:
    """What binds most of the floor's time: each kernel takes the longer of reading and computing, one after another."""
    computing = sum(one.floor_s for one in kernels if one.bound == "compute")
    return "compute" if computing > sum(one.floor_s for one in kernels) / 2 else "memory"


def _inverse(band: Interval, amount: float) -> Interval:
    return Interval(value=amount / band.value, low=amount / band.high, high=amount / band.low)


def _at(setting: _Setting, batch: int) -> _Setting:
    return replace(setting, work=replace(setting.work, batch=batch))


def _within(setting: _Setting, context: int) -> _Setting:
    return replace(setting, work=replace(setting.work, context=context))


def _launch_cost(setting: _Setting, partition: Partition, launch_s: float) -> LaunchCost:
    launches = launches_of(partition, len(setting.model.layers))
    device = sum(
        kernel.floor_s
        for kernel in step_kernels(
            setting.model, setting.hardware, setting.work, partition=partition, devices=setting.devices
        )
    )
    issued = launches * launch_s
    return LaunchCost(
        partition=partition,
        launches=launches,
        launch_s=launch_s,
        serial_s=device + issued,
        overlapped_s=max(device, issued),
        overhead=issued / (device + issued),
    )


def _prefill(setting: _Setting, tokens: int) -> Prefill:
    work = replace(setting.work, batch=1, context=max(tokens, 1), new_tokens=max(tokens, 1))
    kernels = step_kernels(
        setting.model, setting.hardware, work, partition=setting.engine.partition, devices=setting.devices
    )
    flops = sum(kernel.flops for kernel in kernels)
    if setting.hardware.peak(setting.work.weights.name) is None:
        return Prefill(tokens=tokens, floor_s=None, expected_s=None, flops=flops)
    floor = sum(kernel.floor_s for kernel in kernels)
    cell = coefficients(cell_of(setting.engine, setting.hardware))
    fixed = launches_of_engine(setting.model, setting.engine) * cell.gap_s + cell.host_s
    low, usual, high = (floor / share + fixed for share in reversed(_PREFILL_SHARE))
    return Prefill(tokens=tokens, floor_s=floor, expected_s=Interval(value=usual, low=low, high=high), flops=flops)


def _least_batch(setting: _Setting, *, cached: bool) -> int | None:
    """The least batch at which products take longer than reading, or with the cache bind most of a step's floor.

    By doubling, then halving the gap.
    """
    if setting.hardware.peak(setting.work.weights.name) is None:
        return None
    work = setting.work if cached else replace(setting.work, context=0)

    def computes(batch: int) -> bool:
        partition: Partition = "fused" if cached else "megakernel"
        kernels = step_kernels(
            setting.model,
            setting.hardware,
            replace(work, batch=batch),
            partition=partition,
            devices=setting.devices if cached else 1,
        )
        return _bound(kernels) == "compute"

    high = 1
    while not computes(high):
        high *= 2
        if high > LARGEST_BATCH:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if computes(middle) else (middle, high)
    return high


def _largest_batch(setting: _Setting) -> int | None:
    memory = setting.hardware.memory_bytes
    if memory is None:
        return None
    room = memory * setting.devices * USABLE_MEMORY - stored_bytes(setting.model, setting.work)
    one = setting.model.cache_bytes(setting.work.context, setting.work.cache_element_bytes, devices=setting.devices)
    if room < 0:
        return 0
    return int(room // one) if one else None


def _fits(setting: _Setting, batch: int) -> bool | None:
    largest = _largest_batch(setting)
    if largest is None:
        return None if setting.hardware.memory_bytes is None else True
    return batch <= largest


def _notes(
    model: ModelStructure, hardware: Hardware, setting: _Setting, no_peak: bool, launch_s: float | None
) -> tuple[str, ...]:
    notes = list(model.notes)
    if _fits(setting, int(setting.work.batch)) is False:
        notes.insert(0, tr("Weights and cache do not fit in the memory: the times hold only if they did."))
    form = setting.work.weights
    if form.experts_only and not model.is_sparse:
        notes.append(
            tr(
                "{weights} is a format for experts, and {model} has none: all of its weights are counted at {bits} "
                "bits.",
                weights=form.name,
                model=model.name,
                bits=f"{form.body_bits:g}",
            )
        )
    if model.longest_context and setting.work.context > model.longest_context:
        notes.append(
            tr(
                "The context of {context} tokens is beyond the {longest_context} of the config.",
                context=f"{setting.work.context:,.0f}",
                longest_context=f"{model.longest_context:,}",
            )
        )
    if setting.devices > 1 and any(layer.query_heads % setting.devices for layer in model.layers):
        notes.append(
            tr(
                "{devices} devices do not divide the attention heads ({heads}) evenly: engines refuse that, or leave "
                "some devices with less. The times here are of an even division.",
                devices=f"{setting.devices:g}",
                heads=", ".join(str(one) for one in dict.fromkeys(layer.query_heads for layer in model.layers)),
            )
        )
    if no_peak:
        notes.append(
            tr("No dense 16-bit peak of {name} is known: compute is left out of every floor.", name=hardware.name)
        )
    return tuple(notes)
