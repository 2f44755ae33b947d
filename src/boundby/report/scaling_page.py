"""A scaling result as text for a terminal: the answer, speed-ups, what the laws say of more, and bars of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.report import scaling_words as words
from boundby.report.page import bullets, heading, page_width, render_page
from boundby.report.safe_text import clean
from boundby.results.language import tr
from boundby.results.scaling import Scaling

_LEFT = 12
_RIGHT = 9


def render_scaling(scaling: Scaling, *, width: int, color: bool, unicode: bool, next_command: str = "") -> str:
    """The result as lines of text of at most ``width`` columns.

    Args:
        scaling: what to show.
        width: columns; used between 40 and 100.
        color: whether ANSI colours may be written.
        unicode: whether characters beyond ASCII may be written.
        next_command: the command to name at the end; none where empty.
    """
    columns = page_width(width)
    return render_page(_parts(scaling, columns, unicode=unicode, next_command=next_command), width=columns, color=color)


def _parts(scaling: Scaling, width: int, *, unicode: bool, next_command: str) -> Iterator[RenderableType]:
    yield Text(clean(words.sentence(scaling), unicode=unicode), style="bold")
    facts = list(words.facts(scaling))
    if facts:
        yield ""
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for name, text in facts:
            table.add_row(Text(name, style="dim"), Text(clean(text, unicode=unicode)))
        yield table
    if scaling.points:
        yield ""
        yield heading(*_points_title(scaling))
        rows = [words.point_row(scaling, one, unicode=unicode) for one in scaling.points]
        yield _table(words.point_head(scaling), rows, width=width, unicode=unicode)
    if scaling.projections:
        yield ""
        yield heading(tr("Modelled"), tr("by the laws fitted to the above; nothing here was measured"))
        rows = [words.projection_row(one) for one in scaling.projections]
        yield _table(words.projection_head(scaling), rows, width=width, unicode=unicode)
    for share, values in groupby(scaling.laws, key=lambda one: one.serial_share):
        yield ""
        yield heading(tr("Serial share {share}", share=words.share_text(share)), tr("speed-up over one worker"))
        yield _table(words.law_head(), [words.law_row(one) for one in values], width=width, unicode=unicode)
    plot = plot_lines(scaling, width=width, unicode=unicode)
    if plot:
        yield ""
        measured, modelled = _blocks(unicode)
        yield heading(
            tr("Speed-up"),
            tr(
                "{measured} as timed, {modelled} modelled by {law}",
                measured=measured * 2,
                modelled=modelled * 2,
                law=tr("the universal law") if words.universal_is_better(scaling) else tr("Amdahl's law"),
            )
            if scaling.points and scaling.projections
            else "",
        )
        for line in plot:
            yield Text(line, no_wrap=True)
    if scaling.findings:
        yield ""
        yield heading(tr("What to be wary of"))
        yield bullets(
            ((Text(clean(words.remark_words(one), unicode=unicode)), "") for one in scaling.findings),
            mark="  !",
            mark_width=4,
        )
    if next_command:
        yield ""
        yield Text.assemble((tr("Next     "), "dim"), clean(next_command, unicode=unicode))


def _points_title(scaling: Scaling) -> tuple[str, str]:
    karp_flatt = tr("serial share by Karp and Flatt, for each speed-up alone")
    if scaling.origin == "measured":
        note = tr("medians of turns; {karp_flatt}", karp_flatt=karp_flatt)
        if any(one.oversubscribed for one in scaling.points):
            note = tr("{note}; * more threads than usable cores", note=note)
        return tr("Measured here"), note
    return tr("As given"), tr("bands are those of the digits; {karp_flatt}", karp_flatt=karp_flatt)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, width: int, unicode: bool) -> Table:
    columns = zip((f"  {head[0]}", *head[1:]), *rows, strict=True)
    needed = sum(max(map(cell_len, column)) + 2 for column in columns)
    # Closer together before a cell is broken.
    table = Table.grid(padding=(0, 2 if needed <= width else 1, 0, 0))
    for _ in head:
        table.add_column(justify="right", overflow="fold")
    table.add_row(*(Text(f"  {title}" if at == 0 else title, style="dim") for at, title in enumerate(head)))
    for row in rows:
        table.add_row(*(Text(clean(cell, unicode=unicode)) for cell in row))
    return table


def plot_lines(scaling: Scaling, *, width: int, unicode: bool) -> list[str]:
    """Bars of speed-ups by workers, those as timed and those by a law told apart; empty where one would do.

    Args:
        scaling: what to plot.
        width: columns of a line.
        unicode: whether characters beyond ASCII may be written.
    """
    measured, modelled = _blocks(unicode)
    bars = [(f"{one.workers:,}", one.speedup.value, measured) for one in scaling.points]
    bars += [(f"{one.workers:,}", words.best_law(scaling, one).value, modelled) for one in scaling.projections]
    if not bars:
        first = scaling.laws[0].serial_share if scaling.laws else None
        bars = [
            (words.law_row(one)[0], one.amdahl, modelled)
            for one in scaling.laws
            if one.serial_share == first and one.amdahl is not None
        ]
    if len(bars) < 2:
        return []
    longest = max(value for _, value, _ in bars)
    columns = max(10, width - _LEFT - _RIGHT - 2)
    return [
        f"{' ' * (_LEFT - cell_len(name))}{name} {mark * max(1, round(columns * value / longest))} "
        f"{words.number(value)}x"
        for name, value, mark in bars
    ]


def _blocks(unicode: bool) -> tuple[str, str]:
    return ("█", "░") if unicode else ("#", ".")
