"""An estimate of decoding as text for a terminal: the answer first, then its parts, then how far to trust it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.llm.decode import DecodeEstimate, LaunchCost, Step
from boundby.report.page import bullets, heading, indented, page_width, render_page
from boundby.report.safe_text import clean, elide
from boundby.results.interval import Interval
from boundby.results.units import (
    digits_for,
    format_count,
    format_percent,
    format_percent_range,
    format_si,
    format_time,
    format_time_band,
    plural,
)

_BAR_WIDTH = 24
# Columns that the tables take in full; a narrower page has those that matter most.
_WIDE = 76
_LONGEST_NAME = 40


def render_decode(
    estimate: DecodeEstimate, *, width: int, color: bool, unicode: bool, default_hardware: bool = False
) -> str:
    """The estimate as lines of text of at most ``width`` columns; the first line is the answer.

    Args:
        estimate: what to show.
        width: columns; used between 40 and 100.
        color: whether ANSI colours may be written.
        unicode: whether characters beyond ASCII may be written.
        default_hardware: whether the hardware was not named by the user, which is said.

    Returns:
        Text that ends in a newline.
    """
    columns = page_width(width)
    return render_page(
        _parts(estimate, columns, unicode=unicode, default_hardware=default_hardware), width=columns, color=color
    )


def _parts(found: DecodeEstimate, width: int, *, unicode: bool, default_hardware: bool) -> Iterator[RenderableType]:
    yield Text(clean(_sentence(found, unicode=unicode), unicode=unicode), style="bold")
    yield ""
    yield _facts(found, unicode=unicode, default_hardware=default_hardware)
    yield ""
    yield heading("Where an expected step goes", _calibration(found))
    yield _shares(found, width, unicode=unicode)
    yield ""
    yield heading("Floors by kernel", f"{_kernel_partition(found)}; physics: bytes over bandwidth, FLOP over peak")
    yield _kernels(found, width, unicode=unicode)
    yield ""
    yield heading("Launches", f"cost {found.launch_source}; device at its floor; added to it, or hidden behind it")
    yield _launches(found.launch_costs, found.batch, width, unicode=unicode)
    if found.all_reduce is not None:
        yield ""
        reduce = found.all_reduce
        yield indented(
            Text(
                f"{format_count(reduce.count)} all-reduces over {reduce.devices} devices: at least "
                f"{format_time(reduce.floor_s, unicode=unicode)}, {format_time(reduce.expected_s, unicode=unicode)} "
                "expected (assumed: 14 us each, links as their makers print them)"
            )
        )
    yield ""
    yield heading("By batch", f"expected, {found.context:,} tokens in each cache")
    yield _sweep(found.sweep, width, by="batch", unicode=unicode)
    yield indented(Text(_turning_points(found)))
    yield ""
    yield heading("By context", f"expected, batch {found.batch:,}")
    yield _sweep(found.context_sweep, width, by="context", unicode=unicode)
    yield ""
    yield from _prefill(found, unicode=unicode)
    if found.notes:
        yield ""
        yield heading("Notes")
        yield bullets(((Text(clean(note, unicode=unicode)), "") for note in found.notes), mark="  -", mark_width=4)
    yield ""
    yield Text("Next     boundby validate, which shows how far such estimates were off")


def _sentence(found: DecodeEstimate, *, unicode: bool) -> str:
    step = found.step
    place = found.hardware if found.devices == 1 else f"{found.devices:g} x {found.hardware}"
    users = "" if found.batch == 1 else f" for each of {found.batch:,}"
    room = "; it does not fit in the memory" if step.fits is False else ""
    model = elide(found.model, _LONGEST_NAME, unicode=unicode)
    return (
        f"{model} on {place}, {found.weights}: {_rate(step.tokens_per_s_user)} tokens/s"
        f"{users}, {format_time_band(step.step_s.value, step.step_s.low, step.step_s.high, unicode=unicode)} a step; "
        f"the floor is {format_time(step.floor_s, unicode=unicode)}, bound by {step.bound}{room}."
    )


def _rate(rate: Interval) -> str:
    digits = digits_for(rate.value, rate.low, rate.high)
    value, low, high = (f"{_rounded(one, digits):,.6g}" for one in (rate.value, rate.low, rate.high))
    return value if low == high else f"{value} ({low}-{high})"


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def _facts(found: DecodeEstimate, *, unicode: bool, default_hardware: bool) -> Table:
    peak = (
        "no 16-bit peak known"
        if found.peak_flops_per_s is None
        else f"{format_si(found.peak_flops_per_s, 'FLOP/s')} dense"
    )
    memory = "memory size unknown" if found.memory_bytes is None else format_si(found.memory_bytes, "B")
    source = {"datasheet": "data sheet", "measured": "measured", "file": "from the file"}[found.hardware_source]
    engine = f"{found.engine}: {found.engine_about}" if found.engine_known else f"none named: {found.engine} kernels"
    issued = "one graph a step" if found.graphs else "kernels issued one by one"
    sparse = "" if found.parameters_total == found.parameters_active else f", {_many(found.parameters_active)} active"
    model = (
        f"{_many(found.parameters_total)} parameters{sparse}, {_many(found.parameters_streamed)} read a step; "
        f"{format_si(found.model_bytes, 'B')} in {found.weights}"
    )
    cache = (
        f"{found.cache_bytes_per_token:,.0f} bytes a token in {found.cache}; "
        f"{format_si(found.cache_bytes_one, 'B')} at {found.context:,} tokens"
    )
    rows = [
        ("Model", model),
        ("Cache", cache),
        ("Hardware", f"{format_si(found.bytes_per_s, 'B/s')}, {peak}, {memory} ({source})"),
        ("Engine", f"{engine} ({issued})"),
    ]
    if default_hardware:
        rows.append(("", f"{found.hardware} is the default; --hardware names another, or 'here'"))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(Text(name, style="bold"), Text(clean(text, unicode=unicode)))
    return table


def _many(number: float) -> str:
    return format_si(number, "", digits=4).strip()


def _calibration(found: DecodeEstimate) -> str:
    here = f"{found.calibrated_here}" if found.calibrated_here else "none"
    return f"calibrated on {found.calibrated_rows} published rows, {here} of this engine on such hardware"


def _shares(found: DecodeEstimate, width: int, *, unicode: bool) -> Table:
    parts = found.parts
    total = found.step.step_s.value
    between = max(0.0, total - parts.step_s) if found.all_reduce is not None else 0.0
    rows = [
        ("weights", parts.weights_s),
        ("products", parts.products_s),
        ("cache and attention", parts.cache_s),
        ("unpacking weights", parts.unpack_s),
        ("launches", parts.launches_s),
        ("host", parts.host_s),
        ("between devices", between),
    ]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(overflow="fold")
    table.add_column(justify="right", overflow="fold")
    table.add_column(justify="right", overflow="fold")
    table.add_column(no_wrap=True)
    block = "█" if unicode else "#"
    for name, seconds in rows:
        if seconds > 0:
            bar = block * round(_BAR_WIDTH * min(1.0, seconds / total)) if width >= _WIDE else ""
            table.add_row(
                Text(f"  {name}"),
                Text(format_time(seconds, digits=2, unicode=unicode)),
                Text(format_percent(seconds / total)),
                Text(bar),
            )
    return table


def _kernel_partition(found: DecodeEstimate) -> str:
    launches = sum(kernel.launches for kernel in found.kernels)
    return plural(launches, "kernel")


def _kernels(found: DecodeEstimate, width: int, *, unicode: bool) -> Table:
    wide = width >= _WIDE
    head = ["", "launches", "bytes", "FLOP", "floor", "bound"] if wide else ["", "launches", "floor"]
    table = _grid(head)
    for kernel in found.kernels:
        cells = [
            f"  {kernel.name}",
            format_count(kernel.launches),
            format_si(kernel.bytes_read, "B") if kernel.bytes_read else "-",
            format_si(kernel.flops, "") if kernel.flops else "-",
            format_time(kernel.floor_s, unicode=unicode) if kernel.floor_s else "-",
            kernel.bound,
        ]
        table.add_row(*map(Text, cells if wide else [cells[0], cells[1], cells[4]]))
    return table


def _launches(costs: Sequence[LaunchCost], batch: int, width: int, *, unicode: bool) -> Table:
    wide = width >= _WIDE
    head = (
        ["", "kernels", "cost", "added", "launches", "hidden", "tokens/s"] if wide else ["", "cost", "added", "hidden"]
    )
    table = _grid(head)
    for one in costs:
        low, high = batch / one.serial_s, batch / one.overlapped_s
        ends = [f"{_rounded(end, 3):,.6g}" for end in (low, high)]
        cells = [
            f"  {one.partition}",
            format_count(one.launches),
            format_time(one.launch_s, digits=2, unicode=unicode),
            format_time(one.serial_s, unicode=unicode),
            format_percent(one.overhead),
            format_time(one.overlapped_s, unicode=unicode),
            ends[0] if ends[0] == ends[1] else "-".join(ends),
        ]
        table.add_row(*map(Text, cells if wide else [cells[0], cells[2], cells[3], cells[5]]))
    return table


def _sweep(steps: Sequence[Step], width: int, *, by: str, unicode: bool) -> Table:
    wide = width >= _WIDE
    sparse = any(one.experts_read is not None for one in steps) and by == "batch"
    head = [by, "step", "a user", "all", "MBU", "MFU", "launches"] + (["experts"] if sparse else []) + ["fits"]
    if sparse:
        head[6] = "launch"
    table = _grid([f"  {head[0]}", *head[1:]] if wide else [f"  {by}", "step", "all", "fits"], gap=1 if sparse else 2)
    for one in steps:
        band = one.step_s
        fits = "unknown" if one.fits is None else "yes" if one.fits else "no"
        cells = [
            f"  {one.batch if by == 'batch' else one.context:,}",
            format_time_band(band.value, band.low, band.high, unicode=unicode),
            f"{_rounded(one.tokens_per_s_user.value, 2):,.6g}/s",
            f"{_rounded(one.tokens_per_s.value, 2):,.6g}/s",
            format_percent(one.mbu.value),
            "unknown" if one.mfu is None else format_percent(one.mfu.value),
            format_percent(one.launch_share),
            *([f"{one.experts_read:,.1f}" if one.experts_read is not None else "-"] if sparse else []),
            fits,
        ]
        narrow = [cells[0], format_time(band.value, digits=2, unicode=unicode), cells[3], fits]
        table.add_row(*map(Text, cells if wide else narrow))
    return table


def _turning_points(found: DecodeEstimate) -> str:
    if found.peak_flops_per_s is None:
        compute = "Where compute binds is unknown without a peak."
    elif found.compute_bound_batch is None:
        compute = "Compute binds at no batch."
    else:
        compute = (
            f"Multiplying by the weights takes longer than reading them from batch {found.compute_bound_batch:,} on"
        )
        if found.step_compute_bound_batch is None:
            compute += "; with the cache read as well, compute binds at no batch."
        else:
            compute += f", with the cache read as well from {found.step_compute_bound_batch:,} on."
    if found.memory_full_batch is None:
        memory = "Where memory is full is unknown without its size."
    elif found.memory_full_batch == 0:
        memory = "Memory does not hold the weights and one cache."
    else:
        memory = f"Memory is full at batch {found.memory_full_batch:,}."
    return f"{compute} {memory}"


def _prefill(found: DecodeEstimate, *, unicode: bool) -> Iterator[RenderableType]:
    prefill = found.prefill
    yield heading("Prefill", f"a prompt of {plural(prefill.tokens, 'token')}, {format_si(prefill.flops, 'FLOP')}")
    if prefill.expected_s is None:
        yield indented(Text("unknown: no peak of 16-bit products is known"))
        return
    band = prefill.expected_s
    yield indented(
        Text(
            f"{format_time_band(band.value, band.low, band.high, unicode=unicode)} expected, at "
            f"{format_percent_range(0.35, 0.8)} of the peak; floor {format_time(prefill.floor_s, unicode=unicode)}"
        )
    )


def _grid(head: Sequence[str], *, gap: int = 2) -> Table:
    table = Table.grid(padding=(0, gap, 0, 0))
    for index, _ in enumerate(head):
        table.add_column(justify="left" if index == 0 else "right", overflow="fold")
    table.add_row(*(Text(one, style="dim") for one in head))
    return table
