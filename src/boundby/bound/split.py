"""Divide a step's whole wall time among what it was spent on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Literal

import numpy as np

from boundby.bound.ceilings import Ceilings
from boundby.bound.floors import OpFloors, op_floors
from boundby.results.interval import Interval, interval
from boundby.results.report import SHARE_RESOLUTION, MedianTime, OverheadParts, PageFaults, Split, has_shares
from boundby.results.trace import Trace
from boundby.timing.statistics import median_error, quantile

Floats = np.ndarray[Any, np.dtype[np.float64]]
WORK = ("memory", "matmul", "pointwise")
PAGE_BYTES = 4096
# Watched steps are comparable with bare ones to this share of the step, and to this share of what the watching took:
# so much that a bare step has beyond them is more of the same, within a share of what was seen; what lies beyond that
# is nobody knows what.
STEP_SLACK = 0.15
WATCHING_SLACK = 0.25
MOST_STRETCH = 0.3
# An op whose work is less than this share of its overhead is nothing but overhead, in caches colder than the probes'.
NO_WORK = 0.25
# Waits that fewer steps than this have are mishaps (a new epoch's workers), not the way of the script.
RARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTimes:
    """Columns over the ops of a step, seconds: what each op's window consists of, and its floors.

    ``called`` is the part of an op's overhead floor that its window has no room for: it lies in the gap before.
    """

    window: Floats
    called: Floats
    dispatch: Floats
    allocation: Floats
    work: dict[str, Floats]
    unexplained: Floats
    floors: tuple[OpFloors, ...]
    floor_of: np.ndarray[Any, np.dtype[np.int64]]

    def floor(self, name: str, *, end: Literal["value", "low"] = "value") -> Floats:
        """The floor of that name for each op (seconds), or the low end of its band; 0 where it is not known."""
        known = [_end(getattr(one, name), end) for one in self.floors]
        column: Floats = np.array(known, dtype=np.float64)[self.floor_of]
        return column


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The split of a step and all it rests on."""

    time_s: MedianTime
    split: Split
    parts: OverheadParts
    reconciliation: Interval | None
    faults: PageFaults | None
    times: OpTimes | None
    scale: float
    bursty: bool = False


