"""What a script does in its steps that no ceiling shows: modes left on, writing, what is left behind, padding.

All of it is looked at between steps, or in steps whose times are not used.
"""

from __future__ import annotations

import linecache
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

from boundby.capture.anomaly import tracing_node_cost, users_depth
from boundby.capture.compiling import compilations, graph_breaks
from boundby.capture.padding import PaddingCounts
from boundby.capture.profiled import ProfiledStep
from boundby.capture.raw import attributes_of
from boundby.capture.retained import Retained
from boundby.capture.schedule import Role
from boundby.capture.shape_setup import ShapesMet
from boundby.capture.sources import only_call_of
from boundby.capture.writes import StepWrites, resident_bytes
from boundby.results.habits import GrowingLine, Habits, Mode, ModeOn, Place, TimedStep
from boundby.results.interval import Interval, interval
from boundby.timing.statistics import median, quantile

if TYPE_CHECKING:
    from boundby.capture.attribute import AttributedStep, SiteKey
    from boundby.capture.recorder import Recorded

_autograd: Any = torch._C._autograd
_tracing: Callable[[], bool] = torch._C._is_tracing
# Of timed steps shorter than this, one of so many is asked what it wrote and what memory it gained.
SHORT_STEP_NS = 2_000_000
ASKED_EVERY = 4
# What switches a mode on: a module, as far as it is imported, and names in it.
_SWITCHES: dict[Mode, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "anomaly": (("torch.autograd.anomaly_mode", ("set_detect_anomaly", "detect_anomaly")),),
    "deterministic": (("torch", ("use_deterministic_algorithms", "set_deterministic_debug_mode")),),
    "jit-tracing": (("torch.jit", ("trace", "trace_module")),),
    "torch-profiler": (
        ("torch.profiler", ("profile",)),
        ("torch.autograd.profiler", ("profile", "emit_nvtx", "emit_itt")),
    ),
    "python-profiler": (
        ("sys", ("setprofile",)),
        ("cProfile", ("Profile", "run", "runctx")),
        ("profile", ("Profile", "run", "runctx")),
        ("pyinstrument", ("Profiler",)),
    ),
    "python-tracer": (("sys", ("settrace",)), ("pdb", ("set_trace",)), ("coverage", ("Coverage",))),
}
# Steps that nothing interrupted stand for all where there are so many of them, and half of all.
FEWEST_CALM = 12
# Looks at what steps leave behind cost milliseconds each: the first, some in between, and the last.
MOST_LOOKS = 4


def modes_on() -> set[Mode]:
    """Modes for finding faults that are on at this moment."""
    found: set[Mode] = set()
    if torch.is_anomaly_enabled():
        found.add("anomaly")
    if torch.are_deterministic_algorithms_enabled():
        found.add("deterministic")
    if _tracing():
        found.add("jit-tracing")
    if _autograd._profiler_enabled():
        found.add("torch-profiler")
    if sys.getprofile() is not None:
        found.add("python-profiler")
    if sys.gettrace() is not None:
        found.add("python-tracer")
    return found


