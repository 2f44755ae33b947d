"""Speed-ups or times that somebody measured elsewhere, read from words, CSV or JSON.

A number carries the band of the digits it was written with: ``1.8`` is 1.75 to 1.85.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec

from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.interval import Interval, interval
from boundby.results.language import tr
from boundby.results.scaling import ScalingPoint
from boundby.scaling.speedups import point

# What the columns of a file may be called.
WORKERS = ("workers", "threads", "cores", "n", "devices", "gpus", "processes", "ranks")
SPEEDUPS = ("speedup", "speed-up", "speed_up")
# Names of times, and the seconds that one of them is.
TIMES = {"time_s": 1.0, "seconds": 1.0, "time": 1.0, "s": 1.0, "time_ms": 1e-3, "ms": 1e-3, "time_us": 1e-6, "us": 1e-6}
MOST_WORKERS = 10**15
# Files are small; one that is not is a mistake.
MOST_BYTES = 1 << 20

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One pair as it was written: workers, and a speed-up or seconds with its band."""

    workers: int
    value: Interval
    is_time: bool


def read_pairs(text: str) -> tuple[Given, ...]:
    """``1:1.0,2:1.8`` or ``1:35ms,2:20ms``.

    Raises:
        BoundbyError: ``bad-speedups``.
    """
    found = []
    for part in text.split(","):
        count, colon, value = part.strip().rpartition(":")
        if not colon:
            _refuse(tr("{text} is no pair of workers and a speed-up", text=f"{part.strip()!r}"))
        found.append(_given(count, value))
    return tuple(found)


def read_rows(data: bytes, *, name: str) -> tuple[Given, ...]:
    """A CSV file with a head, or JSON: an object of pairs, or a list of objects or of pairs.

    Args:
        data: the file's bytes.
        name: what to call the file in an error.

    Raises:
        BoundbyError: ``bad-speedups``, or ``unknown-schema`` for another file of boundby's.
    """
    if len(data) > MOST_BYTES:
        _refuse(tr("{name} has {number} bytes, more than any list of speed-ups", name=name, number=f"{len(data):,}"))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        _refuse(tr("{name} is not text in UTF-8", name=name))
    if "\0" in text:
        _refuse(tr("{name} is no text", name=name))
    if text.lstrip().startswith(("{", "[")):
        return _from_json(text, name)
    return _from_csv(text, name)


def given_points(given: Sequence[Given]) -> tuple[ScalingPoint, ...]:
    """The speed-ups in order of workers; times are taken over that of one worker.

    Raises:
        BoundbyError: ``bad-speedups`` where two are of one number of workers, one worker's time is missing, or nothing
            is left but one worker.
    """
    counts = [one.workers for one in given]
    twice = sorted({count for count in counts if counts.count(count) > 1})
    if twice:
        _refuse(
            tr("{number} is there twice", number=twice[0]),
            tr("Give each number of workers once: the median of several runs."),
        )
    if len({one.is_time for one in given}) > 1:
        _refuse(tr("some are times and some are speed-ups"), tr("Give all as times, or all as speed-ups."))
    ordered = sorted(given, key=lambda one: one.workers)
    if not ordered or ordered[-1].workers == 1:
        _refuse(tr("there is no speed-up of more than one worker"))
    if not ordered[0].is_time:
        if ordered[0].workers == 1 and not ordered[0].value.low <= 1.0 <= ordered[0].value.high:
            _refuse(
                tr("the speed-up at one worker is 1, not {value}", value=f"{ordered[0].value.value:g}"),
                tr("Speed-ups are over one worker; give times with their unit where that is what they are: 1:35ms."),
            )
        rest = [one for one in ordered if one.workers > 1]
        return (point(1, interval(1.0)), *(point(one.workers, one.value) for one in rest))
    base = ordered[0]
    if base.workers != 1:
        _refuse(tr("the time of one worker is missing, which speed-ups are over"))
    return tuple(
        point(
            one.workers,
            interval(1.0)
            if one is base
            else interval(
                base.value.value / one.value.value, base.value.low / one.value.high, base.value.high / one.value.low
            ),
            time_s=one.value,
        )
        for one in ordered
    )


def whole_count(text: str) -> int:
    """A number of workers as typed.

    Raises:
        BoundbyError: ``bad-speedups`` where it is no whole number from 1.
    """
    word = text.strip().replace("_", "")
    if not re.fullmatch(r"[+-]?\d+", word) or not word.isascii():
        _refuse(tr("{text} is no whole number of workers", text=f"{text.strip()!r}"))
    if len(word) > 20 or not 1 <= int(word) <= MOST_WORKERS:
        _refuse(tr("{word} is no number of workers from 1 to 10^15", word=word[:24]))
    return int(word)


