"""Rounds: every probe a few short windows in turn, again and again until the time is up, and ceilings from the windows.

Taking turns is what makes the ceilings of one measuring fit each other on a machine whose speed moves from second to
second: each probe sees the same mixture of fast and slow moments. Windows are short because another process takes a
core for milliseconds at a time: of many short windows some fall between.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

from boundby.machine.probe import Probe, Reading, Window
from boundby.results.machine import Ceiling
from boundby.timing.clock import Clock, clock_resolution_ns, monotonic_ns
from boundby.timing.sampling import MAX_LOOPS, STEPS_PER_WINDOW
from boundby.timing.statistics import SPREAD_LIMIT, spread

MAX_ROUNDS = 25
WINDOWS_PER_VISIT = 4
LONGEST_WINDOW_S = 5e-4
SHORTEST_WINDOW_S = 1e-4
# What a call this long finds in the caches when it starts is a small part of it.
_LONG_CALL_S = 2e-3
# Probes whose fastest window no other confirms are visited this many times more after each round.
_EXTRA_VISITS = 2
_NEAR = 0.1
# Where a window is looked at whether it is worth going on with.
_PARTS = 5
# A window or visit that takes this many times what was planned was disturbed; the rest of it is left out.
_DISTURBED = 3.0
# The fast side of the samples says what the machine can do, but its very edge is luck: a low quantile repeats better.
VALUE_QUANTILE = 0.15
SLOW_QUANTILE = 0.5
# Rounds go on at least this long, and until the even and the odd windows of each probe give values this near.
FEWEST_TO_CONFIRM = 8
_HALVES_AGREE = 0.03
# Samples kept of a ceiling: enough for its quantiles to 4%, and a few hundred kilobytes for all ceilings together.
MOST_SAMPLES = 25
# Digits that a sample is kept with: a window is timed to a thousandth.
_SAMPLE_DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """All windows kept, by probe key in the order taken; ``rounds`` were whole; ``dropped`` windows had no time.

    ``broken`` are the probes whose call raised, with the first line of what it said. ``unconfirmed`` are the keys of
    probes whose value still moved when the rounds ended.
    """

    windows: Mapping[str, Sequence[Window]]
    rounds: int
    dropped: int
    broken: tuple[tuple[str, str], ...] = ()
    unconfirmed: frozenset[str] = frozenset()


def take_rounds(
    probes: Sequence[Probe],
    *,
    deadline_ns: int,
    clock: Clock = monotonic_ns,
    between: Callable[[], None] = lambda: None,
    progress: Callable[[float], None] = lambda share: None,
    max_rounds: int = MAX_ROUNDS,
    faults: Callable[[], int] | None = None,
) -> Rounds:
    """Times all probes in turns until the value of each is confirmed or time is up; one round at least.

    A value is confirmed where the even and the odd windows of its probe, eight rounds' at least, give it within 3% of
    each other. All probes go on until all are, since they are to see the same moments of a machine whose speed moves.
    After each round, probes whose fastest window stands alone are visited again: on a quiet machine there are hardly
    any, on a busy one they get the time.

    Args:
        probes: what to time.
        deadline_ns: when to stop, by ``clock``. The first round is taken even if that takes longer.
        clock: nanoseconds.
        between: called four times a round, for what has to be read all along (the anchors).
        progress: told the share done, 0 to 1.
        max_rounds: where to stop although time is left.
        faults: the process's minor page faults so far; read from the operating system where None.
    """
    faults = faults or minor_faults
    start_ns = clock()
    costs, broken = _first_costs(probes, clock)
    working = [probe for probe in probes if probe.key in costs]
    window_s = _window_for(list(costs.values()), (deadline_ns - clock()) * 1e-9, clock)
    windows: dict[str, list[Window]] = {probe.key: [] for probe in working}
    dropped = rounds = 0

    def visit(some: Sequence[Probe], *, to_the_end: bool) -> bool:
        """Visits these probes in turn; whether it came to the end before the deadline."""
        nonlocal dropped
        quarter = max(1, -(-len(working) // 4))
        for index, probe in enumerate(some):
            now_ns = clock()
            if now_ns >= deadline_ns and not to_the_end:
                return False
            if index % quarter == 0:
                between()
                progress(min(1.0, max(0.0, (now_ns - start_ns) / max(1, deadline_ns - start_ns))))
            for window in _visit(probe, costs[probe.key], window_s, clock, faults):
                if window.seconds > 0:
                    windows[probe.key].append(window)
                    # A first cost taken at a bad moment would leave the windows too short for ever.
                    costs[probe.key] = min(costs[probe.key], window.seconds)
                else:
                    dropped += 1
        return True

    while rounds < max_rounds and visit(working, to_the_end=rounds == 0):
        rounds += 1
        for _ in range(_EXTRA_VISITS):
            doubtful = [probe for probe in working if not _confirmed(windows[probe.key])]
            if not doubtful or not visit(doubtful, to_the_end=False):
                break
        if rounds >= FEWEST_TO_CONFIRM and all(_settled(windows[probe.key]) for probe in working):
            break
    unconfirmed = frozenset(key for key, taken in windows.items() if not _settled(taken))
    return Rounds(windows=windows, rounds=rounds, dropped=dropped, broken=broken, unconfirmed=unconfirmed)


def minor_faults() -> int:
    """The minor page faults of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def read_ceilings(readings: Sequence[Reading], rounds: Rounds, *, threads: int) -> tuple[Ceiling, ...]:
    """The ceilings that the windows give; a reading whose formula has no answer is left out.

    The value is the formula of a low quantile of each probe's windows. Its band is this run's own (``bands`` widens
    it): the fastest and the median window of the reading's own probe (the first of its keys), everything it is
    corrected by held still, and what it takes ``at_times``; for a reading over several representative ops, the cheapest
    and the dearest of them. Its samples: the formula of single windows of that probe, likewise.

    Args:
        readings: what to work out.
        rounds: the windows.
        threads: how many threads the stack used.
    """
    ceilings = []
    for reading in (_fastest_way(one, rounds.windows) for one in readings):
        band = _band(reading, rounds.windows)
        if band is None:
            continue
        value, low, high = band
        ceilings.append(
            Ceiling(
                kind=reading.kind,
                name=reading.name,
                dtype=reading.dtype,
                threads=threads,
                stack=reading.stack,
                size_bytes=reading.size_bytes,
                shape=reading.shape,
                arguments=reading.arguments,
                value=value,
                low=min(low, value),
                high=max(high, value),
                unit=reading.unit,
                unsteady=_unsteady(reading, rounds.windows),
                windows=len(rounds.windows.get(reading.keys[0], ())),
                samples=_samples(reading, rounds.windows),
            )
        )
    return tuple(ceilings)


