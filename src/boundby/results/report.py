"""The report: what `boundby run` found, as plain frozen data, and its JSON form.

History of the schema ``boundby.report``:

* version 1: the first. Added since, each with a default: ``step.time_s.samples_s``, ``step.anchors_s``,
  ``modelled_for``, ``counts.eager``, ``timeline``, ``past_trials``, ``interrupted``, ``floors.above``,
  ``partly_modelled``, ``counts.indexed_bytes_*``, and what ``remedies`` hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from boundby.results.counts import Counts, Phase, Unmodelled
from boundby.results.interval import Interval
from boundby.results.machine import Finding, Machine, MachineDescription, Source
from boundby.results.remedy import PastTrials, Remedy
from boundby.results.showing import Shown
from boundby.results.trace import StepClass, StepKind

SCHEMA = "boundby.report"
VERSION = 1

MOST_SAMPLES = 240
# What a share is told to: two that lie no further apart cannot be told apart.
SHARE_RESOLUTION = 0.001
# Beyond this factor between watched and bare steps, what was seen of the one says nothing of the other.
LEAST_SEEN, MOST_SEEN = 0.5, 1.5

Bound = Literal["overhead", "memory", "compute", "input", "mixed", "unknown"]
SHARES = ("overhead", "memory", "matmul", "pointwise", "input", "unexplained")


def adds_up(reconciliation: Interval | None) -> bool:
    """Whether watched and bare steps are alike enough for a verdict; True where that is not known."""
    return reconciliation is None or LEAST_SEEN <= reconciliation.value <= MOST_SEEN


# Page faults that at their ceiling would take more than so many times the allocation share took less each, or were not
# those of ops.
FITTING = 1.1


def has_shares(reconciliation: Interval | None) -> bool:
    """Whether what was seen can be shares of the bare step; not where watched steps took far longer than that.

    Where they took far less, the rest of the step is unexplained, and the shares of what was seen hold.
    """
    return reconciliation is None or reconciliation.value <= MOST_SEEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Which boundby wrote the report."""

    name: str
    version: str
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianTime:
    """Seconds: the median and the band that holds the middle half of the samples.

    ``samples_s`` are the samples in the order they were taken, at most ``MOST_SAMPLES`` of them, evenly thinned where
    there were more; empty where they were not kept, or where the time is a model's.
    """

    median: float
    low: float
    high: float
    samples_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The step: its kind, its unwatched wall time, and how many steps stand behind it.

    ``anchors_s`` says how fast the machine was while the steps were timed: seconds of each fixed probe (``matmul``,
    ``cache``, ``memory``, ``dispatch``), the median of its readings and their middle half; empty where none was read.
    """

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
    anchors_s: dict[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The step's whole wall time divided; the values sum to 1.

    Where watched steps took over 1.5 times as long as bare ones, all but ``input`` is ``unexplained``, every band is
    as wide as it can be: nothing is known.
    """

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
    only its value is, ``unsure`` where watched and bare steps do not agree, one step alone was timed, or nothing binds
    clearly.
    """

    bound: Bound
    sentence: str
    evidence: tuple[str, ...]
    confidence: Literal["sure", "likely", "unsure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """The least time by each ceiling (seconds), summed over the calls of a line.

    ``bound`` is the one that most of the line's time went to, or ``unexplained`` where none explains most of it.
    ``above`` is whether the line took less than the largest
    of them by more than that one's band allows, so that its ceiling is of another state of the machine; None: not
    looked at, as in older files.
    """

    overhead_s: float
    memory_s: float
    matmul_s: float
    pointwise_s: float
    bound: str
    above: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRow:
    """Ops aggregated by op name, source line, module and phase, of one step.

    ``dtype`` is the short name of what the work is done in, the widest where calls differ; None where not recorded.
    """

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
    dtype: str | None = None


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
class TimelineSpan:
    """A stretch of one step: ops of one phase and module that follow one another, or a time in which no op ran.

    ``start_s`` is when it begins, in seconds from the step's begin, and ``time_s`` how long it lasts; ``op_s`` of that
    went to its ``ops`` (how many), the rest lies between them. ``phase`` is ``gap`` where no op ran. ``module`` is the
    path that all its ops have in common, None where they have none.
    """

    phase: Phase | Literal["gap"]
    module: str | None
    start_s: float
    time_s: float
    op_s: float
    ops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFaults:
    """Minor page faults of a step and what they cost (seconds a step)."""

    per_step: float
    seconds_each: float | None
    time_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelledFor:
    """That a report's times, shares and floors are a model's, for a machine on which the step did not run.

    ``machine`` is how the sentence calls that machine. The steps ran on ``measured_on`` with ``measured_time_s`` a
    step, where ``measured_bound`` bound them.
    """

    machine: str
    measured_on: MachineDescription
    measured_time_s: MedianTime
    measured_bound: Bound
    source: Source = "modelled"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report(Shown):
    """One run, explained.

    Where ``modelled_for`` is not None, the report tells of another machine than the one the steps ran on: ``machine``
    is that other one, and all times, shares and floors are modelled. ``past_trials`` says how often predictions of
    remedies held on this machine so far. ``timeline`` is one step as it was watched, from its begin to its end, in few
    enough stretches to draw; empty where ops have no times of their own, and in files of older versions. Waiting
    for a DataLoader is not on it. ``partly_modelled`` are ops that have a cost rule and whose function's own cost was
    not measured on the machine: what they take beyond their bytes is unexplained. Empty in files of older versions.
    ``interrupted`` is whether trials were ended by a signal before all had been made.
    """

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
    modelled_for: ModelledFor | None = None
    past_trials: PastTrials | None = None
    timeline: tuple[TimelineSpan, ...] = ()
    interrupted: bool = False
    partly_modelled: tuple[Unmodelled, ...] = ()
    schema: str = SCHEMA
    version: int = VERSION

    def __repr__(self) -> str:
        return f"<boundby.Report: {self.verdict.sentence}>"

    def to_json(self) -> str:
        """The report as JSON text, schema ``boundby.report``."""
        from boundby.results.files import encode

        return encode(self).decode()
