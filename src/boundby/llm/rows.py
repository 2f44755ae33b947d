"""Published measurements as rows of a CSV file: one line each, so that anyone can add theirs.

Columns that count (others are kept for the reader): ``id``, ``phase`` (only ``decode`` is compared), ``model`` or
``model_key``, ``hardware``, ``n_dev``, ``parallel``, ``weight_fmt``, ``engine``, ``batch``, ``mean_ctx`` (tokens in the
cache, on average), ``ms_per_step``, ``source``, ``note``, and where given ``kv_fmt``, ``host_speed`` (1: a 2024
desktop), and for hardware that does not ship ``bandwidth_gb_per_s`` and ``hardware_kind``.
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr

_LARGEST_FILE = 64 * 1024 * 1024
# Where a source does not say how many tokens were in the cache: short answers to short prompts.
_ASSUMED_CONTEXT = 128.0
# Units of ``value`` from which the seconds of a step follow: a user's rate, or the time of a token.
_UNITS = ("tok/s", "ms/tok")
_NEEDED = ("model", "hardware", "weight_fmt", "engine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published measurement of a decode step.

    ``step_s`` in seconds; ``bytes_per_s`` and ``hardware_kind`` describe hardware that does not ship; ``devices`` 0.5
    is one die of a device of two. ``known_steps`` is False where a step gave several tokens, so that no step time is
    known.
    """

    id: str
    model: str
    hardware: str
    devices: float
    weights: str
    engine: str
    batch: int
    context: float
    step_s: float
    cache: str = "fp16"
    bytes_per_s: float | None = None
    hardware_kind: str = ""
    host_speed: float | None = None
    confidence: str = ""
    source: str = ""
    note: str = ""
    known_steps: bool = True

    @property
    def held_out(self) -> bool:
        """Whether the row is kept from calibration: every third, by a hash of its id, whatever it holds."""
        return is_held_out(self.id)

    @property
    def single(self) -> bool:
        """Whether one device ran one sequence."""
        return self.devices <= 1 and self.batch == 1


def is_held_out(identity: str) -> bool:
    """The rule of the split: SHA-256 of the id, as a number, divides by 3."""
    return int(hashlib.sha256(identity.encode()).hexdigest(), 16) % 3 == 0


def shipped_rows() -> tuple[Row, ...]:
    """The decode rows that ship with boundby."""
    text = resources.files("boundby.llm").joinpath("data/measured.csv").read_text(encoding="utf-8")
    return tuple(_parse(text.splitlines(), tr("the shipped rows")))


def read_rows(path: Path) -> tuple[Row, ...]:
    """The decode rows of a CSV file with a header line.

    Raises:
        BoundbyError: ``damaged-rows`` names the line; ``file-too-large``; those of reading a file.
    """
    from boundby.results.files import read_file

    data = read_file(path, most_bytes=_LARGEST_FILE, advice=tr("Give a CSV of measurements."))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _damaged(str(path), tr("it is not UTF-8 text (byte {place})", place=error.start)) from None
    return tuple(_parse(text.splitlines(), str(path)))


def _parse(lines: list[str], name: str) -> Iterable[Row]:
    reader = csv.DictReader(lines)
    header = reader.fieldnames or []
    missing = [column for column in _NEEDED if column not in header]
    if "ms_per_step" not in header and not {"value", "unit"} <= set(header):
        missing.append("ms_per_step")
    if missing:
        raise _damaged(name, tr("its header has no column {column}", column=f"{missing[0]!r}"))
    for number, record in enumerate(reader, start=2):
        if (record.get("phase") or "decode") == "decode":
            yield _row(
                {key: value or "" for key, value in record.items() if key},
                tr("{name}, line {number}", name=name, number=number),
                number,
            )


def _row(record: Mapping[str, str], place: str, number: int) -> Row:
    note = record.get("note", "")
    return Row(
        id=record.get("id") or str(number),
        model=record.get("model_key") or record["model"],
        hardware=record["hardware"],
        devices=_number(record, "n_dev", place, default=1.0),
        weights=record["weight_fmt"],
        engine=record["engine"],
        batch=int(_number(record, "batch", place, default=1.0)),
        context=_context(record, place),
        step_s=_step_s(record, place),
        cache=record.get("kv_fmt") or "fp16",
        bytes_per_s=_optional(record, "bandwidth_gb_per_s", place, 1e9),
        hardware_kind=record.get("hardware_kind", "").strip(),
        host_speed=_optional(record, "host_speed", place, 1.0),
        confidence=record.get("confidence", ""),
        source=record.get("source", ""),
        note=note,
        known_steps="not a step time" not in note.lower(),
    )


def _number(
    record: Mapping[str, str], column: str, place: str, *, default: float | None = None, least: float | None = None
) -> float:
    text = record.get(column, "").strip()
    if not text and default is not None:
        return default
    try:
        value = float(text)
    except ValueError:
        raise _damaged(place, tr("{column} is {text}; expected a number", column=column, text=f"{text!r}")) from None
    if not math.isfinite(value) or value > 1e9 or (value <= 0 if least is None else value < least):
        raise _damaged(place, tr("{column} is {text}; expected a positive number", column=column, text=f"{text!r}"))
    return value


def _context(record: Mapping[str, str], place: str) -> float:
    """Tokens in the cache on average: as given, or the prompt and half of what is written."""
    lengths = [record.get(column, "").strip() for column in ("prompt_len", "gen_len")]
    usual = _ASSUMED_CONTEXT
    if lengths[1].isdecimal():
        usual = int(lengths[1]) / 2 + (int(lengths[0]) if lengths[0].isdecimal() else 0)
    return _number(record, "mean_ctx", place, default=usual, least=0.0)


def _step_s(record: Mapping[str, str], place: str) -> float:
    """Seconds a step: from ``ms_per_step``, or from a ``value`` in ``ms/tok`` or in ``tok/s`` of one user."""
    unit = record.get("unit", "").strip()
    has_value = record.get("value", "").strip() != ""
    if record.get("ms_per_step", "").strip() or not (has_value or unit):
        return _number(record, "ms_per_step", place) / 1000
    if unit not in _UNITS:
        raise _damaged(
            place,
            tr("unit is {unit}; expected one of {known}", unit=f"{unit!r}", known=", ".join(_UNITS)),
        )
    value = _number(record, "value", place)
    return 1 / value if unit == "tok/s" else value / 1000


def _optional(record: Mapping[str, str], column: str, place: str, unit: float) -> float | None:
    return _number(record, column, place) * unit if record.get(column, "").strip() else None


def _damaged(place: str, what: str) -> BoundbyError:
    return BoundbyError(
        "damaged-rows",
        tr("{place}: {what}.", place=place, what=what),
        tr("Give a CSV with the columns of the shipped rows; docs: boundby validate."),
        status=EXIT_USAGE,
    )
