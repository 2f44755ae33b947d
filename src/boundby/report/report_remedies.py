"""Remedies on a report's page: what each should do, what it did where it was tried, and how to apply it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from boundby.report.chart import Axis, Bar, Chart, Look
from boundby.report.document import Block, Bullets, Paragraph, Section, Table
from boundby.report.remedies_text import past_trials_sentence
from boundby.report.remedy_words import (
    advice,
    effect,
    is_dismissed,
    is_tried,
    is_without_result,
    measured_parts,
    threshold,
    times,
    to_do,
    trials_sentence,
    tried_title,
)
from boundby.report.report_words import followed, sentence
from boundby.results.language import tr
from boundby.results.remedy import Remedy
from boundby.results.report import Report

_MODELLED: Look = "modelled"
_MEASURED: Look = "measured"


def remedies_section(report: Report) -> Section | None:
    """What would help, and what helped; None where no remedy was looked at."""
    if not report.remedies:
        return None
    tried = any(is_tried(one) for one in report.remedies)
    title = tried_title(report.remedies) if tried else tr("What would help")
    return Section(title=title, blocks=tuple(_blocks(report)))


def _blocks(report: Report) -> Iterator[Block]:
    remedies = report.remedies
    known = [
        replace(one, measured=None) if not _has_result(one) else one
        for one in remedies
        if one.predicted is not None or _has_result(one)
    ]
    if known:
        yield _chart(known)
    yield _table(remedies)
    told = tuple(_told(one) for one in remedies if not is_dismissed(one))
    if any(told):
        yield Bullets(items=tuple(text for text in told if text))
    yield Paragraph(text=followed(threshold(), past_trials_sentence(report.past_trials)), note=True)


def _has_result(remedy: Remedy) -> bool:
    """Whether a trial gave a figure to draw: what changed nothing has none, nor have turns that were too unsteady."""
    return remedy.measured is not None and remedy.took_effect is not False and not is_without_result(remedy.measured)


def _chart(remedies: Sequence[Remedy]) -> Chart:
    """How many times as fast, with intervals: a bar for what is predicted of a remedy, one for what was measured."""
    names: list[str] = []
    bars = []
    for one in remedies:
        both = one.predicted is not None and one.measured is not None
        for speed, look, group in (
            (one.predicted, _MODELLED, tr("predicted")),
            (one.measured, _MEASURED, tr("measured")),
        ):
            if speed is None:
                continue
            name = tr("{remedy}, {how}", remedy=one.name, how=group) if both else one.name
            names.append(name)
            bars.append(
                Bar(
                    category=name,
                    value=speed.speedup,
                    low=speed.low,
                    high=speed.high,
                    group=group,
                    details=(one.title,) if one.title else (),
                    look=look,
                )
            )
    return Chart(
        name="remedies",
        title=tr("Times as fast with each remedy"),
        summary=_summary(remedies),
        x=Axis(name=tr("times as fast")),
        y=Axis(name="", scale="category", categories=tuple(names)),
        bars=tuple(bars),
    )


def _summary(remedies: Sequence[Remedy]) -> str:
    said = trials_sentence(remedies)
    if said:
        return said
    predicted = {one.name: one.predicted for one in remedies if one.predicted is not None}
    name = max(predicted, key=lambda name: predicted[name].speedup)
    return tr("Predicted highest: {name}, {times}.", name=name, times=times(predicted[name]))


def _measured(remedy: Remedy) -> str:
    if remedy.failed:
        return tr("failed")
    if remedy.took_effect is False:
        return tr("no change")
    return tr("not tried") if remedy.measured is None else times(remedy.measured)


def _table(remedies: Sequence[Remedy]) -> Table:
    return Table(
        caption=tr("Remedies, times as fast as the script as it is"),
        head=(tr("Remedy"), tr("What it is"), tr("Predicted"), tr("Measured"), tr("As predicted"), tr("Advice")),
        rows=tuple(
            (
                one.name,
                one.title,
                times(one.predicted),
                _measured(one),
                "" if one.held is None else tr("yes") if one.held else tr("no"),
                advice(one),
            )
            for one in remedies
        ),
        numeric=(2, 3),
    )


def _told(remedy: Remedy) -> str:
    """A remedy's reason, costs and what to change, as sentences; empty where there is nothing to add to the table."""
    if remedy.measured is not None:
        parts = list(measured_parts(remedy, remedy.measured))
        if remedy.took_effect is not False and is_without_result(remedy.measured):
            parts.insert(0, tr("no result: the turns were too unsteady"))
    elif remedy.failed:
        parts = [tr("the trial gave no result: {why}", why=remedy.failed), *effect(remedy)]
    elif remedy.predicted is not None:
        parts = [remedy.predicted.reason, *to_do(remedy)]
    else:
        parts = [tr("not predicted: {why}", why=remedy.why)] if remedy.why else []
    text = tr("; ").join(part for part in parts if part)
    return sentence(tr("{name}: {message}", name=remedy.name, message=text)) if text else ""
