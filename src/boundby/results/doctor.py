"""What `boundby doctor` found: one diagnosis a check. Files have the schema ``boundby.doctor``.

History:
- 1: ``examined_at``, ``cpu``, ``os``, ``python``, ``torch`` and ``checks``, the fields of ``Diagnosis``.

A change that an older boundby could misread raises VERSION; a version that is not known is refused by its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from boundby.results.errors import BoundbyError
from boundby.results.files import decode_header
from boundby.results.machine import Finding

SCHEMA = "boundby.doctor"
VERSION = 1

State = Literal["ok", "problem", "unknown"]

_ADVICE = "Write it again with `boundby doctor -o FILE.json`."


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What one check saw.

    ``seen`` is one line with the number behind it: what is there, or, where ``state`` is ``unknown``, why it could not
    be read. ``code``, ``effect`` (what it does to measurements) and ``advice`` are there for a problem only.
    """

    name: str
    state: State
    seen: str
    code: str | None = None
    effect: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """All diagnoses of one moment, those that spoil most first.

    ``examined_at`` is UTC, ISO 8601; ``torch`` is None where it did not load.
    """

    examined_at: str
    cpu: str | None
    os: str
    python: str
    torch: str | None
    checks: tuple[Diagnosis, ...]


def fine(name: str, seen: str) -> Diagnosis:
    """Nothing there that could spoil a measurement."""
    return Diagnosis(name=name, state="ok", seen=seen)


def unread(name: str, why: str) -> Diagnosis:
    """Not known, and why."""
    return Diagnosis(name=name, state="unknown", seen=why)


def problem(name: str, finding: Finding, effect: str) -> Diagnosis:
    """Something that could spoil a measurement, and what it does to one."""
    return Diagnosis(
        name=name, state="problem", seen=finding.message, code=finding.code, effect=effect, advice=finding.advice
    )


def finding_of(diagnosis: Diagnosis) -> Finding | None:
    """The problem as a finding that a machine or a report can hold; None where there is no problem."""
    if diagnosis.code is None:
        return None
    return Finding(code=diagnosis.code, message=diagnosis.seen, advice=diagnosis.advice)


def encode_examination(examination: Examination) -> bytes:
    """The examination as indented UTF-8 JSON, without a final newline."""
    plain: dict[str, Any] = msgspec.to_builtins(examination)
    return msgspec.json.format(msgspec.json.encode({"schema": SCHEMA, "version": VERSION} | plain), indent=2)


def decode_examination(data: bytes, *, name: str = "the file") -> Examination:
    """The examination a file holds.

    Args:
        data: the file's bytes.
        name: what to call the file in an error: its path as the user wrote it.

    Raises:
        BoundbyError: ``damaged-file``, ``unknown-schema`` or ``unknown-version``.
    """
    header = decode_header(data, name=name)
    if header.schema != SCHEMA:
        raise BoundbyError("unknown-schema", f"{name} has the schema {header.schema!r}; expected {SCHEMA!r}.", _ADVICE)
    if header.version != VERSION or isinstance(header.version, bool):
        raise BoundbyError(
            "unknown-version",
            f"{name} is version {header.version!r} of {SCHEMA}; this boundby reads version {VERSION}.",
            "Use the boundby that wrote the file, or a newer one.",
        )
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=Examination)
    except msgspec.ValidationError as error:
        raise BoundbyError("damaged-file", f"{name} is damaged: {error}.", _ADVICE) from None
