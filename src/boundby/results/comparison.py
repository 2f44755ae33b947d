"""Comparisons of two saved files, a and b: what `boundby compare` found, as plain frozen data, and its JSON form.

History of the schema ``boundby.comparison``:

* version 1: the first; ``kind`` is ``reports`` or ``machines``. Added since, with a default: ``trials``,
  ``against`` and ``unclear`` of a share.

A ratio is always b over a, of the quantity as its unit says it: 1.3 of a time is slower, 1.3 of a rate is faster.
``differs`` is None where too little is known to tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from boundby.results.documents import decode_document
from boundby.results.files import BYTE_ORDER_MARK, decode_header
from boundby.results.interval import Interval
from boundby.results.language import tr
from boundby.results.machine import CeilingKind, Finding
from boundby.results.remedy import Advice

SCHEMA = "boundby.comparison"
VERSION = 1
Against = Literal["less-and-longer", "more-and-shorter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two files: what the user calls it, and the machine its numbers are of (None: unknown).

    ``modelled`` is True where they are a model's and the steps ran elsewhere.
    """

    name: str
    cpu: str | None
    threads: int
    modelled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What a difference has to exceed to be told apart from chance, and where that comes from; shares, 0.08 is 8%.

    ``told_apart`` is the least difference that would be told apart. ``rounds_a`` and ``rounds_b`` are how far the
    rounds of one run spread (a standard deviation; None where single steps were not kept). ``between_runs`` is what two
    runs of one program differ by on one machine. ``machine_ratio`` is by how much the machine's probes say that the
    step would take longer in b for the machine alone (None where they were not read).
    """

    told_apart: float
    rounds_a: float | None
    rounds_b: float | None
    between_runs: float
    machine_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeChange:
    """The step's time on both sides (seconds; low and high of the middle half of the steps) and the ratio b / a.

    ``ratio`` and ``differs`` are None where too few steps were timed to tell.
    """

    a_s: Interval
    b_s: Interval
    ratio: Interval | None
    differs: bool | None
    noise: Noise | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CountChange:
    """A deterministic total on both sides; None: not counted there."""

    name: str
    a: int | None
    b: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """Counts of an op or of a source line that are not the same on both sides (None: it is on one side only)."""

    by: Literal["op", "line"]
    name: str
    a_ops: int | None
    b_ops: int | None
    changes: tuple[CountChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareChange:
    """A share of the step on both sides, and the seconds that it makes.

    ``differs`` where the bands lie apart by more than shares are told to and than two runs of one program differ by,
    and, if the seconds went against the work that is counted exactly (bytes, products, pointwise FLOPs), these lie
    apart too, by more than the two runs are told apart by; ``against`` says so then. ``unclear`` where it cannot be
    told whether they differ: the runs were too disturbed to compare, or the bands too wide for how far the shares lie
    apart.
    """

    name: str
    a: Interval
    b: Interval
    a_s: float
    b_s: float
    differs: bool
    against: Against | None = None
    unclear: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChange:
    """A source line whose time changed by more than its noise; seconds a step, None: not on that side.

    ``line_a`` and ``line_b`` are its numbers: a line that only moved is the same line.
    """

    path: str | None
    line_a: int | None
    line_b: int | None
    code: str | None
    a_s: float | None
    b_s: float | None
    change_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialChange:
    """A remedy that was tried on one side or both: how many times as fast it made the step; None: not measured there.

    ``differs`` is None where it was measured on one side only. ``advice_a`` and ``advice_b`` are what each made of it,
    None where it is not named there.
    """

    name: str
    a: Interval | None
    b: Interval | None
    advice_a: Advice | None
    advice_b: Advice | None
    differs: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportComparison:
    """Two reports.

    Where times were not to be compared, ``time`` is None, and ``split``, ``lines`` and ``trials`` are empty.
    ``lines`` is None where the watched steps of one are so unlike the bare ones that its lines' times say nothing,
    ``counts_equal`` where a side was not counted.
    """

    a: Side
    b: Side
    sentence: str
    same_machine: bool
    time: TimeChange | None
    verdict_a: str
    verdict_b: str
    counts: tuple[CountChange, ...]
    counts_equal: bool | None
    groups: tuple[GroupChange, ...]
    split: tuple[ShareChange, ...]
    lines: tuple[LineChange, ...] | None
    trials: tuple[TrialChange, ...] = ()
    findings: tuple[Finding, ...] = ()
    kind: Literal["reports"] = "reports"
    schema: str = SCHEMA
    version: int = VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class FactChange:
    """A line of the machines' descriptions that is not the same; None: unknown."""

    name: str
    a: str | int | None
    b: str | int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingChange:
    """One limit on both machines, in ``unit``; ``size_bytes`` and ``shape`` are None where the two are not alike.

    ``faster`` is how many times as fast b is: the ratio of a rate, one over the ratio of a time.
    """

    kind: CeilingKind
    name: str
    dtype: str | None
    stack: str
    size_bytes: int | None
    shape: tuple[int, ...] | None
    unit: Literal["flop/s", "byte/s", "s"]
    a: Interval
    b: Interval
    ratio: Interval
    faster: Interval
    differs: bool
    measured: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineComparison:
    """Two machines. ``main`` are the limits that tell most, ``ceilings`` all that both have, most different first.

    ``only_a`` and ``only_b`` count the limits that one of them lacks. ``between_runs`` is the share by which two
    measurings of one machine differ, which every interval allows for.
    """

    a: Side
    b: Side
    sentence: str
    same_machine: bool
    description: tuple[FactChange, ...]
    main: tuple[CeilingChange, ...]
    ceilings: tuple[CeilingChange, ...]
    only_a: int
    only_b: int
    between_runs: float
    findings: tuple[Finding, ...] = ()
    kind: Literal["machines"] = "machines"
    schema: str = SCHEMA
    version: int = VERSION


Comparison = ReportComparison | MachineComparison


def encode_comparison(comparison: Comparison) -> bytes:
    """The comparison as indented UTF-8 JSON, schema ``boundby.comparison``, without a final newline."""
    plain: dict[str, Any] = msgspec.to_builtins(comparison)
    first = {key: plain[key] for key in ("schema", "version", "kind", "sentence")}
    return msgspec.json.format(msgspec.json.encode(first | plain), indent=2)


def decode_comparison(data: bytes, *, name: str) -> Comparison:
    """The comparison that a file holds, of two reports or of two machines.

    Args:
        data: the file's bytes.
        name: what to call the file in an error: its path as the user wrote it.

    Raises:
        BoundbyError: ``damaged-file``, ``unknown-schema`` or ``unknown-version``.
    """
    decode_header(data, name=name)  # JSON it is, and an object
    kinds: dict[Any, type[Comparison]] = {"reports": ReportComparison, "machines": MachineComparison}
    kind = msgspec.json.decode(data.removeprefix(BYTE_ORDER_MARK)).get("kind")
    return decode_document(
        data,
        kinds.get(kind if isinstance(kind, str) else None, ReportComparison),
        schema=SCHEMA,
        version=VERSION,
        name=name,
        advice=tr("Write it again with `{command}`.", command="boundby compare --json A B"),
    )