def _given(count: str, value: str, *, unit_s: float | None = None, low: str = "", high: str = "") -> Given:
    workers = whole_count(count)
    text = value.strip()
    number = _NUMBER.match(text)
    unit = text[number.end() :].strip() if number else ""
    if number is None or (unit and unit.rstrip("x") and unit not in _UNITS):
        _refuse(tr("{text} is no speed-up and no time", text=f"{text!r}"))
    scale = _UNITS.get(unit, unit_s)
    middle = _written(number[0])
    if low.strip() or high.strip():
        least = _written(low.strip()).value if low.strip() else middle.value
        most = _written(high.strip()).value if high.strip() else middle.value
        if not least <= middle.value <= most:
            _refuse(
                tr(
                    "{value} is not within its band, {low} to {high}",
                    value=number[0],
                    low=f"{least:g}",
                    high=f"{most:g}",
                ),
                tr("Give low and high so that the value lies between them, or leave them out."),
            )
        middle = interval(middle.value, least, most)
    if not (middle.value > 0 and math.isfinite(middle.value)):
        _refuse(tr("{text} at {workers} workers is not positive and finite", text=text, workers=workers))
    if middle.low <= 0:
        middle = interval(middle.value, middle.value / 2, middle.high)
    return Given(workers=workers, value=middle if scale is None else middle.scaled(scale), is_time=scale is not None)


def _written(text: str) -> Interval:
    """A number with half a unit of its last digit on either side."""
    if not _NUMBER.fullmatch(text):
        _refuse(tr("{text} is no number", text=f"{text!r}"))
    plain = text.replace("_", "")
    mantissa, _, exponent = plain.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    value = float(plain)
    if not math.isfinite(value) or len(exponent) > 4:
        _refuse(tr("{text} is not finite", text=text))
    half = 0.5 * 10.0 ** (int(exponent or 0) - decimals)
    return interval(value, value - half, value + half)


def _from_csv(text: str, name: str) -> tuple[Given, ...]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        _refuse(tr("{name} is empty", name=name))
    rows = csv.DictReader(io.StringIO("\n".join(lines)), skipinitialspace=True)
    return tuple(
        _from_row(row, tr("{name}, row {number}", name=name, number=number)) for number, row in enumerate(rows, start=1)
    )


def _from_json(text: str, name: str) -> tuple[Given, ...]:
    try:
        # Numbers are kept as they are written, for their digits.
        content: Any = msgspec.json.decode(text, type=dict[str, msgspec.Raw] | list[msgspec.Raw])
        if isinstance(content, Mapping):
            if "schema" in content:
                _refuse_schema(_raw(content["schema"]), name)
            return tuple(_at(name, count, _raw(value)) for count, value in content.items())
        return tuple(
            _from_item(item, tr("{name}, item {number}", name=name, number=number))
            for number, item in enumerate(content, start=1)
        )
    except msgspec.DecodeError as error:
        _refuse(tr("{name} is no JSON: {error}", name=name, error=error))


def _refuse_schema(schema: str, name: str) -> NoReturn:
    raise BoundbyError(
        "unknown-schema",
        tr("{name} has the schema {schema}, and holds no speed-ups.", name=name, schema=f"{schema[:60]!r}"),
        tr("Give a CSV or JSON file of speed-ups or times, or what `boundby scaling -o FILE.json` wrote."),
        status=EXIT_USAGE,
    )


def _from_item(item: msgspec.Raw, place: str) -> Given:
    found: Any = msgspec.json.decode(item, type=dict[str, msgspec.Raw] | list[msgspec.Raw])
    if isinstance(found, Mapping):
        return _from_row({key: _raw(value) for key, value in found.items()}, place)
    if len(found) != 2:
        _refuse(tr("{place} is no pair of workers and a speed-up", place=place))
    return _at(place, _raw(found[0]), _raw(found[1]))


def _raw(value: msgspec.Raw) -> str:
    text = bytes(value).decode()
    return str(msgspec.json.decode(text)) if text.startswith('"') else text


def _from_row(row: Mapping[str, str | None], place: str) -> Given:
    cells = {(key or "").strip().lower(): value or "" for key, value in row.items() if isinstance(value, str | None)}
    count = _first(cells, WORKERS)
    if count is None:
        _refuse(
            tr("{place} has no column of workers", place=place),
            tr("Name one of: {names}.", names=", ".join(WORKERS)),
        )
    low, high = cells.get("low", ""), cells.get("high", "")
    speedup = _first(cells, SPEEDUPS)
    if speedup is not None:
        return _at(place, count, speedup, low=low, high=high)
    time = next(((cells[key], scale) for key, scale in TIMES.items() if key in cells), None)
    if time is None:
        _refuse(
            tr("{place} has neither a speed-up nor a time", place=place),
            tr("Name one of: speedup, {names}.", names=", ".join(TIMES)),
        )
    return _at(place, count, time[0], unit_s=time[1], low=low, high=high)


def _at(place: str, count: str, value: str, *, unit_s: float | None = None, low: str = "", high: str = "") -> Given:
    """A pair as ``_given`` reads it; what is wrong with it is told with its place."""
    try:
        return _given(count, value, unit_s=unit_s, low=low, high=high)
    except BoundbyError as error:
        _refuse(tr("{place}: {what}", place=place, what=error.message), error.advice)


def _first(cells: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next((cells[name] for name in names if name in cells), None)


def _advice() -> str:
    return tr(
        "Give pairs such as 1:1.0,2:1.8,4:3.1 (speed-ups) or 1:35ms,2:20ms (times), or a CSV or JSON file of them."
    )


def _refuse(message: str, advice: str = "") -> NoReturn:
    raise BoundbyError("bad-speedups", message, advice or _advice(), status=EXIT_USAGE)
