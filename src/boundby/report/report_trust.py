"""How far to trust a report, on its page: reconciliation, findings, what could not be modelled; and the machine."""

from __future__ import annotations

from collections.abc import Iterator

from boundby.report.document import Block, Bullets, Paragraph, Section, Table
from boundby.report.machine_summary import best_products, is_main, levels_of, of_kind, typical_curve
from boundby.report.report_words import (
    ended_findings,
    followed,
    modelled_text,
    place_of,
    reconciliation_text,
    sentence,
    short_name,
    step_kinds_text,
)
from boundby.results.interval import Interval
from boundby.results.language import tr, trn
from boundby.results.machine import Ceiling, Finding, Machine
from boundby.results.op_names import op_name
from boundby.results.report import Report
from boundby.results.units import (
    digits_for,
    format_count,
    format_percent,
    format_rate,
    format_size,
    format_time,
)

_MOST_UNMODELLED = 12


def trust_section(report: Report) -> Section:
    """Whether the parts add up to the whole, what could have spoilt the measurement, and what is not modelled."""
    return Section(title=tr("How far to trust this"), blocks=tuple(_trust(report)))


def _trust(report: Report) -> Iterator[Block]:
    yield Bullets(items=tuple(_statements(report)))
    ended = ended_findings(report)
    findings = [one for one in report.findings if one.about == "measurement" and one not in ended]
    if findings:
        yield Paragraph(text=tr("What could spoil the measurement:"))
        yield Bullets(items=tuple(finding_told(one) for one in findings))
    if report.counts.unmodelled:
        yield _unmodelled(report)


def script_section(report: Report, *, folder: str | None) -> Section | None:
    """What was found in the script that no ceiling shows; None without any."""
    findings = [one for one in report.findings if one.about == "script"]
    if not findings:
        return None
    rows = tuple(
        (
            one.code,
            "" if one.path is None else place_of(one.path, one.line, folder),
            tr("unknown") if one.time_s is None else format_time(one.time_s.value, digits=2),
            "" if one.time_s is None else _seconds_between(one.time_s),
        )
        for one in findings
    )
    table = Table(
        caption=tr("What no ceiling shows"),
        head=(tr("Found"), tr("Source line"), tr("Costs a step"), tr("Between")),
        rows=rows,
        numeric=(2, 3),
    )
    return Section(
        title=tr("Found in the script"), blocks=(table, Bullets(items=tuple(finding_told(one) for one in findings)))
    )


def _seconds_between(cost: Interval) -> str:
    low, high = format_time(cost.low, digits=2), format_time(cost.high, digits=2)
    return "" if low == high else tr("{low} to {high}", low=low, high=high)


def finding_told(finding: Finding) -> str:
    """What was found, what to do about it, and the code that leads to more."""
    return f"{followed(sentence(finding.message), sentence(finding.advice))} [{finding.code}]"


def _statements(report: Report) -> Iterator[str]:
    yield reconciliation_text(report)
    if report.counts.unmodelled:
        shares = [one.share for one in report.counts.unmodelled if one.share is not None]
        if shares:
            share = format_percent(sum(shares))
            at_least = len(shares) < len(report.counts.unmodelled)
            yield (
                tr("Ops that could not be modelled take at least {share} of the step.", share=share)
                if at_least
                else tr("Ops that could not be modelled take {share} of the step.", share=share)
            )
        else:
            yield tr("Some ops could not be modelled; their share of the step is unknown.")
    elif report.counts.ops:
        yield modelled_text(report, lambda name: short_name(op_name(name)))
    else:
        yield tr("No op was seen, so none was modelled.")
    total = len(report.machine.ceilings)
    others = sum(one.source != "measured" for one in report.machine.ceilings)
    if not total:
        yield tr("No limit of this machine was measured, so no floor is known.")
    elif others:
        yield tr(
            "Not measured on this machine: {others} of the {total} limits.", others=f"{others:,}", total=f"{total:,}"
        )
    kinds = step_kinds_text(report)
    if kinds:
        yield kinds


