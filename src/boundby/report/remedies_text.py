"""Remedies as text: what should help by how much, what it did where it was tried, and what is not worth it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.report.page import bullets, heading, indented
from boundby.report.remedy_words import (
    advice,
    effect,
    is_dismissed,
    is_tried,
    is_unclear,
    is_without_result,
    measured_parts,
    threshold,
    times,
    to_do,
    tried_title,
)
from boundby.report.safe_text import clean
from boundby.results.language import tr, trn
from boundby.results.remedy import Measured, PastTrials, Remedy

_STYLES = {"do": "bold green", "skip": "dim", "unknown": ""}
_NOT_WORTH_SHOWN = 6
_MARK_WIDTH = 11


def render_remedies(
    remedies: Sequence[Remedy], *, unicode: bool, past: PastTrials | None = None
) -> Iterator[RenderableType]:
    """The remedies in their order; those not worth it in one line; at the end how often predictions held here.

    Args:
        remedies: as ranked; some may have been tried.
        unicode: whether characters beyond ASCII may be written.
        past: the user's own trials on this machine so far.
    """
    if not remedies:
        return
    tried = [one for one in remedies if is_tried(one)]
    if tried:
        yield heading(tried_title(remedies), tr("times as fast; measured in turns with the script as it is"))
        yield _bullets([(_paragraph(one, unicode=unicode), f"  {advice(one)}") for one in tried])
    rest = [one for one in remedies if one not in tried]
    if rest:
        if tried:
            yield ""
        yield heading(tr("Not tried") if tried else tr("What would help"), tr("times as fast, predicted"))
        yield from _untried(rest, unicode=unicode)
    for note in (threshold(), past_trials_sentence(past)):
        if note:
            yield indented(Text(clean(note, unicode=unicode), style="dim"))


def past_trials_sentence(past: PastTrials | None) -> str:
    """How often predictions held in the user's own trials on this machine; empty where none are known."""
    if past is None or not past.trials:
        return ""
    return trn(
        "Predictions held in {held} of {count} trial here so far.",
        "Predictions held in {held} of {count} trials here so far.",
        past.trials,
        held=f"{past.held:,}",
    )


def _untried(rest: Sequence[Remedy], *, unicode: bool) -> Iterator[RenderableType]:
    items = [(_paragraph(one, unicode=unicode), f"  {advice(one)}") for one in rest if not is_dismissed(one)]
    if items:
        yield _bullets(items)
    for word in (tr("unlikely"), tr("skip")):
        dismissed = [one for one in rest if is_dismissed(one) and advice(one) == word]
        if dismissed:
            mark = f"  {word}"
            yield _bullets([(_listed(dismissed, unicode=unicode), mark)], style="dim")


def _bullets(items: Sequence[tuple[Text, str]], *, style: str = "") -> Table:
    """Paragraphs behind their marks, with a blank also behind the longest of these."""
    width = max(_MARK_WIDTH, *(cell_len(mark) + 1 for _, mark in items))
    return bullets(items, mark_width=width, style=style)


def _listed(dismissed: Sequence[Remedy], *, unicode: bool) -> Text:
    names = [f"{one.name} ({times(one.predicted)})" for one in dismissed[:_NOT_WORTH_SHOWN] if one.predicted]
    listed = ", ".join(names)
    if len(dismissed) > len(names):
        more = len(dismissed) - len(names)
        listed = trn("{names} and {count} more", "{names} and {count} more", more, names=listed)
    return Text(clean(listed, unicode=unicode))


def _paragraph(remedy: Remedy, *, unicode: bool) -> Text:
    text = Text(clean(remedy.name, unicode=unicode), style=_STYLES[remedy.advice])
    if remedy.measured is not None:
        parts = list(_measured_parts(remedy, remedy.measured, unicode=unicode))
    elif remedy.failed:
        parts = [remedy.failed, *effect(remedy)]
    elif remedy.predicted is not None:
        parts = [times(remedy.predicted), remedy.predicted.reason, *to_do(remedy)]
    else:
        parts = [tr("not predicted: {why}", why=remedy.why) if remedy.why else tr("not predicted")]
    told = tr("{parts}.", parts=tr("; ").join(part for part in parts if part))
    text.append(clean(tr(": {told}", told=told), unicode=unicode), style="not bold")
    return text


def _measured_parts(remedy: Remedy, measured: Measured, *, unicode: bool) -> Iterator[str]:
    if remedy.took_effect is False:
        pass  # the times of two equal runs are no result of the remedy
    elif is_without_result(measured):
        yield tr("no result: the turns were too unsteady")
    elif is_unclear(measured):
        yield tr("measured, but {unclear}", unclear=times(measured))
    else:
        yield tr("{times} measured", times=times(measured))
    if remedy.predicted is not None and remedy.held is not None and not is_without_result(measured):
        expected = times(remedy.predicted)
        yield (
            tr("as predicted ({times})", times=expected)
            if remedy.held
            else tr("not as predicted ({times})", times=expected)
        )
    yield from measured_parts(remedy, measured, unicode=unicode)
