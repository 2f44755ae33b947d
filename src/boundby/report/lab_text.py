"""A lab on a terminal: tables and sentences, each line that holds a timing marked at its beginning.

Columns are as wide as what is the same on every run asks for, so that a line without the mark never depends on what was
timed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from boundby.report.demonstration import Demonstration, LabTable, Line
from boundby.report.page import page_width, render_page
from boundby.report.safe_text import clean
from boundby.report.wrapping import wrapped
from boundby.results.language import tr

# "999.99 µs", "1,234 GB/s": what a timing is given room for before it is known.
_TIMED_WIDTH = 9
_GAP = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """What is printed on: its width in columns, whether colour is welcome, whether it shows more than ASCII."""

    width: int
    color: bool
    unicode: bool

    @property
    def mark(self) -> str:
        """What a timed line begins with, the blank after it included."""
        return "⏱ " if self.unicode else "[t] "

    @property
    def margin(self) -> str:
        """What any other line begins with."""
        return " " * cell_len(self.mark)

    @property
    def room(self) -> int:
        """Columns beside the mark."""
        return page_width(self.width) - cell_len(self.mark)


def render_opening(title: str, machine: str, paper: Paper, *, quick: bool = False, smaller: bool = True) -> str:
    """The lab's title, what the mark means, what is left out, and the machine that is timed.

    Args:
        title: the lab's title.
        machine: the machine in a few words; empty where nothing is timed.
        paper: what is printed on.
        quick: whether rounds are shorter, to be quick.
        smaller: whether the largest sizes are left out then.
    """
    explained = tr(
        "A line that begins with {mark} holds a timing or what follows from one; all other lines are the same on every "
        "run and machine.",
        mark=paper.mark.strip(),
    )
    parts = [Text(clean(title, unicode=paper.unicode), style="bold")]
    parts += _sentence(Line(text=explained), paper)
    if quick and machine:
        parts += _sentence(Line(text=quick_note(smaller=smaller)), paper)
    if machine:
        parts += _sentence(Line(text=machine, timed=True), paper)
    return _printed(parts, paper)


def quick_note(*, smaller: bool = True) -> str:
    """What ``--quick`` leaves out: the largest sizes where ``smaller``."""
    if not smaller:
        return tr("Quick: rounds are shorter than without --quick.")
    return tr("Quick: the largest sizes are left out, and rounds are shorter; without --quick they are there.")


def render_demonstration(demonstration: Demonstration, paper: Paper) -> str:
    """A demonstration: what it does, its tables and lines, and what to observe, after an empty line."""
    shown = demonstration.shown
    parts = [Text(), Text(clean(f"{demonstration.number}. {demonstration.title}", unicode=paper.unicode), style="bold")]
    for about in shown.about:
        parts += _sentence(Line(text=about), paper)
    for block in shown.blocks:
        if isinstance(block, LabTable):
            parts += [Text(), *_table(block, paper)]
        elif isinstance(block, Line):
            parts += [Text(), *_sentence(block, paper)]
    if shown.observations:
        parts += [Text(), Text(paper.margin + clean(tr("What to observe"), unicode=paper.unicode), style="bold")]
        for observation in shown.observations:
            parts += _sentence(observation, paper, bullet="- ")
    return _printed(parts, paper)


def _printed(parts: Iterable[Text], paper: Paper) -> str:
    # Lines are laid out already, and as wide as they are: a terminal that is narrower than a table breaks them itself.
    parts = list(parts)
    widest = max((cell_len(part.plain) for part in parts), default=0)
    return render_page(parts, width=max(paper.width, widest), color=paper.color)


def _sentence(line: Line, paper: Paper, *, bullet: str = "") -> Iterator[Text]:
    start = paper.mark if line.timed else paper.margin
    for index, text in enumerate(wrapped(clean(line.text, unicode=paper.unicode), paper.room - len(bullet))):
        yield Text(f"{start}{bullet if index == 0 else ' ' * len(bullet)}{text}")


def _table(table: LabTable, paper: Paper) -> Iterator[Text]:
    kept = [index for index in range(len(table.head)) if index not in table.files_only]
    head = [clean(cell, unicode=paper.unicode) for cell in table.head]
    rows = [[clean(cell, unicode=paper.unicode) for cell in row] for row in table.rows]
    widths = {
        index: max(
            _TIMED_WIDTH if index in table.timed else 0,
            cell_len(head[index]),
            *(cell_len(row[index]) for row in rows if index not in table.timed),
        )
        for index in kept
    }
    if table.caption:
        for text in wrapped(clean(table.caption, unicode=paper.unicode), paper.room):
            yield Text(paper.margin + text, style="italic")
    yield Text(paper.margin + _row(head, kept, widths, table.left), style="dim")
    for row in rows:
        timed = any(row[index] for index in table.timed)
        yield Text((paper.mark if timed else paper.margin) + _row(row, kept, widths, table.left))


def _row(cells: Sequence[str], kept: Sequence[int], widths: dict[int, int], left: Sequence[int]) -> str:
    """One line of a table. Laid out by itself, so that no cell of another line moves it."""
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    for index in kept:
        # A timing longer than the room it was given takes more: in its own line alone.
        width = max(widths[index], cell_len(cells[index]))
        grid.add_column(width=width, justify="left" if index in left else "right", no_wrap=True)
    grid.add_row(*(Text(cells[index]) for index in kept))
    width = sum(max(widths[index], cell_len(cells[index])) + _GAP for index in kept)
    return render_page([grid], width=width, color=False).rstrip("\n").rstrip()


def render_list(labs: Sequence[tuple[str, str, Sequence[str]]], paper: Paper) -> str:
    """The labs: of each the name on the command line, its title, and the titles of its demonstrations."""
    widest = max(cell_len(name) for name, _, _ in labs)
    parts = [Text(clean(tr("Labs, for learners at their own machine"), unicode=paper.unicode), style="bold")]
    for name, title, demonstrations in labs:
        parts += [Text(), Text(f"{name:<{widest}}  ", style="bold") + Text(clean(title, unicode=paper.unicode))]
        for number, text in enumerate(demonstrations, start=1):
            for index, piece in enumerate(wrapped(clean(text, unicode=paper.unicode), paper.room - widest - 3)):
                parts.append(Text(f"{'':<{widest}}  {f'{number}.' if index == 0 else '  '} {piece}"))
    parts += [Text(), Text(f"{clean(tr('Next'), unicode=paper.unicode)}     boundby lab {labs[0][0]} --quick")]
    return _printed(parts, paper)
