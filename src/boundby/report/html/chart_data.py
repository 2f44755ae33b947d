"""What a chart's script is given: coordinates, ranges, colours by number, and the words of each thing to point at."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from boundby.report.chart import Axis, Bar, Chart, Line, Look
from boundby.report.chart_words import (
    Side,
    bar_reading,
    category_axis,
    line_readings,
    look_text,
    mark_reading,
    value_axis,
    value_side,
)
from boundby.report.html.lanes import bar_lanes
from boundby.report.html.ranges import axis_range, drawable
from boundby.report.safe_text import clean
from boundby.results.language import trn

COLORS = 8
"""How many colours the style has for series; further ones begin again, with another shape."""

# The shape of a group's marks, beside its colour: Bokeh's name and an outline for the legend.
SHAPES = (
    ("circle", "M14 2a5 5 0 1 0 .01 0Z"),
    ("square", "M9.5 2.5h9v9h-9Z"),
    ("triangle", "M14 1.5L20 12H8Z"),
    ("diamond", "M14 .5L19.5 7L14 13.5L8.5 7Z"),
    ("inverted_triangle", "M14 12.5L20 2H8Z"),
    ("hex", "M14 1.2L19.2 4.1V9.9L14 12.8L8.8 9.9V4.1Z"),
    ("plus", "M12 2h4v3h3v4h-3v3h-4V9H9V5h3Z"),
    ("star", "M14 .8L15.9 5H20L16.8 7.8L18 12.5L14 9.8L10 12.5L11.2 7.8L8 5h4.1Z"),
)
_DASHES: dict[Look, tuple[int, ...]] = {
    "measured": (),
    "counted": (),
    "given": (),
    "modelled": (7, 4),
    "datasheet": (2, 3),
}
_FILLS: dict[Look, float] = {"measured": 0.85, "counted": 0.5, "given": 0.85, "modelled": 0.3, "datasheet": 0.08}
# Radii of marks, in CSS pixels: the largest one's, and the least that can be hit and seen.
_LARGEST_RADIUS, _LEAST_RADIUS = 16.0, 4.0
# Where all are of one size, which then says nothing.
_ONLY_RADIUS = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LegendEntry:
    """A line of the legend: its name, how it was got where that is not measured, and what its swatch looks like."""

    kind: str
    name: str
    color: int
    look: str = ""
    dash: str = ""
    fill: float = 1.0
    points: bool = False
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartData:
    """A chart for its page: the script's data as JSON that is safe within HTML, the legend, and what was not drawn."""

    json: str
    legend: tuple[LegendEntry, ...]
    undrawn: str


def group_colors(charts: Iterable[Chart]) -> dict[str, int]:
    """A number for each group of marks or bars, the same in all charts of a page, in the order they come in.

    What has no group has the first colour.
    """
    groups = (group for chart in charts for group in _groups(chart) if group)
    return {"": 0} | {group: place for place, group in enumerate(dict.fromkeys(groups))}


def chart_data(chart: Chart, colors: dict[str, int]) -> ChartData:
    """A chart for its page.

    Args:
        chart: what to draw.
        colors: ``group_colors`` of all charts on the page.
    """
    own_colors = _line_colors(chart, colors)
    lines = [_line(chart, line, own_colors[place]) for place, line in enumerate(chart.lines)]
    sizes = [mark.size for mark in chart.marks]
    marks = [
        {
            "x": _number(chart.x, mark.x),
            "y": _number(chart.y, mark.y),
            "radius": round(_radius(mark.size, sizes), 2),
            "color": colors[mark.group] % COLORS,
            "shape": SHAPES[_shape(colors[mark.group])][0],
            "says": _cleaned(mark_reading(chart, mark)),
        }
        for mark in chart.marks
    ]
    lanes = bar_lanes(chart)
    bars = [_bar(chart, bar, colors[bar.group], lane) for bar, lane in zip(chart.bars, lanes.places, strict=True)]
    undrawn = sum(
        point is None
        for line in lines
        for point in (a if a is None else b for a, b in zip(line["x"], line["y"], strict=True))
    ) + sum(mark["x"] is None or mark["y"] is None for mark in marks)
    return ChartData(
        json=json_in_html(
            {
                "title": clean(chart.title, unicode=True),
                "summary": clean(chart.summary, unicode=True),
                "x": _axis(chart, "x"),
                "y": _axis(chart, "y"),
                "lines": lines,
                "marks": marks,
                "bars": bars,
                "lanes": lanes.most,
            }
        ),
        legend=tuple(_legend(chart, colors, own_colors)),
        undrawn=trn(
            "{count} point has no place on these axes and stands in the table alone.",
            "{count} points have no place on these axes and stand in the table alone.",
            undrawn,
        )
        if undrawn
        else "",
    )


