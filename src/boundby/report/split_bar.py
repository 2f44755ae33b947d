"""The split as a bar with its legend."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.report.page import heading, indented
from boundby.report.report_words import faults_text, listed, no_split_text, share_meaning, share_name
from boundby.results.interval import Interval
from boundby.results.language import tr, trn
from boundby.results.report import SHARES, Report
from boundby.results.units import format_percent, format_percent_range

_UNICODE_GLYPHS = dict(zip(SHARES, "█▓▒░═·", strict=True))
_ASCII_GLYPHS = dict(zip(SHARES, "#=%+~.", strict=True))
STYLES = {
    "overhead": "red",
    "memory": "blue",
    "matmul": "green",
    "pointwise": "cyan",
    "input": "magenta",
    "unexplained": "bright_black",
}
# Narrower pages have no room for the meanings on the shares' own lines.
_WITH_MEANINGS = 76
# A share whose band ends below this is told in one word instead of a row.
_FOLDED_BELOW = 0.001


def render_split(report: Report, *, width: int, unicode: bool) -> Iterator[RenderableType]:
    """The bar, and under it each share with its band, its meaning and the parts of overhead.

    Args:
        report: whose split to show.
        width: columns of the page.
        unicode: whether block characters may be used.
    """
    glyphs = _UNICODE_GLYPHS if unicode else _ASCII_GLYPHS
    shares: dict[str, Interval] = {name: getattr(report.split, name) for name in SHARES}
    if why := no_split_text(report):
        yield heading(tr("Where the time of a step goes"))
        yield indented(Text(why))
        return
    yield heading(tr("Where the time of a step goes"), tr("share and its range"))
    bar = Text("  ")
    for name, cells in bar_cells({name: share.value for name, share in shares.items()}, width - 4).items():
        bar.append(glyphs[name] * cells, style=STYLES[name])
    yield bar
    yield _legend(report, shares, glyphs, width=width, unicode=unicode)
    folded = [name for name, share in shares.items() if _is_folded(share)]
    if folded:
        told = tr("no time in: {shares}", shares=listed([share_name(name) for name in folded]))
        yield indented(Text(told, style="dim"), 4)


def bar_cells(shares: dict[str, float], width: int) -> dict[str, int]:
    """Divides ``width`` cells among the shares by largest remainder, so that the cells add up to ``width``.

    Args:
        shares: share by name; negative ones take no cell.
        width: cells of the whole bar.
    """
    positive = {name: max(value, 0.0) for name, value in shares.items()}
    total = sum(positive.values())
    if total <= 0:
        return dict.fromkeys(shares, 0)
    exact = {name: value / total * width for name, value in positive.items()}
    cells = {name: int(value) for name, value in exact.items()}
    by_remainder = sorted(exact, key=lambda name: cells[name] - exact[name])
    for name in by_remainder[: width - sum(cells.values())]:
        cells[name] += 1
    return cells


def _legend(report: Report, shares: dict[str, Interval], glyphs: dict[str, str], *, width: int, unicode: bool) -> Table:
    legend = Table.grid(padding=(0, 2, 0, 0))
    legend.add_column(width=3, no_wrap=True)
    legend.add_column(no_wrap=True)
    legend.add_column(justify="right", no_wrap=True)
    legend.add_column(justify="left", no_wrap=True)
    with_meaning = width >= _WITH_MEANINGS
    if with_meaning:
        legend.add_column(overflow="fold")
    for name, share in shares.items():
        if _is_folded(share):
            continue
        row = [
            Text(f"  {glyphs[name]}", style=STYLES[name]),
            Text(share_name(name)),
            Text(format_percent(share.value), style="bold"),
            Text(_band(share)),
            Text(share_meaning(name), style="dim"),
        ]
        legend.add_row(*row[: 5 if with_meaning else 4])
        if name == "overhead":
            for part, value, meaning in _overhead_parts(report, unicode=unicode):
                cells = [Text(""), Text(f"  {part}"), Text(format_percent(value)), Text(""), Text(meaning, style="dim")]
                legend.add_row(*cells[: 5 if with_meaning else 4])
    return legend


def _overhead_parts(report: Report, *, unicode: bool) -> Iterator[tuple[str, float, str]]:
    parts = report.overhead_parts
    meanings = {
        "dispatch": trn("the fixed cost of {count} op", "the fixed cost of {count} ops", report.counts.ops),
        "host": share_meaning("host"),
        "allocation": faults_text(report, unicode=unicode, total=True),
    }
    part_names = {"dispatch": tr("dispatch"), "host": tr("host"), "allocation": tr("allocation")}
    for name, meaning in meanings.items():
        value: float = getattr(parts, name)
        if value >= _FOLDED_BELOW or (name == "allocation" and report.page_faults is not None):
            yield part_names[name], value, meaning


def _band(share: Interval) -> str:
    band = format_percent_range(share.low, share.high)
    return "" if band == format_percent(share.value) else band


def _is_folded(share: Interval) -> bool:
    return abs(share.value) < _FOLDED_BELOW and share.high < _FOLDED_BELOW