def divide(trace: Trace, ceilings: Ceilings, fault_s: float | None) -> Division:
    """Divide the step's time.

    An op's window is its overhead floor, the page faults inside it, and work. Work up to the upper band of the op's
    largest floor goes to that floor's share; what lies beyond is unexplained. What of the bare step is neither op nor
    input is host overhead, as far as watched steps had gaps for it; a little more stretches all that was seen. Where
    windows and input alone add up to more than the bare step, they are scaled down.
    """
    time_s, waited, bursty = _step_time(trace)
    total = time_s.median
    if fault_s is not None and trace.step_faults and median(trace.step_faults) * fault_s > total:
        # A step cannot spend more on its page faults than it takes: what one costs here is not what was measured.
        fault_s = None
    faults = _page_faults(trace, fault_s)
    # The ceilings are the CPU's, and so are the op windows: of another device they say nothing.
    if trace.ops is None or trace.device != "cpu" or total <= 0:
        return Division(
            time_s=time_s,
            split=_unknown_but(waited / total if total > 0 else 0.0),
            parts=OverheadParts(dispatch=0.0, host=0.0, allocation=0.0),
            reconciliation=None,
            faults=faults,
            times=None,
            scale=1.0,
            bursty=bursty,
        )
    times = _with_missing_faults(_op_times(trace, ceilings, fault_s), trace, fault_s)
    inputs = waited + trace.host_input_s
    windows = float(times.window.sum())
    # What is neither op nor input is host code, as far as watched steps had gaps between ops. A bare step that takes a
    # little longer than all of that took longer all over; what a held up one has beyond, nobody knows where.
    outside = _faults_outside(trace, fault_s)
    between = max(0.0, total - windows - inputs)
    host = min(between, _seen_gaps(trace) + outside)
    more = min(between - host, _slack(trace, total), MOST_STRETCH * (windows + host))
    lost = between - host - more
    stretch = 1.0 + more / (windows + host) if more > 0 else 1.0
    host *= stretch
    outside = min(host, outside)
    host -= outside
    # Of an op called from Python, the call itself and autograd's part come before its window.
    called = min(host, float(times.called.sum()))
    host -= called
    whole = max(windows + inputs, total)
    scale = stretch / whole
    reconciliation = _reconciliation(trace, waited / total, fault_s)
    if reconciliation is not None and not has_shares(reconciliation):
        # Shares of watched steps so unlike the bare one could contradict what its work takes at the least.
        split = _unknown_but(waited / total, prepared=trace.host_input_s / total, watched=reconciliation.value)
        return Division(
            time_s=time_s,
            split=split,
            parts=OverheadParts(dispatch=0.0, host=0.0, allocation=0.0),
            reconciliation=reconciliation,
            faults=faults,
            times=times,
            scale=min(scale, (1.0 - split.input.value) / windows) if windows > 0 else scale,
            bursty=bursty,
        )
    doubt = 0.0 if reconciliation is None else abs(reconciliation.value - 1.0)
    # Work is seen in the windows of watched steps: its share is off by as much of it as those may be.
    off = 0.0 if reconciliation is None else min(1.0, max(1.0 - reconciliation.low, reconciliation.high - 1.0))

    work = {name: float(times.work[name].sum()) for name in WORK}
    dispatch = float(times.dispatch.sum()) * scale + called / whole
    allocation = float(times.allocation.sum()) * scale + outside / whole
    host, called, lost, inputs = (seconds / whole for seconds in (host, called, lost, inputs))
    bands = _bands(times)
    values = {name: work[name] * scale for name in WORK}

    def share(name: str) -> Interval:
        low, high = bands[name]
        # Watched steps that took longer than the bare one scale all down, but no work to less than its floors allow.
        return _clipped(values[name], low * scale * (1.0 - off), max(high * scale * (1.0 + off), low / total))

    split = Split(
        overhead=_clipped(
            dispatch + allocation + host,
            bands["dispatch"][0] * scale + called + host - doubt,
            bands["dispatch"][1] * scale + called + allocation + host + doubt,
        ),
        memory=share("memory"),
        matmul=share("matmul"),
        pointwise=share("pointwise"),
        # Waiting was measured in bare steps themselves; host code that prepares input was seen in watched ones.
        input=_clipped(inputs, max(waited / whole, inputs - doubt), inputs + (doubt if inputs else 0.0)),
        unexplained=_clipped(
            float(times.unexplained.sum()) * scale + lost, 0.0, bands["unexplained"][1] * scale + lost + doubt
        ),
    )
    parts = OverheadParts(dispatch=dispatch, host=host, allocation=allocation)
    return Division(
        time_s=time_s,
        split=split,
        parts=parts,
        reconciliation=reconciliation,
        faults=faults,
        times=times,
        scale=scale,
        bursty=bursty,
    )


def _unknown_but(waiting: float, *, prepared: float = 0.0, watched: float = 1.0) -> Split:
    """The split of a step of which nothing but its share of waiting for input is known.

    Host code that prepares input took the share ``prepared`` of it in watched steps, which came to ``watched`` times
    the bare one: it may have been held up as much as they were, or not at all.
    """
    waiting = min(1.0, waiting)
    nothing = interval(0.0, 0.0, 1.0 - waiting)
    value = min(1.0, waiting + prepared / watched)
    return Split(
        overhead=nothing,
        memory=nothing,
        matmul=nothing,
        pointwise=nothing,
        input=interval(value, waiting, min(1.0, waiting + prepared)),
        unexplained=interval(1.0 - value, 0.0, 1.0 - waiting),
    )


def _step_time(trace: Trace) -> tuple[MedianTime, float, bool]:
    """The bare step's time, the part of it that is waiting for input (seconds), and whether waits come in bursts.

    Where a few steps wait for many, as with a loader's workers, the median wait says nothing and the mean counts: the
    step is then the median of what is not waiting and the mean of what is.
    """
    time_s = _median_time(trace.step_s)
    if not trace.input_s:
        return time_s, 0.0, False
    own = median(step - wait for step, wait in zip(trace.step_s, trace.input_s, strict=True))
    mean, middle = sum(trace.input_s) / len(trace.input_s), median(trace.input_s)
    waiting = sum(wait > 0.1 * own for wait in trace.input_s) / len(trace.input_s)
    if waiting < RARE or mean < 1.25 * middle or mean < 0.05 * own:
        return time_s, middle, False
    whole = own + mean
    return MedianTime(median=whole, low=min(time_s.low, whole), high=max(time_s.high, whole)), mean, True


