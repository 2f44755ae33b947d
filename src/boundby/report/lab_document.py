"""A lab as a page with plots: what the terminal shows, the columns that only files have, and the charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from boundby.report.chart import Chart
from boundby.report.demonstration import Demonstration, LabTable
from boundby.report.document import Block, Bullets, Document, Paragraph, Section, Table
from boundby.report.lab_text import quick_note
from boundby.results.language import language, tr


def lab_document(title: str, machine: str, demonstrations: Sequence[Demonstration], *, quick: bool = False) -> Document:
    """The page of a lab.

    Args:
        title: the lab's title.
        machine: the machine that was timed, in a few words.
        demonstrations: those that were run, in order.
        quick: whether sizes were left out to be quick.
    """
    return Document(
        title=title,
        lead=(
            Paragraph(text=machine),
            Paragraph(
                text=tr(
                    "Each time is the fastest of five rounds; tables have the median of the rounds beside it. Lines of "
                    "a chart that were modelled are dashed."
                ),
                note=True,
            ),
            *((Paragraph(text=quick_note(), note=True),) if quick else ()),
        ),
        sections=tuple(
            Section(title=f"{one.number}. {one.title}", blocks=tuple(_blocks(one))) for one in demonstrations
        ),
        language=language(),
    )


def _blocks(demonstration: Demonstration) -> Iterator[Block]:
    shown = demonstration.shown
    for about in shown.about:
        yield Paragraph(text=about)
    for block in shown.blocks:
        if isinstance(block, Chart):
            yield block
        elif isinstance(block, LabTable):
            yield Table(
                caption=block.caption,
                head=block.head,
                rows=block.rows,
                numeric=tuple(index for index in range(len(block.head)) if index not in block.left),
            )
        else:
            yield Paragraph(text=block.text)
    if shown.observations:
        yield Paragraph(text=tr("What to observe"), emphasis=True)
        yield Bullets(items=tuple(line.text for line in shown.observations))
