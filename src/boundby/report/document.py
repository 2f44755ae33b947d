"""A page as plain data: headings, paragraphs, tables, code and charts; written as HTML or Markdown by other files."""

from __future__ import annotations

from dataclasses import dataclass

from boundby.report.chart import Chart


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """Words. ``emphasis`` for the one sentence that matters most; ``note`` for what qualifies the rest."""

    text: str
    emphasis: bool = False
    note: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text under a head. ``numeric`` are the indices of columns set flush right."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Text kept as it is: a command, or lines of a source file."""

    text: str
    caption: str = ""


Block = Paragraph | Bullets | Table | Code | Chart


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with what stands under it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A page: its title, the sentences that stand first, its sections, and the language it is written in (BCP 47)."""

    title: str
    lead: tuple[Block, ...]
    sections: tuple[Section, ...]
    language: str = "en"
