"""A chart in words: its values as text, what each of its points says, and the tables that say the same as the picture.

The picture, the tables beside it and the Markdown page all take their words from here, so that they cannot disagree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

from boundby.report.chart import Axis, Bar, Chart, Line, Look, Mark
from boundby.report.document import Table
from boundby.results.language import tr
from boundby.results.units import format_percent, format_rate, format_size

Side: TypeAlias = Literal["x", "y"]


def value_text(value: float | None, unit: str, *, digits: int = 3) -> str:
    """A value of an axis as text: ``3.82 ms``, ``64 MiB``, ``95.0 GFLOP/s``; ``unknown`` where it is not finite.

    Args:
        value: in ``unit``; a share of 1 where that is ``%``.
        unit: an axis's unit.
        digits: significant digits, at least 1.
    """
    if value is None or not math.isfinite(value):
        return tr("unknown")
    if unit == "%":
        return format_percent(value)
    if unit == "byte":
        return format_size(value, digits=digits)
    if unit in ("s", "byte/s", "flop/s"):
        return format_rate(value, unit, digits=digits)
    if unit == "flop/byte":
        return f"{_plain(value, digits)} FLOP/byte"
    return _plain(value, digits) + (f" {unit}" if unit else "")


def place_text(value: float, axis: Axis) -> str:
    """A value along an axis as text: the name of its category, or the number with its unit."""
    if axis.scale != "category":
        return value_text(value, axis.unit)
    place = round(value) if math.isfinite(value) else -1
    return axis.categories[place] if 0 <= place < len(axis.categories) else tr("unknown")


def look_text(look: Look) -> str:
    """How a value was got, in a word."""
    return {
        "measured": tr("measured"),
        "counted": tr("counted"),
        "given": tr("given"),
        "modelled": tr("modelled"),
        "datasheet": tr("from a datasheet"),
    }[look]


def line_readings(chart: Chart, line: Line) -> list[list[str]]:
    """What each point of a line says when it is pointed at: lines of text, the first its name."""
    readings = []
    for place, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
        words = [line.name]
        if line.labels:
            words.append(line.labels[place])
        words.append(_named(chart.x.name, place_text(x, chart.x)))
        words.append(_named(chart.y.name, f"{place_text(y, chart.y)}{_band(*_ends(line, place), chart.y.unit)}"))
        readings.append([*(word for word in words if word), look_text(line.look)])
    return readings


def mark_reading(chart: Chart, mark: Mark) -> list[str]:
    """What a mark says when it is pointed at: lines of text, the first its name."""
    words = [
        mark.label,
        mark.group,
        _named(chart.x.name, place_text(mark.x, chart.x)),
        _named(chart.y.name, place_text(mark.y, chart.y)),
        *mark.details,
    ]
    return [word for word in words if word]


def bar_reading(chart: Chart, bar: Bar) -> list[str]:
    """What a bar says when it is pointed at: lines of text, the first its name."""
    axis = value_axis(chart)
    words = [bar.label or bar.group or bar.category]
    if bar.label and bar.group:
        words.append(bar.group)
    if bar.category != words[0]:
        words.append(bar.category)
    words.append(_named(axis.name, f"{value_text(bar.value, axis.unit)}{_band(bar.low, bar.high, axis.unit)}"))
    if bar.start:
        words.append(tr("from {start}", start=value_text(bar.start, axis.unit)))
    return [word for word in (*words, *bar.details, look_text(bar.look)) if word]


def value_side(chart: Chart) -> Side:
    """Which axis a chart's bars are measured along: the one that holds no categories."""
    return "x" if chart.y.scale == "category" else "y"


def value_axis(chart: Chart) -> Axis:
    """The axis that a chart's bars are measured along."""
    return chart.x if value_side(chart) == "x" else chart.y


def category_axis(chart: Chart) -> Axis:
    """The axis that a chart's bars stand along."""
    return chart.y if value_side(chart) == "x" else chart.x


def chart_tables(chart: Chart) -> tuple[Table, ...]:
    """The chart as tables: one for its lines, one for its marks, one for its bars, as far as it has them."""
    tables = (_lines_table(chart), _marks_table(chart), _bars_table(chart))
    return tuple(table for table in tables if table is not None)


def _lines_table(chart: Chart) -> Table | None:
    rows = [
        (
            line.name,
            line.labels[place] if line.labels else "",
            place_text(x, chart.x),
            place_text(y, chart.y),
            _interval(*_ends(line, place), chart.y.unit),
            look_text(line.look),
        )
        for line in chart.lines
        for place, (x, y) in enumerate(zip(line.x, line.y, strict=True))
    ]
    head = (tr("Line"), tr("Point"), chart.x.name, chart.y.name, tr("Low to high"), tr("How"))
    return _table(chart, head, rows, numeric=(2, 3, 4))


def _marks_table(chart: Chart) -> Table | None:
    rows = [
        (
            mark.label,
            mark.group,
            place_text(mark.x, chart.x),
            place_text(mark.y, chart.y),
            tr("; ").join(mark.details),
        )
        for mark in chart.marks
    ]
    head = (tr("Mark"), tr("Group"), chart.x.name, chart.y.name, tr("Details"))
    return _table(chart, head, rows, numeric=(2, 3))


def _bars_table(chart: Chart) -> Table | None:
    axis = value_axis(chart)
    rows = [
        (
            bar.category,
            bar.label,
            bar.group,
            value_text(bar.start, axis.unit) if any(one.start for one in chart.bars) else "",
            value_text(bar.value, axis.unit),
            _interval(bar.low, bar.high, axis.unit),
            look_text(bar.look),
            tr("; ").join(bar.details),
        )
        for bar in chart.bars
    ]
    head = (
        category_axis(chart).name or tr("Bar"),
        tr("What"),
        tr("Group"),
        tr("Begins at"),
        axis.name,
        tr("Low to high"),
        tr("How"),
        tr("Details"),
    )
    return _table(chart, head, rows, numeric=(3, 4, 5))


def _table(
    chart: Chart, head: Sequence[str], rows: Sequence[tuple[str, ...]], *, numeric: tuple[int, ...]
) -> Table | None:
    """A table without the columns that say nothing; None where nothing is left."""
    kept = [column for column in range(len(head)) if any(row[column] for row in rows)]
    if not kept:
        return None
    return Table(
        caption=chart.title,
        head=tuple(head[column] for column in kept),
        rows=tuple(tuple(row[column] for column in kept) for row in rows),
        numeric=tuple(place for place, column in enumerate(kept) if column in numeric),
    )


def _ends(line: Line, place: int) -> tuple[float | None, float | None]:
    return (
        line.low[place] if line.low is not None else None,
        line.high[place] if line.high is not None else None,
    )


def _interval(low: float | None, high: float | None, unit: str) -> str:
    if low is None and high is None:
        return ""
    return tr("{low} to {high}", low=value_text(low, unit), high=value_text(high, unit))


def _band(low: float | None, high: float | None, unit: str) -> str:
    interval = _interval(low, high, unit)
    return f" ({interval})" if interval else ""


def _named(name: str, value: str) -> str:
    return f"{name}: {value}" if name else value


def _plain(value: float, digits: int) -> str:
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{value:,.0f}"
    if abs(value) >= 10.0 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"
