"""A machine's roofline in characters: FLOP/s against FLOP/byte, both logarithmic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from boundby.report.page import heading, indented
from boundby.report.roofline import Line, Roofline, decades, roofline
from boundby.report.safe_text import clean, elide
from boundby.results.language import tr
from boundby.results.machine import Machine
from boundby.results.units import digits_for, format_rate

ROWS = 16
_LEFT = 6
_LONGEST_LABEL = 22
_FEWEST_COLUMNS = 18
# Dots of a braille character: two columns of four rows, by their bits.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BRAILLE = 0x2800


class _Canvas:
    """Cells that lines and words are drawn in; what was drawn first stays."""

    def __init__(self, chart: Roofline, columns: int, *, unicode: bool) -> None:
        self.chart = chart
        self.columns = columns
        self.unicode = unicode
        self.cells: dict[tuple[int, int], str] = {}
        self._dots: dict[tuple[int, int], int] = {}

    def column(self, flop_per_byte: float) -> float:
        """Where a FLOP/byte lies, in columns from the left."""
        first, last = self.chart.x
        return math.log(flop_per_byte / first) / math.log(last / first) * (self.columns - 1)

    def row(self, flop_per_s: float) -> float:
        """Where a FLOP/s lies, in rows from the top."""
        low, high = self.chart.y
        return math.log(high / flop_per_s) / math.log(high / low) * (ROWS - 1)

    def at(self, column: float) -> float:
        """The FLOP/byte at a column."""
        first, last = self.chart.x
        return first * float((last / first) ** (column / (self.columns - 1)))

    def roof(self, line: Line) -> int:
        """Draws a roof; its row."""
        row = round(self.row(line.ceiling.value))
        mark = ("─┄" if self.unicode else "-~")[line.native]
        for column in range(max(0, round(self.column(self.chart.roof_start(line)))), self.columns):
            self.cells.setdefault((row, column), mark)
        return row

    def slope(self, line: Line) -> dict[int, int]:
        """Draws a slope; its row in each column."""
        rows: dict[int, int] = {}
        for half in range(2 * self.columns):
            flop_per_byte = self.at(half / 2)
            exact = self.row(flop_per_byte * line.ceiling.value)
            if flop_per_byte > self.chart.slope_end(line) or exact > ROWS - 0.5:
                continue
            row, column = round(exact), half // 2
            rows.setdefault(column, row)
            self._dot(row, column, half % 2, exact - row)
        return rows

    def _dot(self, row: int, column: int, right: int, part: float) -> None:
        """One point of a slope, ``part`` of a row below the middle of its cell, -0.5 to 0.5."""
        place = row, column
        if not self.unicode:
            self.cells.setdefault(place, "'" if part < 0 else ".")
        elif place not in self.cells or place in self._dots:
            level = min(3, max(0, int((part + 0.5) * 4)))
            self._dots[place] = self._dots.get(place, 0) | _DOTS[level][right]
            self.cells[place] = chr(_BRAILLE + self._dots[place])

    def point(self, flop_per_byte: float, flop_per_s: float) -> None:
        """Marks a ridge point over whatever is there."""
        place = round(self.row(flop_per_s)), round(self.column(flop_per_byte))
        self.cells[place] = "●" if self.unicode else "o"

    def write(self, text: str, row: int, column: int) -> bool:
        """Writes words where nothing is in their way, a blank on either side; whether there was room."""
        end = column + cell_len(text)
        if column < 0 or end > self.columns or not 0 <= row < ROWS:
            return False
        if any((row, one) in self.cells for one in range(column - 1, end + 1)):
            return False
        for character in text:
            self.cells[row, column] = character
            # The second cell of a wide character holds nothing of its own.
            for beyond in range(column + 1, column + cell_len(character)):
                self.cells[row, beyond] = ""
            column += cell_len(character)
        return True

    def line(self, row: int) -> str:
        """One row as text."""
        return "".join(self.cells.get((row, column), " ") for column in range(self.columns))


def render_roofline(machine: Machine, *, width: int, unicode: bool) -> Iterator[RenderableType]:
    """The roofline, some twenty lines; nothing where the ceilings it needs are not known.

    Args:
        machine: what to show.
        width: columns, 40 to 100.
        unicode: whether characters beyond ASCII may be written.
    """
    chart = roofline(machine)
    if chart is None:
        return
    unit, size = ("TFLOP/s", 1e12) if chart.y[0] >= 1e11 else ("GFLOP/s", 1e9)
    labels = {line.name: _roof_label(line, size, unicode=unicode) for line in chart.roofs}
    right = min(_LONGEST_LABEL, max(map(cell_len, labels.values())), width // 3)
    canvas = _Canvas(chart, max(_FEWEST_COLUMNS, width - _LEFT - right - 3), unicode=unicode)
    rows = {line.name: canvas.roof(line) for line in chart.roofs}
    slopes = [(line, canvas.slope(line)) for line in chart.slopes]
    for ridge in chart.ridges:
        canvas.point(ridge.flop_per_byte, ridge.flop_per_s)
    unnamed = [line for line, places in slopes if not _name_slope(canvas, line, places, unicode=unicode)]
    margin = _right_margin(chart, rows, labels)

    yield ""
    yield heading(tr("Roofline"), tr("FLOP/s within reach, by the FLOP done a byte moved"))
    ticks = {round(canvas.row(value)): _tick(value / size) for value in decades(*chart.y)}
    bar, corner, tick, base = ("│", "└", "┤", "─") if unicode else ("|", "+", "+", "-")
    yield Text(f"{unit:>{_LEFT}}", style="dim")
    for row in range(ROWS):
        edge = tick if row in ticks else bar
        label = margin.get(row, "")
        if cell_len(label) > right:
            label = elide(label.replace(tr("hardware"), tr("hw")), right, unicode=unicode)
        yield Text(f"{ticks.get(row, ''):>{_LEFT}} {edge}{canvas.line(row)} {label}", no_wrap=True, overflow="crop")
    yield Text(f"{'':{_LEFT}} {corner}{base * canvas.columns}")
    yield Text(f"{'':{_LEFT + 2}}{_x_labels(canvas)}", no_wrap=True, overflow="crop")
    yield from _legend(chart, unnamed, unicode=unicode)


def _roof_label(line: Line, size: float, *, unicode: bool) -> str:
    """A roof's name, and its value in a unit of ``size`` FLOP/s."""
    one = line.ceiling
    digits = digits_for(one.value, one.low, one.high)
    return clean(f"{line.name} {Decimal(f'{one.value / size:.{digits - 1}e}'):,f}", unicode=unicode)