def unconfirmed_readings(readings: Sequence[Reading], rounds: Rounds) -> int:
    """How many of the readings rest, by their own probe, on a value that still moved when the rounds ended."""
    return sum(_fastest_way(reading, rounds.windows).keys[0] in rounds.unconfirmed for reading in readings)


def _fastest_way(reading: Reading, windows: Mapping[str, Sequence[Window]]) -> Reading:
    """The reading by that one of its ways of doing the same that was the fastest in the rounds."""
    ways = [key for key in (reading.keys[0], *reading.other_ways) if windows.get(key)]
    if not reading.other_ways or not ways:
        return reading
    best = min(ways, key=lambda key: typical_window(windows[key]).seconds)
    return replace(reading, keys=(best, *reading.keys[1:]), other_ways=())


def _band(reading: Reading, windows: Mapping[str, Sequence[Window]]) -> tuple[float, float, float] | None:
    taken = [windows.get(key, ()) for key in reading.keys]
    if reading.span:
        taken = [one for one in taken if one]
    if not taken or not all(taken):
        return None
    typical = [typical_window(one) for one in taken]
    value = reading.formula(typical)
    if value is None or value <= 0:
        return None
    if reading.span:
        ends = [reading.formula([one]) for one in typical]
    else:
        own = [_at(taken[0], share) for share in (0.0, SLOW_QUANTILE)]
        if reading.at_times is not None and windows.get(reading.at_times):
            own.append(typical_window(windows[reading.at_times]))
        ends = [reading.formula([one, *typical[1:]]) for one in own]
    known = [end for end in ends if end is not None and end > 0]
    return value, min(known, default=value), max(known, default=value)


def _unsteady(reading: Reading, windows: Mapping[str, Sequence[Window]]) -> bool:
    """Whether the reading's own probe was: of several representative ops, most of them."""
    keys = [key for key in (reading.keys if reading.span else reading.keys[:1]) if windows.get(key)]
    spreads = [spread([window.seconds for window in windows[key]]) for key in keys]
    return sum(one > SPREAD_LIMIT for one in spreads) > len(spreads) / 2


def _samples(reading: Reading, windows: Mapping[str, Sequence[Window]]) -> tuple[float, ...]:
    """What single windows of the reading's own probe say, the others held still; by rank where there are too many."""
    if reading.span:
        return ()
    own, *others = (windows[key] for key in reading.keys)
    rest = [typical_window(one) for one in others]
    values = [reading.formula([window, *rest]) for window in _thinned(own)]
    return tuple(float(f"{one:.{_SAMPLE_DIGITS}g}") for one in values if one is not None and one > 0)