def _unmodelled(report: Report) -> Table:
    ops = sorted(report.counts.unmodelled, key=lambda one: one.share or 0.0, reverse=True)
    rows = [
        (
            short_name(op_name(one.name)),
            format_count(one.calls),
            tr("unknown") if one.share is None else format_percent(one.share),
        )
        for one in ops[:_MOST_UNMODELLED]
    ]
    rest = ops[_MOST_UNMODELLED:]
    if rest:
        calls = format_count(sum(one.calls for one in rest))
        shares = [one.share for one in rest if one.share is not None]
        share = format_percent(sum(shares)) if len(shares) == len(rest) else tr("unknown")
        rows.append((trn("{count} more op", "{count} more ops", len(rest)), calls, share))
    return Table(
        caption=tr("Ops that could not be modelled"),
        head=(tr("Op"), tr("Calls"), tr("Of the step")),
        rows=tuple(rows),
        numeric=(1, 2),
    )


def machine_section(report: Report) -> Section:
    """The computer that the report is of, and the ceilings that its verdict rests on most."""
    return Section(title=tr("The machine"), blocks=tuple(_machine(report)))


def _machine(report: Report) -> Iterator[Block]:
    about = report.machine.description
    unknown = tr("unknown")
    cores = trn("{count} usable", "{count} usable", about.usable_cores)
    if about.logical_cores is not None:
        cores = tr("{usable} of {all} logical cores", usable=cores, all=f"{about.logical_cores:,}")
    memory = unknown if about.memory_bytes is None else format_size(about.memory_bytes)
    if about.memory_limit_bytes is not None:
        memory = tr("{memory}, limited to {limit}", memory=memory, limit=format_size(about.memory_limit_bytes))
    rows = [
        (tr("Processor"), about.cpu or unknown),
        (tr("Cores"), cores),
        (tr("Threads of the step"), f"{report.step.threads:,}"),
        (tr("Memory"), memory),
        (tr("Device of the ops"), about.device_name or report.step.device),
        (tr("System"), about.os),
        ("Python", about.python),
        ("torch", about.torch or unknown),
        (tr("Ceilings measured at"), about.measured_at or unknown),
    ]
    if report.modelled_for is not None:
        here = report.modelled_for.measured_on
        yield Paragraph(
            text=tr(
                "The steps ran on {here}; what follows is the machine they are modelled for.", here=here.cpu or unknown
            )
        )
    yield Table(caption=tr("Description"), head=(tr("What"), tr("Value")), rows=tuple(rows))
    ceilings = tuple(_ceilings(report.machine))
    if ceilings:
        yield Table(
            caption=tr("Ceilings, as far as they matter most"),
            head=(tr("Ceiling"), tr("Value"), tr("Between"), tr("How")),
            rows=ceilings,
            numeric=(1, 2),
        )


def _ceilings(machine: Machine) -> Iterator[tuple[str, ...]]:
    peaks: dict[str, Ceiling] = {}
    for (_, dtype), one in best_products(machine).items():
        if dtype not in peaks or one.value > peaks[dtype].value:
            peaks[dtype] = one
    for dtype, one in sorted(peaks.items(), key=lambda item: -item[1].value):
        yield _row(tr("matrix products, {dtype}", dtype=dtype), one)
    curve = typical_curve(machine)
    if curve:
        for level in levels_of(curve):
            rate = level.bytes_per_s
            if rate.value > curve[-1].value:
                name = tr("memory up to {size}", size=format_size(level.largest_bytes, digits=2))
                digits = digits_for(rate.value, rate.low, rate.high)
                yield (
                    name,
                    format_rate(rate.value, "byte/s", digits=digits),
                    _between(rate.low, rate.high, "byte/s", digits),
                    _source(curve[-1]),
                )
        yield _row(tr("main memory ({traffic})", traffic=curve[-1].name), curve[-1])
    overheads = {one.name: one for one in of_kind(machine, "overhead", "launch") if is_main(one, machine)}
    faults = next((one for one in of_kind(machine, "overhead") if one.name == "page_fault"), None)
    if "pointwise" in overheads:
        yield _row(tr("an op at least"), overheads["pointwise"])
    if faults is not None:
        yield _row(tr("a page fault"), faults)


def _row(name: str, one: Ceiling) -> tuple[str, ...]:
    digits = digits_for(one.value, one.low, one.high)
    return (
        name,
        format_rate(one.value, one.unit, digits=digits),
        _between(one.low, one.high, one.unit, digits),
        _source(one),
    )


def _between(low: float, high: float, unit: str, digits: int) -> str:
    return tr("{low} to {high}", low=format_rate(low, unit, digits=digits), high=format_rate(high, unit, digits=digits))


def _source(one: Ceiling) -> str:
    return {
        "measured": tr("measured"),
        "modelled": tr("modelled"),
        "datasheet": tr("from a datasheet"),
    }[one.source]
