"""Text that came from a user's code or files, made safe and short for one line of a terminal.

Code, paths and messages may hold escape sequences, line breaks, bidirectional overrides or bytes that are not text:
none of them may reach the terminal as more than visible characters.
"""

from __future__ import annotations

import os

from rich.cells import cell_len, set_cell_size

from boundby.results.language import language

# By their names, since the look-alikes are hard to tell apart in source.
_IN_ASCII = str.maketrans(
    {
        "\N{MICRO SIGN}": "u",
        "\N{GREEK SMALL LETTER MU}": "u",
        "\N{MULTIPLICATION SIGN}": "x",
        "\N{EN DASH}": "-",
        "\N{EM DASH}": "-",
        "\N{MINUS SIGN}": "-",
        "\N{HORIZONTAL ELLIPSIS}": "...",
        "\N{LESS-THAN OR EQUAL TO}": "<=",
        "\N{GREATER-THAN OR EQUAL TO}": ">=",
    }
)


def clean(text: str, *, unicode: bool) -> str:
    """One line of visible characters: control characters become escapes like ``\\x1b``, other blanks a space.

    Args:
        text: any text.
        unicode: whether characters beyond ASCII may stay; they become ASCII look-alikes or escapes otherwise, and in
            a language that is not written in ASCII look-alikes only.
    """
    shown = "".join(
        character if character.isprintable() else " " if character.isspace() else _escaped(character)
        for character in text
    )
    if unicode:
        return shown
    plain = shown.translate(_IN_ASCII)
    # A stream without block characters may well write Chinese: what it cannot write is escaped as it is written.
    return plain.encode("ascii", "backslashreplace").decode() if language() == "en" else plain


def clean_lines(text: str) -> str:
    """Lines of code or of a terminal as they stand, tabs as blanks, each of visible characters only."""
    return "\n".join(clean(line.rstrip("\r").expandtabs(4), unicode=True) for line in text.rstrip("\r\n").split("\n"))


def elide(text: str, width: int, *, unicode: bool) -> str:
    """The text cut at its end to ``width`` terminal cells, with a mark where something was cut."""
    if cell_len(text) <= width:
        return text
    mark = _mark(unicode)
    return set_cell_size(text, max(width - len(mark), 0)).rstrip() + mark


def elide_middle(text: str, width: int, *, unicode: bool) -> str:
    """The text cut in its middle to ``width`` terminal cells: of a path, the end tells most, then the beginning."""
    if cell_len(text) <= width:
        return text
    mark = _mark(unicode)
    room = max(width - len(mark), 0)
    tail_room = room - room // 3
    tail = set_cell_size(text[::-1], tail_room)[::-1]
    return set_cell_size(text, room // 3) + mark + tail


def short_path(path: str, folder: str | None) -> str:
    """The path relative to ``folder`` where it lies below it, as it is otherwise.

    Args:
        path: a file's path.
        folder: an absolute path, or None.
    """
    if folder is None or not os.path.isabs(path):
        return path
    relative = os.path.relpath(path, folder)
    return path if relative.startswith(os.pardir) else relative


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


def _mark(unicode: bool) -> str:
    return "…" if unicode else "..."
