"""An estimate of decoding as a page: the answer, where a step goes, its floors, and both sweeps as charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from boundby.llm.decode import DecodeEstimate, LaunchCost, Step
from boundby.report.chart import Axis, Bar, Chart, Line, Look
from boundby.report.decode_page import decode_facts, decode_sentence, turning_points
from boundby.report.decode_words import bound_words, devices_words, kernel_words, launch_source_words, partition_words
from boundby.report.document import Block, Bullets, Document, Paragraph, Section, Table
from boundby.results.interval import Interval
from boundby.results.language import language, tr, trn
from boundby.results.units import format_count, format_percent, format_si, format_time, format_time_band


def decode_document(estimate: DecodeEstimate) -> Document:
    """The estimate as a page for `report.html` or `report.markdown`.

    Args:
        estimate: what to show; nothing in it was measured, but the hardware's limits where they are of this machine.
    """
    return Document(
        title=tr(
            "{model} on {hardware}, {weights}",
            model=estimate.model,
            hardware=estimate.hardware,
            weights=estimate.weights,
        ),
        lead=(
            Paragraph(text=decode_sentence(estimate, unicode=True), emphasis=True),
            Paragraph(text=_trust(estimate), note=True),
            Table(caption=tr("What the estimate is of"), head=("", ""), rows=tuple(decode_facts(estimate))),
        ),
        sections=tuple(_sections(estimate)),
        language=language(),
    )


def _trust(found: DecodeEstimate) -> str:
    rows = trn("{count} published measurement", "{count} published measurements", found.calibrated_rows)
    if not found.calibrated_here:
        return tr(
            "On paper: nothing was run. Floors are physics; expected times are calibrated on {rows}, none of this "
            "engine on such hardware.",
            rows=rows,
        )
    return tr(
        "On paper: nothing was run. Floors are physics; expected times are calibrated on {rows}, {here} of this engine "
        "on such hardware.",
        rows=rows,
        here=format_count(found.calibrated_here),
    )


def _sections(found: DecodeEstimate) -> Iterator[Section]:
    yield Section(title=tr("Where an expected step goes"), blocks=(_parts(found), _kernels(found)))
    yield Section(title=tr("By batch"), blocks=tuple(_batches(found)))
    yield Section(title=tr("By context"), blocks=(_contexts(found),))
    yield Section(title=tr("Launching the kernels"), blocks=tuple(_launches(found)))
    yield Section(title=tr("Prefill"), blocks=(_prefill(found),))
    if found.notes:
        yield Section(title=tr("Notes"), blocks=(Bullets(items=found.notes),))


def _parts(found: DecodeEstimate) -> Chart:
    parts = found.parts
    between = max(0.0, found.step.step_s.value - parts.step_s) if found.all_reduce is not None else 0.0
    named = {
        tr("weights"): parts.weights_s,
        tr("products"): parts.products_s,
        tr("cache and attention"): parts.cache_s,
        tr("unpacking weights"): parts.unpack_s,
        tr("launching kernels"): parts.launches_s,
        tr("host"): parts.host_s,
        tr("between devices"): between,
    }
    shown = {name: seconds for name, seconds in named.items() if seconds > 0}
    largest = max(shown, key=lambda name: shown[name], default="")
    return Chart(
        name="parts",
        title=tr("The parts of an expected step"),
        summary=tr(
            "A step takes {time}; the largest part: {part}.",
            time=format_time_band(found.step.step_s.value, found.step.step_s.low, found.step.step_s.high),
            part=largest,
        ),
        x=Axis(name=tr("time in a step"), unit="s"),
        y=Axis(name=tr("part"), scale="category", categories=tuple(shown)),
        bars=tuple(
            Bar(
                category=name,
                value=seconds,
                look="modelled",
                details=(tr("{share} of the step", share=format_percent(seconds / found.step.step_s.value)),),
            )
            for name, seconds in shown.items()
        ),
    )


def _kernels(found: DecodeEstimate) -> Table:
    where = devices_words(found.devices)
    return Table(
        caption=tr("Floors by kernel {where}: bytes over bandwidth, FLOP over the peak", where=where)
        if where
        else tr("Floors by kernel: bytes over bandwidth, FLOP over the peak"),
        head=(tr("Kernel"), tr("How many"), tr("Bytes"), "FLOP", tr("Floor"), tr("Bound by")),
        rows=tuple(
            (
                kernel_words(one.name),
                format_count(one.launches),
                format_si(one.bytes_read, "B"),
                format_si(one.flops, ""),
                format_time(one.floor_s),
                bound_words(one.bound),
            )
            for one in found.kernels
        ),
        numeric=(1, 2, 3, 4),
    )


def _batches(found: DecodeEstimate) -> Iterator[Block]:
    yield Chart(
        name="batch",
        title=tr("Tokens a second in all, by batch"),
        summary=_with_band(tr("With {context} tokens in each cache.", context=format_count(found.context))),
        x=Axis(name=tr("batch"), scale="log"),
        y=Axis(name=tr("tokens a second"), scale="log"),
        lines=_lines(
            found,
            found.sweep,
            across=lambda one: float(one.batch),
            expected=lambda one: one.tokens_per_s,
            limit=lambda one: one.batch / one.floor_s,
        ),
    )
    yield Paragraph(text=turning_points(found))


def _contexts(found: DecodeEstimate) -> Chart:
    return Chart(
        name="context",
        title=tr("Time of a step, by context"),
        summary=_with_band(tr("At batch {batch}.", batch=format_count(found.batch))),
        x=Axis(name=tr("tokens in each cache"), scale="log"),
        y=Axis(name=tr("time of a step"), unit="s", scale="log"),
        lines=_lines(
            found,
            found.context_sweep,
            across=lambda one: float(one.context),
            expected=lambda one: one.step_s,
            limit=lambda one: one.floor_s,
        ),
    )


def _with_band(said: str) -> str:
    return tr("{first} {then}", first=said, then=tr("Expected with its band, and what physics allows at most."))


def _lines(
    found: DecodeEstimate,
    steps: Sequence[Step],
    *,
    across: Callable[[Step], float],
    expected: Callable[[Step], Interval],
    limit: Callable[[Step], float],
) -> tuple[Line, ...]:
    x = tuple(across(one) for one in steps)
    values = [expected(one) for one in steps]
    return (
        Line(
            name=tr("expected"),
            x=x,
            y=tuple(one.value for one in values),
            low=tuple(one.low for one in values),
            high=tuple(one.high for one in values),
            look="modelled",
            labels=tuple(map(_step_words, steps)),
        ),
        Line(name=tr("limit by floors"), x=x, y=tuple(map(limit, steps)), look=_floor_look(found)),
    )


def _floor_look(found: DecodeEstimate) -> Look:
    """Floors come from the hardware's figures alone."""
    return "datasheet" if found.hardware_source == "datasheet" else "modelled"


