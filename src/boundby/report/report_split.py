"""The split on a report's page: the whole step as one bar, each share with its band, and the same as a table."""

from __future__ import annotations

from collections.abc import Iterator

from boundby.report.chart import Axis, Bar, Chart, Look
from boundby.report.document import Block, Paragraph, Section, Table
from boundby.report.report_words import (
    faults_text,
    listed,
    no_split_text,
    percent_band,
    sentence,
    share_meaning,
    share_name,
)
from boundby.results.interval import Interval
from boundby.results.language import tr, trn
from boundby.results.report import SHARES, Report
from boundby.results.units import digits_for, format_percent, format_time

PARTS = ("dispatch", "host", "allocation")
# A share whose band ends below this is left out of the picture; the table has it.
_NOTHING = 0.001


def split_section(report: Report) -> Section:
    """Where the time of a step goes."""
    return Section(title=tr("Where the time of a step goes"), blocks=tuple(_blocks(report)))


def _blocks(report: Report) -> Iterator[Block]:
    if report.step.steps_watched == 0:
        yield Paragraph(text=tr("Unknown: no step was watched."))
        return
    if why := no_split_text(report):
        yield Paragraph(text=sentence(why[:1].upper() + why[1:]))
        return
    yield _chart(report)
    yield _table(report)


def _shares(report: Report) -> dict[str, Interval]:
    return {name: getattr(report.split, name) for name in SHARES}


def _chart(report: Report) -> Chart:
    """The whole step as a bar of its shares, and under it each share by itself with its band."""
    look: Look = "modelled" if report.modelled_for is not None else "measured"
    whole = tr("the step")
    shares = {name: one for name, one in _shares(report).items() if one.high >= _NOTHING or one.value >= _NOTHING}
    bars = []
    start = 0.0
    for name, one in shares.items():
        if one.value > 0:
            bars.append(
                Bar(
                    category=whole,
                    value=one.value,
                    start=start,
                    group=share_name(name),
                    label=share_name(name),
                    details=(share_meaning(name),),
                    look=look,
                )
            )
            start += one.value
    bars += [
        Bar(
            category=share_name(name),
            value=one.value,
            low=one.low,
            high=one.high,
            group=share_name(name),
            details=(share_meaning(name),),
            look=look,
        )
        for name, one in shares.items()
    ]
    told = listed([f"{share_name(name)} {format_percent(one.value)}" for name, one in _by_size(shares)])
    return Chart(
        name="split",
        title=tr("Shares of the step's time"),
        summary=tr("Of the step's {time}: {shares}.", time=_time(report), shares=told),
        x=Axis(name=tr("share of the step"), unit="%"),
        y=Axis(name="", scale="category", categories=(whole, *map(share_name, shares))),
        bars=tuple(bars),
    )


def _time(report: Report) -> str:
    time_s = report.step.time_s
    return format_time(time_s.median, digits=digits_for(time_s.median, time_s.low, time_s.high))


def _by_size(shares: dict[str, Interval]) -> list[tuple[str, Interval]]:
    return sorted(shares.items(), key=lambda item: -item[1].value)


def _table(report: Report) -> Table:
    rows = []
    time_s = report.step.time_s.median
    for name, one in _shares(report).items():
        rows.append(
            (
                share_name(name),
                format_percent(one.value),
                percent_band(one),
                format_time(one.value * time_s, digits=2) if report.step.steps_timed else "",
                share_meaning(name),
            )
        )
        if name == "overhead":
            rows += [_part(report, part) for part in PARTS]
    return Table(
        caption=tr("The split"),
        head=(tr("Share"), tr("Of the step"), tr("Between"), tr("Time"), tr("What it goes into")),
        rows=tuple(rows),
        numeric=(1, 2, 3),
    )


def _part(report: Report, part: str) -> tuple[str, str, str, str, str]:
    value: float = getattr(report.overhead_parts, part)
    name = {
        "dispatch": tr("of it dispatch"),
        "host": tr("of it host code"),
        "allocation": tr("of it allocation"),
    }[part]
    meaning = share_meaning(part)
    if part == "dispatch" and report.counts.ops:
        meaning = trn("the fixed cost of {count} op", "the fixed cost of {count} ops", report.counts.ops)
    if part == "allocation":
        meaning = faults_text(report)
    time = format_time(value * report.step.time_s.median, digits=2) if report.step.steps_timed else ""
    return name, format_percent(value), "", time, meaning
