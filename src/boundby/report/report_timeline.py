"""One step along time on a report's page: its phases as rows, stretches of ops as bars."""

from __future__ import annotations

from collections.abc import Iterator

from boundby.report.chart import Axis, Bar, Chart, Look
from boundby.report.document import Block, Paragraph, Section, Table
from boundby.report.report_words import listed, phase_name, short_name
from boundby.results.language import tr, trn
from boundby.results.report import Report, TimelineSpan
from boundby.results.units import format_count, format_percent, format_time

# From this share of a step on, waiting for input is worth a word where it is missing.
_SOME_INPUT = 0.01
PHASES = ("forward", "backward", "optimizer", "other", "gap")


def timeline_section(report: Report) -> Section | None:
    """One step by phase; None where the report holds no timeline."""
    if not report.timeline:
        return None
    return Section(title=tr("One step along time"), blocks=tuple(_blocks(report)))


def _blocks(report: Report) -> Iterator[Block]:
    yield _chart(report)
    yield _table(report)
    note = tr("A step as it was watched, less the cost of the watching; pauses under 1% of it belong to their stretch.")
    yield Paragraph(text=note, note=True)


def _chart(report: Report) -> Chart:
    spans = report.timeline
    seen = [phase for phase in PHASES if any(one.phase == phase for one in spans)]
    look: Look = "modelled" if report.modelled_for is not None else "measured"
    total = _end(spans)
    told = listed(
        [
            f"{phase_name(phase)} {format_percent(sum(one.time_s for one in spans if one.phase == phase) / total)}"
            for phase in seen
        ]
    )
    return Chart(
        name="timeline",
        title=tr("One step by phase"),
        summary=_summary(report, total, told),
        x=Axis(name=tr("time"), unit="s"),
        y=Axis(name="", scale="category", categories=tuple(map(phase_name, seen))),
        bars=tuple(_bar(one, look) for one in spans),
    )


def _summary(report: Report, total: float, phases: str) -> str:
    """How long the drawn step is and its phases; it is shorter than the report's where that waits for its input."""
    if report.split.input.value < _SOME_INPUT:
        return tr("A step of {time} as it was watched: {phases}.", time=format_time(total), phases=phases)
    return tr(
        "A step as it was watched takes {time} beside its wait for a DataLoader, which is not drawn: {phases}.",
        time=format_time(total),
        phases=phases,
    )


def _end(spans: tuple[TimelineSpan, ...]) -> float:
    return spans[-1].start_s + spans[-1].time_s or 1.0


def _bar(span: TimelineSpan, look: Look) -> Bar:
    details = []
    if span.ops:
        details.append(
            trn(
                "{count} op, which takes {time} of it",
                "{count} ops, which take {time} of it",
                span.ops,
                time=format_time(span.op_s, digits=2),
            )
        )
    return Bar(
        category=phase_name(span.phase),
        value=span.time_s,
        start=span.start_s,
        group=phase_name(span.phase),
        label=short_name(span.module) if span.module else "",
        details=tuple(details),
        look=look,
    )


def _table(report: Report) -> Table:
    """Each phase's ops, from all of the step's and not from the stretches drawn."""
    rows = []
    for phase in PHASES[:-1]:
        ops = [one for one in report.ops if one.phase == phase]
        if ops:
            rows.append(
                (
                    phase_name(phase),
                    format_count(sum(one.calls for one in ops)),
                    format_time(sum(one.time_s for one in ops)),
                    format_percent(sum(one.share for one in ops)),
                )
            )
    between = _end(report.timeline) - sum(one.op_s for one in report.timeline)
    rows.append((tr("between ops"), "", format_time(between), ""))
    return Table(
        caption=tr("Time in ops by phase"),
        head=(tr("Phase"), tr("Ops"), tr("Time in ops"), tr("Of the step")),
        rows=tuple(rows),
        numeric=(1, 2, 3),
    )
