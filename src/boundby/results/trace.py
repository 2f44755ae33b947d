"""What was watched: the ops of a step, and the times of steps that nothing watched."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Literal

from boundby.results.counts import OpCost, Phase
from boundby.results.habits import Habits
from boundby.results.machine import Finding

StepKind = Literal["training", "inference", "callable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpSite:
    """One distinct op of a step: the same op, signature, source line, module and phase share one site.

    ``shapes`` is a short text of the tensor inputs for people (``96x64 64x192``). ``path`` and ``line`` are those of
    the innermost frame outside torch (for a backward op: of the forward op that made it), ``code`` that line's text.
    ``items`` is the length of the op's longest list of tensors (foreach ops), 0 without one.
    """

    op: str
    cost: OpCost
    shapes: str
    path: str | None
    line: int | None
    code: str | None
    module: str | None
    phase: Phase
    recomputed: bool = False
    items: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOps:
    """The ops of one class of steps in execution order, columns of equal length (one entry an op).

    ``site`` indexes ``Trace.sites``; ``window_s`` is the op's own time, corrected for the watching (seconds);
    ``gap_s`` the time between the end of the op before (or the step's begin) and this op's begin, corrected;
    ``faults`` the minor page faults inside the op; ``distance_bytes`` how many distinct bytes were touched since this
    op's inputs were last used (0 if they are still the most recent).
    """

    site: array[int]
    window_s: array[float]
    gap_s: array[float]
    faults: array[int]
    distance_bytes: array[float]
    tail_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepClass:
    """Steps with the same sequence of ops: how many watched steps had it."""

    digest: str
    steps: int
    ops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorReading:
    """How fast the machine was at one moment: seconds per fixed probe.

    Keys are ``matmul``, ``cache``, ``memory`` and ``dispatch``.
    """

    at_s: float
    seconds: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedStep:
    """A watched step beside the timed ones of its round.

    ``total_s`` is the sum of its windows and gaps (corrected for the watching), ``beside_s`` the median bare step,
    waits for input left out of both (seconds); ``faults`` and ``beside_faults`` are their minor page faults.
    ``watching_s`` was taken off for the watching.
    """

    total_s: float
    faults: int
    beside_s: float
    beside_faults: int
    watching_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Everything capture knows of a run.

    ``step_s`` are wall times of unwatched steps, ``input_s`` the part of each spent waiting for input, ``step_faults``
    the minor page faults of each. ``watched`` are the steps watched for op times. ``graph_breaks`` are the breaks that
    torch.compile met since watching began, None where code compiled before may hide some. ``saved_by_line`` is
    what of ``saved_bytes`` the ops of each (path, line) keep. ``habits`` are what was seen of the script that no
    ceiling shows.
    """

    kind: StepKind
    step_s: tuple[float, ...]
    input_s: tuple[float, ...]
    step_faults: tuple[int, ...]
    watched: tuple[WatchedStep, ...]
    sites: tuple[OpSite, ...]
    ops: StepOps | None
    classes: tuple[StepClass, ...]
    anchors: tuple[AnchorReading, ...]
    threads: int
    device: str
    host_input_s: float = 0.0
    saved_bytes: int | None = None
    saved_input_bytes: int | None = None
    warmup_steps: int = 0
    events_per_step: int = 1
    step_name: str = "step"
    graph_breaks: int | None = None
    saved_by_line: dict[tuple[str | None, int | None], int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = field(default=())
    habits: Habits = field(default_factory=Habits)
