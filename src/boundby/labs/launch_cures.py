"""What the launches of a decode step say: who suffers most, and what each cure brings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from boundby.labs.launch_cases import (
    BATCH,
    CONTEXT,
    HARDWARE,
    MODELS,
    in_ms,
    in_us,
    launch_cost,
    launch_rows,
    launch_share,
    partition_name,
)
from boundby.llm.decode import DecodeEstimate, estimate_decode
from boundby.llm.hardware import find_hardware
from boundby.llm.models import find_model
from boundby.report.report_words import listed
from boundby.results.language import tr
from boundby.results.units import format_count, format_number, format_time


def cures(found: dict[str, tuple[DecodeEstimate, ...]], middle_s: float) -> Iterator[str]:
    """Sentences on the launches of the larger and the smaller model.

    Args:
        found: of each model an estimate a launch cost.
        middle_s: the launch cost that most of it is told for, in seconds; one of those.
    """
    large, small = (
        next(one for one in estimates if launch_cost(one, "unfused").launch_s == middle_s)
        for estimates in found.values()
    )
    names = tuple(MODELS.values())
    first, second = launch_cost(large, "unfused"), launch_cost(small, "unfused")
    yield tr(
        "Small models suffer most: at {cost} a launch, unfused, launches are {large} of a serial step of {name} and "
        "{small} of one of {smaller}. From the one to the other the GPU has {gpu} times less to do, and "
        "the launches are only {launches} times fewer.",
        cost=in_us(middle_s),
        large=launch_share(first),
        name=names[0],
        small=launch_share(second),
        smaller=names[1],
        gpu=format_number(large.step.floor_s / small.step.floor_s, digits=2),
        launches=format_number(first.launches / second.launches, digits=2),
    )
    fused = launch_cost(small, "fused")
    yield tr(
        "First cure, fusion: {before} kernels become {after}, and the serial step of {name} falls from {slow} to "
        "{fast}. The GPU's time stays: the weights are read all the same.",
        before=format_count(second.launches),
        after=format_count(fused.launches),
        name=names[1],
        slow=in_ms(second.serial_s),
        fast=in_ms(fused.serial_s),
    )
    yield _overlap(found, names)
    yield tr(
        "Third cure, a megakernel: one launch, so {large} and {small}; what is left is reading the weights, and the "
        "next cure is fewer bytes.",
        large=in_ms(launch_cost(large, "megakernel").serial_s),
        small=in_ms(launch_cost(small, "megakernel").serial_s),
    )
    batched = estimate_decode(
        find_model("llama-3.2-1b"), find_hardware(HARDWARE), batch=BATCH, context=CONTEXT, launch_s=middle_s
    )
    many = launch_cost(batched, "unfused")
    yield tr(
        "And small batches suffer most: at batch {batch} the same {launches} launches of {name} serve {batch} tokens. "
        "They are {share} of the serial step instead of {before}, and each token bears 1/{batch} of them.",
        batch=str(BATCH),
        launches=format_count(many.launches),
        name=names[1],
        share=launch_share(many),
        before=launch_share(second),
    )


def _overlap(found: dict[str, tuple[DecodeEstimate, ...]], names: Sequence[str]) -> str:
    """What overlapping, or a graph, hides, and the first case that it does not."""
    exposed = [
        (name, row, estimates[0].step.floor_s)
        for name, estimates in zip(names, found.values(), strict=True)
        for row in launch_rows(estimates)
        # Launches that outlast the GPU: then it is they that the overlapped step takes.
        if row.launches > 1 and row.launches * row.launch_s >= row.overlapped_s
    ]
    if not exposed:
        return tr(
            "Second cure, overlap (issuing ahead, or a graph replayed as one launch): at every cost here the launches "
            "take less than the GPU's time, and overlapping hides all of them."
        )
    name, row, floor_s = max(exposed, key=lambda one: one[1].overlapped_s / one[2])
    return tr(
        "Second cure, overlap (issuing ahead, or a graph replayed as one launch): it hides launches as long as they "
        "take less than the GPU. {launches} launches of {cost} do not: {name}, {partition}, takes {overlapped} where "
        "the GPU needs {gpu}.",
        launches=format_count(row.launches),
        cost=in_us(row.launch_s),
        name=name,
        partition=partition_name(row.partition),
        overlapped=in_ms(row.overlapped_s),
        gpu=in_ms(floor_s),
    )


def measured_here(here_s: float | None, measured: dict[str, tuple[DecodeEstimate, ...]]) -> str:
    """What the launches would be at the cost of an op on this machine.

    Args:
        here_s: that cost in seconds; None where it is not known.
        measured: of each model the estimate at that cost.
    """
    if here_s is None:
        return tr(
            "What an op costs on this machine is not among what was measured of it; `boundby machine` shows that."
        )
    rows = [launch_cost(estimates[0], "unfused") for estimates in measured.values()]
    return tr(
        "An elementwise op on little data costs {cost} on this machine (measured: PyTorch on the CPU, no launch of a "
        "GPU's): at that cost {shares} of a serial step, unfused, would be launches.",
        cost=format_time(here_s, digits=2),
        shares=listed(
            [
                tr("{value} ({note})", value=launch_share(row), note=name)
                for name, row in zip(MODELS.values(), rows, strict=True)
            ]
        ),
    )
