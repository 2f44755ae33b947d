"""The costliest source lines on a report's page, each with the code around it where its file is there, unchanged."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from boundby.report.document import Block, Bullets, Code, Paragraph, Section, Table
from boundby.report.report_words import (
    above_text,
    beyond_lines_text,
    floor_text,
    is_above,
    place_of,
    share_name,
    share_text,
    short_name,
    step_seconds,
    watched_times_text,
    whole_place_of,
)
from boundby.results.language import tr, trn
from boundby.results.op_names import op_name
from boundby.results.report import LineRow, Report, has_shares
from boundby.results.units import format_count, format_percent, format_time

_LISTED = 15
_WITH_CODE = 6
_AROUND = 2
_MOST_OPS = 4
# A line of a generated file may be a megabyte long.
_LONGEST_LINE = 160
_LARGEST_FILE = 4 * 2**20


def lines_section(report: Report, *, folder: str | None, read_sources: bool = True) -> Section:
    """The source lines that take most of a step.

    Args:
        report: whose lines to show.
        folder: paths below it are shown relative to it.
        read_sources: whether files may be read for the lines around; a line's own text is in the report.
    """
    return Section(title=tr("The costliest source lines"), blocks=tuple(_blocks(report, folder, read_sources)))


def _blocks(report: Report, folder: str | None, read_sources: bool) -> Iterator[Block]:
    lines = sorted(report.lines, key=lambda line: -line.time_s)
    if not lines:
        watched = report.step.steps_watched > 0
        yield Paragraph(
            text=tr("Unknown: the step's ops could not be timed.") if watched else tr("Unknown: no step was watched.")
        )
        return
    yield _table(lines, report, folder)
    if of_watched := watched_times_text(report):
        yield Paragraph(text=of_watched)
    if rest := beyond_lines_text(report, lines):
        yield Paragraph(text=rest)
    if any(is_above(one.floors, step_seconds(one, report)) for one in lines[:_LISTED]):
        yield Paragraph(text=above_text())
    modules = _modules(report)
    for excerpt in _excerpts(lines[:_WITH_CODE], read_sources):
        yield Code(text=_text(excerpt, report), caption=whole_place_of(excerpt.path, None, folder))
        yield Bullets(items=tuple(_ops_of(line, modules) for line in excerpt.in_order))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Excerpt:
    """Source text from line ``first`` on, and the costly lines within it."""

    first: int
    texts: tuple[str, ...]
    costly: tuple[LineRow, ...]

    @property
    def path(self) -> str | None:
        """The file it is of, as recorded."""
        return self.costly[0].path

    @property
    def in_order(self) -> list[LineRow]:
        """The costly lines from top to bottom."""
        return sorted(self.costly, key=lambda one: one.line or 0)

    @property
    def last(self) -> int:
        """The number of its last line."""
        return self.first + len(self.texts) - 1


def _excerpts(lines: Sequence[LineRow], read_sources: bool) -> list[_Excerpt]:
    """The code around the lines, the costliest first; what overlaps or meets in a file is one excerpt."""
    found: list[_Excerpt] = []
    for line in lines:
        if not line.code or not line.code.strip():
            continue
        around = _around(line) if read_sources else None
        first, texts = around if around is not None else (line.line or 0, (line.code.strip(),))
        new = _Excerpt(first=first, texts=texts, costly=(line,))
        near = next((one for one in found if around is not None and _meets(one, new)), None)
        if near is None:
            found.append(new)
        else:
            found[found.index(near)] = _joined(near, new)
    return found


def _meets(one: _Excerpt, other: _Excerpt) -> bool:
    alone = len(one.texts) == 1
    return not alone and one.path == other.path and one.first <= other.last + 1 and other.first <= one.last + 1


def _joined(one: _Excerpt, other: _Excerpt) -> _Excerpt:
    texts = {part.first + place: text for part in (one, other) for place, text in enumerate(part.texts)}
    return _Excerpt(
        first=min(texts), texts=tuple(texts[number] for number in sorted(texts)), costly=(*one.costly, *other.costly)
    )


def _text(excerpt: _Excerpt, report: Report) -> str:
    """The excerpt with line numbers, and before each line that has ops its share of the step."""
    known = report.lines if has_shares(report.reconciliation) else ()
    shares = {line.line: format_percent(line.share) for line in known if line.path == excerpt.path}
    width = len(str(excerpt.last)) if excerpt.first else 0
    rows = []
    for number, text in enumerate(_dedented(excerpt.texts), excerpt.first):
        told = shares.get(number or None, "")
        rows.append(f"{told:>6}  {number if number else '':>{width}}  {_cut(text)}".rstrip())
    return "\n".join(rows)


def _table(lines: Sequence[LineRow], report: Report, folder: str | None) -> Table:
    rows = [
        (
            share_text(one.share, report),
            format_time(step_seconds(one, report), digits=2),
            place_of(one.path, one.line, folder),
            format_count(one.calls),
            share_name(one.floors.bound),
            floor_text(one.floors, step_seconds(one, report)),
        )
        for one in lines[:_LISTED]
    ]
    rest = lines[_LISTED:]
    if rest:
        rows.append(
            (
                share_text(sum(one.share for one in rest), report),
                format_time(sum(step_seconds(one, report) for one in rest), digits=2),
                trn("{count} more line", "{count} more lines", len(rest)),
                format_count(sum(one.calls for one in rest)),
                "",
                "",
            )
        )
    return Table(
        caption=tr("Source lines with their ops, those of the backward pass included"),
        head=(
            tr("Of the step"),
            tr("Time"),
            tr("Source line"),
            tr("Ops"),
            tr("Bound by"),
            tr("Against the least time that the measured limits allow"),
        ),
        rows=tuple(rows),
        numeric=(0, 1, 3),
    )


def _ops_of(line: LineRow, modules: dict[tuple[str | None, int | None], str]) -> str:
    """The ops that take most of a line's time, and the module that has most of it."""
    names = ", ".join(short_name(op_name(name)) for name in line.ops[:_MOST_OPS]) or tr("no op")
    number = tr("unknown") if line.line is None else str(line.line)
    module = modules.get((line.path, line.line))
    if module:
        return tr("line {line}: {names}, in {module}", line=number, names=names, module=short_name(module))
    return tr("line {line}: {names}", line=number, names=names)


