"""Short probes for predictions: two callables of boundby's own in turns, in this process, once the script is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from boundby.capture.usage import usage_now
from boundby.remedies.contract import Compared
from boundby.results.interval import Interval
from boundby.timing.clock import Clock, monotonic_ns
from boundby.timing.statistics import median, quantile

# A probe may take about this long; where one call takes longer, each is called three times all the same.
BUDGET_S = 0.25
FEWEST_TURNS, MOST_TURNS = 3, 30
# Where other processes took the core in most turns, it goes on for so many times as long to find some without.
PATIENCE = 2.0
# Calls too short for the clock are timed several at once.
WINDOW_S = 2e-4


def preemptions() -> int:
    """How often this process was taken off a core so far."""
    return usage_now().preemptions


@dataclass(frozen=True, slots=True)
class _Turn:
    """Seconds of a call of each, and whether another process took a core meanwhile."""

    base_s: float
    changed_s: float
    preempted: bool


class TurnsProbe:
    """Times two callables in turns, as the script's own threads are set and none of its modes.

    Turns in which another process took a core are left out. On a machine so busy that there are hardly others, the
    fastest calls are compared: an interruption only ever adds.
    """

    def __init__(
        self,
        *,
        budget_s: float = BUDGET_S,
        clock: Clock = monotonic_ns,
        interruptions: Callable[[], int] = preemptions,
    ) -> None:
        self._budget_s, self._clock, self._interruptions = budget_s, clock, interruptions

    def __call__(
        self, base: Callable[[], object], changed: Callable[[], object], *, budget_s: float | None = None
    ) -> Compared:
        """Both warmed up by one call first."""
        from boundby.timing.set_aside import modes_set_aside

        with modes_set_aside(grad=True):
            sides = (base, changed)
            for call in sides:
                call()
            loops = [max(1, int(WINDOW_S / max(self._seconds(call, 1), 1e-9))) for call in sides]
            return _compared(self._turns(sides, loops, budget_s or self._budget_s))

    def _turns(
        self, sides: tuple[Callable[[], object], Callable[[], object]], loops: Sequence[int], budget_s: float
    ) -> list[_Turn]:
        turns: list[_Turn] = []
        calm = 0
        began = self._clock()
        while len(turns) < MOST_TURNS:
            before = self._interruptions()
            seconds = [0.0, 0.0]
            for which in (0, 1) if len(turns) % 2 == 0 else (1, 0):
                seconds[which] = self._seconds(sides[which], loops[which])
            turns.append(_Turn(seconds[0], seconds[1], preempted=self._interruptions() != before))
            calm += not turns[-1].preempted
            spent = (self._clock() - began) * 1e-9
            if len(turns) >= FEWEST_TURNS and spent > budget_s * (1.0 if calm >= FEWEST_TURNS else PATIENCE):
                break
        return turns

    def _seconds(self, call: Callable[[], object], loops: int) -> float:
        before = self._clock()
        for _ in range(loops):
            call()
        return (self._clock() - before) * 1e-9 / loops


def _compared(turns: Sequence[_Turn]) -> Compared:
    calm = [turn for turn in turns if not turn.preempted]
    if len(calm) >= FEWEST_TURNS:
        ratios = [turn.changed_s / turn.base_s for turn in calm]
        return Compared(
            base_s=median([turn.base_s for turn in calm]),
            changed_s=median([turn.changed_s for turn in calm]),
            ratio=Interval(value=median(ratios), low=quantile(ratios, 0.25), high=quantile(ratios, 0.75)),
        )
    base, changed = ([turn.base_s for turn in turns], [turn.changed_s for turn in turns])
    fastest = min(base), min(changed)
    value = fastest[1] / fastest[0]
    return Compared(
        base_s=fastest[0],
        changed_s=fastest[1],
        ratio=Interval(
            value=value,
            low=min(value, fastest[1] / quantile(base, 0.25)),
            high=max(value, quantile(changed, 0.25) / fastest[0]),
        ),
    )
