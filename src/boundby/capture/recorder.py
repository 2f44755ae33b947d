"""Record steps by the role the schedule gives them: time them, watch them, or leave them alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from boundby.capture.attribute import AttributedStep, AttributingWatcher, SiteKey
from boundby.capture.calibrate import NO_COST, Calibration, WatchCost
from boundby.capture.habits import HabitsSeen
from boundby.capture.lean import LeanStep
from boundby.capture.profiled import ProfiledStep, call_name, can_profile, match_calls
from boundby.capture.regions import CompiledCalls
from boundby.capture.schedule import Limits, Role, Schedule
from boundby.capture.usage import StepUsage, usage_now
from boundby.capture.watches import AttributedWatch, LeanWatch, ProfiledWatch, Watch
from boundby.results.counts import REGION_NAME
from boundby.results.trace import AnchorReading

# The profiler keeps hundreds of bytes an op until it ends: a burst ends after so many ops, and a step with more of them
# by itself is left to the lean watcher, which keeps 24 bytes an op.
PROFILED_OPS = 40_000


class Probes(Protocol):
    """Short probes of the machine's speed that disturb nothing of the user's."""

    def read(self, clock: Callable[[], int]) -> AnchorReading: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class Recorded:
    """Columns of timed steps (an entry a step) and the watched steps."""

    timed_s: list[float] = field(default_factory=list)
    input_s: list[float] = field(default_factory=list)
    usage: list[StepUsage] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    lean: list[LeanStep] = field(default_factory=list)
    profiled: list[ProfiledStep] = field(default_factory=list)
    attributed: list[AttributedStep] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    warm_faults: list[int] = field(default_factory=list)


class Recorder:
    """Takes step boundaries and keeps what each step showed.

    Between the end of a step and the begin of the next nothing is timed: probes of the machine's speed and the change
    of watchers happen there.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        probes: Callable[[int], Probes] | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
        habits: HabitsSeen | None = None,
    ) -> None:
        self.clock = clock
        self.habits = habits
        self.schedule = Schedule(limits)
        self.kept = Recorded()
        self.anchor_readings: list[AnchorReading] = []
        self.in_optimizer = False
        self.synchronize: Callable[[], None] | None = None
        self._make_probes = probes
        self._probes: Probes | None = None
        self._calibration: Calibration | None = None
        self._attributing: AttributingWatcher | None = None
        self._use_profiler: bool | None = None
        self._watch: Watch | None = None
        self._burst: ProfiledWatch | None = None
        self._burst_regions = CompiledCalls(_marked_for_profiler)
        self._active = False
        self._turn = 0
        self._begin_ns = 0
        self._begin_usage = StepUsage()
        self._input_ns = 0
        self._input_from = 0
        self._input_depth = 0

    @property
    def done(self) -> bool:
        """Whether everything planned was recorded."""
        return self.schedule.role is Role.DONE

    @property
    def enough(self) -> bool:
        """Whether a report can be made of what there is."""
        kept = self.kept
        return len(kept.timed_s) >= 3 and bool(kept.attributed) and bool(kept.lean or kept.profiled)

    @property
    def in_input(self) -> bool:
        """Whether the user's code is waiting for input right now."""
        return self._input_depth > 0

    @property
    def site_keys(self) -> Iterable[SiteKey]:
        """Every distinct site seen, in the order of the indices that attributed steps use."""
        return self._attributing.sites if self._attributing is not None else ()

    @property
    def watch_cost(self) -> WatchCost:
        """What watching added, as measured between the steps."""
        if self._calibration is None:
            return NO_COST
        return self._calibration.cost()

    def begin(self) -> None:
        """A step begins."""
        if self.schedule.probes_now:
            self._turn += 1
            if self.habits is not None:
                self.habits.begin_round()
            self._probe()
        if self.habits is not None:
            self.habits.begin_step(self.schedule.role)
        self._input_ns = 0
        self._active = True
        watch = self._watch = self._watch_for(self.schedule.role)
        if self.synchronize is not None:
            self.synchronize()
        if watch is not None:
            watch.begin(self.clock())
            if self._input_depth:
                watch.pause(self.clock())
        self._begin_usage = usage_now()
        self._begin_ns = self._input_from = self.clock()
        if isinstance(watch, ProfiledWatch):
            watch.moment(self._begin_ns)

    def end(self, now: int, *, cycle_known: bool) -> None:
        """The step that began has ended at ``now`` (ns)."""
        if not self._active:
            return
        if not cycle_known and self.schedule.role is not Role.WARMUP:
            self.discard()
            return
        self._active = False
        if self.synchronize is not None:
            self.synchronize()
            now = self.clock()
        usage = usage_now().since(self._begin_usage)
        role, kept = self.schedule.role, self.kept
        if self.habits is not None:
            self.habits.end_step(role)
        if role is Role.TIMED:
            kept.usage.append(usage)
            kept.turns.append(self._turn)
            kept.threads.append(torch.get_num_threads())
            kept.timed_s.append((now - self._begin_ns) / 1e9)
            kept.input_s.append(self._input_ns / 1e9)
        elif role is Role.WARMUP:
            kept.warm_faults.append(usage.faults)
        watch, self._watch = self._watch, None
        if watch is not None:
            step = watch.finish(self._begin_ns, now, usage, self._turn)
            if role is not Role.PREPARE:
                self._keep(step)
            elif watch is self._burst:
                self._burst.forget_last()
        upcoming = self.schedule.finish_step((now - self._begin_ns) / 1e9, cycle_known=cycle_known)
        if self._burst is not None and (upcoming not in (Role.LEAN, Role.PREPARE) or self._burst_full()):
            self._close_burst()

    def discard(self) -> None:
        """What runs now is no whole step; forget it."""
        self._active = False
        if self.habits is not None:
            self.habits.discard()
        watch, self._watch = self._watch, None
        if watch is not None and watch is not self._burst:
            watch.finish(0, 0, usage_now(), 0)
        self._close_burst()  # whatever comes now, it may last an hour

    def restart(self) -> None:
        """Steps turned out to be something else: forget everything but the probes."""
        self.discard()
        self.schedule.restart()
        self.kept = Recorded()
        if self.habits is not None:
            self.habits.restart()

    def input_begins(self) -> None:
        """The step waits for its input from now on; input's own ops are not the step's."""
        self._input_depth += 1
        if self._input_depth == 1:
            self._input_from = self.clock()
            if self._watch is not None:
                self._watch.pause(self._input_from)

    def input_ends(self) -> None:
        """The input is there."""
        self._input_depth -= 1
        if self._input_depth == 0 and self._active:
            now = self.clock()
            self._input_ns += now - self._input_from
            if self._watch is not None:
                self._watch.resume(now)

    def finish(self) -> None:
        """Last probes, then give every buffer back."""
        self.discard()
        if self.habits is not None:
            self.habits.finish()
        if self.kept.timed_s or self.kept.lean or self.kept.profiled:
            self._probe()
        if self._probes is not None:
            self._probes.close()
            self._probes = None

    def _watch_for(self, role: Role) -> Watch | None:
        if role is Role.ATTRIBUTED:
            if self._attributing is None:
                self._attributing = AttributingWatcher(lambda: self.in_optimizer, habits=self.habits)
            return AttributedWatch(self._attributing)
        if role in (Role.LEAN, Role.PREPARE):
            seen = self.kept.attributed
            few = bool(seen) and len(seen[-1].ops) <= PROFILED_OPS
            if self._burst is not None:
                return self._burst
            if few and self._use_profiler is not False and can_profile():
                self._burst = ProfiledWatch()
                self._burst_regions.open()
                return self._burst
            return LeanWatch()
        return None

    def _burst_full(self) -> bool:
        """Whether the next step would make the profiler keep too much."""
        assert self._burst is not None
        return (self._burst.steps + 1) * len(self.kept.attributed[-1].ops) > PROFILED_OPS

    def _close_burst(self) -> None:
        """End the profiler and keep its steps; it goes on serving where its calls can be told to be a step's ops."""
        burst, self._burst = self._burst, None
        if burst is None:
            return
        self._burst_regions.close()
        kept = self.kept
        known = [([call_name(op) for op in one.ops], one.works) for one in kept.attributed]
        steps = burst.close()
        if burst.broken:  # the user profiles by themselves
            self._use_profiler = False
        if self._use_profiler is None and steps:
            self._use_profiler = any(match_calls(step, *one) is not None for one in known for step in steps)
        kept.profiled += steps

    def _keep(self, step: LeanStep | AttributedStep | None) -> None:
        if isinstance(step, LeanStep):
            self.kept.lean.append(step)
        elif isinstance(step, AttributedStep):
            self.kept.attributed.append(step)

    def _probe(self) -> None:
        if self._calibration is None:
            self._calibration = Calibration()
        if self.synchronize is None:
            self.synchronize = synchronize_accelerator(
                self.kept.attributed[-1].device if self.kept.attributed else "cpu"
            )
        self._calibration.read()
        if self._make_probes is None:
            return
        if self._probes is None:
            self._probes = self._make_probes(torch.get_num_threads())
        self.anchor_readings.append(self._probes.read(self.clock))


def synchronize_accelerator(device: str) -> Callable[[], None] | None:
    """The synchronisation of the accelerator this process has begun to use; None on a plain CPU.

    Nothing is initialised by asking.

    Args:
        device: where the last attributed step's ops ran; Apple's is known to be in use by that alone.
    """
    for name in ("cuda", "xpu"):
        module: Any = getattr(torch, name, None)
        if module is not None and module.is_initialized():
            return module.synchronize  # type: ignore[no-any-return]  # torch's own, untyped by way of getattr
    return torch.mps.synchronize if device == "mps" else None


def _marked_for_profiler(call: Callable[[], Any]) -> Any:
    """Run a compiled region under a name that the profiler notes."""
    with torch._C._profiler._RecordFunctionFast(REGION_NAME):
        return call()
