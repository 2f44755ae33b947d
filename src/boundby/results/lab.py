"""What a lab found, as a file, schema ``boundby.lab``.

History:
- 1: ``lab``, ``quick``, ``device``, ``threads``, ``language``, ``tool``, ``machine`` and ``demonstrations``.

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
    timed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LabDemonstration:
    """One demonstration: its place in the lab from 1, its name, its title, its numbers and what they say.

    ``data`` are numbers with their units in the names of the keys; of a time, the fastest of five rounds is the
    ``time_s`` and their median the ``median_s``.
    """

    number: int
    name: str
    title: str
    data: dict[str, Any]
    observations: tuple[LabLine, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabResult:
    """A lab that was run. ``threads`` are those of torch; None where the lab runs none of it."""

    lab: str
    quick: bool
    device: str
    threads: int | None
    language: str
    demonstrations: tuple[LabDemonstration, ...]
    tool: Tool | None = None
    machine: MachineDescription | None = None


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
