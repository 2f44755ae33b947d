"""The costliest source lines, each with the floor that binds it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.report.page import NARROW, heading, indented
from boundby.report.report_words import (
    above_text,
    beyond_lines_text,
    floor_text,
    floors_by_name,
    is_above,
    step_seconds,
    watched_times_text,
)
from boundby.report.safe_text import clean, elide, elide_middle, short_path
from boundby.report.split_bar import STYLES
from boundby.results.language import tr, trn
from boundby.results.op_names import op_name
from boundby.results.report import Floors, LineRow, Report, has_shares
from boundby.results.units import format_percent, format_time

_SHOWN = 5
_SHOWN_OPS = 3
_LONGEST_NAME = 40
# Columns left of the code: beside it a share, a time ("unknown" at worst) and two blanks after each, below it a margin.
_BESIDE = 16
_BELOW = 4


def render_costliest(report: Report, *, width: int, unicode: bool, folder: str | None) -> Iterator[RenderableType]:
    """The five source lines that take most of a step: share, time, place, code, floor, ops and module.

    Args:
        report: whose lines to show.
        width: columns of the page.
        unicode: whether characters beyond ASCII may be used.
        folder: paths below it are shown relative to it; None shows them as recorded.
    """
    lines = sorted(report.lines, key=lambda line: line.time_s, reverse=True)[:_SHOWN]
    if not lines:
        yield heading(tr("Costliest lines"))
        yield indented(Text(tr("unknown: no step was watched")))
        return
    yield heading(tr("Costliest lines"), tr("floor: the least time the measured limits allow"))
    room = width - (_BESIDE if width >= NARROW else _BELOW)
    rows = [
        (
            Text(format_percent(line.share) if has_shares(report.reconciliation) else "", style="bold"),
            Text(format_time(step_seconds(line, report), digits=2, unicode=unicode)),
            [_place(line, room, unicode=unicode, folder=folder), *_details(line, report, room, unicode=unicode)],
        )
        for line in lines
    ]
    if width >= NARROW:
        yield _beside(rows)
    else:
        for share, time, details in rows:
            yield Text("  ").join([Text(""), share, time])
            yield indented(Text("\n").join(details), _BELOW)
    for note in _notes(report, lines, unicode=unicode):
        yield indented(Text(note, style="dim"))


def _notes(report: Report, shown: list[LineRow], *, unicode: bool) -> Iterator[str]:
    """Which steps the times are of, where that matters, and where the rest of a step is."""
    if watched := watched_times_text(report):
        yield watched
    if any(is_above(line.floors, step_seconds(line, report)) for line in shown):
        yield clean(above_text(), unicode=unicode)
    if rest := beyond_lines_text(report, shown):
        yield rest


def _beside(rows: list[tuple[Text, Text, list[Text]]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True, min_width=5)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for share, time, details in rows:
        table.add_row(share, time, Text("\n").join(details))
    return table


def _place(line: LineRow, room: int, *, unicode: bool, folder: str | None) -> Text:
    if line.path is None:
        return Text(tr("outside any line of the script"), style="bold")
    number = "" if line.line is None else f":{line.line}"
    path = clean(short_path(line.path, folder), unicode=unicode)
    return Text(elide_middle(path, room - len(number), unicode=unicode) + number, style="bold")


def _details(line: LineRow, report: Report, room: int, *, unicode: bool) -> Iterator[Text]:
    if line.code and line.code.strip():
        yield Text(elide(clean(line.code.strip(), unicode=unicode), room, unicode=unicode))
    yield _floor(line.floors, step_seconds(line, report), unicode=unicode)
    module = _module(line, report)
    longest = min(_LONGEST_NAME, room - cell_len(tr("; in {module}", module="")))
    names = [elide_middle(clean(op_name(name), unicode=unicode), longest, unicode=unicode) for name in line.ops]
    ops = ", ".join(names[:_SHOWN_OPS])
    if len(names) > _SHOWN_OPS:
        ops = trn("{names} and {count} more", "{names} and {count} more", len(names) - _SHOWN_OPS, names=ops)
    text = trn("{count} op", "{count} ops", line.calls)
    if names:
        text = tr("{ops}: {names}", ops=text, names=ops)
    if module:
        text += tr("; in {module}", module=elide_middle(clean(module, unicode=unicode), longest, unicode=unicode))
    yield Text(text, style="dim")


def _floor(floors: Floors, time_s: float, *, unicode: bool) -> Text:
    """How the line's time stands to the largest of its floors, and not to that of its bound: page faults have none."""
    style = STYLES.get(floors.bound, "") if floors_by_name(floors) else "dim"
    return Text(floor_text(floors, time_s, unicode=unicode), style=style)


def _module(line: LineRow, report: Report) -> str | None:
    """The module that takes most of the line's time."""
    times: dict[str, float] = {}
    for op in report.ops:
        if op.module and (op.path, op.line) == (line.path, line.line):
            times[op.module] = times.get(op.module, 0.0) + op.time_s
    return max(times, key=lambda module: times[module]) if times else None
