"""Which step is warm-up, timed, watched or left alone: decided step by step, on any clock."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr


class Role(Enum):
    """What is done with a step."""

    WARMUP = "warmup"
    SETTLE = "settle"  # follows probes that disturbed the caches; its time is not kept
    TIMED = "timed"
    ATTRIBUTED = "attributed"
    PREPARE = "prepare"  # watched only to warm the watcher's own code; not kept
    LEAN = "lean"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the user asked for; None: adapt to the step's length. ``watched`` counts attributed and lean steps.

    ``same_steps``: which steps are watched is not to depend on how long steps take, where all three are given.
    """

    warmup: int | None = None
    timed: int | None = None
    watched: int | None = None
    same_steps: bool = False


def checked_limits(*, warmup: int | None, timed: int | None, watched: int | None) -> Limits:
    """Limits from what the user asked for.

    Raises:
        BoundbyError: ``bad-steps`` for a negative warm-up, no timed step or fewer than two watched ones.
    """
    for name, value, least in (("--warmup", warmup, 0), ("--steps", timed, 1), ("--watch", watched, 2)):
        if value is not None and value < least:
            raise BoundbyError(
                "bad-steps",
                tr("{name} must be at least {least}, not {value}", name=name, least=str(least), value=str(value)),
                tr("Leave it out to let boundby choose by the step's length."),
                status=EXIT_USAGE,
            )
    return Limits(warmup=warmup, timed=timed, watched=watched)


LONGEST_WARMUP = 20
SHORT_STEP_S = 0.1
FIRST_TIMED = 3


class Schedule:
    """Gives each step its role, from the durations of the steps before.

    Warm-up goes on until the last step is no longer than 1.5 x the fastest one so far (compilation, first-use set-up),
    at most 20 steps. Then rounds of a few timed steps and one watched step alternate, so that a machine whose speed
    moves hits both alike, and a script that ends early has some of each.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.warm: list[float] = []
        self._plan: list[Role] = []
        self._round_begins: set[int] = set()
        self._at = 0
        self.role = Role.WARMUP if limits.warmup != 0 else Role.DONE
        if limits.warmup == 0:
            self._make_plan(0.05)
            self.role = self._plan[0]

    def restart(self) -> None:
        """Begin again: the natural step turned out to be another one."""
        self.__init__(self.limits)  # type: ignore[misc]  # a fresh start is what is meant

    def finish_step(self, seconds: float, *, cycle_known: bool = True) -> Role:
        """A step of ``seconds`` has ended; returns the role of the next."""
        if self.role is Role.WARMUP:
            self.warm.append(seconds)
            if cycle_known and self._warm_enough():
                self._make_plan(min(self.warm))
                self.role = self._plan[0]
        elif self.role is not Role.DONE:
            self._at += 1
            self.role = self._plan[self._at] if self._at < len(self._plan) else Role.DONE
        return self.role

    @property
    def probes_now(self) -> bool:
        """Whether short machine probes belong before the step that comes (begin of a round)."""
        return bool(self._plan) and self._at in self._round_begins

    def _warm_enough(self) -> bool:
        asked = self.limits.warmup
        if asked is not None:
            return len(self.warm) >= asked
        fastest = min(self.warm)
        enough = 3 if fastest < 1.0 else 2
        if len(self.warm) >= LONGEST_WARMUP:
            return True
        return len(self.warm) >= enough and self.warm[-1] <= 1.5 * fastest and self.warm[-1] <= 1.5 * self.warm[-2]

    def _make_plan(self, step_s: float) -> None:
        timed = self.limits.timed or default_timed(step_s)
        attributed = 2 if step_s < 2.0 or self.limits.same_steps else 1
        total = self.limits.watched or default_lean(step_s) + attributed
        attributed = min(attributed, max(1, total // 2))
        watched = _early_mix(attributed, total - attributed)
        # A long step does not care what the caches held before it, and a script may have few of them.
        short = step_s < SHORT_STEP_S or self.limits.same_steps
        rounds = min(4 if short else 6, len(watched), max(1, timed - FIRST_TIMED + 1))
        # Few timed steps come first, so that a script that ends early was watched too.
        first_timed = min(FIRST_TIMED, timed) if rounds > 1 else timed
        plan: list[Role] = []
        self._round_begins = set()
        for turn in range(rounds):
            self._round_begins.add(len(plan))
            plan += [Role.SETTLE] * short
            later = _share(timed - first_timed, turn - 1, rounds - 1) if turn else first_timed
            plan += [Role.TIMED] * later
            first = sum(_share(len(watched), earlier, rounds) for earlier in range(turn))
            burst = watched[first : first + _share(len(watched), turn, rounds)]
            plan += [one for one in burst if one is Role.ATTRIBUTED]
            lean = [one for one in burst if one is Role.LEAN]
            plan += [Role.PREPARE] * (short and bool(lean))
            plan += lean
        self._plan = plan
        self._at = 0


def _share(total: int, turn: int, rounds: int) -> int:
    """The part of ``total`` that falls to one of ``rounds`` turns; the earlier ones get the larger parts."""
    return -(-total * (turn + 1) // rounds) - -(-total * turn // rounds)


def _early_mix(attributed: int, lean: int) -> list[Role]:
    """One of each kind as early as can be, the rest evenly mixed."""
    rest = [
        ((turn + 0.5) / count, role)
        for role, count in ((Role.ATTRIBUTED, attributed - 1), (Role.LEAN, lean - 1))
        for turn in range(count)
    ]
    return [Role.ATTRIBUTED, Role.LEAN, *(role for _, role in sorted(rest, key=lambda one: one[0]))]


def default_timed(step_s: float) -> int:
    """Timed steps by default: about two seconds' worth, 6 to 60."""
    return max(6, min(60, math.ceil(2.0 / max(step_s, 1e-6))))


def default_lean(step_s: float) -> int:
    """Lean watched steps by default: about one second's worth, 3 to 12."""
    return max(3, min(12, math.ceil(1.0 / max(step_s, 1e-6))))
