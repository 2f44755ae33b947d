"""One step along time: its ops in their order, drawn together into stretches that are few enough to look at."""

from __future__ import annotations

from typing import Any

import numpy as np

from boundby.results.counts import Phase
from boundby.results.report import TimelineSpan
from boundby.results.trace import OpSite, Trace

MOST_SPANS = 400
# Of the whole step: a shorter time without an op belongs to the stretch it lies in.
SHORTEST_GAP = 0.01
# Where even whole phases take turns more often than can be drawn, a stretch is one of so many equal parts of the step.
_MOST_CELLS = 180
_DEEPEST = 6

Floats = np.ndarray[Any, np.dtype[np.float64]]
Whole = np.ndarray[Any, np.dtype[np.int64]]
Truths = np.ndarray[Any, np.dtype[np.bool_]]
_Name = tuple[Phase, str | None]


def timeline(trace: Trace) -> tuple[TimelineSpan, ...]:
    """The watched step as at most ``MOST_SPANS`` stretches in order of time, seconds from its begin.

    Ops of one phase and module that follow one another are one stretch, the short times between them included. Where
    that gives too many, modules are taken by ever shorter beginnings of their paths, then whole phases.

    Args:
        trace: what was watched; its windows and gaps are corrected for the watching already.

    Returns:
        The stretches; none where ops were not timed, or the times between them are not known.
    """
    ops = trace.ops
    if ops is None or len(ops.site) == 0:
        return ()
    window = np.frombuffer(ops.window_s, dtype=np.float64)
    gap = np.frombuffer(ops.gap_s, dtype=np.float64)
    if not (np.isfinite(window).all() and np.isfinite(gap).all() and np.isfinite(ops.tail_s)):
        return ()
    # A correction may leave a little less than nothing.
    window, gap = np.maximum(window, 0.0), np.maximum(gap, 0.0)
    end = np.cumsum(gap + window)
    begin = end - window
    total = float(end[-1]) + max(0.0, ops.tail_s)
    if total <= 0:
        return ()
    site = np.frombuffer(ops.site, dtype=np.uint32).astype(np.int64)
    apart = gap >= SHORTEST_GAP * total
    for depth in range(_DEEPEST, -1, -1):
        keys, names = _keys(trace.sites, depth)
        groups = keys[site]
        starts = _starts(groups, apart)
        if len(starts) + int(apart.sum()) < MOST_SPANS:
            break
    else:
        cells = np.minimum((begin / total * _MOST_CELLS).astype(np.int64), _MOST_CELLS - 1)
        groups = _commonest(groups, window, _starts(cells, apart), len(names))
        starts = _starts(groups, apart)
    return _spans(begin, end, window, starts, apart, groups, names, total)


def _keys(sites: tuple[OpSite, ...], depth: int) -> tuple[Whole, list[_Name]]:
    """For each site the number of its phase and module, modules cut to ``depth`` parts of their path."""
    numbers: dict[_Name, int] = {}
    of_site = []
    for one in sites:
        module = ".".join(one.module.split(".")[:depth]) if one.module and depth else None
        of_site.append(numbers.setdefault((one.phase, module), len(numbers)))
    return np.array(of_site, dtype=np.int64), list(numbers)


def _starts(groups: Whole, apart: Truths) -> Whole:
    """The positions at which another group begins, or at which a long time without an op has just passed."""
    changes = np.concatenate(([True], groups[1:] != groups[:-1]))
    return np.flatnonzero(changes | apart)


def _commonest(groups: Whole, window: Floats, starts: Whole, count: int) -> Whole:
    """Each op's group as the one that takes most of its stretch's time."""
    lengths = np.diff(np.append(starts, len(groups)))
    time = np.stack([np.add.reduceat(np.where(groups == one, window, 0.0), starts) for one in range(count)])
    return np.repeat(time.argmax(axis=0), lengths)


def _spans(
    begin: Floats,
    end: Floats,
    window: Floats,
    starts: Whole,
    apart: Truths,
    groups: Whole,
    names: list[_Name],
    total: float,
) -> tuple[TimelineSpan, ...]:
    last = np.append(starts[1:], len(begin)) - 1
    busy = np.add.reduceat(window, starts)
    spans: list[TimelineSpan] = []
    reached = 0.0
    for first, until, op_s in zip(starts, last, busy, strict=True):
        if apart[first]:
            spans.append(_gap(reached, float(begin[first])))
            reached = float(begin[first])
        phase, module = names[int(groups[first])]
        stop = float(end[until])
        spans.append(
            TimelineSpan(
                phase=phase,
                module=module,
                start_s=reached,
                time_s=stop - reached,
                op_s=float(op_s),
                ops=int(until - first + 1),
            )
        )
        reached = stop
    if total - reached >= SHORTEST_GAP * total:
        spans.append(_gap(reached, total))
    return tuple(spans)


def _gap(start_s: float, stop_s: float) -> TimelineSpan:
    return TimelineSpan(phase="gap", module=None, start_s=start_s, time_s=stop_s - start_s, op_s=0.0, ops=0)