def _thinned(windows: Sequence[Window]) -> list[Window]:
    """At most ``MOST_SAMPLES`` windows in the order taken: those at even ranks, the fastest and the slowest among."""
    if len(windows) <= MOST_SAMPLES:
        return list(windows)
    by_time = sorted(range(len(windows)), key=lambda index: windows[index].seconds)
    step = (len(windows) - 1) / (MOST_SAMPLES - 1)
    kept = sorted(by_time[round(rank * step)] for rank in range(MOST_SAMPLES))
    return [windows[index] for index in kept]


def _settled(windows: Sequence[Window]) -> bool:
    """Whether halves of the windows, taken in turns, give the same value."""
    if len(windows) < FEWEST_TO_CONFIRM:
        return False
    first, second = (typical_window(windows[start::2]).seconds for start in (0, 1))
    return max(first, second) <= min(first, second) * (1 + _HALVES_AGREE)


def _confirmed(windows: Sequence[Window]) -> bool:
    """Whether the fastest window has another near it: one alone may be luck, and all of them may be disturbed."""
    if len(windows) < 2:
        return False
    first, second = sorted(window.seconds for window in windows)[:2]
    return second <= first * (1 + _NEAR)


def typical_window(windows: Sequence[Window]) -> Window:
    """The window that a value is read from: at a low quantile, one that was taken.

    Args:
        windows: at least one.
    """
    return _at(windows, VALUE_QUANTILE)


def _at(windows: Sequence[Window], share: float) -> Window:
    """The window at this share of the way from the fastest to the slowest.

    One that was taken, never a mean of two: on a busy machine one may be good and its neighbour ten times as long.
    """
    ordered = sorted(windows, key=lambda one: one.seconds)
    return ordered[int(share * (len(ordered) - 1))]


def _first_costs(probes: Sequence[Probe], clock: Clock) -> tuple[dict[str, float], tuple[tuple[str, str], ...]]:
    """Seconds a call by key, from calls that also warm the probes up; and the probes that raise."""
    resolution_s = clock_resolution_ns(clock) * 1e-9
    costs: dict[str, float] = {}
    broken: list[tuple[str, str]] = []
    for probe in probes:
        try:
            probe.call()
        except (RuntimeError, NotImplementedError) as error:
            broken.append((probe.key, str(error).partition("\n")[0]))
            continue
        taken = _timed(probe.call, 1, clock)
        if taken < 1e-4:
            # Short calls are timed several at once, or the clock's own cost would count as theirs.
            taken = _timed(probe.call, 8, clock)
        costs[probe.key] = max(taken, resolution_s)
    return costs, tuple(broken)


def _timed(call: Callable[[], object], loops: int, clock: Clock) -> float:
    before = clock()
    for _ in repeat(None, loops):
        call()
    return (clock() - before) * 1e-9 / loops


def _window_for(costs: Sequence[float], left_s: float, clock: Clock) -> float:
    """The window length with which about ten rounds fit in the time left, within bounds (seconds)."""
    floor_s = max(SHORTEST_WINDOW_S, STEPS_PER_WINDOW * clock_resolution_ns(clock) * 1e-9)
    window_s = LONGEST_WINDOW_S
    while window_s > floor_s and 10 * sum(max(WINDOWS_PER_VISIT * window_s, cost) + cost for cost in costs) > left_s:
        window_s *= 0.8
    return max(window_s, floor_s)


def _visit(probe: Probe, cost_s: float, window_s: float, clock: Clock, faults: Callable[[], int]) -> list[Window]:
    """A few windows of one probe, or one where a call is long or something is in the way."""
    call = probe.call
    loops = max(1, min(MAX_LOOPS, int(window_s / cost_s)))
    planned_s = WINDOWS_PER_VISIT * window_s
    if probe.prepare is not None:
        probe.prepare()
    elif cost_s < _LONG_CALL_S:
        # Brings the probe's own data back into the caches that the probes before it filled with theirs.
        call()
    visit: list[Window] = []
    spent_s = 0.0
    for _ in range(WINDOWS_PER_VISIT):
        window, seconds = _window(call, loops, _DISTURBED * window_s, clock, faults)
        visit.append(window)
        spent_s += seconds
        # A call longer than its share of the plan needs no second window; the next round brings one.
        if spent_s + loops * cost_s > planned_s * (1.0 if loops == 1 else _DISTURBED):
            break
    return visit


def _window(
    call: Callable[[], object], loops: int, limit_s: float, clock: Clock, faults: Callable[[], int]
) -> tuple[Window, float]:
    """One window and the seconds it took; cut short at a part of its calls where it is already over the limit."""
    part = max(1, loops // _PARTS)
    done, limit_ns = 0, limit_s * 1e9
    faults_before = faults()
    before = now = clock()
    while done < loops and 0 <= now - before <= limit_ns:
        count = min(part, loops - done)
        for _ in repeat(None, count):
            call()
        done += count
        now = clock()
    seconds = (now - before) * 1e-9
    return Window(seconds=seconds / done, faults=(faults() - faults_before) / done), seconds
