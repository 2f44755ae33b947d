"""What a lab found, as a file, schema ``boundby.lab``.

History:
- 1: ``lab``, ``quick``, ``device``, ``threads``, ``language``, ``tool``, ``machine`` and ``demonstrations``. Added
  since, each with a default: ``title``, ``timed_on``, ``smaller``, and ``about`` and ``parts`` of a demonstration.

A change that an older boundby could misread raises VERSION; a version that is not known is refused by its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from boundby.results.documents import decode_document, encode_document
from boundby.results.language import tr
from boundby.results.machine import MachineDescription
from boundby.results.report import Tool

SCHEMA = "boundby.lab"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LabLine:
    """A sentence of a demonstration, in the result's language; ``timed`` where it tells of a timing."""

    text: str
    timed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LabTable:
    """Rows of text under a head.

    ``timed`` are the indices of the columns that hold timings, or what follows from them: a row in which one of them is
    not empty is a timed line. ``files_only`` columns are left out on a terminal. Columns are flush right but those in
    ``left``.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    timed: tuple[int, ...] = ()
    files_only: tuple[int, ...] = ()
    left: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        if any(len(row) != len(self.head) for row in self.rows):
            raise ValueError(f"every row of {self.caption!r} needs {len(self.head)} cells")
        for name in ("timed", "files_only", "left"):
            if any(not 0 <= index < len(self.head) for index in getattr(self, name)):
                raise ValueError(f"{name} of {self.caption!r} names a column that its head lacks")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabPart:
    """What a demonstration shows at one place: a line, a table or a chart (as plain data); the others are None."""

    line: LabLine | None = None
    table: LabTable | None = None
    chart: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabDemonstration:
    """One demonstration: its place in the lab from 1, its name, its title, its numbers and what they say.

    ``data`` are numbers with their units in the names of the keys; of a time, the fastest of five rounds is the
    ``time_s`` and their median the ``median_s``. ``about`` says what it does and what to look for, ``parts`` follow in
    order, ``observations`` after them; all in the result's language.
    """

    number: int
    name: str
    title: str
    data: dict[str, Any]
    observations: tuple[LabLine, ...] = ()
    about: tuple[str, ...] = ()
    parts: tuple[LabPart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabResult:
    """A lab that was run. ``threads`` are those of torch; None where the lab runs none of it.

    ``language`` is that of its texts, and of what is written around them; ``timed_on`` is the machine in a few words,
    empty where nothing was timed; ``smaller`` says whether a quick run left the largest sizes out.
    """

    lab: str
    quick: bool
    device: str
    threads: int | None
    language: str
    demonstrations: tuple[LabDemonstration, ...]
    tool: Tool | None = None
    machine: MachineDescription | None = None
    title: str = ""
    timed_on: str = ""
    smaller: bool = True


def encode_lab(result: LabResult) -> bytes:
    """The result as indented UTF-8 JSON, without a final newline."""
    return encode_document(SCHEMA, VERSION, result)


def decode_lab(data: bytes, *, name: str = "the file") -> LabResult:
    """The result a file holds.

    Args:
        data: the file's bytes.
        name: what to call the file in an error: its path as the user wrote it.

    Raises:
        BoundbyError: ``damaged-file``, ``unknown-schema`` or ``unknown-version``.
    """
    return decode_document(
        data,
        LabResult,
        schema=SCHEMA,
        version=VERSION,
        name=name,
        advice=tr("Write it again with `{command}`.", command="boundby lab NAME -o FILE.json"),
    )