def _tick(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:.6g}"


def _right_margin(chart: Roofline, rows: dict[str, int], labels: dict[str, str]) -> dict[int, str]:
    """Each roof's label beside it, or in a row next to it; those that find none are left to the summary."""
    margin: dict[int, str] = {}
    for line in chart.roofs:
        row = rows[line.name]
        free = next((near for near in (row, row - 1, row + 1) if near >= 0 and near not in margin), None)
        if free is not None:
            margin[free] = labels[line.name]
    return margin


def _slope_label(line: Line, *, unicode: bool) -> str:
    digits = digits_for(line.ceiling.value, line.ceiling.low, line.ceiling.high)
    return clean(f"{line.name} {format_rate(line.ceiling.value, 'byte/s', digits=digits)}", unicode=unicode)


def _name_slope(canvas: _Canvas, line: Line, places: dict[int, int], *, unicode: bool) -> bool:
    """Writes a slope's name beside it: the fastest one's above it, the others' below; whether there was room."""
    text = _slope_label(line, unicode=unicode)
    above = line is canvas.chart.slopes[0] and len(canvas.chart.slopes) > 1
    for column, row in sorted(places.items(), reverse=above):
        if canvas.write(text, row, column - 2 - cell_len(text) if above else column + 4):
            return True
    return False


def _x_labels(canvas: _Canvas) -> str:
    line = [" "] * canvas.columns
    end = " FLOP/byte"
    for value in decades(*canvas.chart.x):
        text = _tick(value)
        start = round(canvas.column(value))
        if start + len(text) + len(end) <= canvas.columns:
            line[start : start + len(text)] = text
    line[canvas.columns - len(end) :] = end
    return "".join(line)


def _legend(chart: Roofline, unnamed: list[Line], *, unicode: bool) -> Iterator[RenderableType]:
    yield indented(
        Text(
            tr(
                "{mark} ridge point: main memory binds to its left, arithmetic to its right",
                mark="●" if unicode else "o",
            )
        )
    )
    for line in unnamed:
        yield indented(Text(_slope_label(line, unicode=unicode)))
    if chart.below:
        low = ", ".join(
            f"{clean(line.name, unicode=unicode)} {format_rate(line.ceiling.value, 'flop/s', digits=2)}"
            for line in chart.below
        )
        yield indented(Text(tr("below the chart: {limits}", limits=low), style="dim"))
