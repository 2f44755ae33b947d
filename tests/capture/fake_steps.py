"""A stand-in for the recorder: real schedule, fake clock, and a note of which events each recorded step held."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from boundby.capture.finder import StepFinder
from boundby.capture.schedule import Limits, Role, Schedule


@dataclass(frozen=True)
class Step:
    """One step that ended: the events that fell in it, its role and the clock (ns) at both ends."""

    events: tuple[int, ...]
    role: Role
    begin: int
    end: int


class FakeSteps:
    """What a finder talks to; ``heard`` is the event stream so far, which the test appends to."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.schedule = Schedule(limits or Limits())
        self.steps: list[Step] = []
        self.heard: list[int] = []
        self.restarts = 0
        self.discards = 0
        self.now = 0
        self.opening = True  # an event opens its step (modules); otherwise it closes it (optimizers)
        self._begun_at: tuple[int, int] | None = None

    @property
    def done(self) -> bool:
        return self.schedule.role is Role.DONE

    @property
    def enough(self) -> bool:
        roles = [step.role for step in self.steps]
        return roles.count(Role.TIMED) >= 3 and Role.ATTRIBUTED in roles and Role.LEAN in roles

    def begin(self) -> None:
        self._begun_at = (len(self.heard), self.now)

    def end(self, now: int, *, cycle_known: bool) -> None:
        if self._begun_at is None:
            return
        at, begin = self._begun_at
        self._begun_at = None
        # The event being heard is the last of `heard`: it closes this step or opens the next.
        events = self.heard[at - 1 : -1] if self.opening else self.heard[at:]
        self.steps.append(Step(tuple(events), self.schedule.role, begin, now))
        self.schedule.finish_step((now - begin) / 1e9, cycle_known=cycle_known)

    def discard(self) -> None:
        self.discards += 1
        self._begun_at = None

    def restart(self) -> None:
        self.restarts += 1
        self._begun_at = None
        self.schedule.restart()
        self.steps.clear()

    @property
    def recorded(self) -> list[Step]:
        """Steps that were more than warm-up."""
        return [step for step in self.steps if step.role is not Role.WARMUP]


def play(
    finder: StepFinder,
    steps: FakeSteps,
    kind: str,
    events: Iterable[int],
    *,
    lasting: Sequence[float] = (0.01,),
) -> None:
    """Let ``events`` happen, each after its own seconds (``lasting``, by event, the last for all others)."""
    steps.opening = kind == "inference"
    for ident in events:
        steps.now += int(1e9 * lasting[min(ident, len(lasting) - 1)])
        steps.heard.append(ident)
        finder.event(kind, ident, steps.now)
