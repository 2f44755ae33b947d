"""A step as it would run on another machine, by both machines' ceilings: pure.

The trace is rescaled op by op to what the other machine's clock would have shown; it is then divided by that machine's
ceilings exactly as a trace that was taken there would be. What is rescaled, and by what:

* an op's overhead, by the overhead floors of such an op;
* its page faults, by the cost of one;
* its work, by the ratio of the largest work floors, which may be floors of different kinds: what memory binds here may
  be bound by arithmetic there. How far the op stays above its floor is the kernel's, and kept;
* what its floors leave unexplained, as the rest of the op;
* host code between the ops, as the overhead of the ops is;
* waiting for input is kept as it was: it depends on disks and loaders that no ceiling tells of.

An op that has no ceiling there is kept as it was here, and told of.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from boundby.bound.ceilings import Ceilings, Speed
from boundby.bound.floors import OpFloors
from boundby.bound.split import Division, OpTimes
from boundby.results.errors import BoundbyError
from boundby.results.interval import Interval
from boundby.results.language import tr, trn
from boundby.results.machine import Machine
from boundby.results.report import MedianTime
from boundby.results.trace import Trace, WatchedStep

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A trace rescaled to another machine.

    ``time_s`` is the step's time there, with the band that the ceilings of both machines leave. ``kept`` is the share
    of the step here that has no ceiling there and was left as it was, and ``kept_ops`` the names of those ops.
    """

    trace: Trace
    time_s: MedianTime
    kept: float
    kept_ops: tuple[str, ...]


def check_ceilings(machine: Machine, *, name: str, threads: int) -> None:
    """Make sure that a machine file can say something of a step with so many threads.

    Args:
        machine: what the file holds.
        name: what to call the file: its path as the user wrote it.
        threads: the threads of torch that the step has, or will have.

    Raises:
        BoundbyError: ``no-ceilings-there``.
    """
    if machine.description.device != "cpu":
        raise BoundbyError(
            "no-ceilings-there",
            tr(
                "{name} holds the ceilings of a {device} device; the step ran on a CPU here.",
                name=name,
                device=machine.description.device,
            ),
            tr("Give a file that boundby machine wrote there without --device."),
        )
    if Ceilings(machine, Speed.unknown(), threads=threads).threads_measured:
        return
    measured = machine.description.threads
    if not any(one.threads == measured and one.stack == "torch" for one in machine.ceilings):
        raise BoundbyError(
            "no-ceilings-there",
            tr("{name} holds no ceilings of torch.", name=name),
            tr("Write it with: {command}", command="boundby machine -o FILE.json"),
        )
    raise BoundbyError(
        "no-ceilings-there",
        trn(
            "{name} has ceilings for {count} thread, and the script uses {threads} here.",
            "{name} has ceilings for {count} threads, and the script uses {threads} here.",
            measured,
            name=name,
            threads=str(threads),
        ),
        tr(
            "Run with {variable}, or measure there: {command}",
            variable=f"OMP_NUM_THREADS={measured}",
            command=f"boundby machine --threads {threads} -o FILE.json",
        ),
    )


