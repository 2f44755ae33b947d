"""Estimates as files: schema ``boundby.decode``.

History:
- 1: the fields of ``DecodeEstimate``; an interval is an object of ``value``, ``low`` and ``high``.

A change that an older reader could misread raises VERSION.
"""

from __future__ import annotations

from typing import Any

import msgspec

from boundby.llm.decode import DecodeEstimate

SCHEMA = "boundby.decode"
VERSION = 1


def encode_estimate(estimate: DecodeEstimate) -> bytes:
    """The estimate as indented UTF-8 JSON, without a final newline."""
    plain: dict[str, Any] = msgspec.to_builtins(estimate)
    return msgspec.json.format(msgspec.json.encode({"schema": SCHEMA, "version": VERSION} | plain), indent=2)
