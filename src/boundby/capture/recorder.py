"""Record steps by the role the schedule gives them: time them, watch them, or leave them alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from boundby.capture.attribute import AttributedStep, AttributingWatcher, SiteKey
from boundby.capture.calibrate import LevelRatio
from boundby.capture.lean import DoubledWatcher, LeanStep, LeanWatcher
from boundby.capture.schedule import Limits, Role, Schedule
from boundby.capture.usage import faults_and_preemptions
from boundby.results.trace import AnchorReading


class Probes(Protocol):
    """Short probes of the machine's speed that disturb nothing of the user's."""

    def read(self, clock: Callable[[], int]) -> AnchorReading: ...

    def close(self) -> None: ...


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
    ) -> None:
        self.clock = clock
        self._make_probes = probes
        self.level_ratio: LevelRatio | None = None
        self.schedule = Schedule(limits)
        self.warmup_steps = 0
        self.timed_s: list[float] = []
        self.input_s: list[float] = []
        self.faults: list[int] = []
        self.preemptions: list[int] = []
        self.lean: list[LeanStep] = []
        self.doubled: list[LeanStep] = []
        self.attributed: list[AttributedStep] = []
        self.anchor_readings: list[AnchorReading] = []
        self.in_optimizer = False
        self.device: str | None = None
        self.synchronize: Callable[[], None] | None = None
        self._probes: Probes | None = None
        self._watcher: LeanWatcher | AttributingWatcher | None = None
        self._attributing: AttributingWatcher | None = None
        self._active = False
        self._begin_ns = 0
        self._begin_usage = (0, 0)
        self._input_ns = 0
        self._input_from: int | None = None
        self._input_depth = 0
        self._input_at: list[tuple[int, int]] = []

    @property
    def done(self) -> bool:
        """Whether everything planned was recorded."""
        return self.schedule.role is Role.DONE

    @property
    def enough(self) -> bool:
        """Whether a report can be made of what there is."""
        return len(self.timed_s) >= 3 and bool(self.attributed) and bool(self.lean)

    @property
    def site_keys(self) -> Iterable[SiteKey]:
        """Every distinct site seen, in the order of the indices that attributed steps use."""
        return self._attributing.sites if self._attributing is not None else ()

    @property
    def active(self) -> bool:
        """Whether a step is going on."""
        return self._active

    def begin(self) -> None:
        """A step begins."""
        schedule = self.schedule
        if schedule.probes_now:
            self._probe()
        role = schedule.role
        self._input_ns = 0
        self._input_at = []
        self._active = True
        if role in (Role.LEAN, Role.PREPARE):
            watcher: LeanWatcher | AttributingWatcher = LeanWatcher()
        elif role is Role.DOUBLED:
            watcher = DoubledWatcher()
        elif role is Role.ATTRIBUTED:
            if self._attributing is None:
                self._attributing = AttributingWatcher(lambda: self.in_optimizer)
            watcher = self._attributing
            watcher.reset()
        else:
            if self.synchronize is not None:
                self.synchronize()
            self._begin_usage = faults_and_preemptions()
            self._begin_ns = self.clock()
            return
        self._watcher = watcher
        if self._input_depth == 0:
            watcher.start()
        self._begin_usage = faults_and_preemptions()
        self._begin_ns = self.clock()

    def end(self, now: int, *, cycle_known: bool) -> None:
        """The step that began has ended at ``now`` (ns)."""
        if not self._active:
            return
        self._active = False
        role = self.schedule.role
        if role is Role.TIMED:
            if self.synchronize is not None:
                self.synchronize()
                now = self.clock()
            usage = faults_and_preemptions()
            self.faults.append(usage[0] - self._begin_usage[0])
            self.preemptions.append(usage[1] - self._begin_usage[1])
            self.timed_s.append((now - self._begin_ns) / 1e9)
            self.input_s.append(self._input_ns / 1e9)
        elif role is Role.WARMUP:
            self.warmup_steps += 1
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            preemptions = faults_and_preemptions()[1] - self._begin_usage[1]
            watcher.stop()
            if role is Role.PREPARE:
                pass
            elif isinstance(watcher, LeanWatcher):
                under = watcher.under.stamps if isinstance(watcher, DoubledWatcher) else None
                step = LeanStep(watcher.ops, watcher.stamps, self._begin_ns, now, list(self._input_at), under, preemptions)
                (self.lean if under is None else self.doubled).append(step)
            else:
                self.attributed.append(watcher.take())
        self.schedule.finish_step((now - self._begin_ns) / 1e9, cycle_known=cycle_known)

    def discard(self) -> None:
        """What runs now is no whole step; forget it."""
        self._active = False
        if self._watcher is not None:
            self._watcher.stop()
            self._watcher = None

    def restart(self) -> None:
        """Steps turned out to be something else: forget everything but the probes."""
        self.discard()
        self.schedule.restart()
        self.warmup_steps = 0
        self.timed_s.clear()
        self.input_s.clear()
        self.faults.clear()
        self.preemptions.clear()
        self.lean.clear()
        self.doubled.clear()
        self.attributed.clear()

    def input_begins(self) -> None:
        """The step waits for its input from now on; input's own ops are not the step's."""
        self._input_depth += 1
        if self._input_depth > 1:
            return
        if self._watcher is not None:
            self._watcher.stop()
        self._input_from = self.clock()

    def input_ends(self) -> None:
        """The input is there."""
        self._input_depth -= 1
        if self._input_depth > 0 or self._input_from is None:
            return
        spent = self.clock() - self._input_from
        self._input_from = None
        if not self._active:
            return
        self._input_ns += spent
        watcher = self._watcher
        if watcher is not None:
            if isinstance(watcher, LeanWatcher):
                self._input_at.append((len(watcher.ops), spent))
            watcher.start()

    @property
    def in_input(self) -> bool:
        """Whether the user's code is waiting for input right now."""
        return self._input_depth > 0

    def finish(self) -> None:
        """Last probes, then give every buffer back."""
        self.discard()
        if self.timed_s or self.lean:
            self._probe()
        if self._probes is not None:
            self._probes.close()
            self._probes = None

    def _probe(self) -> None:
        import torch

        if self.level_ratio is None:
            self.level_ratio = LevelRatio()
        self.level_ratio.read()
        if self._make_probes is None:
            return
        if self._probes is None:
            self._probes = self._make_probes(torch.get_num_threads())
        self.anchor_readings.append(self._probes.read(self.clock))


def accelerator_in_use() -> tuple[str, Callable[[], None]] | None:
    """The accelerator the process has begun to use, with its synchronisation; None on a plain CPU."""
    import torch

    for name in ("cuda", "xpu", "mps"):
        module: Any = getattr(torch, name, None)
        if module is None or not module.is_available():
            continue
        if name == "mps" or module.is_initialized():
            return name, module.synchronize
    return None
