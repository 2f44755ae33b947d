"""A page of text in a given width: headings, paragraphs, bullets and columns, laid out by rich.

All text is passed as ``rich.text.Text``, so that nothing in it is read as markup.
"""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from boundby.report.report_words import followed, sentence
from boundby.report.safe_text import clean
from boundby.report.wrapping import wrapped
from boundby.results.language import tr
from boundby.results.machine import Finding

NARROWEST = 40
# Longer lines are hard to read; a wider terminal keeps the rest blank.
WIDEST = 100
# Below this there is no room for a third column beside the numbers.
NARROW = 60


class _PageConsole(Console):
    """A console that breaks lines beside wide characters too: rich breaks them at blanks, which Chinese has few of."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does it, once texts with wide characters have their line breaks."""
        chosen = options or self.options
        if isinstance(renderable, Text) and not chosen.no_wrap:
            renderable = _broken(renderable, chosen.max_width)
        return super().render(renderable, options)


def _broken(text: Text, width: int) -> Text:
    """The text with a line break wherever a line of it ends; as it is where rich breaks it as well."""
    if cell_len(text.plain) == len(text.plain):
        return text
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        if cell_len(line.plain) <= width or line.plain[:1].isspace():
            lines.append(line)
            continue
        at = 0
        for part in wrapped(line.plain, width):
            begin = line.plain.index(part, at)
            at = begin + len(part)
            lines.append(line[begin:at])
    return Text("\n").join(lines)


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
    console = _PageConsole(
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
        # A text that ignores the page's width is one to copy, and stays in one line. That has to be told the console:
        # it joins what it prints to a text of its own, which knows nothing of it.
        if isinstance(part, Text) and part.overflow == "ignore":
            console.print(part, crop=False, no_wrap=True, overflow="ignore")
        else:
            console.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


def heading(title: str, explanation: str = "") -> Text:
    """A section's title, and in plain style what the words under it mean."""
    text = Text(title, style="bold")
    if explanation:
        text.append(tr(" ({explanation})", explanation=explanation), style="not bold dim")
    return text


def finding_text(finding: Finding, *, unicode: bool) -> Text:
    """A finding as a paragraph: what was found, what to do, and its code.

    Args:
        finding: what was found.
        unicode: whether characters beyond ASCII may be written.
    """
    told = sentence(clean(finding.message, unicode=unicode))
    text = Text(followed(told, clean(finding.advice, unicode=unicode)))
    text.append(f" [{clean(finding.code, unicode=unicode)}]", style="dim")
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