def rescale(
    trace: Trace, here: Division, there: Division, *, fault_here_s: float | None, fault_there_s: float | None
) -> Elsewhere | None:
    """The trace as it would have been taken on another machine; None where its ops were not timed.

    Args:
        trace: what was watched here.
        here: the trace, divided by this machine's ceilings.
        there: the same trace, divided by the other machine's, for its floors.
        fault_here_s: seconds a page fault takes here; None: unknown.
        fault_there_s: seconds a page fault takes there.
    """
    mine, other = here.times, there.times
    if trace.ops is None or mine is None or other is None:
        return None
    factors = _factors(mine, other)
    fault = fault_there_s / fault_here_s if fault_here_s and fault_there_s else 1.0
    windows = _windows(mine, factors.value, fault)
    total = here.time_s.median
    parts = _parts(here, mine)

    def step_ratio(window: Floats, work: _Ratios, host: float) -> tuple[float, float]:
        """The step's time over that here, and that of what lies between the ops."""
        called = _ratio(float((mine.called * work.overhead).sum()), float(mine.called.sum()))
        between_before = parts.called + parts.host + parts.outside
        between = parts.called * called + parts.host * host + parts.outside * fault
        seen = parts.windows * _ratio(float(window.sum()), float(mine.window.sum())) + between
        lost = parts.lost * _ratio(seen, parts.windows + between_before, otherwise=host)
        return seen + lost + parts.input, _ratio(between, between_before, otherwise=host)

    host = _host_ratio(mine, factors.value)
    ratio, gap_ratio = step_ratio(windows, factors.value, host)
    ends = sorted(
        step_ratio(_windows(mine, edge, fault), edge, _host_ratio(mine, edge))[0]
        for edge in (factors.low, factors.high)
    )
    kept = factors.kept[mine.floor_of]
    # Page faults that bare steps do not have were taken off the windows here, and will be there.
    taken_off = np.frombuffer(trace.ops.window_s, dtype=np.float64) - mine.window
    return Elsewhere(
        trace=_rescaled(
            trace,
            windows + taken_off * fault,
            ratio,
            gap_ratio,
            total,
            parts.input,
            (fault_here_s or 0.0, fault_there_s or 0.0),
        ),
        # What the steps spread by here, they will spread by there.
        time_s=MedianTime(
            median=total * ratio,
            low=min(here.time_s.low, total) * min(ratio, ends[0]),
            high=max(here.time_s.high, total) * max(ratio, ends[1]),
        ),
        kept=float(mine.window[kept].sum()) * here.scale,
        kept_ops=_names(trace, kept),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ratios:
    """Time there over time here, an entry an op: of its overhead and of its work."""

    overhead: Floats
    work: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class _Factors:
    """The ratios, and as both machines' bands would have them at best and at worst; ``kept`` by pair of floors."""

    value: _Ratios
    low: _Ratios
    high: _Ratios
    kept: np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The shares of the step here by how they are rescaled; they sum to 1."""

    windows: float
    called: float
    host: float
    outside: float
    lost: float
    input: float


def _factors(here: OpTimes, there: OpTimes) -> _Factors:
    pairs = list(zip(here.floors, there.floors, strict=True))
    overheads = [_between(one.overhead, other.overhead) for one, other in pairs]
    works = [_work(one, other) for one, other in pairs]
    at = here.floor_of

    def column(values: list[float]) -> Floats:
        found: Floats = np.array(values, dtype=np.float64)[at]
        return found

    def edge(of: int) -> _Ratios:
        return _Ratios(overhead=column([one[of] for one in overheads]), work=column([one[of] for one in works]))

    kept = np.array([_is_kept(one, other) for one, other in pairs], dtype=np.bool_)
    return _Factors(value=edge(0), low=edge(1), high=edge(2), kept=kept)


def _between(here: Interval, there: Interval) -> tuple[float, float, float]:
    """There over here: the value, and the least and the most by both bands; nothing changes where one is not known.

    A ceiling compared with itself has no error.
    """
    if here == there or here.value <= 0 or there.value <= 0:
        return 1.0, 1.0, 1.0
    value = there.value / here.value
    least = there.low / here.high if there.low > 0 else value
    most = there.high / here.low if here.low > 0 else value
    return value, min(value, least), max(value, most)


def _work(here: OpFloors, there: OpFloors) -> tuple[float, float, float]:
    if _is_kept(here, there):
        return 1.0, 1.0, 1.0
    value, low, high = _between(here.work, there.work)
    if here.binding == there.binding == "memory":
        # Most of these bands is not knowing which memory the data came from, and that is the same on both machines.
        ends = [value, *(after / before for after, before in _ends(here.memory, there.memory))]
        low, high = max(low, min(ends)), min(high, max(ends))
    return value, low, high


def _ends(here: Interval, there: Interval) -> Iterator[tuple[float, float]]:
    for after, before in ((there.low, here.low), (there.high, here.high)):
        if before > 0 and after > 0:
            yield after, before


def _is_kept(here: OpFloors, there: OpFloors) -> bool:
    """Whether what binds the op here has no ceiling there: any other floor of its would be a guess."""
    if here.binding == "none":
        return False
    floor: Interval | None = getattr(there, here.binding)
    return floor is None or floor.value <= 0


def _windows(times: OpTimes, ratios: _Ratios, fault: float) -> Floats:
    work: Floats = np.sum(list(times.work.values()), axis=0)
    before = times.dispatch + times.allocation + work
    after = times.dispatch * ratios.overhead + times.allocation * fault + work * ratios.work
    # Beyond the floors an op is slower for reasons of its kernel, which it takes along.
    rest = np.where(before > 0, after / np.where(before > 0, before, 1.0), ratios.overhead)
    windows: Floats = after + times.unexplained * rest
    return windows


def _host_ratio(times: OpTimes, ratios: _Ratios) -> float:
    """How host code is rescaled: as the overhead of the step's ops on the whole."""
    floors = np.array([one.overhead.value for one in times.floors])[times.floor_of]
    return _ratio(float((floors * ratios.overhead).sum()), float(floors.sum()))


def _parts(division: Division, times: OpTimes) -> _Parts:
    """The shares of the division by what they consist of."""
    scale = division.scale
    parts = _Parts(
        windows=float(times.window.sum()) * scale,
        called=max(0.0, division.parts.dispatch - float(times.dispatch.sum()) * scale),
        host=division.parts.host,
        outside=max(0.0, division.parts.allocation - float(times.allocation.sum()) * scale),
        lost=0.0,
        input=division.split.input.value,
    )
    return replace(parts, lost=max(0.0, 1.0 - parts.windows - parts.called - parts.host - parts.outside - parts.input))


def _rescaled(
    trace: Trace,
    windows: Floats,
    ratio: float,
    gap_ratio: float,
    total: float,
    input_share: float,
    faults_s: tuple[float, float],
) -> Trace:
    ops = trace.ops
    assert ops is not None
    here_s, there_s = faults_s
    # Waiting is kept, so the rest of a step changes by another ratio than the whole.
    waited = input_share * total
    own = _ratio(ratio * total - waited, total - waited)

    def watched(step: WatchedStep) -> WatchedStep:
        # The faults that it had more or fewer than the bare steps cost what they cost there.
        more = step.beside_faults - step.faults
        return replace(
            step,
            total_s=max(0.0, (step.total_s + more * here_s) * own - more * there_s),
            beside_s=step.beside_s * own,
            watching_s=step.watching_s * own,
        )

    waits = trace.input_s or (0.0,) * len(trace.step_s)
    kept = [min(step, wait + trace.host_input_s) for step, wait in zip(trace.step_s, waits, strict=True)]
    return replace(
        trace,
        step_s=tuple((step - one) * own + one for step, one in zip(trace.step_s, kept, strict=True)),
        watched=tuple(watched(one) for one in trace.watched),
        ops=replace(
            ops,
            window_s=array("d", windows.tolist()),
            gap_s=array("d", (np.frombuffer(ops.gap_s, dtype=np.float64) * gap_ratio).tolist()),
            # The input that was prepared in one of the gaps takes as long as it did.
            tail_s=ops.tail_s * gap_ratio + trace.host_input_s * (1.0 - gap_ratio),
        ),
    )


def _names(trace: Trace, kept: np.ndarray[Any, np.dtype[np.bool_]]) -> tuple[str, ...]:
    assert trace.ops is not None
    indices = np.frombuffer(trace.ops.site, dtype=np.uint32)[kept]
    return tuple(dict.fromkeys(trace.sites[int(index)].op for index in indices))


def _ratio(after: float, before: float, *, otherwise: float = 1.0) -> float:
    return after / before if before > 0 and math.isfinite(after) else otherwise
