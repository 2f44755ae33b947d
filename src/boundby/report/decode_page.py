"""An estimate of decoding as text for a terminal: the answer first, then its parts, then how far to trust it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.llm.decode import USABLE_MEMORY, DecodeEstimate, LaunchCost, Step
from boundby.llm.parallel import USUAL_ALL_REDUCE_S
from boundby.report.decode_words import (
    bound_words,
    devices_words,
    engine_words,
    fits_words,
    kernel_words,
    launch_source_words,
    partition_words,
)
from boundby.report.page import bullets, heading, indented, page_width, render_page
from boundby.report.safe_text import clean, elide
from boundby.results.interval import Interval
from boundby.results.language import tr, trn
from boundby.results.units import (
    digits_for,
    format_count,
    format_percent,
    format_percent_range,
    format_si,
    format_time,
    format_time_band,
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
    yield Text(clean(decode_sentence(found, unicode=unicode), unicode=unicode), style="bold")
    yield ""
    yield _facts(found, unicode=unicode, default_hardware=default_hardware)
    yield ""
    yield heading(tr("Where an expected step goes"), _calibration(found))
    yield _shares(found, width, unicode=unicode)
    yield ""
    kernels = trn("{count} kernel", "{count} kernels", sum(kernel.launches for kernel in found.kernels))
    where = devices_words(found.devices)
    yield heading(
        tr("Floors by kernel"),
        tr(
            "{kernels}; physics: bytes over bandwidth, FLOP over peak",
            kernels=tr("{kernels} {where}", kernels=kernels, where=where) if where else kernels,
        ),
    )
    yield _kernels(found, width, unicode=unicode)
    yield ""
    source = launch_source_words(found.launch_source)
    yield heading(
        tr("Launching the kernels"),
        tr(
            "{where}; cost {source}; device at its floor; added to it, or hidden behind it",
            where=where,
            source=source,
        )
        if where
        else tr("cost {source}; device at its floor; added to it, or hidden behind it", source=source),
    )
    yield _launches(found.launch_costs, found.batch, width, unicode=unicode)
    yield indented(Text(kernels_and_launches(), style="dim"))
    if found.all_reduce is not None:
        yield ""
        reduce = found.all_reduce
        yield indented(
            Text(
                tr(
                    "{number} all-reduces over {devices} devices: at least {floor}, {expected} expected (assumed: "
                    "{each} each, links as their makers print them)",
                    number=format_count(reduce.count),
                    devices=reduce.devices,
                    floor=format_time(reduce.floor_s, unicode=unicode),
                    expected=format_time(reduce.expected_s, unicode=unicode),
                    each=format_time(USUAL_ALL_REDUCE_S, digits=2, unicode=unicode),
                )
            )
        )
    yield ""
    yield heading(tr("By batch"), tr("expected, {context} tokens in each cache", context=f"{found.context:,}"))
    yield _sweep(found.sweep, width, by="batch", unicode=unicode)
    yield indented(Text(turning_points(found)))
    yield ""
    yield heading(tr("By context"), tr("expected, batch {batch}", batch=f"{found.batch:,}"))
    yield _sweep(found.context_sweep, width, by="context", unicode=unicode)
    yield ""
    yield from _prefill(found, unicode=unicode)
    if found.notes:
        yield ""
        yield heading(tr("Notes"))
        yield bullets(((Text(clean(note, unicode=unicode)), "") for note in found.notes), mark="  -", mark_width=4)
    yield ""
    yield Text(
        tr(
            "Next     {command}",
            command=tr("{command}, which shows how far such estimates were off", command="boundby validate"),
        )
    )


def decode_sentence(found: DecodeEstimate, *, unicode: bool) -> str:
    """How fast it decodes, what a step takes and what its floor is."""
    step = found.step
    place = found.hardware if found.devices == 1 else f"{found.devices:g} x {found.hardware}"
    rate = tr("{rate} tokens/s", rate=_rate(step.tokens_per_s_user))
    if found.batch != 1:
        rate = tr("{rate} for each of {batch}", rate=rate, batch=f"{found.batch:,}")
    said = tr(
        "{model} on {place}, {weights}: {rate}, {time} a step; the floor is {floor}, bound by {bound}",
        model=elide(found.model, _LONGEST_NAME, unicode=unicode),
        place=place,
        weights=found.weights,
        rate=rate,
        time=format_time_band(step.step_s.value, step.step_s.low, step.step_s.high, unicode=unicode),
        floor=format_time(step.floor_s, unicode=unicode),
        bound=bound_words(step.bound),
    )
    return tr("{said}; it does not fit in the memory.", said=said) if step.fits is False else tr("{said}.", said=said)


def _rate(rate: Interval) -> str:
    digits = digits_for(rate.value, rate.low, rate.high)
    value, low, high = (f"{_rounded(one, digits):,.6g}" for one in (rate.value, rate.low, rate.high))
    return value if low == high else f"{value} ({low}-{high})"


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def _facts(found: DecodeEstimate, *, unicode: bool, default_hardware: bool) -> Table:
    rows = decode_facts(found)
    if default_hardware:
        rows.append(("", tr("{hardware} is the default; --hardware names another, or 'here'", hardware=found.hardware)))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(Text(name, style="bold"), Text(clean(text, unicode=unicode)))
    return table


def decode_facts(found: DecodeEstimate) -> list[tuple[str, str]]:
    """What the estimate is of: the model, its cache, the hardware and the engine, each with its name."""
    peak = (
        tr("no 16-bit peak known")
        if found.peak_flops_per_s is None
        else tr("{peak} dense", peak=format_si(found.peak_flops_per_s, "FLOP/s"))
    )
    memory = tr("memory size unknown") if found.memory_bytes is None else format_si(found.memory_bytes, "B")
    source = {"datasheet": tr("data sheet"), "measured": tr("measured"), "file": tr("from the file")}[
        found.hardware_source
    ]
    engine = (
        tr("{engine}: {about}", engine=found.engine, about=engine_words(found.engine_about))
        if found.engine_known
        else tr("none named: {engine} kernels", engine=found.engine)
    )
    issued = tr("one graph a step") if found.graphs else tr("kernels issued one by one")
    parameters = tr("{number} parameters", number=_many(found.parameters_total))
    if found.parameters_total != found.parameters_active:
        parameters = tr("{parameters}, {number} active", parameters=parameters, number=_many(found.parameters_active))
    model = tr(
        "{parameters}, {read} read a step; {size} in {weights}",
        parameters=parameters,
        read=_many(found.parameters_streamed),
        size=format_si(found.model_bytes, "B"),
        weights=found.weights,
    )
    cache = tr(
        "{number} bytes a token in {cache}; {size} at {context} tokens",
        number=f"{found.cache_bytes_per_token:,.0f}",
        cache=found.cache,
        size=format_si(found.cache_bytes_one, "B"),
        context=f"{found.context:,}",
    )
    hardware = tr(
        "{rate}, {peak}, {memory} ({source})",
        rate=format_si(found.bytes_per_s, "B/s"),
        peak=peak,
        memory=memory,
        source=source,
    )
    return [
        (tr("Model"), model),
        (tr("Cache"), cache),
        (tr("Hardware"), hardware),
        (tr("Engine"), tr("{engine} ({issued})", engine=engine, issued=issued)),
    ]


def _many(number: float) -> str:
    return format_si(number, "", digits=4).strip()


def _calibration(found: DecodeEstimate) -> str:
    if not found.calibrated_here:
        return tr(
            "calibrated on {rows} published rows, none of this engine on such hardware", rows=found.calibrated_rows
        )
    return tr(
        "calibrated on {rows} published rows, {here} of this engine on such hardware",
        rows=found.calibrated_rows,
        here=found.calibrated_here,
    )


def _shares(found: DecodeEstimate, width: int, *, unicode: bool) -> Table:
    parts = found.parts
    total = found.step.step_s.value
    between = max(0.0, total - parts.step_s) if found.all_reduce is not None else 0.0
    rows = [
        (tr("weights"), parts.weights_s),
        (tr("products"), parts.products_s),
        (tr("cache and attention"), parts.cache_s),
        (tr("unpacking weights"), parts.unpack_s),
        (tr("launching kernels"), parts.launches_s),
        (tr("host"), parts.host_s),
        (tr("between devices"), between),
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


def _kernels(found: DecodeEstimate, width: int, *, unicode: bool) -> Table:
    wide = width >= _WIDE
    head = ["", tr("kernels"), tr("bytes"), "FLOP", tr("floor"), tr("bound")]
    if not wide:
        head = [head[0], head[1], head[4]]
    table = _grid(head)
    for kernel in found.kernels:
        cells = [
            f"  {kernel_words(kernel.name)}",
            format_count(kernel.launches),
            format_si(kernel.bytes_read, "B") if kernel.bytes_read else "-",
            format_si(kernel.flops, "") if kernel.flops else "-",
            format_time(kernel.floor_s, unicode=unicode) if kernel.floor_s else "-",
            bound_words(kernel.bound),
        ]
        table.add_row(*map(Text, cells if wide else [cells[0], cells[1], cells[4]]))
    return table


def _launches(costs: Sequence[LaunchCost], batch: int, width: int, *, unicode: bool) -> Table:
    wide = width >= _WIDE
    head = ["", tr("kernels"), tr("cost"), tr("added"), tr("launch"), tr("hidden")]
    head.append(tr("tokens/s") if batch == 1 else tr("tokens/s in all"))
    if not wide:
        head = [head[0], head[2], head[3], head[5]]
    table = _grid(head)
    for one in costs:
        low, high = batch / one.serial_s, batch / one.overlapped_s
        ends = [f"{_rounded(end, 3):,.6g}" for end in (low, high)]
        cells = [
            f"  {partition_words(one.partition)}",
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
    head = [
        f"  {tr('batch') if by == 'batch' else tr('context')}",
        *(tr("step"), tr("a user"), tr("all"), "MBU", "MFU"),
        tr("launch"),
        *((tr("experts"),) if sparse else ()),
        tr("fits"),
    ]
    table = _grid(head if wide else [head[0], head[1], head[3], head[-1]], gap=1 if sparse else 2)
    for one in steps:
        band = one.step_s
        fits = fits_words(one.fits)
        cells = [
            f"  {one.batch if by == 'batch' else one.context:,}",
            format_time_band(band.value, band.low, band.high, unicode=unicode),
            f"{_rounded(one.tokens_per_s_user.value, 2):,.6g}/s",
            f"{_rounded(one.tokens_per_s.value, 2):,.6g}/s",
            format_percent(one.mbu.value),
            tr("unknown") if one.mfu is None else format_percent(one.mfu.value),
            format_percent(one.launch_share),
            *([f"{one.experts_read:,.1f}" if one.experts_read is not None else "-"] if sparse else []),
            fits,
        ]
        narrow = [cells[0], format_time(band.value, digits=2, unicode=unicode), cells[3], fits]
        table.add_row(*map(Text, cells if wide else narrow))
    return table


def kernels_and_launches() -> str:
    """What is counted, and what is a share of a step."""
    return tr(
        "kernels: how many a step runs, which writes one token of each sequence; launch: the part of a step that goes "
        "to launching them from the host, by batch and by context with the host's other work."
    )


def turning_points(found: DecodeEstimate) -> str:
    """From which batch on compute binds, and at which memory is full."""
    if found.peak_flops_per_s is None:
        compute = tr("Where compute binds is unknown without a peak.")
    elif found.compute_bound_batch is None:
        compute = tr("Compute binds at no batch.")
    else:
        batch = f"{found.compute_bound_batch:,}"
        if found.step_compute_bound_batch is None:
            compute = tr(
                "Multiplying by the weights takes longer than reading them from batch {batch} on; with the cache read "
                "as well, compute binds at no batch.",
                batch=batch,
            )
        else:
            compute = tr(
                "Multiplying by the weights takes longer than reading them from batch {batch} on, with the cache read "
                "as well from {step_batch} on.",
                batch=batch,
                step_batch=f"{found.step_compute_bound_batch:,}",
            )
    if found.memory_full_batch is None:
        memory = tr("Where memory is full is unknown without its size.")
    elif found.memory_full_batch == 0:
        memory = tr("Memory does not hold the weights and one cache.")
    else:
        memory = tr(
            "Memory is full at batch {batch}, with {share} of it kept for activations and the engine.",
            batch=f"{found.memory_full_batch:,}",
            share=format_percent(1 - USABLE_MEMORY),
        )
    return tr("{first} {then}", first=compute, then=memory)


def _prefill(found: DecodeEstimate, *, unicode: bool) -> Iterator[RenderableType]:
    prefill = found.prefill
    yield heading(
        tr("Prefill"),
        tr(
            "a prompt of {tokens}, {flops}",
            tokens=trn("{count} token", "{count} tokens", prefill.tokens),
            flops=format_si(prefill.flops, "FLOP"),
        ),
    )
    if prefill.expected_s is None:
        yield indented(Text(tr("unknown: no peak of 16-bit products is known")))
        return
    band = prefill.expected_s
    yield indented(
        Text(
            tr(
                "{time} expected, at {share} of the peak; floor {floor}",
                time=format_time_band(band.value, band.low, band.high, unicode=unicode),
                share=format_percent_range(0.35, 0.8),
                floor=format_time(prefill.floor_s, unicode=unicode),
            )
        )
    )


def _grid(head: Sequence[str], *, gap: int = 2) -> Table:
    table = Table.grid(padding=(0, gap, 0, 0))
    for index, _ in enumerate(head):
        table.add_column(justify="left" if index == 0 else "right", overflow="fold")
    table.add_row(*(Text(one, style="dim") for one in head))
    return table
