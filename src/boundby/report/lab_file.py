"""Demonstrations of a lab as its file holds them, and back: what a saved lab shows is what was shown when it ran."""

from __future__ import annotations

import msgspec

from boundby.report.chart import Chart
from boundby.report.demonstration import Demonstration, LabBlock, LabTable, Line, Shown
from boundby.report.document import Document
from boundby.report.lab_document import lab_document
from boundby.report.lab_text import Paper, render_demonstration, render_opening
from boundby.results.errors import BoundbyError
from boundby.results.lab import LabDemonstration, LabPart, LabResult
from boundby.results.language import in_language, tr


def saved_demonstration(demonstration: Demonstration) -> LabDemonstration:
    """A demonstration that was run, for the file."""
    shown = demonstration.shown
    return LabDemonstration(
        number=demonstration.number,
        name=demonstration.name,
        title=demonstration.title,
        data=dict(shown.data),
        observations=shown.observations,
        about=shown.about,
        parts=tuple(_part(block) for block in shown.blocks),
    )


def _part(block: LabBlock) -> LabPart:
    if isinstance(block, Chart):
        return LabPart(chart=msgspec.to_builtins(block))
    return LabPart(table=block) if isinstance(block, LabTable) else LabPart(line=block)


def read_demonstrations(result: LabResult, *, name: str = "the file") -> tuple[Demonstration, ...]:
    """The demonstrations of a file, for a terminal or a page.

    Args:
        result: what the file holds.
        name: what to call the file in an error.

    Raises:
        BoundbyError: ``damaged-file`` where a part is nothing that can be shown.
    """
    return tuple(
        Demonstration(
            number=one.number,
            name=one.name,
            title=one.title,
            shown=Shown(
                about=one.about,
                blocks=tuple(_block(part, name) for part in one.parts),
                observations=one.observations,
                data=one.data,
            ),
        )
        for one in result.demonstrations
    )


def _block(part: LabPart, name: str) -> LabBlock:
    try:
        if part.chart is not None:
            return msgspec.convert(part.chart, Chart)
        found: Line | LabTable | None = part.line or part.table
        if found is not None:
            return found
        told = tr("a part of a demonstration is empty")
    except msgspec.ValidationError as error:
        told = str(error)
    raise BoundbyError(
        "damaged-file",
        tr("{name} is damaged: {error}.", name=name, error=told),
        tr("Write it again with `{command}`.", command="boundby lab NAME -o FILE.json"),
    )


def render_lab(result: LabResult, paper: Paper, *, name: str = "the file") -> str:
    """A saved lab as it was shown on a terminal, in the language that it ran in.

    Args:
        result: what the file holds.
        paper: what is printed on.
        name: what to call the file in an error.

    Raises:
        BoundbyError: ``damaged-file`` where a part is nothing that can be shown.
    """
    read = read_demonstrations(result, name=name)
    # Where its own language cannot be written, at least what is written around it can be read.
    with in_language(result.language if paper.unicode else "en"):
        shown = [render_demonstration(one, paper) for one in read]
        opening = render_opening(_title(result), result.timed_on, paper, quick=result.quick, smaller=result.smaller)
    return "".join([opening, *shown])


def lab_page(result: LabResult, *, name: str = "the file") -> Document:
    """The page of a saved lab, in the language that it ran in.

    Args:
        result: what the file holds.
        name: what to call the file in an error.

    Raises:
        BoundbyError: ``damaged-file`` where a part is nothing that can be shown.
    """
    shown = read_demonstrations(result, name=name)
    with in_language(result.language):
        return lab_document(_title(result), result.timed_on, shown, quick=result.quick, smaller=result.smaller)


def _title(result: LabResult) -> str:
    return result.title or tr("Lab {name}", name=result.lab)
