"""Short probes for predictions: two callables of boundby's own in turns, in this process, once the script is over."""

from __future__ import annotations

from collections.abc import Callable

from boundby.remedies.contract import Compared
from boundby.results.interval import Interval
from boundby.timing.clock import Clock, monotonic_ns
from boundby.timing.statistics import median, quantile

# A probe may take about this long; where one call takes longer, each is called three times all the same.
BUDGET_S = 0.25
FEWEST_TURNS, MOST_TURNS = 3, 30
# Calls too short for the clock are timed several at once.
WINDOW_S = 2e-4


class TurnsProbe:
    """Times two callables in turns, as the script's own threads are set and none of its modes."""

    def __init__(self, *, budget_s: float = BUDGET_S, clock: Clock = monotonic_ns) -> None:
        self._budget_s, self._clock = budget_s, clock

    def __call__(
        self, base: Callable[[], object], changed: Callable[[], object], *, budget_s: float | None = None
    ) -> Compared:
        """Both warmed up by one call first."""
        from boundby.timing.set_aside import modes_set_aside

        with modes_set_aside(grad=True):
            first = []
            for call in (base, changed):
                call()
                first.append(self._seconds(call, 1))
            loops = [max(1, int(WINDOW_S / max(seconds, 1e-9))) for seconds in first]
            each = sum(seconds * count for seconds, count in zip(first, loops, strict=True))
            turns = max(FEWEST_TURNS, min(MOST_TURNS, int((budget_s or self._budget_s) / max(each, 1e-9))))
            taken: tuple[list[float], list[float]] = ([], [])
            for turn in range(turns):
                order = (0, 1) if turn % 2 == 0 else (1, 0)
                for which in order:
                    taken[which].append(self._seconds((base, changed)[which], loops[which]))
        ratios = [after / before for before, after in zip(*taken, strict=True)]
        return Compared(
            base_s=median(taken[0]),
            changed_s=median(taken[1]),
            ratio=Interval(value=median(ratios), low=quantile(ratios, 0.25), high=quantile(ratios, 0.75)),
        )

    def _seconds(self, call: Callable[[], object], loops: int) -> float:
        before = self._clock()
        for _ in range(loops):
            call()
        return (self._clock() - before) * 1e-9 / loops