def _op_times(trace: Trace, ceilings: Ceilings, fault_s: float | None) -> OpTimes:
    ops = trace.ops
    assert ops is not None
    window = np.frombuffer(ops.window_s, dtype=np.float64)
    site = np.frombuffer(ops.site, dtype=np.uint32).astype(np.int64)
    distance = np.frombuffer(ops.distance_bytes, dtype=np.float64)
    # Floors are looked up once for each site and each doubling (in halves) of the distance.
    level = np.where(distance >= 1, np.floor(2 * np.log2(np.maximum(distance, 1))), -1).astype(np.int64)
    pairs, floor_of = np.unique(site * 1024 + level + 1, return_inverse=True)
    floors = tuple(
        op_floors(trace.sites[int(pair) // 1024], _distance_of(int(pair) % 1024 - 1), ceilings) for pair in pairs
    )
    # What lies within a ceiling's spread in its own run is explained by it; that runs differ is doubt, and no work.
    own = ceilings.of_their_run()
    met = tuple(op_floors(trace.sites[int(pair) // 1024], _distance_of(int(pair) % 1024 - 1), own) for pair in pairs)
    launches = np.array([site_.cost.launches for site_ in trace.sites])[site] > 0
    overhead = np.array([one.overhead.value for one in floors])[floor_of]
    overhead_high = np.array([one.overhead.high for one in met])[floor_of]
    work_high = np.array([one.work.high for one in met])[floor_of]
    # A view has nothing to do but be dispatched.
    dispatch = np.where(launches, np.minimum(window, overhead), window)
    rest = window - dispatch
    # Attributed steps may fault more than those whose windows these are: where theirs are known, no more is charged.
    faults = np.frombuffer(ops.faults, dtype=np.uint32).astype(np.float64)
    if trace.watched and faults.sum() > 0:
        faults *= min(1.0, median(one.faults for one in trace.watched) / float(faults.sum()))
    allocation = np.minimum(rest, faults * (fault_s or 0.0))
    rest = rest - allocation
    if trace.step_faults and allocation.sum() > median(trace.step_faults) * (fault_s or 0.0):
        # Faults that only watched steps had are no part of the bare one.
        kept = median(trace.step_faults) * (fault_s or 0.0) / float(allocation.sum())
        window = window - (1.0 - kept) * allocation
        allocation = kept * allocation
    done = np.minimum(rest, work_high)
    rest = rest - done
    work_value = np.array([one.work.value for one in floors])[floor_of]
    slack = np.where(work_value < NO_WORK * overhead, np.maximum(overhead_high, 2 * overhead), overhead_high) - overhead
    slow_dispatch = np.minimum(rest, np.maximum(slack, 0.0))
    binding = np.array([one.binding for one in floors])[floor_of]
    return OpTimes(
        window=window,
        called=np.maximum(overhead - dispatch, 0.0),
        dispatch=dispatch + slow_dispatch,
        allocation=allocation,
        work={name: np.where(binding == name, done, 0.0) for name in WORK},
        unexplained=rest - slow_dispatch,
        floors=floors,
        floor_of=floor_of,
    )


def _with_missing_faults(times: OpTimes, trace: Trace, fault_s: float | None) -> OpTimes:
    """Charge slow writers of fresh memory with page faults that the steps watched for times had beyond attributed ones.

    The observer keeps results alive a little longer, so the allocator may serve other ops from fresh pages than it does
    in a bare step; how many faults a step has is known exactly.
    """
    if trace.ops is None or not trace.watched or not fault_s:
        return times
    missing = float(median(one.faults for one in trace.watched)) * fault_s - float(times.allocation.sum())
    fresh = np.array([0 if one.cost.kind == "inplace" else one.cost.bytes_written for one in trace.sites])
    pages = fresh[np.frombuffer(trace.ops.site, dtype=np.uint32)] / PAGE_BYTES
    possible = np.maximum(np.minimum(times.unexplained, pages * fault_s - times.allocation), 0.0)
    if missing <= 0 or possible.sum() <= 0:
        return times
    moved = possible * min(1.0, missing / float(possible.sum()))
    return replace(times, allocation=times.allocation + moved, unexplained=times.unexplained - moved)


def _slack(trace: Trace, total: float) -> float:
    """Seconds by which a watched step may come out short of a bare one that did the same."""
    watching = median(one.watching_s for one in trace.watched) if trace.watched else 0.0
    return max(STEP_SLACK * total, WATCHING_SLACK * watching)


def _seen_gaps(trace: Trace) -> float:
    """Seconds between ops as the watched steps had them, input left out; endless where none were seen."""
    if trace.ops is None:
        return 0.0
    gaps = float(np.sum(np.frombuffer(trace.ops.gap_s, dtype=np.float64))) + trace.ops.tail_s - trace.host_input_s
    return math.inf if math.isnan(gaps) else max(0.0, gaps)


def _faults_outside(trace: Trace, fault_s: float | None) -> float:
    """Seconds of page faults that a bare step has beyond those of the steps watched for times."""
    if not trace.watched or not trace.step_faults or not fault_s:
        return 0.0
    return max(0.0, median(trace.step_faults) - median(one.faults for one in trace.watched)) * fault_s


def _distance_of(level: int) -> float:
    return 0.0 if level < 0 else math.exp2((level + 0.5) / 2)


def _bands(times: OpTimes) -> dict[str, tuple[float, float]]:
    """Low and high sums (seconds): the least each ceiling demands, and the most that could be its."""
    low = np.array([one.work.low for one in times.floors])[times.floor_of]
    overhead_low = np.array([one.overhead.low for one in times.floors])[times.floor_of]
    bands: dict[str, tuple[float, float]] = {}
    beyond = 0.0
    for name in WORK:
        column = times.work[name]
        mine = column > 0
        least = float(np.minimum(column, low)[mine].sum())
        bands[name] = (least, float(column.sum() + times.unexplained[mine].sum()))
        beyond += float(column.sum()) - least
    bands["dispatch"] = (float(np.minimum(times.dispatch, overhead_low).sum()), float(times.dispatch.sum()))
    bands["unexplained"] = (0.0, float(times.unexplained.sum()) + beyond)
    return bands


def _clipped(value: float, low: float, high: float) -> Interval:
    if value > 0:  # No share that is not nothing is known better than it is told.
        low, high = min(low, value - SHARE_RESOLUTION / 2), max(high, value + SHARE_RESOLUTION / 2)
    return interval(value, max(0.0, low), min(1.0, max(high, value)))


def _median_time(samples: tuple[float, ...]) -> MedianTime:
    return MedianTime(median=median(samples), low=quantile(samples, 0.25), high=quantile(samples, 0.75))


def _page_faults(trace: Trace, fault_s: float | None) -> PageFaults | None:
    if not trace.step_faults:
        return None
    per_step = float(median(trace.step_faults))
    return PageFaults(per_step=per_step, seconds_each=fault_s, time_s=None if fault_s is None else per_step * fault_s)


def _reconciliation(trace: Trace, waited: float, fault_s: float | None) -> Interval | None:
    """The share of the bare step that windows, gaps and waiting explain; ``waited`` is the share that is waiting.

    Page faults that a watched step had more or fewer than the bare ones beside it are set right by their known cost.
    The value is the median over watched steps; its band is twice the median's standard error.
    """
    ratios = [
        max(0.0, one.total_s + (one.beside_faults - one.faults) * (fault_s or 0.0)) / one.beside_s
        for one in trace.watched
        if one.beside_s > 0
    ]
    if not ratios:
        return None
    error = median_error(ratios) * (2.0 if len(ratios) > 2 else 1.0)
    value = median(ratios)
    return interval(
        waited + (1 - waited) * value,
        waited + (1 - waited) * max(0.0, value - error),
        waited + (1 - waited) * (value + error),
    )


def _end(floor: Interval | None, end: Literal["value", "low"]) -> float:
    if floor is None:
        return 0.0
    return floor.value if end == "value" else floor.low
