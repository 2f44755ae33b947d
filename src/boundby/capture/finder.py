"""Turn events of the user's code into step boundaries: optimizer steps, outermost module calls, marks made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from boundby.capture.cycle import LONGEST, find_cycle
from boundby.capture.schedule import Schedule

MARKED, TRAINING, INFERENCE = "marked", "training", "inference"
_RANK = {None: 0, INFERENCE: 1, TRAINING: 2, MARKED: 3}
# So many events without a cycle, or so many an optimizer or module seen among them, and each event is a step.
PATIENCE = 200
PATIENCE_EACH = 3
# A cycle that held for so many turns was none by chance.
LASTING = 10


class Boundaries(Protocol):
    """What is told where steps begin and end; ``now`` in ns."""

    @property
    def done(self) -> bool: ...

    @property
    def enough(self) -> bool: ...

    def begin(self) -> None: ...

    def end(self, now: int, *, cycle_known: bool) -> None: ...

    def discard(self) -> None: ...

    def restart(self) -> None: ...


class StepRecorder(Boundaries, Protocol):
    """What is told of steps, and of waiting for their input."""

    in_optimizer: bool

    @property
    def schedule(self) -> Schedule: ...

    @property
    def in_input(self) -> bool: ...

    def input_begins(self) -> None: ...

    def input_ends(self) -> None: ...

    def finish(self) -> None: ...


class StepFinder:
    """Finds the natural step: the shortest cycle of events that repeats.

    One optimizer gives a cycle of one; a GAN's two optimizers one of two, or more where one of them steps several
    times. A stronger kind of event (a mark made by hand, then an optimizer step, then an outermost module call) takes
    over from a weaker one, and what was recorded for the weaker one is dropped.
    """

    def __init__(self, steps: Boundaries, on_kind: Callable[[str], None]) -> None:
        self.steps = steps
        self.on_kind = on_kind
        self.kind: str | None = None
        self.irregular = False
        self.events_seen = 0
        self._recent: list[int] = []
        self._hoping_from = 0  # events before there was last reason to hope for a cycle
        self._cycle: list[int] = []
        self._strangers: dict[int, int] = {}  # ident -> event number of its last sighting
        self._position = 0
        self._turns = 0  # whole turns of the cycle since it was found, and how often it broke off
        self._breaks = 0
        self._lost = False
        self._begun = False

    @property
    def period(self) -> int:
        """Events in a step, 1 until a longer cycle is found."""
        return len(self._cycle) or 1

    def event(self, kind: str, ident: int, now: int) -> None:
        """An event at ``now`` (ns): for optimizers the end of their step, for modules the begin of their call."""
        if not self._takes(kind):
            return
        self.events_seen += 1
        self._recent.append(ident)
        if len(self._recent) > 4 * LONGEST:
            del self._recent[: 2 * LONGEST]
        if self.irregular:
            self._boundary(now)
        elif not self._cycle:
            self._search(now)
        elif self._lost:
            if self._recent[-len(self._cycle) :] == self._cycle:
                self._lost, self._position = False, 0
                self.steps.begin()
        elif ident != self._cycle[self._position]:
            self._meet_stranger(ident)
        else:
            self._position = (self._position + 1) % len(self._cycle)
            if self._position == 0:
                self._turns += 1
                self._boundary(now)

    def outranked_by(self, kind: str) -> bool:
        """Whether an event of this kind takes over from those so far."""
        return _RANK[kind] > _RANK[self.kind]

    def mark(self, *, begin: bool, now: int) -> None:
        """A mark made by hand: a step begins, or ends."""
        if not self._takes(MARKED):
            return
        if begin:
            if self._begun:  # left by an exception, a break or the loop's end
                self.steps.discard()
            self._begun = True
            self.steps.begin()
        elif self._begun:
            self.events_seen += 1
            self._begun = False
            self.steps.end(now, cycle_known=True)

    def drop_mark(self) -> None:
        """What the last mark began is no step."""
        if self.kind == MARKED and self._begun:
            self._begun = False
            self.steps.discard()

    def _takes(self, kind: str) -> bool:
        if kind != self.kind:
            if _RANK[kind] < _RANK[self.kind]:
                return False
            if self.kind is not None:
                self.steps.restart()
            self.kind = kind
            self.irregular = False
            self.events_seen = 0
            self._forget()
            self.on_kind(kind)
        return not self.steps.done

    def _forget(self) -> None:
        self._recent = []
        self._hoping_from = self.events_seen
        self._cycle = []
        self._strangers = {}
        self._position = 0
        self._lost = False
        self._begun = False

    def _boundary(self, now: int, *, cycle_known: bool = True) -> None:
        if self._begun:
            self.steps.end(now, cycle_known=cycle_known)
        self._begun = True
        if not self.steps.done:
            self.steps.begin()

    def _search(self, now: int) -> None:
        period = find_cycle(self._recent)
        if period is not None and self._lacks_a_stranger(self._recent[-period:]):
            period = None
        if period is None:
            self.irregular = self._out_of_patience()
            self._boundary(now, cycle_known=self.irregular)
            return
        # A module's event opens its step, an optimizer's closes it: the boundary lies at the cycle's first event for
        # the one and at its last for the other. Cycles are counted from the first event seen.
        start = (len(self._recent) // period - 1) * period
        cycle = self._recent[start : start + period]
        self._cycle = cycle[1:] + cycle[:1] if self.kind == INFERENCE else cycle
        self._position = self._turns = self._breaks = 0
        if period > 1:
            # What was taken for steps so far were parts of one: no measure of warm-up, and never to be kept.
            self.steps.restart()
            self._begun = False
        if self._recent[-period:] == self._cycle:
            self._boundary(now)
        else:
            self.steps.discard()
            self._lost = True
            self._begun = True

    def _out_of_patience(self) -> bool:
        """Whether no cycle is to be hoped for; one of many modules needs two turns of them all to show."""
        searched = self.events_seen - self._hoping_from
        return searched > PATIENCE and searched > PATIENCE_EACH * len(set(self._recent))

    def _lacks_a_stranger(self, cycle: list[int]) -> bool:
        """Whether the cycle leaves out an event that upset the one before and may well come again."""
        return any(ident not in cycle and self.events_seen <= 3 * sighted for ident, sighted in self._strangers.items())

    def _meet_stranger(self, ident: int) -> None:
        """An event that the cycle does not have: a rare extra one, or another cycle has begun."""
        self.steps.discard()
        if ident not in self._cycle:
            self._strangers[ident] = self.events_seen
        self._lost = True
        self._breaks += 1
        by_chance = self._breaks > 2 and self._turns < 2 * self._breaks
        if not self.steps.enough and (by_chance or ident not in self._cycle):
            self.steps.restart()
            self._cycle, self._lost, self._begun = [], False, False
            if self._turns >= LASTING:
                self._hoping_from = self.events_seen
