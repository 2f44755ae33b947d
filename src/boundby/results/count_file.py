"""Counts of one call as a file: schema ``boundby.counts``.

History:
- 1: ``target``, ``backward``, ``fake``, ``tool`` and ``counts``, the fields of ``CallCounts``.

A change that an older boundby could misread raises VERSION; a version that is not known is refused by its name.
"""

from __future__ import annotations

from dataclasses import dataclass

from boundby.results.documents import decode_document, encode_document
from boundby.results.language import tr
from boundby.results.module_tree import CallCounts
from boundby.results.report import Tool

SCHEMA = "boundby.counts"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CountFile:
    """What was counted, and its counts.

    ``target`` is what was built and called, ``pkg.module:make`` or ``file.py:make``; ``backward`` says whether the
    backward pass of its loss was counted too, ``fake`` whether all was built on fake tensors.
    """

    target: str
    backward: bool
    fake: bool
    tool: Tool
    counts: CallCounts


def encode_counts(file: CountFile) -> bytes:
    """The file as indented UTF-8 JSON, without a final newline."""
    return encode_document(SCHEMA, VERSION, file)


def decode_counts(data: bytes, *, name: str = "the file") -> CountFile:
    """The counts a file holds.

    Args:
        data: the file's bytes.
        name: what to call the file in an error: its path as the user wrote it.

    Raises:
        BoundbyError: ``damaged-file``, ``unknown-schema`` or ``unknown-version``.
    """
    return decode_document(
        data,
        CountFile,
        schema=SCHEMA,
        version=VERSION,
        name=name,
        advice=tr("Write it again with `{command}`.", command="boundby count -o FILE.json"),
    )
