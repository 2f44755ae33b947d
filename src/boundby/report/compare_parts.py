"""What the pages of reports and of machines side by side have in common."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.report.page import bullets, finding_text, heading, indented
from boundby.report.safe_text import clean, elide_middle
from boundby.results.comparison import Side
from boundby.results.language import tr, trn
from boundby.results.machine import Finding
from boundby.results.units import format_count, format_si, format_size

SIDE_WIDTH = 22
"""Columns a file's name takes at most at the head of its column."""

SIZES = ("bytes_read", "bytes_written", "saved_bytes", "memory_bytes", "memory_limit_bytes")
_UNITS = {"matmul_flops": "FLOP", "pointwise_flops": "FLOP", "recomputed_flops": "FLOP"}


def format_amount(name: str, value: int | None) -> str:
    """A count in the unit that its name tells."""
    if value is None:
        return tr("unknown")
    if name in SIZES:
        return format_size(value)
    if name in _UNITS:
        return format_si(value, _UNITS[name])
    return format_count(value)


def side_name(side: Side, room: int, *, unicode: bool) -> str:
    """What the user calls a file, cut to ``room`` columns and to a column's width."""
    return elide_middle(clean(side.name, unicode=unicode), min(room, SIDE_WIDTH), unicode=unicode)


def render_findings(findings: tuple[Finding, ...], *, unicode: bool) -> Iterator[RenderableType]:
    """What could spoil the comparison, nothing where there is nothing."""
    if not findings:
        return
    yield ""
    yield heading(tr("What could spoil the comparison"))
    items = ((finding_text(one, unicode=unicode), "") for one in findings)
    yield bullets(items, mark="  !", mark_width=4, style="yellow")


def more_in_json(count: int) -> Table:
    """That so many more are not shown here."""
    text = trn("and {count} more: --json has all", "and {count} more: --json has all", count)
    return indented(Text(text, style="dim"))
