"""The report: what `boundby run` found, as plain frozen data, and its JSON form.

History of the schema ``boundby.report``:

* version 1: the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from boundby.results.counts import Counts, Phase
from boundby.results.interval import Interval
from boundby.results.machine import Finding, Machine
from boundby.results.trace import StepClass, StepKind

SCHEMA = "boundby.report"
VERSION = 1

Bound = Literal["overhead", "memory", "compute", "input", "mixed", "unknown"]
SHARES = ("overhead", "memory", "matmul", "pointwise", "input", "unexplained")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Which boundby wrote the report."""

    name: str
    version: str
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianTime:
    """Seconds: the median and the band that holds the middle half of the samples."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The step: its kind, its unwatched wall time, and how many steps stand behind it."""

    kind: StepKind
    time_s: MedianTime
    steps_timed: int
    steps_watched: int
    warmup_steps: int
    events_per_step: int
    name: str
    threads: int
    device: str
    classes: tuple[StepClass, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The step's whole wall time divided; the values sum to 1."""

    overhead: Interval
    memory: Interval
    matmul: Interval
    pointwise: Interval
    input: Interval
    unexplained: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class OverheadParts:
    """Shares of the whole step, summing to ``split.overhead``: dispatch of ops, host code between them, page faults."""

    dispatch: float
    host: float
    allocation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What binds, in one sentence, with the evidence and what the bound leaves on the table.

    ``confidence`` is ``sure`` where the bound's low end is above the high end of every other bound, ``likely`` where
    only its value is, ``unsure`` where watched and bare steps do not agree or nothing binds clearly.
    """

    bound: Bound
    sentence: str
    evidence: tuple[str, ...]
    confidence: Literal["sure", "likely", "unsure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """The least time by each ceiling (seconds), summed over the calls of a line.

    ``bound`` is the one that most of the line's time went to.
    """

    overhead_s: float
    memory_s: float
    matmul_s: float
    pointwise_s: float
    bound: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRow:
    """Ops aggregated by op name, source line, module and phase, of one step."""

    op: str
    calls: int
    time_s: float
    share: float
    floors: Floors
    matmul_flops: int
    pointwise_flops: int
    bytes_read: int
    bytes_written: int
    faults: int
    shapes: str
    path: str | None
    line: int | None
    code: str | None
    module: str | None
    phase: Phase
    modelled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRow:
    """A source line of the user's code with all ops charged to it, its backward ones included."""

    path: str | None
    line: int | None
    code: str | None
    calls: int
    time_s: float
    share: float
    floors: Floors
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFaults:
    """Minor page faults of a step and what they cost (seconds a step)."""

    per_step: float
    seconds_each: float | None
    time_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A change that may help: filled in by the remedies room."""

    name: str
    predicted: dict[str, float | str] | None = None
    measured: dict[str, float | str] | None = None
    numerics: dict[str, float | str] | None = None
    advice: Literal["do", "skip", "unknown"] = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run, explained."""

    tool: Tool
    machine: Machine
    reconciliation: Interval | None
    step: StepResult
    counts: Counts
    split: Split
    overhead_parts: OverheadParts
    verdict: Verdict
    page_faults: PageFaults | None
    lines: tuple[LineRow, ...]
    ops: tuple[OpRow, ...]
    remedies: tuple[Remedy, ...] = ()
    findings: tuple[Finding, ...] = ()
    schema: str = SCHEMA
    version: int = VERSION

    def to_json(self) -> str:
        """The report as JSON text, schema ``boundby.report``."""
        from boundby.results.files import encode

        return encode(self).decode()
