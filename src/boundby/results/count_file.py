"""Counts of one call as a file: schema ``boundby.counts``.

History:
- 1: ``target``, ``backward``, ``fake``, ``tool`` and ``counts``, the fields of ``CallCounts``.

A change that an older boundby could misread raises VERSION; a version that is not known is refused by its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from boundby.results.errors import BoundbyError
from boundby.results.files import decode_header
from boundby.results.module_tree import CallCounts
from boundby.results.report import Tool

SCHEMA = "boundby.counts"
VERSION = 1

_ADVICE = "Write it again with `boundby count -o FILE.json`."


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
    plain: dict[str, Any] = msgspec.to_builtins(file)
    return msgspec.json.format(msgspec.json.encode({"schema": SCHEMA, "version": VERSION} | plain), indent=2)


def decode_counts(data: bytes, *, name: str = "the file") -> CountFile:
    """The counts a file holds.

    Args:
        data: the file's bytes.
        name: what to call the file in an error: its path as the user wrote it.

    Raises:
        BoundbyError: ``damaged-file``, ``unknown-schema`` or ``unknown-version``.
    """
    try:
        header = decode_header(data, name=name)
    except BoundbyError as error:
        raise BoundbyError(error.code, error.message, _ADVICE) from None
    if header.schema != SCHEMA:
        raise BoundbyError("unknown-schema", f"{name} has the schema {header.schema!r}; expected {SCHEMA!r}.", _ADVICE)
    if header.version != VERSION or isinstance(header.version, bool):
        raise BoundbyError(
            "unknown-version",
            f"{name} is version {header.version!r} of {SCHEMA}; this boundby reads version {VERSION}.",
            "Use the boundby that wrote the file, or a newer one.",
        )
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=CountFile)
    except msgspec.ValidationError as error:
        raise BoundbyError("damaged-file", f"{name} is damaged: {error}.", _ADVICE) from None