def json_in_html(value: Any) -> str:
    """A value as JSON that can stand within a script element: no character in it can end that element."""
    import msgspec
    from markupsafe import Markup

    text = msgspec.json.encode(value).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _axis(chart: Chart, side: Side) -> dict[str, Any]:
    axis = chart.x if side == "x" else chart.y
    start, end = axis_range(chart, side)
    return {
        "name": clean(axis.name, unicode=True),
        "unit": axis.unit,
        "scale": axis.scale,
        "categories": _cleaned(axis.categories),
        "start": start,
        "end": end,
    }


def _line(chart: Chart, line: Line, color: int | None) -> dict[str, Any]:
    return {
        "name": clean(line.name, unicode=True),
        "name_at": line.name_at,
        "color": color,
        "dash": _DASHES[line.look],
        "points": line.points,
        "x": [_number(chart.x, x) for x in line.x],
        "y": [_number(chart.y, y) for y in line.y],
        "low": _end(chart, line.low),
        "high": _end(chart, line.high),
        "says": [_cleaned(reading) for reading in line_readings(chart, line)],
    }


def _bar(chart: Chart, bar: Bar, color: int, across: tuple[float, float]) -> dict[str, Any]:
    axis = value_axis(chart)
    lowest = axis_range(chart, value_side(chart))[0]

    def place(value: float | None) -> float | None:
        """Where along the value axis; a logarithmic one has no 0, so that bars begin where it does."""
        if value is None or not math.isfinite(value):
            return None
        return value if drawable(axis, value) else lowest

    return {
        "at": category_axis(chart).categories.index(bar.category),
        "from": across[0],
        "to": across[1],
        "start": place(bar.start),
        "end": place(bar.start + bar.value),
        "low": None if bar.low is None else place(bar.start + bar.low),
        "high": None if bar.high is None else place(bar.start + bar.high),
        "color": color % COLORS,
        "dash": _DASHES[bar.look],
        "fill": _FILLS[bar.look],
        "says": _cleaned(bar_reading(chart, bar)),
    }


def _line_colors(chart: Chart, colors: dict[str, int]) -> list[int | None]:
    """A colour for each line: none for the background, else one that no group of this chart has while there are any."""
    taken = {colors[group] % COLORS for group in _groups(chart)}
    free = [color for color in range(COLORS) if color not in taken] or list(range(COLORS))
    numbers: list[int | None] = []
    names: dict[str, int] = {}
    for line in chart.lines:
        if line.background:
            numbers.append(None)
        else:
            numbers.append(names.setdefault(line.name, free[len(names) % len(free)]))
    return numbers


def _legend(chart: Chart, colors: dict[str, int], own: Sequence[int | None]) -> Iterable[LegendEntry]:
    for line, color in zip(chart.lines, own, strict=True):
        if color is not None:
            yield LegendEntry(
                kind="line",
                name=line.name,
                color=color,
                look=_unmeasured(line.look),
                dash=" ".join(map(str, _DASHES[line.look])),
                points=line.points,
            )
    for group in dict.fromkeys(mark.group for mark in chart.marks if mark.group):
        number = colors[group]
        yield LegendEntry(kind="mark", name=group, color=number % COLORS, path=SHAPES[_shape(number)][1])
    for group, look in dict.fromkeys((bar.group, bar.look) for bar in chart.bars):
        if group or look != "measured":
            yield LegendEntry(
                kind="bar",
                name=group or look_text(look),
                color=colors[group] % COLORS,
                look=_unmeasured(look) if group else "",
                dash=" ".join(map(str, _DASHES[look])),
                fill=_FILLS[look],
            )


def _groups(chart: Chart) -> Iterable[str]:
    return dict.fromkeys([*(mark.group for mark in chart.marks), *(bar.group for bar in chart.bars)])


def _unmeasured(look: Look) -> str:
    return "" if look == "measured" else look_text(look)


def _shape(number: int) -> int:
    """Groups that share a colour, because there are more than colours, have different shapes."""
    return (number + number // COLORS) % len(SHAPES)


def _radius(size: float, sizes: Sequence[float]) -> float:
    """A mark's radius in pixels: its area as the sizes are to each other, as far as it stays large enough to see."""
    largest = max(sizes)
    if largest == min(sizes):
        return _ONLY_RADIUS
    return max(_LEAST_RADIUS, _LARGEST_RADIUS * math.sqrt(max(0.0, size / largest)))


def _number(axis: Axis, value: float) -> float | None:
    return float(value) if drawable(axis, value) else None


def _end(chart: Chart, values: Sequence[float] | None) -> list[float | None] | None:
    """One end of a band; where a logarithmic axis has no such value, the axis's own end."""
    if values is None:
        return None
    lowest = axis_range(chart, "y")[0]
    return [value if drawable(chart.y, value) else lowest if value <= 0 else None for value in values]


def _cleaned(words: Iterable[str]) -> list[str]:
    return [clean(word, unicode=True) for word in words]
