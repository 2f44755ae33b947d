"""The models, the hardware and the launch costs of the decode demonstration, and how its numbers are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from boundby.llm.decode import DecodeEstimate, LaunchCost, estimate_decode
from boundby.llm.engines import Partition
from boundby.llm.hardware import find_hardware
from boundby.llm.models import find_model
from boundby.results.language import tr
from boundby.results.units import format_percent

HARDWARE = "H100-SXM5"
MODELS = {"llama-3.1-8b": "Llama-3.1-8B", "llama-3.2-1b": "Llama-3.2-1B"}
CONTEXT = 1024
# What a larger batch does is told for so many sequences.
BATCH = 32


def estimates_of(model: str, costs_s: Sequence[float]) -> tuple[DecodeEstimate, ...]:
    """One estimate a launch cost."""
    structure, hardware = find_model(model), find_hardware(HARDWARE)
    return tuple(estimate_decode(structure, hardware, context=CONTEXT, launch_s=cost) for cost in costs_s)


def launch_rows(estimates: Sequence[DecodeEstimate]) -> Iterator[LaunchCost]:
    """By partition, then by cost; a megakernel's one launch costs the same each time and is told once."""
    for partition in ("unfused", "fused", "megakernel"):
        rows = [launch_cost(one, partition) for one in estimates]
        yield from rows[:1] if partition == "megakernel" else rows


def launch_cost(estimate: DecodeEstimate, partition: str) -> LaunchCost:
    """The estimate's row of that partition; the one launch of a megakernel, which any step needs, costs nothing here.

    It is issued while the step before still computes.
    """
    row = next(one for one in estimate.launch_costs if one.partition == partition)
    if row.launches > 1:
        return row
    gpu_s = row.serial_s - row.launch_s
    return replace(row, serial_s=gpu_s, overlapped_s=gpu_s, overhead=0.0)


def partition_name(name: Partition) -> str:
    """What a partition is called."""
    return {"unfused": tr("unfused"), "fused": tr("fused"), "megakernel": tr("megakernel")}[name]


def in_ms(seconds: float) -> str:
    """A time in milliseconds with two decimals, so that rows compare."""
    return f"{1e3 * seconds:.2f} ms"


def in_us(seconds: float) -> str:
    """A cost that is assumed or given, with the digits it was given with."""
    return f"{1e6 * seconds:g} µs"


def launch_share(row: LaunchCost) -> str:
    """The share of launches in a serial step."""
    return format_percent(row.overhead)
