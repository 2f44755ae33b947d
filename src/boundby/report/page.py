"""A page of text in a given width: headings, paragraphs, bullets and columns, laid out by rich.

All text is passed as ``rich.text.Text``, so that nothing in it is read as markup.
"""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

NARROWEST = 40
# Longer lines are hard to read; a wider terminal keeps the rest blank.
WIDEST = 100
# Below this there is no room for a third column beside the numbers.
NARROW = 60


def page_width(width: int) -> int:
    """The width a page is laid out in, in columns."""
    return min(max(width, NARROWEST), WIDEST)


def render_page(parts: Iterable[RenderableType], *, width: int, color: bool) -> str:
    """The parts below each other, without trailing blanks, ending in a newline.

    Args:
        parts: what to print, from top to bottom.
        width: columns.
        color: whether ANSI styles may be written.
    """
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        color_system="standard" if color else None,
        force_terminal=color,
        no_color=not color,
        force_jupyter=False,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        # What the terminal can show was decided by the caller; the environment must not decide it again.
        _environ={},
    )
    for part in parts:
        console.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


def heading(title: str, explanation: str = "") -> Text:
    """A section's title, and in plain style what the words under it mean."""
    text = Text(title, style="bold")
    if explanation:
        text.append(f" ({explanation})", style="not bold dim")
    return text


def indented(text: Text, indent: int = 2) -> Table:
    """A paragraph moved to the right, its further lines too."""
    return bullets([(text, "")], mark_width=indent)


def bullets(items: Iterable[tuple[Text, str]], *, mark: str = "", mark_width: int = 2, style: str = "") -> Table:
    """Paragraphs that each begin with a mark, further lines hanging below their first.

    Args:
        items: the paragraphs, each with a mark of its own, or "" for ``mark``.
        mark: the mark of those that have none.
        mark_width: columns the mark takes with the blanks after it.
        style: a rich style for the marks.
    """
    table = Table.grid()
    table.add_column(width=mark_width, style=style, no_wrap=True)
    table.add_column(overflow="fold")
    for text, own_mark in items:
        table.add_row(Text(own_mark or mark), text)
    return table
