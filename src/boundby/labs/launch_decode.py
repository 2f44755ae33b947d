"""What the launches of one decode step cost beside the GPU's own time: on paper, for two models on an H100."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from boundby.labs.lab import Settings
from boundby.labs.launch_cases import (
    CONTEXT,
    HARDWARE,
    MODELS,
    estimates_of,
    in_ms,
    in_us,
    launch_rows,
    launch_share,
    partition_name,
)
from boundby.labs.launch_cures import cures, measured_here
from boundby.llm.decode import ASSUMED_LAUNCH_S, DecodeEstimate, LaunchCost
from boundby.llm.kernels import AT_END, LISTS
from boundby.report.chart import Axis, Bar, Chart
from boundby.report.decode_words import kernel_words
from boundby.report.demonstration import LabTable, Line, Shown
from boundby.results.language import tr
from boundby.results.units import format_count, format_percent, format_time


def show(settings: Settings) -> Shown:
    """Launch costs of both models, by how a layer is cut into kernels; with the cost measured here, where asked for."""
    costs_s = tuple(cost / 1e6 for cost in settings.launch_us) or ASSUMED_LAUNCH_S
    found = {name: estimates_of(name, costs_s) for name in MODELS}
    settings.progress(0.5)
    here_s = _measured_launch_s() if settings.launch_measured else None
    measured = {} if here_s is None else {name: estimates_of(name, (here_s,)) for name in MODELS}
    settings.progress(1.0)
    blocks = [_table(MODELS[name], estimates) for name, estimates in found.items()]
    blocks += [_measured_table(MODELS[name], estimates) for name, estimates in measured.items()]
    middle_s = costs_s[len(costs_s) // 2]
    observations = [Line(text=text) for text in cures(found, middle_s)]
    if settings.launch_measured:
        observations.append(Line(text=measured_here(here_s, measured), timed=True))
    return Shown(
        about=(
            tr(
                "One token at batch {batch} and context {context} on an H100 ({bandwidth} TB/s by its data sheet), in "
                "bf16. The GPU's own time is a floor: the weights and the cache, read once at that rate. Nothing here "
                "was run.",
                batch="1",
                context=f"{CONTEXT:,}",
                bandwidth=f"{next(iter(found.values()))[0].bytes_per_s / 1e12:.2f}",
            ),
            tr(
                "A layer is {unfused} kernels unfused ({unfused_kernels}) and {fused} fused ({fused_kernels}); after "
                "the last layer {last} more follow ({last_kernels}). A megakernel is one launch.",
                unfused=str(len(LISTS["unfused"])),
                unfused_kernels=tr("; ").join(kernel_words(name) for name, _ in LISTS["unfused"]),
                fused=str(len(LISTS["fused"])),
                fused_kernels=tr("; ").join(kernel_words(name) for name, _ in LISTS["fused"]),
                last=str(len(AT_END)),
                last_kernels=tr("; ").join(map(kernel_words, AT_END)),
            ),
            tr(
                "Each launch costs {costs} µs, as given.",
                costs=_listed(costs_s),
            )
            if settings.launch_us
            else tr(
                "Each launch costs {costs} µs: assumptions, not measurements; --launch-us sets others.",
                costs=_listed(costs_s),
            ),
            tr(
                "Serial: the GPU's time and all launches, one after the other. Overlapped: launches are issued while "
                "the GPU computes, so that the longer of the two counts. A real step lies between."
            ),
        ),
        blocks=(*blocks, _chart(found)),
        observations=tuple(observations),
        data={
            "hardware": HARDWARE,
            "context": CONTEXT,
            "launch_source": "given" if settings.launch_us else "assumed",
            "models": [_as_data(estimates) for estimates in found.values()],
            "measured_launch_s": here_s,
            "models_measured_launch": [_as_data(estimates) for estimates in measured.values()],
        },
    )


def _listed(costs_s: Sequence[float]) -> str:
    return ", ".join(f"{1e6 * cost:g}" for cost in costs_s)


def _measured_launch_s() -> float | None:
    """What an op costs at least on this machine, by its ceilings: kept, or measured now."""
    from boundby.api import measure_machine
    from boundby.llm.hardware import hardware_from_machine

    return hardware_from_machine(measure_machine(quick=True), name="this machine").launch_s


def _tokens(row: LaunchCost) -> str:
    low, high = f"{1 / row.serial_s:,.0f}", f"{1 / row.overlapped_s:,.0f}"
    return low if low == high else f"{low}-{high}"


def _caption(name: str, estimate: DecodeEstimate) -> str:
    return tr(
        "{model}: {parameters} parameters and {cache} MB of cache read a token, GPU time {time}",
        model=name,
        parameters=f"{estimate.parameters_streamed:,.0f}",
        cache=f"{estimate.cache_bytes_one / 1e6:.1f}",
        time=format_time(estimate.step.floor_s),
    )


def _head() -> tuple[str, ...]:
    return (
        tr("kernels"),
        tr("launches"),
        tr("each"),
        tr("serial"),
        tr("overhead"),
        tr("overlapped"),
        tr("tokens/s"),
    )


def _cells(row: LaunchCost, each: str) -> tuple[str, ...]:
    return (
        partition_name(row.partition),
        format_count(row.launches),
        "" if row.launches == 1 else each,
        in_ms(row.serial_s),
        format_percent(row.overhead),
        in_ms(row.overlapped_s),
        _tokens(row),
    )


def _table(name: str, estimates: Sequence[DecodeEstimate]) -> LabTable:
    return LabTable(
        caption=_caption(name, estimates[0]),
        head=_head(),
        rows=tuple(_cells(row, in_us(row.launch_s)) for row in launch_rows(estimates)),
    )


def _measured_table(name: str, estimates: Sequence[DecodeEstimate]) -> LabTable:
    """The same at the cost measured here: a timing, and so are all that follow from it."""
    return LabTable(
        caption=tr("{model}, were a launch as costly as an op on this machine's CPU (measured)", model=name),
        head=_head(),
        rows=tuple(
            _cells(row, format_time(row.launch_s, digits=2))
            for row in launch_rows(estimates)
            if row.partition != "megakernel"
        ),
        timed=(2, 3, 4, 5, 6),
    )


def _chart(found: dict[str, tuple[DecodeEstimate, ...]]) -> Chart:
    bars: list[Bar] = []
    categories: list[str] = []
    for name, estimates in zip(MODELS.values(), found.values(), strict=True):
        for row in launch_rows(estimates):
            each = "" if row.launches == 1 else f", {in_us(row.launch_s)}"
            category = f"{name.removeprefix('Llama-')}, {partition_name(row.partition)}{each}"
            gpu_s = estimates[0].step.floor_s
            categories.append(category)
            bars.append(Bar(category=category, value=gpu_s, group=tr("GPU time"), look="modelled"))
            if row.launches > 1:
                launches_s = row.serial_s - gpu_s
                group = tr("launches")
                bars.append(
                    Bar(
                        category=category,
                        value=launches_s,
                        start=gpu_s,
                        group=group,
                        label=launch_share(row),
                        look="modelled",
                    )
                )
    rows = [row for estimates in found.values() for row in launch_rows(estimates)]
    costliest = max(rows, key=lambda one: one.overhead)
    return Chart(
        name="launch-share",
        title=tr("Launches in a serial decode step"),
        summary=tr(
            "A bar a case: the GPU's time, then the launches. Their share is largest, {share}, at {launches} launches "
            "of {cost}.",
            share=launch_share(costliest),
            launches=format_count(costliest.launches),
            cost=in_us(costliest.launch_s),
        ),
        x=Axis(name=tr("time of a serial step"), unit="s"),
        y=Axis(name=tr("case"), scale="category", categories=tuple(categories)),
        bars=tuple(bars),
    )


def _as_data(estimates: Sequence[DecodeEstimate]) -> dict[str, Any]:
    one = estimates[0]
    return {
        "model": one.model,
        "parameters_read": one.parameters_streamed,
        "cache_bytes": one.cache_bytes_one,
        "bytes_per_s": one.bytes_per_s,
        "gpu_s": one.step.floor_s,
        "rows": [
            {
                "kernels": row.partition,
                "launches": row.launches,
                "launch_s": row.launch_s,
                "serial_s": row.serial_s,
                "overhead_share": row.overhead,
                "overlapped_s": row.overlapped_s,
            }
            for row in launch_rows(estimates)
        ],
    }