def _modules(report: Report) -> dict[tuple[str | None, int | None], str]:
    """For each line the module that takes most of its time."""
    times: dict[tuple[str | None, int | None], dict[str, float]] = {}
    for op in report.ops:
        if op.module:
            of_line = times.setdefault((op.path, op.line), {})
            of_line[op.module] = of_line.get(op.module, 0.0) + op.time_s
    return {place: max(known, key=lambda module: known[module]) for place, known in times.items()}


def _around(line: LineRow) -> tuple[int, tuple[str, ...]] | None:
    """The number of the first line and the lines around one, of a Python file that still has it where it was.

    A report may come from somebody else: nothing but the few lines around one that it holds already is read.
    """
    path, number = line.path, line.line
    if path is None or number is None or not path.endswith(".py") or not os.path.isabs(path) or not line.code:
        return None
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > _LARGEST_FILE:
            return None
        with open(path, encoding="utf-8") as file:
            texts = file.read().split("\n")
    except (OSError, ValueError):
        return None
    if not 0 < number <= len(texts) or texts[number - 1].strip() != line.code.strip():
        return None
    first, last = max(1, number - _AROUND), min(len(texts), number + _AROUND)
    while not texts[first - 1].strip():
        first += 1
    while not texts[last - 1].strip():
        last -= 1
    return first, tuple(texts[first - 1 : last])


def _dedented(texts: Sequence[str]) -> list[str]:
    """The lines without the blanks that all of them begin with."""
    shown = [text.rstrip().expandtabs(4) for text in texts]
    indents = [len(text) - len(text.lstrip()) for text in shown if text.strip()]
    return [text[min(indents, default=0) :] for text in shown]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}…"
