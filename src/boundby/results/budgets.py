"""Budgets of a step, the baseline that is committed beside the code, and what a check of both found.

History of the schema ``boundby.baseline``:

* version 1: the first.

History of the schema ``boundby.check``:

* version 1: the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from boundby.results.documents import decode_document, encode_document
from boundby.results.interval import Interval
from boundby.results.language import tr

SCHEMA = "boundby.baseline"
VERSION = 1
CHECK_SCHEMA = "boundby.check"
CHECK_VERSION = 1

COUNTS = (
    "ops",
    "launches",
    "matmul_flops",
    "fp32_matmul_flops",
    "fp64_matmul_flops",
    "pointwise_flops",
    "recomputed_flops",
    "bytes_read",
    "bytes_written",
    "saved_bytes",
    "graph_breaks",
    "unmodelled_ops",
)
"""What is counted of a step, equal on every run. ``fp32_matmul_flops`` are those done in fp32 or anything wider,
``fp64_matmul_flops`` those in fp64 or wider."""

FP64_OR_WIDER = ("fp64", "c128")
FP32_OR_WIDER = ("fp32", "c64", *FP64_OR_WIDER)
"""Short names of dtypes by their width."""

MOVED = ("bytes_read", "bytes_written")
"""The counts of which a part may depend on the data, and which a tolerance is for."""

RATIOS = ("overhead", "memory", "matmul", "pointwise", "input", "unexplained", "peak")
"""What is measured of a step as a part of 1: the shares of its split, and the part of its time that its matrix products
would take at this machine's best rate (``peak``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedLine:
    """A source line with what was counted at it; counts that are 0 or not known by line are left out.

    ``counts`` has names of ``COUNTS``, ``ops`` the calls of each op by its name, and ``idle`` names those of them that
    read and write nothing. Backward ops belong to the line of their forward op. ``path`` is relative to the project
    where the file lies below it; None: outside any file.
    """

    path: str | None
    line: int | None
    code: str | None
    counts: dict[str, int]
    ops: dict[str, int] = field(default_factory=dict)
    idle: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What was counted of a step or a call: totals by the names of ``COUNTS`` (None: unknown), and the lines.

    ``by_line`` are the names of the counts that are known line by line. ``indexed`` is the part of ``bytes_read`` and
    of ``bytes_written`` that the values of indices and masks decide; one that is not named is 0, or not known.
    """

    totals: dict[str, int | None]
    lines: tuple[CountedLine, ...]
    by_line: tuple[str, ...]
    indexed: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Counts that a step had when they were last accepted; a file to commit.

    ``target`` is the script or module with its arguments, as it was given (None: not known). Other versions of torch
    and other devices make other ops, so the file says which there were.
    """

    target: str | None
    torch: str | None
    device: str
    counted: Counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A limit that was written down: at most, or at least, so much of a count or of a ratio.

    ``name`` is as the user wrote it, ``max_launches``; ``of`` what it limits, one of ``COUNTS`` or ``RATIOS``.
    ``source`` says where it was written.
    """

    name: str
    of: str
    limit: float
    least: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpGrowth:
    """Calls of an op at a line, before and now; ``old`` is None where nothing is known of before."""

    op: str
    old: int | None
    new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LineGrowth:
    """A line that has part in a count that is over: its number before and now, and both its counts.

    ``old_line`` and ``old`` are None for a line that was not there, or where nothing is known of before; ``new`` is 0
    for the ops of a line that is gone. ``old_code`` is the text where it has changed.
    """

    path: str | None
    line: int | None
    code: str | None
    old_line: int | None
    old_code: str | None
    old: int | None
    new: int
    ops: tuple[OpGrowth, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """How one limit fared.

    ``state``: ``kept``; ``over``; ``unsure`` where a measured value is over and the better end of its interval is not,
    which is no failure; ``unknown`` where the value is not known, which is one. ``value`` is a count, or the interval
    of a ratio. ``baseline`` is the accepted count, and ``tolerance`` by what part of it a count may be above it.
    ``lines`` have part in what is over: those at which it grew
    (``grown``), or those that most of it is at; the one with most first, by the count named ``lines_by``: the count
    itself, or one that goes with it where it is not known line by line.
    """

    name: str
    of: str
    state: Literal["kept", "over", "unsure", "unknown"]
    value: int | Interval | None
    limit: float | None
    least: bool
    source: str
    baseline: int | None = None
    lines: tuple[LineGrowth, ...] = ()
    lines_by: str | None = None
    grown: bool = False
    tolerance: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether the check fails for it."""
        return self.state in ("over", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What a check found. ``shrunk`` are counts that are below the baseline's, as (name, old, new).

    ``notes`` say what could make counts differ for another reason than the code.
    """

    target: str
    passed: bool
    judgements: tuple[Judgement, ...]
    shrunk: tuple[tuple[str, int, int], ...] = ()
    notes: tuple[str, ...] = ()


def idle_ops(moved: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """The names of ops that read and write nothing, views and the like, given what calls of each move (bytes)."""
    sums: dict[str, int] = {}
    for name, size in moved:
        sums[name] = sums.get(name, 0) + size
    return tuple(sorted(name for name, size in sums.items() if size == 0))


def encode_baseline(baseline: Baseline) -> bytes:
    """The file as indented UTF-8 JSON, without a final newline; equal counts make equal bytes."""
    return encode_document(SCHEMA, VERSION, baseline)


def decode_baseline(data: bytes, *, name: str) -> Baseline:
    """The baseline that a file holds.

    Args:
        data: the file's bytes.
        name: what to call the file in an error: its path as the user wrote it.

    Raises:
        BoundbyError: ``damaged-file``, ``unknown-schema`` or ``unknown-version``.
    """
    return decode_document(
        data,
        Baseline,
        schema=SCHEMA,
        version=VERSION,
        name=name,
        advice=tr("A baseline is written by `{command}`.", command="boundby check --baseline FILE --update SCRIPT"),
    )


def encode_check(check: Check) -> bytes:
    """What was found as indented UTF-8 JSON, schema ``boundby.check``, without a final newline."""
    plain: dict[str, Any] = msgspec.to_builtins(check)
    return encode_document(CHECK_SCHEMA, CHECK_VERSION, plain)


def decode_check(data: bytes, *, name: str) -> Check:
    """The check that a file holds.

    Args:
        data: the file's bytes.
        name: what to call the file in an error: its path as the user wrote it.

    Raises:
        BoundbyError: ``damaged-file``, ``unknown-schema`` or ``unknown-version``.
    """
    return decode_document(
        data,
        Check,
        schema=CHECK_SCHEMA,
        version=CHECK_VERSION,
        name=name,
        advice=tr("Write it again with `{command}`.", command="boundby check -o FILE.json SCRIPT"),
    )
