"""Charts as plain data: what is drawn, in which units, and in words for whoever cannot see it.

Whoever has results makes charts of these; `report.html` draws them. Neither knows the other's libraries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# ``counted``: exact, by counting, as ops and passes over memory are; ``given``: told by the user.
Look = Literal["measured", "counted", "given", "modelled", "datasheet"]
Scale = Literal["linear", "log", "category"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis: its name with the unit in words, its scale, and the SI unit that its ticks carry.

    ``unit`` is what values are in: ``s``, ``byte``, ``byte/s``, ``flop/s``, ``flop/byte``, ``%`` (values are shares of
    1) or empty for plain numbers. ``categories`` are the names along a ``category`` axis, in order.
    """

    name: str
    unit: str = ""
    scale: Scale = "linear"
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line through points, with its band where low and high are known.

    ``low`` and ``high`` are None, or as long as ``x``. ``look`` keeps a measured line, a modelled one and one from a
    datasheet apart. ``labels`` are what a point says when it is pointed at, one each, or empty. ``name_at`` writes the
    name into the picture, at the line's first or last point. A ``background`` line is what others are held against: it
    is drawn in the colour of the text and has no place in the legend.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    look: Look = "measured"
    points: bool = True
    labels: tuple[str, ...] = ()
    name_at: Literal["", "first", "last"] = ""
    background: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One mark: where it is, how large (an area, relative to the other marks' sizes), its group and its words.

    ``group`` colours it (a bound, a phase). ``label`` is its short name, ``details`` lines shown with it.
    """

    x: float
    y: float
    size: float = 1.0
    group: str = ""
    label: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of a category: its value, its interval where known, and the group that colours it.

    ``start`` is where it begins on the value axis, and ``value`` how long it is from there: bars that follow one
    another make a stacked bar or a timeline; bars of a category that overlap lie beside each other. ``low`` and
    ``high`` are ends of the value.
    """

    category: str
    value: float
    start: float = 0.0
    low: float | None = None
    high: float | None = None
    group: str = ""
    label: str = ""
    details: tuple[str, ...] = ()
    look: Look = "measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart: axes, lines, marks and bars, with a title and the sentence that says what it shows.

    ``name`` is unique on a page: lower-case letters, digits and dashes. Bars lie along the ``category`` axis, which is
    ``x`` (upright bars) or ``y`` (lying bars). ``summary`` is read to those who cannot see the chart.
    """

    name: str
    title: str
    summary: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...] = ()
    marks: tuple[Mark, ...] = ()
    bars: tuple[Bar, ...] = ()
