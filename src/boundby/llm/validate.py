"""Expected times against what others measured: errors by engine, hardware and kind, baselines beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from boundby.llm.calibration import Expected
from boundby.llm.decode import expected_interval
from boundby.llm.features import row_host_speed, row_parts
from boundby.llm.kernels import step_kernels
from boundby.llm.parallel import all_reduces
from boundby.llm.rows import Row
from boundby.results.errors import BoundbyError
from boundby.results.interval import Interval
from boundby.results.language import tr

SCHEMA = "boundby.validation"
VERSION = 1

Kind = Literal["one device, batch 1", "one device, batched", "several devices"]

# The baselines: all of the bandwidth, a constant share of it, and a share with a fixed time a step.
CONSTANT_SHARE = 0.68
_SHARE_BESIDE_FIXED = 0.85
_FIXED_S = 1.1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A row and what boundby expects of it, in seconds. ``error`` is (expected - measured) / measured.

    ``used`` says whether calibration saw the row. The baselines' errors are of the same kind. ``parts`` are those of
    the expected step on one device; ``all_reduce_s`` (all of them together) comes on top. ``sparse_layers`` route
    tokens to experts.
    """

    row: Row
    engine: str
    engine_known: bool
    hardware_kind: str
    model: str
    kind: Kind
    expected_s: Interval
    floor_s: float
    error: float
    inside: bool
    used: bool
    roofline_error: float
    share_error: float
    fixed_error: float
    parts: Expected | None = None
    sparse_layers: int = 0
    all_reduces: int = 0
    all_reduce_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A row that could not be compared, and why."""

    row: Row
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Errors of a group of rows, as shares: of absolute errors the mean and the median, with sign the mean.

    ``inside`` is the share of rows whose interval holds the measured value, ``half_width`` the median of half the
    interval over its value.
    """

    name: str
    rows: int
    mean: float
    median: float
    bias: float
    inside: float
    half_width: float
    roofline_mean: float
    share_mean: float
    fixed_mean: float


def compare_rows(rows: Iterable[Row], used: frozenset[str]) -> tuple[list[Compared], list[Skipped]]:
    """Each row beside what is expected of it.

    Args:
        rows: the measurements.
        used: the ids of those that calibration saw.
    """
    compared: list[Compared] = []
    skipped: list[Skipped] = []
    for row in rows:
        if not row.known_steps:
            skipped.append(Skipped(row=row, reason=tr("several tokens a step: no step time")))
            continue
        try:
            compared.append(_compare(row, row.id in used))
        except BoundbyError as error:
            skipped.append(Skipped(row=row, reason=error.message))
    return compared, skipped


def _compare(row: Row, used: bool) -> Compared:
    model, hardware, engine, work = row_parts(row)
    band, parts = expected_interval(model, hardware, engine, work, devices=row.devices, speed=row_host_speed(row))
    kernels = step_kernels(model, hardware, work, partition="fused", devices=row.devices)
    floor = sum(kernel.floor_s for kernel in kernels)
    reading = sum(kernel.bytes_read for kernel in kernels) / hardware.bytes_per_s
    reduces = all_reduces(model, hardware, work, row.devices) if row.devices > 1 else None

    def error(value: float) -> float:
        return value / row.step_s - 1

    kind: Kind = (
        "several devices" if row.devices > 1 else "one device, batched" if row.batch > 1 else "one device, batch 1"
    )
    return Compared(
        row=row,
        engine=engine.name,
        engine_known=engine.known,
        hardware_kind=hardware.kind,
        model=model.name,
        kind=kind,
        expected_s=band,
        floor_s=floor,
        error=error(band.value),
        inside=band.low <= row.step_s <= band.high,
        used=used,
        roofline_error=error(reading),
        share_error=error(reading / CONSTANT_SHARE),
        fixed_error=error(reading / _SHARE_BESIDE_FIXED + _FIXED_S),
        parts=parts,
        sparse_layers=sum(count for layer, count in model.kinds if layer.experts),
        all_reduces=reduces.count if reduces else 0,
        all_reduce_s=reduces.expected_s if reduces else 0.0,
    )


def used_rows() -> frozenset[str]:
    """The ids of the shipped rows that the shipped calibration saw."""
    from boundby.llm.calibration import shipped_data

    return frozenset(shipped_data()["rows"])


def encode_comparison(compared: Sequence[Compared], skipped: Sequence[Skipped]) -> bytes:
    """Rows and what was expected of them as indented UTF-8 JSON, schema ``boundby.validation``."""
    plain: dict[str, Any] = msgspec.to_builtins({"rows": list(compared), "skipped": list(skipped)})
    return msgspec.json.format(msgspec.json.encode({"schema": SCHEMA, "version": VERSION} | plain), indent=2)


def summarise(name: str, compared: Sequence[Compared]) -> Summary:
    """The errors of a group of at least one row."""
    sizes = [abs(one.error) for one in compared]
    halves = [(one.expected_s.high - one.expected_s.low) / 2 / one.expected_s.value for one in compared]
    return Summary(
        name=name,
        rows=len(compared),
        mean=_mean(sizes),
        median=_median(sizes),
        bias=_mean([one.error for one in compared]),
        inside=_mean([float(one.inside) for one in compared]),
        half_width=_median(halves),
        roofline_mean=_mean([abs(one.roofline_error) for one in compared]),
        share_mean=_mean([abs(one.share_error) for one in compared]),
        fixed_mean=_mean([abs(one.fixed_error) for one in compared]),
    )


def summaries(compared: Sequence[Compared], by: Callable[[Compared], str]) -> list[Summary]:
    """A summary for each group, most rows first."""
    groups: dict[str, list[Compared]] = {}
    for one in compared:
        groups.setdefault(by(one), []).append(one)
    return [summarise(name, mine) for name, mine in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
