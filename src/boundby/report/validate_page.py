"""Estimates beside measurements as text: errors of unseen rows first, then by engine, hardware and kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.llm.lacking import Lack, lacks
from boundby.llm.validate import Compared, Kind, Skipped, Summary, summaries, summarise
from boundby.report.page import bullets, heading, indented, page_width, render_page
from boundby.report.report_words import followed
from boundby.report.safe_text import clean, elide
from boundby.results.language import tr, trn
from boundby.results.units import format_percent, format_time

_WORST = 8
_WIDE = 76
_NAME_WIDTH = 26


def render_validation(
    compared: Sequence[Compared],
    skipped: Sequence[Skipped],
    *,
    each: bool,
    width: int,
    color: bool,
    unicode: bool,
) -> str:
    """The errors as lines of text of at most ``width`` columns; the first line is the answer.

    Args:
        compared: rows with what was expected of them.
        skipped: rows that could not be compared.
        each: whether every row is listed.
        width: columns; used between 40 and 100.
        color: whether ANSI colours may be written.
        unicode: whether characters beyond ASCII may be written.

    Returns:
        Text that ends in a newline.
    """
    columns = page_width(width)
    return render_page(_parts(compared, skipped, columns, each=each, unicode=unicode), width=columns, color=color)


def _parts(
    compared: Sequence[Compared], skipped: Sequence[Skipped], width: int, *, each: bool, unicode: bool
) -> Iterator[RenderableType]:
    unseen = [one for one in compared if not one.used]
    single = [one for one in unseen if one.kind == "one device, batch 1"]
    main = single or unseen or list(compared)
    if not main:
        yield Text(tr("No row could be compared."), style="bold")
    else:
        found = summarise("", main)
        what = (
            trn(
                "{count} measurement on one device at batch 1 that calibration never saw",
                "{count} measurements on one device at batch 1 that calibration never saw",
                found.rows,
            )
            if single
            else trn(
                "{count} measurement compared that calibration never saw",
                "{count} measurements compared that calibration never saw",
                found.rows,
            )
        )
        yield Text(
            tr(
                "{what}: off by {mean} on average, {median} in the median; {inside} lie inside their interval, which "
                "is +-{half_width} wide in the median.",
                what=what,
                mean=format_percent(found.mean),
                median=format_percent(found.median),
                inside=format_percent(found.inside),
                half_width=format_percent(found.half_width),
            ),
            style="bold",
        )
        yield ""
        yield from _all_groups(compared, unseen, width, unicode=unicode)
        yield ""
        shown = list(compared) if each else sorted(unseen or compared, key=lambda one: -abs(one.error))[:_WORST]
        yield heading(tr("Rows") if each else tr("Farthest off"), tr("measured, expected; * calibration saw the row"))
        yield _rows(shown, width, unicode=unicode)
        yield from _what_lacks(unseen, unicode=unicode)
    if skipped:
        yield ""
        yield heading(tr("Not compared"))
        yield bullets(
            (
                (Text(clean(tr("row {id}: {reason}", id=one.row.id, reason=one.reason), unicode=unicode)), "")
                for one in skipped
            ),
            mark="  -",
            mark_width=4,
        )
    yield ""
    yield Text(
        tr(
            "Next     {command}",
            command=tr("{command}, for measurements of your own", command="boundby validate --rows FILE.csv"),
        )
    )


def _what_lacks(unseen: Sequence[Compared], *, unicode: bool) -> Iterator[RenderableType]:
    found = lacks(unseen)
    if not found:
        return
    yield ""
    yield heading(
        tr("What the model lacks"), tr("worst of several devices and of batches; arithmetic on their parts, no fit")
    )
    yield bullets(
        ((Text(clean(lack_text(one), unicode=unicode)), "") for one in found),
        mark="  -",
        mark_width=4,
    )


def lack_text(lack: Lack) -> str:
    """A group of rows, its errors, and what the model lacks there."""
    worst = lack.worst
    errors = [one.error for one in lack.rows]
    devices = "" if worst.row.devices == 1 else f"{_span([one.row.devices for one in lack.rows])} x "
    batches = [one.row.batch for one in lack.rows]
    name = f"{worst.model} {worst.row.weights}, {devices}{worst.row.hardware}, {worst.engine}"
    if max(batches) != 1:
        name = tr("{row}, batch {batch}", row=name, batch=_span(batches))
    said = trn("{count} row", "{count} rows", len(lack.rows))
    low, high = f"{min(errors):+.0%}", f"{max(errors):+.0%}"
    span = low if low == high else tr("{low} to {high}", low=low, high=high)
    return followed(tr("{row} ({rows}, {span}):", row=name, rows=said, span=span), *lack.reasons)


def _span(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


def _all_groups(
    compared: Sequence[Compared], unseen: Sequence[Compared], width: int, *, unicode: bool
) -> Iterator[RenderableType]:
    yield heading(tr("Errors"), tr("of expected against measured"))
    yield indented(
        Text(
            tr(
                "mean and median without sign, bias with it; inside: rows within their interval, width: half of "
                "it. Beside them the means of three simpler estimates: the roofline, 0.68 of bandwidth, 0.85 of "
                "bandwidth + 1.1 ms."
            )
        )
    )
    seen = [one for one in compared if one.used]
    rows = summaries(unseen, lambda one: _unseen(one.kind))
    rows += [summarise(tr("seen by calibration"), seen)] if seen else []
    yield _table(rows, width, unicode=unicode)
    groupings: tuple[tuple[str, Callable[[Compared], str]], ...] = (
        (
            tr("By engine"),
            lambda one: one.engine if one.engine_known else tr("{engine} (no profile)", engine=one.engine),
        ),
        (tr("By kind of hardware"), lambda one: one.hardware_kind),
        (tr("By weights"), lambda one: one.row.weights),
    )
    single = [one for one in unseen if one.kind == "one device, batch 1"]
    rest = [one for one in unseen if one.kind != "one device, batch 1"]
    for title, by in groupings:
        if single:
            yield ""
            yield heading(title, tr("unseen rows, one device, batch 1"))
            yield _table(summaries(single, by), width, unicode=unicode)
    if rest:
        yield ""
        yield heading(
            tr("Several devices, and batches"), tr("by what is divided, then by engine; calibration saw none of these")
        )
        yield _table(summaries(rest, _what_is_divided), width, unicode=unicode)
        yield ""
        yield _table(summaries(rest, groupings[0][1]), width, unicode=unicode)


def _unseen(kind: Kind) -> str:
    return {
        "one device, batch 1": tr("unseen, 1 device, batch 1"),
        "one device, batched": tr("unseen, batched"),
        "several devices": tr("unseen, devices"),
    }[kind]


def _what_is_divided(one: Compared) -> str:
    if one.sparse_layers:
        return tr("experts")
    return tr("dense, batch 1") if one.row.batch == 1 else tr("dense, batched")


def _table(found: Sequence[Summary], width: int, *, unicode: bool) -> Table:
    wide = width >= _WIDE
    table = Table.grid(padding=(0, 1, 0, 0))
    head = [
        *("", tr("rows"), tr("mean"), tr("median"), tr("bias"), tr("inside"), tr("width"), tr("roof")),
        *("0.68", "+1.1"),
    ]
    kept = range(len(head)) if wide else (0, 1, 2, 3, 5)
    for index in kept:
        table.add_column(justify="left" if index == 0 else "right", overflow="fold")
    table.add_row(*(Text(head[index], style="dim") for index in kept))
    for one in found:
        cells = [
            f"  {elide(clean(one.name, unicode=unicode), _NAME_WIDTH if wide else 16, unicode=unicode)}",
            f"{one.rows}",
            format_percent(one.mean),
            format_percent(one.median),
            f"{one.bias:+.0%}",
            format_percent(one.inside),
            f"{one.half_width:.0%}",
            format_percent(one.roofline_mean),
            format_percent(one.share_mean),
            format_percent(one.fixed_mean),
        ]
        table.add_row(*(Text(cells[index]) for index in kept))
    return table


def _rows(shown: Sequence[Compared], width: int, *, unicode: bool) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for _ in range(3):
        table.add_column(justify="right", overflow="fold")
    for one in shown:
        row = one.row
        devices = "" if row.devices == 1 else f"{row.devices:g} x "
        told = f"{one.model} {row.weights}, {devices}{row.hardware}, {row.engine}"
        if row.batch != 1:
            told = tr("{row}, batch {batch}", row=told, batch=row.batch)
        error = f"{one.error:+.0%}"
        table.add_row(
            Text(f"  {elide(clean(row.id, unicode=unicode), 8, unicode=unicode)}{'*' if one.used else ''}"),
            Text(clean(told, unicode=unicode)),
            Text(format_time(row.step_s, unicode=unicode)),
            Text(format_time(one.expected_s.value, unicode=unicode)),
            Text(error if one.inside else tr("{error} out", error=error)),
        )
    return table
