"""Short probes for predictions: two callables of boundby's own in turns, in this process, once the script is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from boundby.capture.usage import usage_now
from boundby.remedies.contract import Compared
from boundby.remedies.foreign_load import waiting_s
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
# Threads of a quiet machine wait for a core, all together, for less than this share of the time.
MOST_WAITED = 0.05


class NoTimeLeft(Exception):
    """All probes together have taken the time that they may."""


def preemptions() -> int:
    """How often this process was taken off a core so far."""
    return usage_now().preemptions


@dataclass(frozen=True, slots=True)
class _Turn:
    """Seconds of a call of each, the share of them that threads waited for a core, whether anything else ran there."""

    base_s: float
    changed_s: float
    base_waited: float
    changed_waited: float
    preempted: bool


class TurnsProbe:
    """Times two callables in turns, as the script's own threads are set and none of its modes.

    Turns in which another process took a core, or had one that a thread wanted, are left out. On a machine so busy that
    there are hardly others, the fastest calls are compared: an interruption only ever adds. How much they may have
    waited even so widens the band.

    Args:
        budget_s: seconds for a probe.
        total_s: seconds for all of them, after which a further one is refused; None: no limit.
        clock: nanoseconds.
        interruptions: how often other processes took a core so far.
        waiting: seconds that threads waited for a core so far.
    """

    def __init__(
        self,
        *,
        budget_s: float = BUDGET_S,
        total_s: float | None = None,
        clock: Clock = monotonic_ns,
        interruptions: Callable[[], int] = preemptions,
        waiting: Callable[[], float | None] = waiting_s,
    ) -> None:
        self._budget_s, self._left_s, self._clock = budget_s, total_s, clock
        self._interruptions, self._waiting = interruptions, waiting

    def __call__(
        self, base: Callable[[], object], changed: Callable[[], object], *, budget_s: float | None = None
    ) -> Compared:
        """Both warmed up by one call first.

        Raises:
            NoTimeLeft: further probes would make the run long.
        """
        if self._left_s is not None and self._left_s <= 0.0:
            raise NoTimeLeft
        began = self._clock()
        try:
            return self._compare(base, changed, budget_s or self._budget_s)
        finally:
            if self._left_s is not None:
                self._left_s -= (self._clock() - began) * 1e-9

    def _compare(self, base: Callable[[], object], changed: Callable[[], object], budget_s: float) -> Compared:
        from boundby.timing.set_aside import modes_set_aside

        with modes_set_aside(grad=True):
            sides = (base, changed)
            for call in sides:
                call()
            loops = [max(1, int(WINDOW_S / max(self._seconds(call, 1), 1e-9))) for call in sides]
            return _compared(self._turns(sides, loops, budget_s))

    def _turns(
        self, sides: tuple[Callable[[], object], Callable[[], object]], loops: Sequence[int], budget_s: float
    ) -> list[_Turn]:
        turns: list[_Turn] = []
        calm = 0
        began = self._clock()
        while len(turns) < MOST_TURNS:
            before = self._interruptions()
            seconds, waited = [0.0, 0.0], [0.0, 0.0]
            for which in (0, 1) if len(turns) % 2 == 0 else (1, 0):
                so_far = self._waiting()
                seconds[which] = self._seconds(sides[which], loops[which])
                waited[which] = _share(so_far, self._waiting(), seconds[which] * loops[which])
            preempted = self._interruptions() != before or max(waited) > MOST_WAITED
            turns.append(_Turn(seconds[0], seconds[1], waited[0], waited[1], preempted=preempted))
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
    base_left = 1.0 - min(turns, key=lambda turn: turn.base_s).base_waited
    changed_left = 1.0 - min(turns, key=lambda turn: turn.changed_s).changed_waited
    return Compared(
        base_s=fastest[0],
        changed_s=fastest[1],
        ratio=Interval(
            value=value,
            low=min(value * changed_left, fastest[1] / quantile(base, 0.25)),
            high=max(value / base_left, quantile(changed, 0.25) / fastest[0]),
        ),
    )


def _share(before: float | None, after: float | None, seconds: float) -> float:
    """The part of some seconds that threads waited, below 1; 0 where it is not told."""
    if before is None or after is None:
        return 0.0
    return min(0.99, max(0.0, after - before) / max(seconds, 1e-12))
