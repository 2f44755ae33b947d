"""What a roofline shows of a machine: flat roofs of matrix products, slopes of memory levels, and where they meet.

Source: Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance Model for Multicore Architectures"
(2009): attainable FLOP/s = min(peak FLOP/s, FLOP/byte x bytes/s).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from boundby.report.levels import Level
from boundby.report.machine_summary import best_products, levels_of, typical_curve
from boundby.results.language import tr
from boundby.results.machine import Ceiling, Machine
from boundby.results.units import format_size

# A roof this far below the highest would squeeze all others together; it is told beside the chart.
_LOWEST_SHARE = 1 / 40
# The chart goes this factor beyond the outermost ridge points.
_MARGIN = 10.0
_HEADROOM = 1.8
_MOST_ROOFS = 6
_NATIVE = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A roof (ceiling in FLOP/s) or a slope (in byte/s) with its name; ``native`` where the hardware was measured."""

    name: str
    ceiling: Ceiling
    native: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ridge:
    """Where a roof meets the slope of main memory: below so many FLOP a byte, memory binds."""

    roof: Line
    flop_per_byte: float

    @property
    def flop_per_s(self) -> float:
        """How high it lies."""
        return self.roof.ceiling.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """The lines of a chart, the highest roof and the fastest slope first, and the ranges that show them all.

    ``x`` is in FLOP/byte, ``y`` in FLOP/s. ``below`` are roofs too low to draw.
    """

    roofs: tuple[Line, ...]
    slopes: tuple[Line, ...]
    ridges: tuple[Ridge, ...]
    below: tuple[Line, ...]
    x: tuple[float, float]
    y: tuple[float, float]

    @property
    def main(self) -> Line:
        """The slope of main memory."""
        return self.slopes[-1]

    def roof_start(self, roof: Line) -> float:
        """The FLOP/byte from which a roof can be reached at all: where the fastest slope meets it."""
        return roof.ceiling.value / self.slopes[0].ceiling.value

    def slope_end(self, slope: Line) -> float:
        """The FLOP/byte at which a slope meets the highest roof."""
        return self.roofs[0].ceiling.value / slope.ceiling.value


def roofline(machine: Machine) -> Roofline | None:
    """The roofline of a machine's stack, the hardware's own roofs beside it; None where no roof or no slope is known.

    Args:
        machine: the ceilings.
    """
    slopes = _slopes(machine)
    roofs = sorted((*_roofs(machine), *_native_roofs(machine)), key=lambda one: -one.ceiling.value)
    if not slopes or not roofs:
        return None
    highest = roofs[0].ceiling.value
    drawn = tuple(one for one in roofs if one.ceiling.value >= highest * _LOWEST_SHARE)[:_MOST_ROOFS]
    below = tuple(one for one in roofs if one not in drawn)
    main = slopes[-1].ceiling.value
    meetings = [roof.ceiling.value / slope.ceiling.value for roof in drawn for slope in slopes]
    first, last = min(meetings) / _MARGIN, max(meetings) * _MARGIN
    return Roofline(
        roofs=drawn,
        slopes=slopes,
        ridges=tuple(Ridge(roof=roof, flop_per_byte=roof.ceiling.value / main) for roof in drawn if not roof.native),
        below=below,
        x=(first, last),
        y=(first * main, highest * _HEADROOM),
    )


def decades(low: float, high: float) -> tuple[float, ...]:
    """The powers of ten from ``low`` to ``high``, for the marks of an axis."""
    return tuple(10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1))


def _roofs(machine: Machine) -> list[Line]:
    """The fastest product of each dtype through torch."""
    peaks: dict[str, Ceiling] = {}
    for (_, dtype), one in best_products(machine).items():
        if dtype not in peaks or one.value > peaks[dtype].value:
            peaks[dtype] = one
    return [Line(name=dtype, ceiling=one) for dtype, one in peaks.items()]


def _native_roofs(machine: Machine) -> list[Line]:
    """What the multiply-adds of native code reach, by dtype."""
    peaks: dict[str, Ceiling] = {}
    for one in machine.ceilings:
        if one.stack == _NATIVE and one.unit == "flop/s" and one.threads == machine.description.threads:
            dtype = one.dtype or tr("any")
            if dtype not in peaks or one.value > peaks[dtype].value:
                peaks[dtype] = one
    return [Line(name=tr("{dtype} hardware", dtype=dtype), ceiling=one, native=True) for dtype, one in peaks.items()]


def _slopes(machine: Machine) -> tuple[Line, ...]:
    """The levels of memory that the bandwidth curve shows, the fastest first, and last what the largest size reaches.

    Where the curve falls without a plateau, its fastest point stands for the caches.
    """
    curve = typical_curve(machine)
    if not curve:
        return ()
    main = curve[-1]
    levels = [
        Line(
            name=tr("up to {size}", size=format_size(level.largest_bytes, digits=2)),
            ceiling=_as_ceiling(main, level),
        )
        for level in levels_of(curve)
        if level.bytes_per_s.value > main.value
    ]
    fastest = max(curve, key=lambda one: one.value)
    if not levels and fastest.value > main.value:
        levels = [Line(name=tr("caches"), ceiling=fastest)]
    return (*levels, Line(name=tr("main memory"), ceiling=main))


def _as_ceiling(main: Ceiling, level: Level) -> Ceiling:
    rate = level.bytes_per_s
    return replace(main, size_bytes=level.largest_bytes, value=rate.value, low=rate.low, high=rate.high, samples=())
