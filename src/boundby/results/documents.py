"""Files of one schema and version around one dataclass: written and read the same way, whatever they hold."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from boundby.results.errors import BoundbyError
from boundby.results.files import BYTE_ORDER_MARK, decode_header
from boundby.results.language import tr

T = TypeVar("T")


def encode_document(schema: str, version: int, value: Any) -> bytes:
    """``value`` as indented UTF-8 JSON behind its schema and version, without a final newline."""
    plain: dict[str, Any] = msgspec.to_builtins(value)
    return msgspec.json.format(msgspec.json.encode({"schema": schema, "version": version} | plain), indent=2)


def decode_document(data: bytes, kind: type[T], *, schema: str, version: int, name: str, advice: str) -> T:
    """What a file of that schema and version holds.

    Args:
        data: the file's bytes.
        kind: the dataclass it holds.
        schema: the only schema accepted.
        version: the only version accepted.
        name: what to call the file in an error: its path as the user wrote it.
        advice: how to have the file written again.

    Raises:
        BoundbyError: ``damaged-file``, ``unknown-schema`` or ``unknown-version``.
    """
    try:
        header = decode_header(data, name=name)
    except BoundbyError as error:
        raise BoundbyError(error.code, error.message, advice) from None
    if header.schema != schema:
        raise BoundbyError(
            "unknown-schema",
            tr(
                "{name} has the schema {found}; expected {expected}.",
                name=name,
                found=f"{header.schema!r}",
                expected=f"{schema!r}",
            ),
            advice,
        )
    if header.version != version or isinstance(header.version, bool):
        raise BoundbyError(
            "unknown-version",
            tr(
                "{name} is version {found} of {schema}; this boundby reads version {expected}.",
                name=name,
                found=f"{header.version!r}",
                schema=schema,
                expected=version,
            ),
            tr("Use the boundby that wrote the file, or a newer one."),
        )
    try:
        return msgspec.json.decode(data.removeprefix(BYTE_ORDER_MARK), type=kind)
    except msgspec.ValidationError as error:
        raise BoundbyError("damaged-file", tr("{name} is damaged: {error}.", name=name, error=error), advice) from None
