"""Text broken into lines by terminal cells, in scripts that put blanks between words and in those that do not."""

from __future__ import annotations

from unicodedata import category

from rich.cells import cell_len

# By Unicode's classes: brackets and quotation marks that close, commas and stops; those that open.
_CLOSING = frozenset({"Pe", "Pf", "Po"})
_OPENING = frozenset({"Ps", "Pi"})


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most ``width`` cells.

    Lines break at blanks and beside wide characters, not before closing punctuation or after an opening bracket; a
    piece too long for a line is cut.

    Args:
        text: one paragraph.
        width: cells a line, at least 2.
    """
    lines: list[str] = []
    line = ""
    for piece in _pieces(text):
        if line and cell_len(line + piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line += piece if line else piece.lstrip()
        while cell_len(line.rstrip()) > width:
            cut = _fitting(line, width)
            lines.append(line[:cut])
            line = line[cut:]
    if line.strip() or not lines:
        lines.append(line.rstrip())
    return lines


def _pieces(text: str) -> list[str]:
    """The text cut wherever a line may end; blanks stay with the piece before them."""
    pieces: list[str] = []
    begin = 0
    for index in range(1, len(text)):
        before, after = text[index - 1], text[index]
        if before.isspace() and not after.isspace():
            may_break = True
        else:
            may_break = (
                not after.isspace()
                and (_is_wide(before) or _is_wide(after))
                and category(after) not in _CLOSING
                and category(before) not in _OPENING
            )
        if may_break:
            pieces.append(text[begin:index])
            begin = index
    return [*pieces, text[begin:]]


def _fitting(text: str, width: int) -> int:
    """How many characters of the text fit in ``width`` cells, at least one."""
    cells = 0
    for index, character in enumerate(text):
        cells += cell_len(character)
        if cells > width and index:
            return index
    return len(text)


def _is_wide(character: str) -> bool:
    return cell_len(character) == 2
