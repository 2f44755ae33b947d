"""A machine's roofline as an SVG picture, with the bands of its ceilings: readable on light and on dark screens."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache, reduce
from typing import Any

from boundby.report.machine_summary import source_words
from boundby.report.roofline import Line, Roofline, decades, roofline
from boundby.report.safe_text import clean, elide
from boundby.results.errors import BoundbyError
from boundby.results.language import tr, trn
from boundby.results.machine import Machine
from boundby.results.units import digits_for, format_rate, format_si

WIDTH, HEIGHT = 960, 600
_LEFT, _RIGHT, _TOP, _BOTTOM = 110.0, 750.0, 80.0, 480.0
_LINE_HEIGHT = 17.0
_FINE = (2, 3, 4, 5, 6, 7, 8, 9)
# Longer text would run out of the picture.
_LONGEST_TITLE = 84
_LONGEST_NOTE = 130


class _Scales:
    """From FLOP/byte and FLOP/s to places in the picture."""

    def __init__(self, chart: Roofline) -> None:
        self._x, self._y = chart.x, chart.y

    def x(self, flop_per_byte: float) -> float:
        first, last = self._x
        return round(_LEFT + (_RIGHT - _LEFT) * math.log(flop_per_byte / first) / math.log(last / first), 2)

    def y(self, flop_per_s: float) -> float:
        low, high = self._y
        return round(_BOTTOM - (_BOTTOM - _TOP) * math.log(flop_per_s / low) / math.log(high / low), 2)

    def angle(self) -> float:
        """The direction of every slope, degrees: a decade up for a decade to the right."""
        first, last = self._x
        low, high = self._y
        right = (_RIGHT - _LEFT) / math.log(last / first)
        up = (_BOTTOM - _TOP) / math.log(high / low)
        return round(-math.degrees(math.atan2(up, right)), 2)


def render_picture(machine: Machine) -> str:
    """The roofline as an SVG document. Every text in it is escaped.

    Args:
        machine: what to draw.

    Raises:
        BoundbyError: ``no-roofline`` where the machine has no bandwidth or no matmul ceiling.
    """
    chart = roofline(machine)
    if chart is None:
        raise BoundbyError(
            "no-roofline",
            tr("There is no roofline to draw: it takes ceilings of matrix products and of bandwidth."),
            tr("Measure them with `boundby machine --again`, or write a .json file."),
        )
    scales = _Scales(chart)
    text: str = _template().render(
        width=WIDTH,
        height=HEIGHT,
        left=_LEFT,
        right=_RIGHT,
        top=_TOP,
        bottom=_BOTTOM,
        title=_short(
            tr("Roofline of {processor}", processor=machine.description.cpu or tr("an unknown processor")),
            _LONGEST_TITLE,
        ),
        x_words=tr("arithmetic intensity (FLOP/byte)"),
        y_words=tr("within reach (FLOP/s)"),
        subtitle=_short(_subtitle(machine), _LONGEST_NOTE),
        description=_description(chart),
        x_ticks=[{"place": scales.x(value), "text": f"{value:,.6g}"} for value in decades(*chart.x)],
        y_ticks=[
            {"place": scales.y(value), "text": format_si(value, "FLOP/s", digits=1)} for value in decades(*chart.y)
        ],
        fine_x=[scales.x(value) for value in _between(*chart.x)],
        fine_y=[scales.y(value) for value in _between(*chart.y)],
        bands=[_band(chart, scales, line) for line in (*chart.roofs, *chart.slopes)],
        lines=[_line(chart, scales, line) for line in (*chart.slopes, *chart.roofs)],
        ridges=list(_ridges(chart, scales)),
        slope_labels=list(_slope_labels(chart, scales)),
        roof_labels=list(_roof_labels(chart, scales)),
        notes=[_short(note, _LONGEST_NOTE) for note in _notes(machine, chart)],
    )
    return text


@cache
def _template() -> Any:
    """The picture's template. Loaded when the first is drawn: jinja2 takes a while to import."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("boundby.report"), autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment.get_template("roofline.svg")


def _between(low: float, high: float) -> Iterator[float]:
    """2, 3... 9 times the powers of ten within a range."""
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        yield from (part * 10.0**power for part in _FINE if low <= part * 10.0**power <= high)


def _kind(line: Line) -> str:
    return "native" if line.native else "roof" if line.ceiling.unit == "flop/s" else "slope"


def _line(chart: Roofline, scales: _Scales, line: Line) -> dict[str, object]:
    value = line.ceiling.value
    if _kind(line) == "slope":
        first, last = chart.x[0], chart.slope_end(line)
        ends = (scales.x(first), scales.y(first * value), scales.x(last), scales.y(last * value))
    else:
        height = scales.y(value)
        ends = (scales.x(max(chart.x[0], chart.roof_start(line))), height, _RIGHT, height)
    return {"kind": _kind(line), "x1": ends[0], "y1": ends[1], "x2": ends[2], "y2": ends[3]}


