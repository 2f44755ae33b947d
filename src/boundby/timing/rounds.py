"""Times of calls by a few long rounds taken in turns: the fastest, the median and the slowest of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from boundby.results.call_time import CallTime
from boundby.timing.clock import Clock, clock_resolution_ns, monotonic_ns
from boundby.timing.sampling import STEPS_PER_WINDOW, find_loops, time_window, warm_up
from boundby.timing.statistics import median

ROUNDS = 5
ROUND_S = 0.02
# Warming up one call takes about so long where its rounds do not settle before.
WARMING_S = 0.25
MOST_WARMUP_ROUNDS = 25


def time_rounds(
    calls: Sequence[Callable[[], object]],
    *,
    rounds: int = ROUNDS,
    round_s: float = ROUND_S,
    synchronize: Callable[[], None] | None = None,
    clock: Clock = monotonic_ns,
    cpu_clock: Clock = time.process_time_ns,
    progress: Callable[[float], None] | None = None,
) -> tuple[CallTime, ...]:
    """Times several calls in turns: each is warmed up, a loop count found for it, and so many rounds are taken.

    Args:
        calls: what to time; results are dropped.
        rounds: how many rounds to take of each, at least 1.
        round_s: how long a round is to last, seconds; one call where a call takes longer, which is then warmed up by
            one call alone.
        synchronize: waits until a device is done; each round ends with it. None: calls are done when they return.
        clock: nanoseconds.
        cpu_clock: nanoseconds of processor time that the process has had.
        progress: called with the share of the work that is done, from 0 to 1, between what is timed.

    Returns:
        One entry a call, in their order.

    Raises:
        ValueError: the clock stood still or stepped back in every round of a call.
    """

    def now() -> int:
        if synchronize is not None:
            synchronize()
        return clock()

    round_s = max(round_s, STEPS_PER_WINDOW * clock_resolution_ns(clock) * 1e-9)
    tell = progress or (lambda share: None)
    loops: list[int] = []
    for call in calls:
        loops.append(_warmed_loops(call, round_s, now))
        tell(len(loops) / len(calls) / (rounds + 1))
    taken: list[list[float]] = [[] for _ in calls]
    busy_s = [0.0 for _ in calls]
    for done in range(rounds):
        for place, (call, count) in enumerate(zip(calls, loops, strict=True)):
            before = cpu_clock()
            taken[place].append(time_window(call, count, now))
            busy_s[place] += (cpu_clock() - before) * 1e-9
        tell((done + 2) / (rounds + 1))
    return tuple(_call_time(*one) for one in zip(taken, loops, busy_s, strict=True))


def _warmed_loops(call: Callable[[], object], round_s: float, now: Clock) -> int:
    """Warms the call up, and says how many of it make a round."""
    first_s = time_window(call, 1, now)
    # The first call may have made what is made once: where time allows, a second one says what others take.
    if first_s >= WARMING_S or (first_s >= round_s and time_window(call, 1, now) >= round_s):
        return 1
    loops = find_loops(call, window_s=round_s, clock=now)
    warm_up(call, loops, clock=now, max_windows=max(1, min(MOST_WARMUP_ROUNDS, int(WARMING_S / round_s))))
    return loops


def _call_time(seconds: Sequence[float], loops: int, busy_s: float) -> CallTime:
    told = tuple(one for one in seconds if one > 0)
    if not told:
        raise ValueError("the clock stood still in every round")
    return CallTime(
        fastest_s=min(told),
        median_s=median(told),
        slowest_s=max(told),
        loops=loops,
        rounds_s=told,
        cpu_share=busy_s / (sum(told) * loops),
    )
