"""A page as Markdown (CommonMark with tables): charts as the tables that say the same."""

from __future__ import annotations

import re
from collections.abc import Iterator

from boundby.report.chart import Chart
from boundby.report.chart_words import chart_tables
from boundby.report.document import Block, Bullets, Code, Document, Paragraph, Table
from boundby.report.safe_text import clean, clean_lines

# What Markdown would read as its own: marks of emphasis, code, links, tables, formulas, and those that may end a
# heading; an underscore within a word is none of these.
_MARKS = re.compile(r"([\\`*\[\]|$]|(?<![^\W_])_|_(?![^\W_])|~(?=~)|(?<=~)~|(?<!\S)#)")
# What begins a heading, a list, a quotation or a line across, where it stands first.
_FIRST = re.compile(r"^(\d+)([.)])(?=\s|$)|^([-+](?=\s|$)|[-=](?=[-=\s]*$))")
_IN_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def render_markdown(document: Document) -> str:
    """The page as Markdown text that ends in a newline. Nothing in its words is read as markup.

    Args:
        document: what to write.
    """
    parts = [f"# {_inline(document.title)}"]
    for block in document.lead:
        parts += _block(block)
    for section in document.sections:
        parts.append(f"## {_inline(section.title)}")
        for block in section.blocks:
            parts += _block(block)
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Paragraph():
            yield _paragraph(block)
        case Bullets():
            yield "\n".join(f"- {_sentence(item)}" for item in block.items)
        case Table():
            yield from _table(block)
        case Code():
            yield from _code(block)
        case Chart():
            yield f"### {_inline(block.title)}"
            yield _sentence(block.summary)
            for table in chart_tables(block):
                yield from _table(table, captioned=False)


def _paragraph(paragraph: Paragraph) -> str:
    mark = "**" if paragraph.emphasis else "*" if paragraph.note else ""
    text = paragraph.text.strip()
    return f"{mark}{_inline(text)}{mark}" if mark and text else _sentence(text)


def _table(table: Table, *, captioned: bool = True) -> Iterator[str]:
    if captioned and table.caption:
        yield f"**{_inline(table.caption.strip())}**"
    rules = ("---:" if place in table.numeric else "---" for place in range(len(table.head)))
    yield "\n".join((_row(table.head), f"| {' | '.join(rules)} |", *(_row(row) for row in table.rows)))


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(_inline(cell) for cell in cells)} |"


def _code(code: Code) -> Iterator[str]:
    if code.caption:
        yield _sentence(code.caption)
    text = clean_lines(code.text)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}\n{text}\n{fence}"


def _sentence(text: str) -> str:
    """Text that begins a line."""
    return _FIRST.sub(lambda found: f"{found[1]}\\{found[2]}" if found[1] else f"\\{found[3]}", _inline(text.strip()))


def _inline(text: str) -> str:
    return _MARKS.sub(r"\\\1", clean(text, unicode=True)).translate(_IN_HTML)
