"""The watched step as a trace that Perfetto and chrome://tracing open: phases, modules, ops and source lines in time.

Source: Trace Event Format (Chromium project), complete events ``X`` and metadata events ``M``, JSON object form.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from boundby._version import __version__
from boundby.report.report_words import phase_name
from boundby.report.safe_text import clean, short_path
from boundby.results.errors import BoundbyError
from boundby.results.language import tr
from boundby.results.trace import OpSite, Trace

TRACE_FORMATS = (".json",)
"""The extensions that a trace can be written to."""

_PROCESS = 1
_STEP, _LINES = 1, 2  # tracks
_LONGEST_CODE = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    """A stretch of a track, in whole nanoseconds since the step's begin."""

    name: str
    begin: int
    end: int
    track: int
    kind: str
    args: dict[str, Any]


def render_trace(trace: Trace, *, name: str = "", folder: str | None = None) -> bytes:
    """One step in the Trace Event Format, as UTF-8 JSON.

    The track ``step`` holds the step, in it its phases, in these the modules as they contain each other, and in these
    the ops; the track ``source lines`` the lines of the user's code that the ops of a time were made by. Times are
    those of the report: medians over the watched steps, less the cost of watching. Waiting for a DataLoader is not on
    it.

    Args:
        trace: what was watched.
        name: what to call the process that the tracks belong to: the script's name.
        folder: an absolute path; paths below it are named relative to it.

    Raises:
        BoundbyError: ``no-op-times`` where ops were not timed, or the times between them are not known.
    """
    slices = [*_step_track(trace, folder), *_line_track(trace, folder)]
    # What contains others stands before them where both begin at once; sorting keeps that order.
    slices.sort(key=lambda one: (one.begin, one.track))
    plain = {
        "traceEvents": [*_names(name), *map(_event, slices)],
        "displayTimeUnit": "ns",
        "otherData": {
            "tool": f"boundby {__version__}",
            "kind": trace.kind,
            "threads": trace.threads,
            "device": trace.device,
            "steps_watched": sum(one.steps for one in trace.classes),
            "steps_timed": len(trace.step_s),
            "note": "times are corrected for the watching; waiting for a DataLoader is left out",
        },
    }
    return msgspec.json.encode(plain) + b"\n"


def _names(name: str) -> Iterator[dict[str, Any]]:
    """The metadata that gives the process and its tracks their names and their order."""
    yield _metadata("process_name", 0, {"name": _text(name) or "boundby"})
    for track, title in ((_STEP, tr("step")), (_LINES, tr("source lines"))):
        yield _metadata("thread_name", track, {"name": title})
        yield _metadata("thread_sort_index", track, {"sort_index": track})


def _metadata(kind: str, track: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": _PROCESS, "tid": track, "ts": 0, "args": args}


def _event(one: _Slice) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": one.name,
        "cat": one.kind,
        "pid": _PROCESS,
        "tid": one.track,
        "ts": one.begin / 1000,
        "dur": (one.end - one.begin) / 1000,
        "args": one.args,
    }


def _step_track(trace: Trace, folder: str | None) -> Iterator[_Slice]:
    begins, ends, whole = _times(trace)
    assert trace.ops is not None
    sites = [trace.sites[index] for index in trace.ops.site]
    arguments = [_op_args(one, folder) for one in trace.sites]
    yield _Slice(name=trace.step_name, begin=0, end=whole, track=_STEP, kind="step", args={"ops": len(sites)})
    paths = [_nesting(one) for one in sites]
    for first, last, depth in _containers(paths):
        kind = "phase" if depth == 0 else "module"
        name = phase_name(paths[first][0]) if depth == 0 else ".".join(paths[first][1 : depth + 1])
        args = {"ops": last - first + 1}
        yield _Slice(name=_text(name), begin=begins[first], end=ends[last], track=_STEP, kind=kind, args=args)
    for at, one in enumerate(sites):
        own = {"page_faults": trace.ops.faults[at]} if trace.ops.faults[at] else {}
        yield _Slice(
            name=_text(one.op),
            begin=begins[at],
            end=ends[at],
            track=_STEP,
            kind="op",
            args=arguments[trace.ops.site[at]] | own,
        )


