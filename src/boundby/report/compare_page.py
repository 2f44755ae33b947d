"""A comparison as text for a terminal: the answer first, then what changed, then how far to trust it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import chain

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.bound.compare import changed_counts, count_name, ratio_text
from boundby.report.compare_machines_page import render_machines
from boundby.report.compare_parts import SIDE_WIDTH, format_amount, more_in_json, render_findings, side_name
from boundby.report.page import NARROW, bullets, heading, indented, page_width, render_page
from boundby.report.remedy_words import is_unclear
from boundby.report.report_words import share_name
from boundby.report.safe_text import clean, elide, elide_middle, short_path
from boundby.results.comparison import (
    Comparison,
    CountChange,
    GroupChange,
    LineChange,
    MachineComparison,
    Noise,
    ReportComparison,
    ShareChange,
)
from boundby.results.interval import Interval
from boundby.results.language import tr, trn
from boundby.results.op_names import op_name
from boundby.results.units import format_percent, format_percent_range, format_time

_SHOWN_GROUPS = 5
_SHOWN_LINES = 5
_LONGEST_NAME = 40
# A share whose two bands end below this is not worth a row.
_FOLDED_BELOW = 0.001


def render_comparison(
    comparison: Comparison,
    *,
    width: int,
    color: bool,
    unicode: bool,
    folder: str | None = None,
    path_b: str | None = None,
) -> str:
    """What changed from a to b as lines of text of at most ``width`` columns; the first line is the answer.

    Args:
        comparison: what to show.
        width: columns; used between 40 and 100.
        color: whether ANSI colours may be written.
        unicode: whether characters beyond ASCII may be written; the text is pure ASCII otherwise.
        folder: an absolute path; paths below it are shown relative to it. None shows paths as recorded.
        path_b: where the second file is, for the command to name at the end; none is named where None.

    Returns:
        Text that ends in a newline. Control characters of file names, paths and code are shown as escapes.
    """
    columns = page_width(width)
    if isinstance(comparison, MachineComparison):
        parts = render_machines(comparison, unicode=unicode)
        then = "boundby run --machine {} SCRIPT"
    else:
        parts = _report_parts(comparison, columns, unicode=unicode, folder=folder)
        then = "boundby show {}"
    if path_b is not None:
        following = clean(then.format(shlex.quote(path_b)), unicode=unicode)
        parts = chain(parts, ["", Text(f"{tr('Next')}     {following}")])
    return render_page(parts, width=columns, color=color)


def _report_parts(
    found: ReportComparison, width: int, *, unicode: bool, folder: str | None
) -> Iterator[RenderableType]:
    yield Text(clean(found.sentence, unicode=unicode), style="bold")
    yield ""
    yield heading(tr("What each says"))
    said = ((found.a, found.verdict_a), (found.b, found.verdict_b))
    yield _table(
        (Text(side_name(side, SIDE_WIDTH, unicode=unicode), style="bold"), Text(clean(text, unicode=unicode)))
        for side, text in said
    )
    changed = changed_counts(found.counts)
    yield ""
    yield heading(tr("Counts"), tr("exact, equal on every run and machine"))
    if changed:
        yield _counts(changed, found, width, unicode=unicode)
    else:
        known = next(one for one in found.counts if one.name == "ops")
        if found.counts_equal and known.a is not None:
            told = trn("equal: {count} op a step, and all else", "equal: {count} ops a step, and all else", known.a)
        elif known.a is None and known.b is None:
            told = tr("unknown in both")
        else:
            told = tr("unknown in {name}", name=(found.a if known.a is None else found.b).name)
        yield indented(Text(told))
    yield from _groups(found.groups, width, unicode=unicode, folder=folder)
    if found.time is not None:
        yield from _split(found, width, unicode=unicode)
        yield from _lines(found, width, unicode=unicode, folder=folder)
        yield from _trials(found, width, unicode=unicode)
        if found.time.noise is not None:
            yield ""
            yield heading(tr("How far to trust this"))
            notes = _noise(found.time.noise, found)
            yield bullets(((Text(clean(text, unicode=unicode)), "") for text in notes), mark="  -", mark_width=4)
    yield from render_findings(found.findings, unicode=unicode)


def _counts(changed: tuple[CountChange, ...], found: ReportComparison, width: int, *, unicode: bool) -> Table:
    # A narrow page has room for the counts, and not for their difference.
    wide = width >= NARROW
    table = Table.grid(padding=(0, 3 if wide else 1, 0, 0))
    table.add_column(overflow="fold", min_width=max(cell_len(count_name(one.name)) for one in changed) + 2)
    for _ in range(3 if wide else 2):
        table.add_column(justify="right", overflow="fold")
    names = (Text(side_name(side, width // 5, unicode=unicode), style="dim") for side in (found.a, found.b))
    table.add_row("", *names, *([""] if wide else []))
    for one in changed:
        cells = [
            Text(format_amount(one.name, one.a)),
            Text(format_amount(one.name, one.b)),
            Text(_grown(one), style="bold"),
        ]
        table.add_row(Text(f"  {count_name(one.name)}"), *cells[: 3 if wide else 2])
    return table


def _grown(change: CountChange) -> str:
    """By how much a count grew: exactly, or as a ratio where it is of another order."""
    if change.a is None or change.b is None:
        return ""
    more = change.b - change.a
    sign = "+" if more > 0 else "-"
    share = f" ({sign}{format_percent(abs(more) / change.a)})" if change.a else ""
    return f"{sign}{format_amount(change.name, abs(more))}{share}"


def _groups(
    groups: tuple[GroupChange, ...], width: int, *, unicode: bool, folder: str | None
) -> Iterator[RenderableType]:
    for by, title in (("op", tr("Ops whose counts changed")), ("line", tr("Lines whose counts changed"))):
        mine = [one for one in groups if one.by == by]
        if not mine:
            continue
        yield ""
        yield heading(title)
        room = min(_LONGEST_NAME, width // 2)
        yield _table(
            (
                Text(_groupside_name(one, room, unicode=unicode, folder=folder)),
                Text(_group_changes(one)),
            )
            for one in mine[:_SHOWN_GROUPS]
        )
        if len(mine) > _SHOWN_GROUPS:
            yield more_in_json(len(mine) - _SHOWN_GROUPS)


def _groupside_name(group: GroupChange, room: int, *, unicode: bool, folder: str | None) -> str:
    name = short_path(group.name, folder) if group.by == "line" else op_name(group.name)
    return elide_middle(clean(name, unicode=unicode), room, unicode=unicode)


def _group_changes(group: GroupChange) -> str:
    if group.a_ops is None or group.b_ops is None:
        if group.a_ops is None:
            return trn("new: {count} op", "new: {count} ops", group.b_ops or 0)
        return trn("gone: {count} op", "gone: {count} ops", group.a_ops)
    return tr("; ").join(_group_change(change) for change in group.changes)


def _group_change(change: CountChange) -> str:
    before, after = (format_amount(change.name, value or 0) for value in (change.a, change.b))
    return tr("{count} {before} to {after}", count=count_name(change.name), before=before, after=after)


def _split(found: ReportComparison, width: int, *, unicode: bool) -> Iterator[RenderableType]:
    shown = [one for one in found.split if max(one.a.high, one.b.high) >= _FOLDED_BELOW]
    if not shown:
        return
    yield ""
    yield heading(tr("Where the time of a step goes"), tr("share, its range, its time") if width >= NARROW else "")
    # A narrow page has room for the shares, and neither for their bands nor for what they make of the step.
    wide = width >= NARROW
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(min_width=max(cell_len(share_name(one.name)) for one in shown) + 2)
    for _ in range(5 if wide else 3):
        table.add_column(overflow="fold")
    name_a, name_b = (Text(side_name(side, width // 4, unicode=unicode), style="dim") for side in (found.a, found.b))
    table.add_row("", *((name_a, "", name_b, "", "") if wide else (name_a, name_b, "")))
    for one in shown:
        cells = (Text(text) for text in _share(one, wide=wide, unicode=unicode))
        table.add_row(Text(f"  {share_name(one.name)}"), *cells)
    yield table


def _share(change: ShareChange, *, wide: bool, unicode: bool) -> Iterator[str]:
    for share, seconds in ((change.a, change.a_s), (change.b, change.b_s)):
        if wide:
            yield tr(
                "{value} ({note})",
                value=format_percent(share.value),
                note=format_percent_range(share.low, share.high),
            )
            yield f"{format_time(seconds, digits=2, unicode=unicode)} "
        else:
            yield format_percent(share.value)
    if wide:
        yield _share_told(change)
    else:
        yield "!=" if change.differs else "?" if change.unclear else ""


def _share_told(change: ShareChange) -> str:
    if change.against == "less-and-longer":
        return tr("differs: less work, and longer")
    if change.against == "more-and-shorter":
        return tr("differs: more work, and shorter")
    if change.unclear:
        return tr("cannot tell")
    return tr("differs") if change.differs else tr("no difference")


def _lines(found: ReportComparison, width: int, *, unicode: bool, folder: str | None) -> Iterator[RenderableType]:
    yield ""
    yield heading(tr("Lines whose time changed"), tr("a step, from the few steps that were watched"))
    if found.lines is None:
        yield indented(Text(tr("unknown: the watched steps of one are too unlike the unwatched ones")))
        return
    if not found.lines:
        yield indented(Text(tr("none by more than its noise")))
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", width=10, no_wrap=True)
    table.add_column(overflow="fold")
    for one in found.lines[:_SHOWN_LINES]:
        sign = "+" if one.change_s > 0 else "-"
        change = f"{sign}{format_time(abs(one.change_s), digits=2, unicode=unicode)}"
        table.add_row(
            Text(change, style="bold"), Text("\n").join(_line(one, width - 12, unicode=unicode, folder=folder))
        )
    yield table
    if len(found.lines) > _SHOWN_LINES:
        yield more_in_json(len(found.lines) - _SHOWN_LINES)


def _line(line: LineChange, room: int, *, unicode: bool, folder: str | None) -> Iterator[Text]:
    number = line.line_b if line.line_b is not None else line.line_a
    if line.path is None:
        place = tr("outside any line of the script")
    else:
        place = clean(short_path(line.path, folder), unicode=unicode) + ("" if number is None else f":{number}")
    yield Text(elide_middle(place, room, unicode=unicode), style="bold")
    if line.code and line.code.strip():
        yield Text(elide(clean(line.code.strip(), unicode=unicode), room, unicode=unicode))
    before, after = (
        tr("not there") if seconds is None else format_time(seconds, digits=2, unicode=unicode)
        for seconds in (line.a_s, line.b_s)
    )
    yield Text(tr("{before}, then {after}", before=before, after=after), style="dim")


def _trials(found: ReportComparison, width: int, *, unicode: bool) -> Iterator[RenderableType]:
    if not found.trials:
        return
    yield ""
    yield heading(tr("What remedies did"), tr("times as fast; each in turns with the script as it was then"))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(overflow="fold", max_width=_LONGEST_NAME)
    for _ in range(3):
        table.add_column(overflow="fold")
    names = (Text(side_name(side, width // 4, unicode=unicode), style="dim") for side in (found.a, found.b))
    table.add_row("", *names, "")
    for one in found.trials:
        told = {True: tr("differs"), False: tr("no difference"), None: tr("tried in one only")}[one.differs]
        if one.differs is False and any(side is not None and is_unclear(side) for side in (one.a, one.b)):
            told = tr("cannot be told")
        cells = (_speedup(one.a), _speedup(one.b), told)
        table.add_row(Text(f"  {clean(one.name, unicode=unicode)}"), *map(Text, cells))
    yield table


def _speedup(speedup: Interval | None) -> str:
    if speedup is None:
        return tr("not tried")
    if is_unclear(speedup):
        return tr("unclear ({low}-{high}x)", low=ratio_text(speedup.low)[:-1], high=ratio_text(speedup.high)[:-1])
    return f"{ratio_text(speedup.value)} ({ratio_text(speedup.low)}-{ratio_text(speedup.high)})".replace("x-", "-")


def _noise(noise: Noise, found: ReportComparison) -> Iterator[str]:
    least = format_percent(noise.told_apart)
    if noise.rounds_a is not None and noise.rounds_b is not None:
        yield tr(
            "Step times that differ by less than {least} would not be told apart: rounds within a run spread by "
            "{spread_a} in {a} and {spread_b} in {b}, and two runs of one script differ by up to {between_runs} for no "
            "reason that either shows.",
            least=least,
            spread_a=format_percent(noise.rounds_a),
            a=found.a.name,
            spread_b=format_percent(noise.rounds_b),
            b=found.b.name,
            between_runs=format_percent(noise.between_runs),
        )
    elif found.a.modelled or found.b.modelled:
        yield tr(
            "Step times that differ by less than {least} would not be told apart: that is as far as the model goes.",
            least=least,
        )
    else:
        yield tr(
            "Step times that differ by less than {least} would not be told apart: single steps were not kept, so the "
            "quartiles have to say how far they spread.",
            least=least,
        )
    if noise.machine_ratio is None:
        yield tr("How fast the machine was during each run is not known; the interval does not allow for it.")
    else:
        moved = max(noise.machine_ratio, 1 / noise.machine_ratio)
        yield tr(
            "By the probes of both runs the machine's speed accounts for {times}; the interval holds the ratio with "
            "and without it.",
            times=f"{moved:.2f}x",
        )


def _table(rows: Iterator[tuple[Text, Text]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=1, no_wrap=True)
    table.add_column(overflow="fold", max_width=_LONGEST_NAME)
    table.add_column(overflow="fold")
    for first, second in rows:
        table.add_row("", first, second)
    return table
