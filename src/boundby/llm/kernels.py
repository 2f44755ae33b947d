"""The kernels of a decode or prefill step, by partition, each with what it must read and compute, and its floor.

Bytes are those that must come from memory: weights once, and the cache. What one kernel leaves for the next is small
in decoding and stays in the device's caches, so that it is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from boundby.llm.engines import Partition
from boundby.llm.formats import WeightFormat
from boundby.llm.hardware import Hardware
from boundby.llm.structure import Layer, ModelStructure


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """All launches of one kind of kernel in a step.

    ``launches`` of it; ``bytes_read`` and ``flops`` of all of them together on one device; ``floor_s`` is the least
    time they take (products left out where no peak is known). ``bound`` is what makes that floor.
    """

    name: str
    launches: int
    bytes_read: float
    flops: float
    floor_s: float
    bound: Literal["memory", "compute", "launch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a step does: ``batch`` sequences with ``context`` cached tokens each; ``new_tokens`` of them are new."""

    batch: float
    context: float
    new_tokens: float = 1
    weights: WeightFormat
    cache_element_bytes: float

    @property
    def tokens(self) -> float:
        """Rows of every product."""
        return self.batch * self.new_tokens

    @property
    def small_bytes(self) -> float:
        """Bytes an element of norms and routers takes: they stay in 16 bits in every quantised format."""
        return max(2.0, self.weights.body_bits / 8)


_UNFUSED = (
    ("norm", "norm"),
    ("qkv projection", "input"),
    ("rotary embedding", ""),
    ("cache write", ""),
    ("attention", "attention"),
    ("output projection", "output"),
    ("residual", ""),
    ("norm", "norm"),
    ("gate and up", "gate_up"),
    ("SiLU x mul", ""),
    ("down", "down"),
    ("residual", ""),
)
_FUSED = (
    ("residual + norm", "norm"),
    ("qkv projection", "input"),
    ("rotary + cache write", ""),
    ("attention", "attention"),
    ("output projection", "output"),
    ("residual + norm", "norm"),
    ("gate and up, SiLU x mul", "gate_up"),
    ("down", "down"),
)
LISTS: dict[Partition, tuple[tuple[str, str], ...]] = {"unfused": _UNFUSED, "fused": _FUSED, "megakernel": ()}
AT_END = ("final norm", "head", "sampling")


def launches_of(partition: Partition, layers: int) -> int:
    """Kernels of one step: 12 a layer unfused, 8 fused, and 3 after the last layer; a megakernel is 1."""
    return 1 if partition == "megakernel" else len(LISTS[partition]) * layers + len(AT_END)


def step_kernels(
    model: ModelStructure, hardware: Hardware, work: Work, *, partition: Partition, devices: float = 1
) -> tuple[Kernel, ...]:
    """The kernels of a step, those of one kind in all layers together, in the order in which they first run.

    Args:
        model: the model.
        hardware: one of the devices.
        work: what the step does.
        partition: how a layer is cut.
        devices: over how many devices each kernel's weights, heads and cache are divided; 0.5 is all of the work on
            half a device (one die of two).

    Returns:
        The kernels; their bytes add up to the same whatever the partition.
    """
    merged: dict[str, tuple[int, float, float]] = {}
    for name, launches, read, flops in _all(model, work, partition, devices):
        launches_before, bytes_before, flops_before = merged.get(name, (0, 0.0, 0.0))
        merged[name] = (launches_before + launches, bytes_before + read / devices, flops_before + flops / devices)
    peak = hardware.peak(work.weights.name)
    return tuple(
        _floored(name, count, read, flops, hardware.bytes_per_s, peak[1] if peak else None)
        for name, (count, read, flops) in merged.items()
    )


def _floored(name: str, count: int, read: float, flops: float, bandwidth: float, peak: float | None) -> Kernel:
    memory = read / bandwidth
    compute = flops / peak if peak else 0.0
    bound: Literal["memory", "compute", "launch"] = "compute" if compute > memory else "memory" if memory else "launch"
    return Kernel(name=name, launches=count, bytes_read=read, flops=flops, floor_s=max(memory, compute), bound=bound)


def _all(
    model: ModelStructure, work: Work, partition: Partition, devices: float
) -> Iterator[tuple[str, int, float, float]]:
    """Name, launches, bytes and FLOPs of all launches of a kernel in the layers of one kind, on all devices."""
    if partition == "megakernel":
        parts = list(_all(model, work, "fused", devices))
        yield "megakernel", 1, sum(read for _, _, read, _ in parts), sum(flops for _, _, _, flops in parts)
        return
    names = LISTS[partition]
    norms = sum(role == "norm" for _, role in names)
    for layer, count in model.kinds:
        costs = _layer_costs(layer, work, devices)
        for name, role in names:
            read, flops = costs.get(role, (0.0, 0.0))
            share = count / (norms if role == "norm" else 1)
            yield name, count, read * share, flops * share
    head = model.head_read
    # A prefill computes the logits of the last position alone.
    yield AT_END[0], 1, model.final_norm * work.small_bytes, 0.0
    yield AT_END[1], 1, head * work.weights.head_bits / 8, 2.0 * head * work.batch
    yield AT_END[2], 1, 0.0, 0.0


def _layer_costs(layer: Layer, work: Work, devices: float) -> dict[str, tuple[float, float]]:
    """Bytes and FLOPs by role, on all devices together. FLOP = 2 x multiply-add."""
    body = work.weights.body_bits / 8
    expert = work.weights.expert_bits / 8
    tokens = work.tokens
    touched, chosen = layer.experts_touched(tokens), layer.experts_per_token
    seen = work.context if layer.window is None else min(work.context, layer.window)
    cached = work.batch * seen * layer.cache_elements * layer.cache_copies(devices) * work.cache_element_bytes
    # Of new tokens each sees those before it: on average half of the others.
    met = seen if work.new_tokens <= 1 else min(seen, work.context - (work.new_tokens - 1) / 2)
    attention = 2.0 * tokens * met * layer.query_heads * (layer.score_dim + layer.value_dim)
    small = layer.attention_small * work.small_bytes
    return {
        "norm": (layer.norms * work.small_bytes, 0.0),
        "input": (layer.input_projections * body, 2.0 * tokens * layer.input_projections),
        "attention": (cached + small, attention),
        "output": (layer.output_projection * body, 2.0 * tokens * layer.output_projection),
        "gate_up": (
            layer.gate_up * body + layer.router * work.small_bytes + touched * layer.expert_gate_up * expert,
            2.0 * tokens * (layer.gate_up + layer.router + chosen * layer.expert_gate_up),
        ),
        "down": (
            layer.down * body + touched * layer.expert_down * expert,
            2.0 * tokens * (layer.down + chosen * layer.expert_down),
        ),
    }
