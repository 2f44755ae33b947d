"""Which ops and source lines changed between two reports: lines are found again after edits above them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from boundby.results.comparison import CountChange, GroupChange, LineChange
from boundby.results.counts import GroupCounts
from boundby.results.report import LEAST_SEEN, MOST_SEEN, LineRow, Report

# A line's time comes from a few watched steps: it is known about so many times less well than the step's.
LINE_DOUBT = 2.0
# Changes of a line below this share of the step are left out.
SMALL_LINE = 0.01
# What a line's time is doubted by where the step's own noise is not known.
UNKNOWN_NOISE = 0.25

_TOTALS = ("ops", "launches", "matmul_flops", "pointwise_flops", "bytes_read", "bytes_written")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A source line as it can be found again in another version of its file; None: unknown."""

    path: str | None
    line: int | None
    code: str | None


def pair_places(a: Sequence[Place], b: Sequence[Place]) -> list[tuple[int | None, int | None]]:
    """Which line of ``a`` is which of ``b``, by their indices; None for one that is on one side only.

    A line is the same where its file and its text are, whatever its number; of equal texts the first is the first. Then
    those whose file has the same name in another folder. A line whose text is not known goes by its number.
    """
    pairs: list[tuple[int | None, int | None]] = []
    left_a, left_b = list(range(len(a))), list(range(len(b)))
    keys: tuple[Callable[[Place], Hashable], ...] = (_in_file, _in_file_of_the_name)
    for key in keys:
        waiting: dict[Hashable, list[int]] = defaultdict(list)
        for index in sorted(left_b, key=lambda one: b[one].line or 0):
            waiting[key(b[index])].append(index)
        found = {
            index: alike.pop(0)
            for index in sorted(left_a, key=lambda one: a[one].line or 0)
            if (alike := waiting[key(a[index])])
        }
        pairs.extend(found.items())
        left_a = [one for one in left_a if one not in found]
        left_b = [one for one in left_b if one not in found.values()]
    return [*pairs, *((one, None) for one in left_a), *((None, one) for one in left_b)]


def compare_lines(a: Report, b: Report, *, told_apart: float | None) -> tuple[LineChange, ...] | None:
    """Lines whose time changed by more than it is doubted, and by more than a hundredth of the step.

    The less the watched steps are like the bare ones, the more it is doubted; too far from them no line is
    compared, and the result is None.

    Args:
        a: the report that is compared with.
        b: the report of which is said what changed.
        told_apart: the least share by which the steps' times would have to differ; None where it is not known.
    """
    unlike = _unlike(a, b)
    if unlike is None:
        return None
    doubt = math.exp(LINE_DOUBT * math.log1p(UNKNOWN_NOISE if told_apart is None else told_apart) + unlike) - 1
    least_s = SMALL_LINE * max(a.step.time_s.median, b.step.time_s.median)
    changes = []
    for row_a, row_b in _paired_rows(a, b):
        # As long as a line's share of the step's own time: windows alone may add up to more or less than that.
        a_s, b_s = _seconds(row_a, a), _seconds(row_b, b)
        change = (b_s or 0.0) - (a_s or 0.0)
        only_one = row_a is None or row_b is None
        if abs(change) < least_s or (not only_one and abs(change) < doubt * min(a_s or 0.0, b_s or 0.0)):
            continue
        row = row_b or row_a
        assert row is not None
        changes.append(
            LineChange(
                path=row.path,
                line_a=None if row_a is None else row_a.line,
                line_b=None if row_b is None else row_b.line,
                code=row.code,
                a_s=a_s,
                b_s=b_s,
                change_s=change,
            )
        )
    return tuple(sorted(changes, key=lambda one: -abs(one.change_s)))


def _unlike(a: Report, b: Report) -> float | None:
    """How far the watched steps of both are from the bare ones, as a logarithm; None where too far, or unknown.

    They are unlike in whole, by the reconciliation, and where time of the bare step is in no line, host code or wait.
    """
    total = 0.0
    for report in (a, b):
        known = report.reconciliation
        covered = sum(row.share for row in report.lines) + report.overhead_parts.host + report.split.input.value
        if known is None or not LEAST_SEEN <= known.value <= MOST_SEEN or covered < LEAST_SEEN:
            return None
        total += abs(math.log(known.value)) - math.log(min(1.0, covered))
    return total


def compare_groups(a: Report, b: Report) -> tuple[GroupChange, ...]:
    """Ops and source lines whose counts are not the same, of each those that changed most first."""
    if not a.counts.ops or not b.counts.ops:
        return ()
    ops_a, ops_b = ({one.name: one for one in report.counts.by_op} for report in (a, b))
    ops = (_changed("op", name, ops_a.get(name), ops_b.get(name)) for name in dict.fromkeys((*ops_a, *ops_b)))
    lines = (_changed("line", _name(*pair), *pair) for pair in _paired_groups(a, b))
    return (*_most_changed(ops), *_most_changed(lines))


def _paired_rows(a: Report, b: Report) -> Iterator[tuple[LineRow | None, LineRow | None]]:
    places = (tuple(Place(path=row.path, line=row.line, code=row.code) for row in report.lines) for report in (a, b))
    for i, j in pair_places(*places):
        yield None if i is None else a.lines[i], None if j is None else b.lines[j]


def _paired_groups(a: Report, b: Report) -> Iterator[tuple[GroupCounts | None, GroupCounts | None]]:
    for i, j in pair_places(_places_of(a), _places_of(b)):
        yield None if i is None else a.counts.by_line[i], None if j is None else b.counts.by_line[j]


def _places_of(report: Report) -> tuple[Place, ...]:
    """The places of ``counts.by_line``, which names them ``path:line``; their text is that of the timed rows."""
    known = {f"{row.path}:{row.line}": row.code for row in report.lines if row.path}
    found = []
    for group in report.counts.by_line:
        path, _, line = group.name.rpartition(":")
        number = int(line) if line.isdecimal() else None
        found.append(Place(path=path if number is not None else group.name, line=number, code=known.get(group.name)))
    return tuple(found)


def _in_file(place: Place) -> Hashable:
    return place.path, _text(place)


def _in_file_of_the_name(place: Place) -> Hashable:
    name = None if place.path is None else PurePosixPath(place.path.replace("\\", "/")).name
    return name, _text(place)


def _text(place: Place) -> str | int | None:
    return place.code.strip() if place.code and place.code.strip() else place.line


def _seconds(row: LineRow | None, report: Report) -> float | None:
    return None if row is None else row.share * report.step.time_s.median


def _name(a: GroupCounts | None, b: GroupCounts | None) -> str:
    return b.name if b is not None else a.name if a is not None else ""


def _changed(by: Literal["op", "line"], name: str, a: GroupCounts | None, b: GroupCounts | None) -> GroupChange | None:
    changes = tuple(
        CountChange(name=total, a=None if a is None else getattr(a, total), b=None if b is None else getattr(b, total))
        for total in _TOTALS
    )
    changed = tuple(one for one in changes if (one.a or 0) != (one.b or 0))
    if not changed:
        return None
    return GroupChange(
        by=by, name=name, a_ops=None if a is None else a.ops, b_ops=None if b is None else b.ops, changes=changed
    )


def _most_changed(groups: Iterator[GroupChange | None]) -> list[GroupChange]:
    """Those with most ops gained or lost first, then those whose work changed most."""

    def order(group: GroupChange) -> tuple[int, int]:
        return (
            -abs((group.b_ops or 0) - (group.a_ops or 0)),
            -sum(abs((one.b or 0) - (one.a or 0)) for one in group.changes),
        )

    return sorted((one for one in groups if one is not None), key=order)