def _band(chart: Roofline, scales: _Scales, line: Line) -> dict[str, object]:
    """The band of a ceiling, as far as its line goes."""
    one = line.ceiling
    if _kind(line) == "slope":
        first, last = chart.x[0], chart.slope_end(line)
        corners = [
            (x, x * value) for x, value in ((first, one.low), (first, one.high), (last, one.high), (last, one.low))
        ]
    else:
        first, last = max(chart.x[0], chart.roof_start(line)), chart.x[1]
        corners = [(first, one.low), (first, one.high), (last, one.high), (last, one.low)]
    points = " ".join(f"{scales.x(x):.1f},{scales.y(y):.1f}" for x, y in corners)
    return {"kind": _kind(line), "points": points}


def _ridges(chart: Roofline, scales: _Scales) -> Iterator[dict[str, object]]:
    for place, ridge in enumerate(chart.ridges):
        number = format_si(ridge.flop_per_byte, "FLOP/byte", digits=2)
        yield {
            "x": scales.x(ridge.flop_per_byte),
            "y": scales.y(ridge.flop_per_s),
            "text": tr(
                "{name}: main memory binds below {number}", name=clean(ridge.roof.name, unicode=True), number=number
            ),
            "label": number.removesuffix(" FLOP/byte"),
            # One below the other, since neighbours may be nearer than a number is wide.
            "label_y": _BOTTOM - 8 - _LINE_HEIGHT * (place % 3),
        }


def _slope_labels(chart: Roofline, scales: _Scales) -> Iterator[dict[str, object]]:
    """Along each slope: the fastest one's name above it, that of the others below."""
    for place, line in enumerate(chart.slopes):
        above = place == 0 and len(chart.slopes) > 1
        value = line.ceiling.value
        # A tenth of the way up, where no roof is near.
        at = chart.x[0] * (chart.slope_end(line) / max(chart.x[0], chart.y[0] / value)) ** 0.12
        at = max(at, chart.y[0] / value)
        digits = digits_for(value, line.ceiling.low, line.ceiling.high)
        yield {
            "x": scales.x(at) + (-4 if above else 9),
            "y": scales.y(at * value) + (-8 if above else 12),
            "angle": scales.angle(),
            "text": f"{clean(line.name, unicode=True)} {format_rate(value, 'byte/s', digits=digits)}",
        }


def _roof_labels(chart: Roofline, scales: _Scales) -> Iterator[dict[str, object]]:
    """Beside the roofs, moved apart where they would overlap."""
    lowest = -math.inf
    for line in chart.roofs:
        height = max(scales.y(line.ceiling.value) + 4, lowest + _LINE_HEIGHT)
        lowest = height
        digits = digits_for(line.ceiling.value, line.ceiling.low, line.ceiling.high)
        rate = format_rate(line.ceiling.value, "flop/s", digits=digits)
        yield {"kind": _kind(line), "y": round(height, 2), "text": f"{clean(line.name, unicode=True)} {rate}"}


def _subtitle(machine: Machine) -> str:
    about = machine.description
    return tr(
        "{threads} on {cores}, torch {torch}, Python {python}, {os}",
        threads=trn("{count} thread", "{count} threads", about.threads),
        cores=trn("{count} usable core", "{count} usable cores", about.usable_cores),
        torch=about.torch or tr("unknown"),
        python=about.python,
        os=about.os,
    )


def _description(chart: Roofline) -> str:
    """The picture in words, for those who cannot see it."""
    roofs = ", ".join(f"{line.name} {format_rate(line.ceiling.value, 'flop/s')}" for line in chart.roofs)
    slopes = ", ".join(f"{line.name} {format_rate(line.ceiling.value, 'byte/s')}" for line in chart.slopes)
    ridges = ", ".join(
        f"{ridge.roof.name} {format_si(ridge.flop_per_byte, 'FLOP/byte', digits=2)}" for ridge in chart.ridges
    )
    return clean(
        tr(
            "Matrix products: {roofs}. Memory: {slopes}. Ridge points: {ridges}.",
            roofs=roofs,
            slopes=slopes,
            ridges=ridges,
        ),
        unicode=True,
    )


def _notes(machine: Machine, chart: Roofline) -> Iterator[str]:
    sources = sorted({line.ceiling.source for line in (*chart.roofs, *chart.slopes)})
    joined = reduce(
        lambda first, second: tr("{first} and {second}", first=first, second=second),
        [source_words(source) for source in sources],
    )
    how = f"{joined[:1].upper()}{joined[1:]}"
    when = machine.description.measured_at
    yield (
        tr("{how} by boundby {when}. Shaded: the band of each ceiling.", how=how, when=when)
        if when
        else tr("{how} by boundby. Shaded: the band of each ceiling.", how=how)
    )
    yield tr("Bytes are those an operation reads and writes. To the left of a ridge point main memory binds.")
    if chart.below:
        low = ", ".join(f"{line.name} {format_rate(line.ceiling.value, 'flop/s', digits=2)}" for line in chart.below)
        yield tr("Below the picture: {limits}.", limits=low)


def _short(text: str, length: int) -> str:
    shown = clean(text, unicode=True)
    return elide(shown, length, unicode=True)
