"""A lab as a page with plots: what the terminal shows, the columns that only files have, and the charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from boundby.report.chart import Chart
from boundby.report.demonstration import Demonstration, LabTable, Line
from boundby.report.document import Block, Bullets, Document, Paragraph, Section, Table
from boundby.report.lab_text import quick_note
from boundby.results.language import language, tr

# What holds a timing begins with it, as on a terminal.
_MARK = "⏱ "


def lab_document(
    title: str, machine: str, demonstrations: Sequence[Demonstration], *, quick: bool = False, smaller: bool = True
) -> Document:
    """The page of a lab.

    Args:
        title: the lab's title.
        machine: the machine that was timed, in a few words; empty where nothing was timed.
        demonstrations: those that were run, or read from a file, in order.
        quick: whether rounds were shorter, to be quick.
        smaller: whether the largest sizes were left out then.
    """
    return Document(
        title=title,
        lead=(
            *((Paragraph(text=_MARK + machine),) if machine else ()),
            Paragraph(
                text=tr(
                    "What begins with {mark} holds a timing or what follows from one; all else is the same on every "
                    "run and machine.",
                    mark=_MARK.strip(),
                ),
                note=True,
            ),
            Paragraph(
                text=tr(
                    "Each time is the fastest of five rounds; tables have the median of the rounds beside it. Lines of "
                    "a chart that were modelled are dashed."
                ),
                note=True,
            ),
            *((Paragraph(text=quick_note(smaller=smaller), note=True),) if quick and machine else ()),
        ),
        sections=tuple(
            Section(title=f"{one.number}. {one.title}", blocks=tuple(_blocks(one))) for one in demonstrations
        ),
        language=language(),
    )


def _marked(line: Line) -> str:
    return _MARK + line.text if line.timed else line.text


def _marked_row(table: LabTable, row: tuple[str, ...]) -> tuple[str, ...]:
    timed = any(row[index] for index in table.timed)
    return (_MARK + row[0], *row[1:]) if timed else row


def _marked_chart(chart: Chart) -> Chart:
    """The chart with its title marked where something in it was measured."""
    looks = {line.look for line in chart.lines} | {bar.look for bar in chart.bars}
    if "measured" not in looks:
        return chart
    return replace(chart, title=_MARK + chart.title, summary=_MARK + chart.summary)


def _blocks(demonstration: Demonstration) -> Iterator[Block]:
    shown = demonstration.shown
    for about in shown.about:
        yield Paragraph(text=about)
    for block in shown.blocks:
        if isinstance(block, Chart):
            yield _marked_chart(block)
        elif isinstance(block, LabTable):
            yield Table(
                caption=block.caption,
                head=block.head,
                rows=tuple(_marked_row(block, row) for row in block.rows),
                numeric=tuple(index for index in range(len(block.head)) if index not in block.left),
            )
        else:
            yield Paragraph(text=_marked(block))
    if shown.observations:
        yield Paragraph(text=tr("What to observe"), emphasis=True)
        yield Bullets(items=tuple(map(_marked, shown.observations)))