def _step_words(step: Step) -> str:
    fits = {None: tr("whether it fits is unknown"), True: tr("fits"), False: tr("does not fit in memory")}[step.fits]
    return tr(
        "{time} a step, {rate} tokens/s a user; MBU {mbu}, MFU {mfu}; {fits}",
        time=format_time(step.step_s.value, digits=2),
        rate=f"{float(f'{step.tokens_per_s_user.value:.2g}'):,g}",
        mbu=format_percent(step.mbu.value),
        mfu=tr("unknown") if step.mfu is None else format_percent(step.mfu.value),
        fits=fits,
    )


def _launches(found: DecodeEstimate) -> Iterator[Block]:
    rows = tuple(found.launch_costs)
    names = [
        tr(
            "{partition}, {time} a launch",
            partition=partition_words(one.partition),
            time=format_time(one.launch_s, digits=2),
        )
        for one in rows
    ]
    device, launches = tr("device at its floor"), tr("launching kernels")
    yield Chart(
        name="launches",
        title=tr("A step, if every launch adds its cost"),
        summary=tr(
            "Cost of a launch: {source}. Where launches hide behind the device, a step takes the longer of the two.",
            source=launch_source_words(found.launch_source),
        ),
        x=Axis(name=tr("time of a step"), unit="s"),
        y=Axis(name="", scale="category", categories=tuple(dict.fromkeys(names))),
        bars=tuple(
            bar for name, one in zip(names, rows, strict=True) for bar in _launch_bars(name, one, device, launches)
        ),
    )
    where = devices_words(found.devices)
    rate = tr("Tokens/s") if found.batch == 1 else tr("Tokens/s in all")
    yield Table(
        caption=tr("Launches {where}, added to the device's floor, or hidden behind it", where=where)
        if where
        else tr("Launches added to the device's floor, or hidden behind it"),
        head=(tr("Cut"), tr("Kernels"), tr("Cost"), tr("Added"), tr("Of it launching"), tr("Hidden"), rate),
        rows=tuple(
            (
                partition_words(one.partition),
                format_count(one.launches),
                format_time(one.launch_s, digits=2),
                format_time(one.serial_s),
                format_percent(one.overhead),
                format_time(one.overlapped_s),
                _between(found.batch / one.serial_s, found.batch / one.overlapped_s),
            )
            for one in rows
        ),
        numeric=(1, 2, 3, 4, 5, 6),
    )


def _between(low: float, high: float) -> str:
    first, last = (f"{float(f'{end:.3g}'):,g}" for end in (low, high))
    return first if first == last else tr("{low} to {high}", low=first, high=last)


def _launch_bars(name: str, cost: LaunchCost, device: str, launches: str) -> tuple[Bar, Bar]:
    busy = cost.serial_s * (1 - cost.overhead)
    return (
        Bar(category=name, value=busy, group=device, look="modelled"),
        Bar(category=name, start=busy, value=cost.serial_s - busy, group=launches, look="modelled"),
    )


def _prefill(found: DecodeEstimate) -> Paragraph:
    prefill = found.prefill
    prompt = trn("A prompt of {count} token", "A prompt of {count} tokens", prefill.tokens)
    if prefill.expected_s is None:
        return Paragraph(text=tr("{prompt}: unknown, since no peak of 16-bit products is known.", prompt=prompt))
    band = prefill.expected_s
    return Paragraph(
        text=tr(
            "{prompt}, {flops}: {time} expected; the floor is {floor}.",
            prompt=prompt,
            flops=format_si(prefill.flops, "FLOP"),
            time=format_time_band(band.value, band.low, band.high),
            floor=format_time(prefill.floor_s),
        )
    )