class HabitsSeen:
    """Collects habits as the recorder goes from step to step; holds no object of the script's."""

    def __init__(self) -> None:
        self.padding = PaddingCounts()
        self.shapes = ShapesMet()
        self._frames_before = frames_compiled()
        self._begin_again()

    def _begin_again(self) -> None:
        self._modes: set[Mode] = set()
        self._nodes: list[int] = []
        self._first_node = 0
        self._writes = StepWrites()
        self._retained = Retained()
        self._looks = 0
        self._looked_in_vain = False
        self._depths: list[int] = []
        self._number = 0
        self._numbers: list[int] = []
        self._ended_s: list[float] = []
        self._resident: list[int | None] = []
        self._resident_before: int | None = None
        self._asking = self._short = False
        self._began_ns = 0
        self._watching_lines = False

    def restart(self) -> None:
        """Steps turned out to be something else."""
        self._close_lines(keep=False)
        self._begin_again()

    def begin_round(self) -> None:
        """A round of timed and watched steps is about to begin."""
        if self._looks < MOST_LOOKS - 1:
            self._look()

    def begin_step(self, role: Role) -> None:
        """A step is about to begin; it is not timed yet."""
        self._number += 1
        if role is Role.TIMED:
            # Asking the system what the process wrote and holds takes tens of microseconds and empties the first
            # caches, which a short step would feel: most of the short ones are left alone.
            self._asking = not self._short or self._number % ASKED_EVERY == 0
            if self._asking:
                self._writes.begin()
                self._resident_before = resident_bytes()
            self._began_ns = time.perf_counter_ns()
        elif role in (Role.SETTLE, Role.ATTRIBUTED):
            self._modes |= modes_on()
            if role is Role.ATTRIBUTED:
                self.shapes.begin_step()
            self._first_node = torch.autograd._get_sequence_nr()  # type: ignore[attr-defined]  # absent from torch's stubs
            if frames_compiled() == self._frames_before:
                self._writes.lines.open()
                self._watching_lines = True

    def end_step(self, role: Role) -> None:
        """The step has ended, and its time was taken."""
        self._close_lines(keep=True)
        if role is Role.TIMED:
            now_ns = time.perf_counter_ns()
            self._short = now_ns - self._began_ns < SHORT_STEP_NS
            self._numbers.append(self._number)
            self._ended_s.append(now_ns / 1e9)
            before = after = None
            if self._asking:
                self._writes.end()
                before, after = self._resident_before, resident_bytes()
            self._resident.append(None if before is None or after is None else after - before)
        elif role in (Role.SETTLE, Role.ATTRIBUTED):
            self._modes |= modes_on()
            self._nodes.append(torch.autograd._get_sequence_nr() - self._first_node)  # type: ignore[attr-defined]  # absent from torch's stubs

    def discard(self) -> None:
        """What began is no whole step."""
        self._close_lines(keep=False)

    def op_seen(self) -> None:
        """An op of a kind that was not seen before runs in a watched step: modes may be on inside a step alone."""
        now = modes_on()
        self._modes |= now
        if "anomaly" in now:
            self._depths.append(users_depth())

    def finish(self) -> None:
        """All steps were seen; to be called before the script goes on."""
        self._close_lines(keep=False)
        if self._looks:
            self._look()

    def found(
        self, kept: Recorded, site_keys: Iterable[SiteKey], *, since_us: int = 0, reasons_before: int = 0
    ) -> Habits:
        """What was seen.

        Args:
            kept: all steps that were recorded.
            site_keys: the sites that attributed steps refer to.
            since_us: when watching began, in microseconds since the epoch.
            reasons_before: entries of torch's list of graph breaks when watching began.
        """
        depth = int(median([float(one) for one in self._depths])) if self._depths else None
        return Habits(
            modes=tuple(ModeOn(mode=one, place=only_call_of(_switches(one))) for one in sorted(self._modes)),
            nodes=float(median([float(one) for one in self._nodes])) if self._nodes else None,
            tracing_node_s=None if depth is None else tracing_node_cost(depth),
            filled_share=self._filled_share(kept),
            writes=self._writes.found(),
            held=self._retained.found(),
            padding=self.padding.found(),
            compilations=compilations(since_us),
            graph_breaks=graph_breaks(reasons_before),
            steps=tuple(self._timed_steps(kept)),
            growing=growing_lines(kept.attributed, list(site_keys)),
            set_ups=self.shapes.found(),
        )

    def _filled_share(self, kept: Recorded) -> Interval | None:
        if "deterministic" not in self._modes:
            return None
        fills = getattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
        return filled_share(kept.profiled) if fills else interval(0.0)

    def _timed_steps(self, kept: Recorded) -> Iterator[TimedStep]:
        if len(self._numbers) != len(kept.timed_s):
            return
        calm = sum(one.preemptions == 0 for one in kept.usage)
        all_of_them = calm < max(FEWEST_CALM, len(kept.usage) // 2)
        for at, number in enumerate(self._numbers):
            if all_of_them or kept.usage[at].preemptions == 0:
                yield TimedStep(
                    number=number,
                    round=kept.turns[at],
                    seconds=kept.timed_s[at] - kept.input_s[at],
                    resident_bytes=self._resident[at],
                    at_s=self._ended_s[at],
                )

    def _look(self) -> None:
        if self._looked_in_vain:
            return
        self._looks += 1
        try:
            self._retained.look(self._number + 1)
        # The script's own classes may raise anything where they are asked anything: what is left is then not known.
        except Exception:
            self._looked_in_vain = True
            self._retained = Retained()

    def _close_lines(self, *, keep: bool) -> None:
        if self._watching_lines:
            self._watching_lines = False
            self._writes.lines.close(keep=keep)


def _switches(mode: Mode) -> list[Any]:
    """What is there, of that which switches a mode on."""
    found = []
    for name, attributes in _SWITCHES[mode]:
        names = attributes_of(sys.modules.get(name)) or {}
        found += [names[one] for one in attributes if one in names]
    return found


def frames_compiled() -> int:
    """How many frames torch.compile has looked into; it might look into a function that stands in for another, too."""
    utils = sys.modules.get("torch._dynamo.utils")
    return 0 if utils is None else sum(utils.counters.get("frames", {}).values())


def filled_share(steps: list[ProfiledStep]) -> Interval | None:
    """The share of a step in which fresh memory was filled before its use; None where no step was profiled.

    Deterministic mode fills what ``empty`` and its like return. Under torch's profiler that shows as a ``fill_`` inside
    of such a call (of whose name the underscore was taken off).
    """
    if not steps:
        return None
    shares = []
    for step in steps:
        total = 0
        end = 0  # of the latest call that makes fresh memory
        for name, begin, ended in zip(step.names, step.begins, step.ends, strict=True):
            if name.startswith(("aten::empty", "aten::resize", "aten::new_empty")):
                end = max(end, ended)
            elif name == "aten::fill" and ended <= end:
                total += ended - begin
        shares.append(total / max(1, step.end - step.begin))
    return interval(median(shares), quantile(shares, 0.25), quantile(shares, 0.75))


# A line that does less than this much more in the last step does no more.
GROWS = 1.1


def growing_lines(steps: Sequence[AttributedStep], sites: Sequence[SiteKey]) -> tuple[GrowingLine, ...]:
    """Lines that ran more ops, or touched more bytes, from each attributed step to the next; most grown first."""
    if len(steps) < 2:
        return ()
    counted = [_by_line(step, sites) for step in steps]
    first, last = counted[0], counted[-1]
    found = []
    for place, (ops, size) in last.items():
        if place not in first:
            continue
        ops_before, size_before = first[place]
        if ops < GROWS * ops_before and size < GROWS * max(1, size_before):
            continue
        course = [one.get(place, (0, 0)) for one in counted]
        if all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(course)):
            path, line = place
            code = linecache.getline(path, line).strip()[:200] if path and line else ""
            where = Place(path=path, line=line, code=code or None)
            grown = GrowingLine(place=where, ops=(ops_before, ops), bytes=(size_before, size), steps=len(steps))
            found.append(grown)
    return tuple(sorted(found, key=lambda one: one.bytes[0] - one.bytes[1]))


def _by_line(step: AttributedStep, sites: Sequence[SiteKey]) -> dict[tuple[str | None, int | None], tuple[int, int]]:
    ops: Counter[tuple[str | None, int | None]] = Counter()
    size: Counter[tuple[str | None, int | None]] = Counter()
    for at, index in enumerate(step.site):
        place = sites[index][3], sites[index][4]
        ops[place] += 1
        size[place] += sum(step.sizes[step.offsets[at] : step.offsets[at + 1]])
    return {place: (ops[place], size[place]) for place in ops}
