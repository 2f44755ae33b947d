"""What a report, or a file of counts, counted, in the form that budgets and baselines are about: pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePath

from boundby.results.budgets import COUNTS, FP32_OR_WIDER, FP64_OR_WIDER, MOVED, Counted, CountedLine, idle_ops
from boundby.results.counts import Counts, GroupCounts
from boundby.results.own_code import PACKAGE_FOLDERS
from boundby.results.report import OpRow, Report

_BY_LINE = ("ops", "launches", "matmul_flops", "pointwise_flops", "bytes_read", "bytes_written")
_BY_OP = ("fp32_matmul_flops", "fp64_matmul_flops", "unmodelled_ops")
_UNKNOWN_LINE = "(unknown)"


def counted_step(report: Report, *, roots: Sequence[str] = ()) -> Counted:
    """The counts of a report's step.

    Args:
        report: where nothing was seen of a step's ops, all of it is unknown.
        roots: the project's folder, and copies of it; paths below these are made relative, others shortened.
    """
    counts = report.counts
    if not counts.ops:
        return Counted(totals=dict.fromkeys(COUNTS), lines=(), by_line=())
    codes = {(row.path, row.line): row.code for row in report.lines}
    rows: dict[str, list[OpRow]] = defaultdict(list)
    for row in report.ops:
        rows[_place_name(row.path, row.line)].append(row)
    widths_known = bool(report.ops) and all(row.dtype is not None for row in report.ops if row.matmul_flops)
    lines = []
    for group in counts.by_line:
        path, number = _place(group)
        here = rows[group.name]
        calls: Counter[str] = Counter()
        for row in here:
            calls[row.op.removesuffix(".default")] += row.calls
        sums = _sums(group) | (_wide(here) if widths_known else {})
        sums["saved_bytes"] = group.saved_bytes or 0
        sums["unmodelled_ops"] = sum(row.calls for row in here if not row.modelled)
        lines.append(
            CountedLine(
                path=None if path is None else project_path(path, roots),
                line=number,
                code=codes.get((path, number)),
                counts={name: value for name, value in sums.items() if value},
                ops=dict(sorted(calls.items())),
                idle=idle_ops((row.op.removesuffix(".default"), row.bytes_read + row.bytes_written) for row in here),
            )
        )
    totals = _totals(counts) | (_wide(report.ops) if widths_known else {})
    known = [*_BY_LINE, *(_BY_OP if widths_known else _BY_OP[2:])]
    if all(group.saved_bytes is not None for group in counts.by_line):
        known.append("saved_bytes")
    return Counted(totals=totals, lines=in_order(lines), by_line=tuple(known), indexed=_indexed(counts))


def counted_call(counts: Counts, *, roots: Sequence[str] = (), seen: Sequence[CountedLine] | None = None) -> Counted:
    """The counts of one call.

    Args:
        counts: its totals, as ``boundby count -o`` keeps them: by line, without the lines' text and their ops.
        roots: the project's folder, and copies of it; paths below these are made relative, others shortened.
        seen: its lines with all that was counted at them, where the call was watched just now.
    """
    lines = []
    if seen is not None:
        wide = {name: sum(one.counts.get(name, 0) for one in seen) for name in _BY_OP[:2]}
        lines = [replace(one, path=None if one.path is None else project_path(one.path, roots)) for one in seen]
        known = (*_BY_LINE, *_BY_OP, "saved_bytes")
        totals = {**_totals(counts), **wide}
        return Counted(totals=totals, lines=in_order(lines), by_line=known, indexed=_indexed(counts))
    for group in counts.by_line:
        path, number = _place(group)
        sums = {name: value for name, value in _sums(group).items() if value}
        name = None if path is None else project_path(path, roots)
        lines.append(CountedLine(path=name, line=number, code=None, counts=sums))
    by_line = _BY_LINE if counts.by_line else ()
    return Counted(totals=_totals(counts), lines=in_order(lines), by_line=by_line, indexed=_indexed(counts))


def project_path(path: str, roots: Sequence[str]) -> str:
    """A path as it is on every computer that the project is checked out on.

    Relative to one of ``roots`` below it; of an installed package what follows ``site-packages``; else the file's name.
    """
    pure = PurePath(path)
    for root in roots:
        if pure.is_relative_to(root):
            return pure.relative_to(root).as_posix()
    for folder in PACKAGE_FOLDERS:
        if folder in pure.parts:
            last = len(pure.parts) - pure.parts[::-1].index(folder)
            return PurePath(*pure.parts[last:]).as_posix()
    return pure.name if pure.is_absolute() else pure.as_posix()


def in_order(lines: Iterable[CountedLine]) -> tuple[CountedLine, ...]:
    """Lines by file and number, so that equal counts make equal files."""
    return tuple(sorted(lines, key=lambda one: (one.path is None, one.path or "", one.line or 0, one.code or "")))


def _totals(counts: Counts) -> dict[str, int | None]:
    unmodelled = sum(one.calls for one in counts.unmodelled)
    return {name: getattr(counts, name, None) for name in COUNTS} | {"unmodelled_ops": unmodelled}


def _indexed(counts: Counts) -> dict[str, int]:
    parts = {name: getattr(counts, f"indexed_{name}") for name in MOVED}
    return {name: part for name, part in parts.items() if part}


def _sums(group: GroupCounts) -> dict[str, int]:
    return {name: getattr(group, name) for name in _BY_LINE}


def _wide(rows: Iterable[OpRow]) -> dict[str, int]:
    rows = tuple(rows)
    return {
        "fp32_matmul_flops": sum(row.matmul_flops for row in rows if row.dtype in FP32_OR_WIDER),
        "fp64_matmul_flops": sum(row.matmul_flops for row in rows if row.dtype in FP64_OR_WIDER),
    }


def _place_name(path: str | None, line: int | None) -> str:
    return f"{path}:{line}" if path else _UNKNOWN_LINE


def _place(group: GroupCounts) -> tuple[str | None, int | None]:
    if group.name == _UNKNOWN_LINE:
        return None, None
    path, _, number = group.name.rpartition(":")
    return (path, int(number)) if number.isdecimal() else (group.name, None)
