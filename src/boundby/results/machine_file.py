"""Machine files: schema ``boundby.machine``.

History:
- 1: ``description``, ``ceilings`` and ``findings``, the fields of ``MachineDescription``, ``Ceiling`` and ``Finding``.
  Added since, each with a default: ``measuring``, and of a ceiling ``arguments``, ``unsteady``, ``contradicted``,
  ``windows`` and ``samples``.

A change that an older boundby could misread raises VERSION; a version that is not known is refused by its name.
"""

from __future__ import annotations

from typing import Any

import msgspec

from boundby.results.errors import BoundbyError
from boundby.results.files import decode_header
from boundby.results.machine import Machine

SCHEMA = "boundby.machine"
VERSION = 1

_ADVICE = "Write it again with `boundby machine -o FILE.json`."


def encode_machine(machine: Machine) -> bytes:
    """The machine as indented UTF-8 JSON, without a final newline."""
    plain: dict[str, Any] = msgspec.to_builtins(machine)
    return msgspec.json.format(msgspec.json.encode({"schema": SCHEMA, "version": VERSION} | plain), indent=2)


def decode_machine(data: bytes, *, name: str = "the machine file") -> Machine:
    """The machine a file holds.

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
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=Machine)
    except msgspec.ValidationError as error:
        raise BoundbyError("damaged-file", f"{name} is damaged: {error}.", _ADVICE) from None
