"""What `boundby doctor` found: one diagnosis a check. Files have the schema ``boundby.doctor``.

History:
- 1: ``examined_at``, ``cpu``, ``os``, ``python``, ``torch`` and ``checks``, the fields of ``Diagnosis``.

A change that an older boundby could misread raises VERSION; a version that is not known is refused by its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from boundby.results.documents import decode_document, encode_document
from boundby.results.language import tr
from boundby.results.machine import Finding

SCHEMA = "boundby.doctor"
VERSION = 1

State = Literal["ok", "problem", "unknown"]


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
    return encode_document(SCHEMA, VERSION, examination)


def decode_examination(data: bytes, *, name: str = "the file") -> Examination:
    """The examination a file holds.

    Args:
        data: the file's bytes.
        name: what to call the file in an error: its path as the user wrote it.

    Raises:
        BoundbyError: ``damaged-file``, ``unknown-schema`` or ``unknown-version``.
    """
    return decode_document(
        data,
        Examination,
        schema=SCHEMA,
        version=VERSION,
        name=name,
        advice=tr("Write it again with `{command}`.", command="boundby doctor -o FILE.json"),
    )
