"""Habits of a script that a ceiling cannot show, as they were seen while its steps were watched: plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from boundby.results.interval import Interval

# Modes of torch and of Python that help to find faults, and cost time while they are on.
Mode = Literal[
    "anomaly",  # torch.autograd.detect_anomaly
    "deterministic",  # torch.use_deterministic_algorithms
    "jit-tracing",  # torch.jit.trace
    "torch-profiler",  # torch.profiler, torch.autograd.profiler
    "python-profiler",  # sys.setprofile: cProfile and others
    "python-tracer",  # sys.settrace: debuggers, coverage
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A line of the user's source; None is unknown."""

    path: str | None = None
    line: int | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeOn:
    """A mode that was on in watched steps, and the line that switches it on: unknown unless one alone calls for it."""

    mode: Mode
    place: Place = Place()


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingLine:
    """A line that writes to files or standard output: calls a step, and seconds of a step inside those calls.

    The seconds are those of whole calls as the user makes them (``print``, ``logging``, ``torch.save``).
    """

    place: Place
    calls: float
    time_s: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes:
    """What the process wrote in timed steps, all its threads together, and lines of the steps, the costliest first.

    ``calls`` and ``bytes`` are the median of system calls and bytes a step, ``calls_range`` and ``bytes_range`` that
    median with quarters; None where the system does not tell.
    """

    calls: float | None
    bytes: float | None
    lines: tuple[WritingLine, ...] = ()
    calls_range: Interval | None = None
    bytes_range: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Tensors, or autograd's graph, of which each step leaves more behind than the one before.

    ``kind`` is ``container`` (a list, dict or deque grew by tensors), ``graph`` (the graph behind a tensor grew) or
    ``plain`` (a list, dict or deque grew by something else: of no matter, unless steps take longer and longer).
    ``name`` is the variable or attribute that holds it, None where it was not found; ``place`` the line that makes it
    grow. ``per_step`` tensors (or nodes of the graph) and ``bytes_per_step`` of memory that they hold are added by a
    step; ``graphs`` says whether tensors held have a graph behind them, and ``saved`` whether that still has what it
    saved for backward (None: unknown, or it never saved any). Views of memory that was there before add no bytes.
    """

    kind: Literal["container", "graph", "plain"]
    name: str | None
    what: str
    place: Place
    per_step: float
    bytes_per_step: float | None
    graphs: bool
    saved: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """How much of the tokens, over all steps looked at, was padding, by what told it apart."""

    told_by: Literal["padding_idx", "attention mask"]
    place: Place
    padded: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """One frame that torch.compile compiled: seconds it took, and why it was compiled again (None: the first time)."""

    name: str
    place: Place
    seconds: float | None
    again_because: str | None = None
    failed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBreak:
    """A place where torch.compile had to give up on one graph and begin another."""

    reason: str
    place: Place
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUp:
    """An op whose sizes change from step to step, and the seconds that one takes to prepare for a size, from a probe.

    ``sizes`` is how many different ones it had in the attributed steps. Sizes met before need no preparing.
    """

    op: str
    place: Place
    sizes: int
    time_s: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingLine:
    """A line that did more in the last watched step than in the first: its ops, and bytes touched by them.

    ``steps`` is how many watched steps were compared: of two, the second does more by chance every other time where
    batches have lengths of their own.
    """

    place: Place
    ops: tuple[int, int]
    bytes: tuple[int, int]
    steps: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedStep:
    """A timed step: which step of the script it was, in which round, and its seconds without waits for input.

    ``resident_bytes`` is by how much the memory of the process in use grew over it; None is unknown. ``at_s`` is when
    it ended, on the clock of the readings of the machine's speed; None is unknown.
    """

    number: int
    round: int
    seconds: float
    resident_bytes: int | None = None
    at_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """All habits that were seen of a script; empty and None where nothing was seen, or it could not be looked for.

    ``nodes`` are the nodes of autograd's graph that a step makes; ``tracing_node_s`` the seconds that noting where it
    was made adds to each in anomaly mode, from a probe. ``filled_share`` is the share of a step in which fresh memory
    was filled, as deterministic mode does. ``steps`` are the timed steps that nothing interrupted.
    """

    modes: tuple[ModeOn, ...] = ()
    nodes: float | None = None
    tracing_node_s: Interval | None = None
    filled_share: Interval | None = None
    writes: Writes | None = None
    held: tuple[Held, ...] = ()
    padding: tuple[Padding, ...] = ()
    compilations: tuple[Compilation, ...] = ()
    graph_breaks: tuple[GraphBreak, ...] = ()
    steps: tuple[TimedStep, ...] = ()
    growing: tuple[GrowingLine, ...] = ()
    set_ups: tuple[SetUp, ...] = ()
    parameter_dtypes: tuple[str, ...] = ()
