"""Aggregate a step's ops: by op and line, by line alone, and into counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from boundby.bound.split import Division, Floats, OpTimes
from boundby.results.counts import REGION_NAME, Counts, GroupCounts, Unmodelled, eager_equivalent, widest_dtype
from boundby.results.report import Floors, LineRow, OpRow
from boundby.results.trace import OpSite, Trace

Rows = np.ndarray[Any, np.dtype[np.int64]]
FLOOR_NAMES = ("overhead", "memory", "matmul", "pointwise")
# Windows are measured, too: a floor that is longer by less than this is met.
MET = 0.95


def op_rows(trace: Trace, division: Division) -> tuple[OpRow, ...]:
    """Ops of one step by op name, source line, module and phase, costliest first."""
    if trace.ops is None or division.times is None:
        return ()
    times = division.times
    columns = {name: times.floor(name) for name in FLOOR_NAMES}
    rows = []
    for at in _grouped(trace, lambda one: (one.op, one.path, one.line, one.module, one.phase)).values():
        first = trace.sites[trace.ops.site[int(at[0])]]
        costs = [trace.sites[trace.ops.site[int(i)]].cost for i in at]
        seconds = float(times.window[at].sum())
        rows.append(
            OpRow(
                op=first.op,
                calls=len(at),
                time_s=seconds,
                share=seconds * division.scale,
                floors=_floors(trace, times, at, columns),
                matmul_flops=sum(one.matmul_flops for one in costs),
                pointwise_flops=sum(one.pointwise_flops for one in costs),
                bytes_read=sum(one.bytes_read for one in costs),
                bytes_written=sum(one.bytes_written for one in costs),
                faults=sum(trace.ops.faults[int(i)] for i in at),
                shapes=first.shapes,
                path=first.path,
                line=first.line,
                code=first.code,
                module=first.module,
                phase=first.phase,
                modelled=all(one.modelled for one in costs),
                dtype=widest_dtype(one.dtype for one in costs),
            )
        )
    return tuple(sorted(rows, key=lambda one: -one.time_s))


def line_rows(trace: Trace, division: Division) -> tuple[LineRow, ...]:
    """Source lines with every op charged to them, costliest first."""
    if trace.ops is None or division.times is None:
        return ()
    times = division.times
    columns = {name: times.floor(name) for name in FLOOR_NAMES}
    rows = []
    for at in _grouped(trace, lambda one: (one.path, one.line)).values():
        sites = [trace.sites[trace.ops.site[int(i)]] for i in at]
        seconds = float(times.window[at].sum())
        by_op: dict[str, float] = defaultdict(float)
        for site, window in zip(sites, times.window[at], strict=True):
            by_op[site.op] += float(window)
        rows.append(
            LineRow(
                path=sites[0].path,
                line=sites[0].line,
                code=sites[0].code,
                calls=len(at),
                time_s=seconds,
                share=seconds * division.scale,
                floors=_floors(trace, times, at, columns),
                ops=tuple(sorted(by_op, key=lambda name: -by_op[name])[:5]),
            )
        )
    return tuple(sorted(rows, key=lambda one: -one.time_s))


def total_counts(trace: Trace, division: Division) -> Counts:
    """The deterministic totals of the step."""
    if trace.ops is None:
        return Counts(saved_bytes=trace.saved_bytes, saved_input_bytes=trace.saved_input_bytes)
    number = np.bincount(np.frombuffer(trace.ops.site, dtype=np.uint32), minlength=len(trace.sites))
    used = [(site, int(count)) for site, count in zip(trace.sites, number, strict=True) if count]

    def total(of: Callable[[OpSite], int]) -> int:
        return sum(of(site) * count for site, count in used)

    return Counts(
        ops=total(lambda one: 1),
        launches=total(lambda one: one.cost.launches),
        matmul_flops=total(lambda one: one.cost.matmul_flops),
        causal_matmul_flops=total(lambda one: one.cost.causal_matmul_flops),
        pointwise_flops=total(lambda one: one.cost.pointwise_flops),
        bytes_read=total(lambda one: one.cost.bytes_read),
        bytes_written=total(lambda one: one.cost.bytes_written),
        saved_bytes=trace.saved_bytes,
        saved_input_bytes=trace.saved_input_bytes,
        graph_breaks=trace.graph_breaks,
        recomputed_flops=total(lambda one: one.cost.matmul_flops if one.recomputed else 0),
        unmodelled=_unmodelled(trace, division, used),
        eager=eager_equivalent(
            [(site.cost, count) for site, count in used],
            regions=sum(count for site, count in used if site.op == REGION_NAME),
        ),
        indexed_bytes_read=total(lambda one: one.cost.indexed_bytes_read),
        indexed_bytes_written=total(lambda one: one.cost.indexed_bytes_written),
        by_op=_by(used, lambda one: one.op),
        by_phase=_by(used, lambda one: one.phase),
        by_module=_by(used, lambda one: one.module or "(none)"),
        by_line=_with_saved(_by(used, lambda one: _line_name(one.path, one.line)), trace),
    )


def partly_modelled(trace: Trace, division: Division) -> tuple[Unmodelled, ...]:
    """Ops of one step whose function's own cost was not measured, those that take most of it first.

    Only those that have work: what is called on a few elements is overhead, whatever it computes.
    """
    if trace.ops is None or division.times is None:
        return ()
    times = division.times
    lacks = np.array([one.function is not None for one in times.floors], dtype=bool)[times.floor_of]
    works = times.window - times.dispatch - times.allocation > 0
    calls: dict[str, int] = defaultdict(int)
    seconds: dict[str, float] = defaultdict(float)
    for at in np.flatnonzero(lacks & works):
        name = trace.sites[trace.ops.site[int(at)]].op
        calls[name] += 1
        seconds[name] += float(times.window[at])
    return tuple(
        Unmodelled(name=name, calls=calls[name], share=seconds[name] * division.scale)
        for name in sorted(calls, key=lambda one: -seconds[one])
    )


def _line_name(path: str | None, line: int | None) -> str:
    return f"{path}:{line}" if path else "(unknown)"


def _with_saved(lines: tuple[GroupCounts, ...], trace: Trace) -> tuple[GroupCounts, ...]:
    """The lines with what their ops keep for backward."""
    if trace.saved_bytes is None or sum(trace.saved_by_line.values()) != trace.saved_bytes:
        return lines
    saved: dict[str, int] = defaultdict(int)
    for (path, line), size in trace.saved_by_line.items():
        saved[_line_name(path, line)] += size
    return tuple(replace(one, saved_bytes=saved[one.name]) for one in lines)


def _unmodelled(trace: Trace, division: Division, used: list[tuple[OpSite, int]]) -> tuple[Unmodelled, ...]:
    calls: dict[str, int] = defaultdict(int)
    for site, count in used:
        if not site.cost.modelled:
            calls[site.op] += count
    seconds: dict[str, float] = defaultdict(float)
    if calls and trace.ops is not None:
        for index, window in zip(trace.ops.site, trace.ops.window_s, strict=True):
            if not trace.sites[index].cost.modelled:
                seconds[trace.sites[index].op] += window
    return tuple(
        Unmodelled(name=name, calls=count, share=seconds[name] * division.scale)
        for name, count in sorted(calls.items(), key=lambda item: -seconds[item[0]])
    )


def _by(used: Iterable[tuple[OpSite, int]], name_of: Callable[[OpSite], str]) -> tuple[GroupCounts, ...]:
    sums: dict[str, list[int]] = defaultdict(lambda: [0] * 6)
    for site, count in used:
        cost = site.cost
        values = (1, cost.launches, cost.matmul_flops, cost.pointwise_flops, cost.bytes_read, cost.bytes_written)
        for at, value in enumerate(values):
            sums[name_of(site)][at] += value * count
    return tuple(
        GroupCounts(
            name=name,
            ops=row[0],
            launches=row[1],
            matmul_flops=row[2],
            pointwise_flops=row[3],
            bytes_read=row[4],
            bytes_written=row[5],
        )
        for name, row in sorted(sums.items(), key=lambda item: (-item[1][2], -item[1][0]))
    )


def _grouped(trace: Trace, key_of: Callable[[OpSite], Hashable]) -> dict[Hashable, Rows]:
    assert trace.ops is not None
    numbers: dict[Hashable, int] = {}
    group_of_site = np.array([numbers.setdefault(key_of(site), len(numbers)) for site in trace.sites], dtype=np.int64)
    groups = group_of_site[np.frombuffer(trace.ops.site, dtype=np.uint32)]
    order = np.argsort(groups, kind="stable")
    edges = np.searchsorted(groups[order], np.arange(len(numbers) + 1))
    found = {}
    for key, number in numbers.items():
        rows = order[edges[number] : edges[number + 1]]
        if len(rows):
            found[key] = rows
    return found


def _floors(trace: Trace, times: OpTimes, at: Rows, columns: dict[str, Floats]) -> Floors:
    sums = {name: float(column[at].sum()) for name, column in columns.items()}
    spent = {
        "overhead": float(times.dispatch[at].sum() + times.allocation[at].sum()),
        "memory": float(times.work["memory"][at].sum()),
        "matmul": float(times.work["matmul"][at].sum()),
        "pointwise": float(times.work["pointwise"][at].sum()),
        "unexplained": float(times.unexplained[at].sum()),
    }
    return Floors(
        overhead_s=sums["overhead"],
        memory_s=sums["memory"],
        matmul_s=sums["matmul"],
        pointwise_s=sums["pointwise"],
        bound=max(spent, key=lambda name: spent[name]),
        above=_is_above(trace, times, at, max(sums, key=lambda name: sums[name])),
    )


def _is_above(trace: Trace, times: OpTimes, at: Rows, name: str) -> bool:
    """Whether ops took less than the low end of their floors of that name allows."""
    assert trace.ops is not None
    room = float(times.window[at].sum())
    if name == "overhead":
        # The call from Python lies in the gap before an op's window; gaps that were not seen may be of any length.
        gaps = np.frombuffer(trace.ops.gap_s, dtype=np.float64)[at]
        room += float(np.where(np.isnan(gaps), np.inf, np.maximum(gaps, 0.0)).sum())
    return room < MET * float(times.floor(name, end="low")[at].sum())
