"""Estimates as files: schema ``boundby.decode``.

History:
- 1: the fields of ``DecodeEstimate``; an interval is an object of ``value``, ``low`` and ``high``.

A change that an older reader could misread raises VERSION.
"""

from __future__ import annotations

from typing import Any

import msgspec

from boundby.llm.decode import DecodeEstimate
from boundby.results.documents import decode_document
from boundby.results.language import tr

SCHEMA = "boundby.decode"
VERSION = 1


def encode_estimate(estimate: DecodeEstimate) -> bytes:
    """The estimate as indented UTF-8 JSON, without a final newline."""
    plain: dict[str, Any] = msgspec.to_builtins(estimate)
    return msgspec.json.format(msgspec.json.encode({"schema": SCHEMA, "version": VERSION} | plain), indent=2)


def decode_estimate(data: bytes, *, name: str = "the file") -> DecodeEstimate:
    """The estimate a file holds.

    Args:
        data: the file's bytes.
        name: what to call the file in an error: its path as the user wrote it.

    Raises:
        BoundbyError: ``damaged-file``, ``unknown-schema`` or ``unknown-version``.
    """
    return decode_document(
        data,
        DecodeEstimate,
        schema=SCHEMA,
        version=VERSION,
        name=name,
        advice=tr("Write it again with `{command}`.", command="boundby decode -o FILE.json"),
    )
