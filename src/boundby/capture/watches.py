"""The ways to watch one step, behind one shape: begin, pause while the step waits for input, finish."""

from __future__ import annotations

from typing import Protocol

from boundby.capture.attribute import AttributedStep, AttributingWatcher
from boundby.capture.lean import LeanStep, LeanWatcher
from boundby.capture.profiled import ProfiledStep, ProfilingWatcher, Span, wall_ns
from boundby.capture.usage import StepUsage

WatchedStep = LeanStep | AttributedStep


class Watch(Protocol):
    """Watches one step of this thread; clock readings are in ns of the recorder's clock.

    ``turn`` is the round of timed and watched steps that the step belongs to.
    """

    def begin(self, now: int) -> None: ...

    def pause(self, now: int) -> None: ...

    def resume(self, now: int) -> None: ...

    def finish(self, begin: int, end: int, usage: StepUsage, turn: int) -> WatchedStep | None: ...


class LeanWatch:
    """Two clock reads an op, by a dispatch mode."""

    def __init__(self) -> None:
        self._watcher = LeanWatcher()
        self._paused_at = 0
        self._waits: list[tuple[int, int]] = []

    def begin(self, now: int) -> None:
        """Watch from now on."""
        self._watcher.start()

    def pause(self, now: int) -> None:
        """The step waits for input."""
        self._watcher.stop()
        self._paused_at = now

    def resume(self, now: int) -> None:
        """The input is there."""
        self._waits.append((len(self._watcher.ops), now - self._paused_at))
        self._watcher.start()

    def finish(self, begin: int, end: int, usage: StepUsage, turn: int) -> LeanStep:
        """End watching; what was seen."""
        watcher = self._watcher
        watcher.stop()
        return LeanStep(watcher.ops, watcher.stamps, begin, end, self._waits, usage, turn, watcher.clearings)


class ProfiledWatch:
    """torch's own profiler, on through a burst of steps.

    Starting and stopping it takes milliseconds and leaves the caches cold, so it runs from the first step of a burst to
    the last; ``finish`` only notes a step, ``close`` hands them over. ``steps`` it has seen so far, kept or not.
    """

    def __init__(self) -> None:
        self._watcher = ProfilingWatcher()
        self._running = False
        self._offset = 0
        self._paused_at = 0
        self._waits: list[tuple[int, int]] = []
        self._steps: list[Span] = []
        self.steps = 0

    @property
    def broken(self) -> bool:
        """Whether somebody else took the profiler during the burst, whose steps are lost."""
        return self._watcher.broken

    def begin(self, now: int) -> None:
        """Watch from now on."""
        if not self._running:
            self._watcher.start()
            self._running = True
        self._waits = []

    def moment(self, now: int) -> None:
        """Tie the recorder's clock to the profiler's: ``now`` is this moment."""
        self._offset = wall_ns() - now

    def pause(self, now: int) -> None:
        """The step waits for input."""
        self._paused_at = now

    def resume(self, now: int) -> None:
        """The input is there."""
        self._waits.append((self._paused_at + self._offset, now + self._offset))

    def finish(self, begin: int, end: int, usage: StepUsage, turn: int) -> None:
        """Note the step; its calls come with ``close``."""
        self.steps += 1
        self._steps.append(
            Span(
                begin=begin + self._offset,
                end=end + self._offset,
                waits=self._waits,
                usage=usage,
                turn=turn,
            )
        )

    def forget_last(self) -> None:
        """The step noted last is not to be kept."""
        self._steps.pop()

    def close(self) -> list[ProfiledStep]:
        """End the profiler; the steps of the burst."""
        return self._watcher.stop(self._steps)


class AttributedWatch:
    """Everything about each op but its time; ``watcher`` is shared by all attributed steps, for its interned sites."""

    def __init__(self, watcher: AttributingWatcher) -> None:
        self._watcher = watcher
        watcher.reset()

    def begin(self, now: int) -> None:
        """Watch from now on."""
        self._watcher.start()

    def pause(self, now: int) -> None:
        """The step waits for input."""
        self._watcher.stop()

    def resume(self, now: int) -> None:
        """The input is there."""
        self._watcher.start()

    def finish(self, begin: int, end: int, usage: StepUsage, turn: int) -> AttributedStep:
        """End watching; what was seen."""
        self._watcher.stop()
        return self._watcher.take()