def _line_track(trace: Trace, folder: str | None) -> Iterator[_Slice]:
    begins, ends, _ = _times(trace)
    assert trace.ops is not None
    sites = [trace.sites[index] for index in trace.ops.site]
    for first, last in _runs(range(len(sites)), lambda at: (sites[at].path, sites[at].line)):
        site = sites[first]
        if site.path is None:
            continue
        args: dict[str, Any] = {"place": _place(site, folder), "ops": last - first + 1}
        if site.code:
            args["code"] = _text(site.code)
        place = f"{os.path.basename(site.path)}:{site.line}"
        name = f"{place}  {site.code[:_LONGEST_CODE]}" if site.code else place
        yield _Slice(name=_text(name), begin=begins[first], end=ends[last], track=_LINES, kind="line", args=args)


def _times(trace: Trace) -> tuple[list[int], list[int], int]:
    """When each op begins and ends and how long the step lasts, in whole nanoseconds, so that nesting is exact."""
    ops = trace.ops
    if ops is None or not ops.site or not all(map(math.isfinite, (*ops.window_s, *ops.gap_s, ops.tail_s))):
        raise BoundbyError(
            "no-op-times",
            tr("There is no trace to write: the ops of this step could not be timed one after another."),
            tr("Let the script run some ten like steps or more; --watch N watches more of them."),
        )
    begins, ends = [], []
    now = 0.0
    for gap_s, window_s in zip(ops.gap_s, ops.window_s, strict=True):
        # A correction may leave a little less than nothing.
        now += max(gap_s, 0.0)
        begins.append(round(now * 1e9))
        now += max(window_s, 0.0)
        ends.append(round(now * 1e9))
    return begins, ends, round((now + max(ops.tail_s, 0.0)) * 1e9)


def _nesting(site: OpSite) -> tuple[str, ...]:
    """What contains an op: its phase, then the parts of its module's path."""
    return (site.phase, *(site.module.split(".") if site.module else ()))


def _containers(paths: Sequence[tuple[str, ...]]) -> Iterator[tuple[int, int, int]]:
    """Stretches of ops that one phase or module contains, as (first op, last op, depth), outer before inner.

    A module's path is cut nowhere, so that ``blocks`` contains ``blocks.0``; one that is left and entered again is two.
    """

    def inside(first: int, last: int, depth: int) -> Iterator[tuple[int, int, int]]:
        for begin, end in _runs(range(first, last + 1), lambda at: paths[at][: depth + 1]):
            if len(paths[begin]) > depth:
                yield begin, end, depth
                yield from inside(begin, end, depth + 1)

    yield from inside(0, len(paths) - 1, 0)


def _runs(places: range, key: Callable[[int], object]) -> Iterator[tuple[int, int]]:
    """Stretches of neighbours with equal keys, as first and last place."""
    first = places.start
    for at in places:
        if at + 1 == places.stop or key(at + 1) != key(first):
            yield first, at
            first = at + 1


def _op_args(site: OpSite, folder: str | None) -> dict[str, Any]:
    """What a click on an op shows; what is not known or nothing is left out."""
    cost = site.cost
    args: dict[str, Any] = {
        "shapes": _text(site.shapes),
        "dtype": cost.dtype,
        "module": _text(site.module or ""),
        "line": _place(site, folder),
        "code": _text(site.code or ""),
        "matmul_flops": cost.matmul_flops,
        "pointwise_flops": cost.pointwise_flops,
        "bytes_read": cost.bytes_read,
        "bytes_written": cost.bytes_written,
    }
    args = {name: value for name, value in args.items() if value}
    if site.recomputed:
        args["recomputed"] = True
    if not cost.modelled:
        args["modelled"] = False
    return args


def _place(site: OpSite, folder: str | None) -> str:
    return "" if site.path is None else _text(f"{short_path(site.path, folder)}:{site.line}")


def _text(text: str) -> str:
    return clean(text, unicode=True)
