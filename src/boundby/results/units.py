"""Numbers as text for people: as many digits as their spread allows, SI prefixes for rates, IEC for sizes.

Unknown (None, NaN, infinite) reads ``unknown``, in the language in use, never 0.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal

from boundby.results.language import tr

_SI = ("", "k", "M", "G", "T", "P", "E")
_IEC = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_TIMES = ("ns", "µs", "ms", "s")

# A band wider than this share of its value leaves two digits worth reading.
_WIDE_BAND = 0.05
# Ends further from the value than this factor need units of their own to keep their order of magnitude.
_FAR_END = 10.0


def digits_for(value: float, low: float, high: float) -> int:
    """The significant digits the band ``low`` to ``high`` (unit of ``value``) allows: 2 or 3."""
    if not all(map(math.isfinite, (value, low, high))) or value == 0:
        return 2
    return 3 if (high - low) <= _WIDE_BAND * abs(value) else 2


def format_time(seconds: float | None, *, digits: int = 3, unicode: bool = True) -> str:
    """A time in ns, µs, ms or s: ``format_time(0.00382)`` is ``3.82 ms``.

    Args:
        seconds: the time in seconds.
        digits: significant digits, at least 1.
        unicode: whether ``µs`` may be written; ``us`` otherwise.
    """
    if seconds is None or not math.isfinite(seconds):
        return tr("unknown")
    if seconds == 0:
        return "0 s"
    rounded = _rounded(seconds, digits)
    index = _thousands(rounded, -3, len(_TIMES))
    return f"{_plain(rounded.scaleb(-3 * (index - 3)))} {_time_unit(index, unicode)}"


def format_time_band(
    value: float | None, low: float, high: float, *, unicode: bool = True, digits: int | None = None
) -> str:
    """A time with its band in one unit: ``3.82 ms (3.71-4.05 ms)``; the band is left out where it shows no width.

    Args:
        value: the time in seconds.
        low: the lower end in seconds.
        high: the upper end in seconds.
        unicode: whether ``µs`` may be written; ``us`` otherwise.
        digits: significant digits; None: as many as the band allows.
    """
    if value is None or not math.isfinite(value):
        return tr("unknown")
    digits = digits_for(value, low, high) if digits is None else digits
    text = format_time(value, digits=digits, unicode=unicode)
    if not (math.isfinite(low) and math.isfinite(high)) or value <= 0:
        return text
    rounded = _rounded(value, digits)
    index = _thousands(rounded, -3, len(_TIMES))
    shift = -3 * (index - 3)
    decimals = max(0, digits - 1 - rounded.scaleb(shift).adjusted())
    quantum = Decimal(1).scaleb(-decimals)
    ends = [Decimal(repr(float(end))).scaleb(shift).quantize(quantum, ROUND_HALF_UP) for end in (low, high)]
    too_far = low * _FAR_END < value or high > value * _FAR_END or (ends[1] >= 1000 and index < len(_TIMES) - 1)
    if too_far:
        first, last = (format_time(end, digits=2, unicode=unicode) for end in (low, high))
        return tr("{value} ({low} to {high})", value=text, low=first, high=last)
    if ends[0] == ends[1]:
        return text
    return f"{text} ({ends[0]:,f}-{ends[1]:,f} {_time_unit(index, unicode)})"


def format_si(value: float | None, unit: str, *, digits: int = 3) -> str:
    """A number with an SI prefix: ``format_si(9.5e10, "FLOP/s")`` is ``95.0 GFLOP/s``.

    Args:
        value: the number in ``unit``.
        unit: what follows the prefix: ``FLOP``, ``FLOP/s``, ``B/s``.
        digits: significant digits, at least 1.
    """
    if value is None or not math.isfinite(value):
        return tr("unknown")
    if value == 0:
        return f"0 {unit}"
    rounded = _rounded(value, digits)
    if isinstance(value, int) and abs(value) < 1000:
        return f"{value} {unit}"
    index = _thousands(rounded, 0, len(_SI))
    return f"{_plain(rounded.scaleb(-3 * index))} {_SI[index]}{unit}"


def format_rate(per_s: float | None, unit: str, *, digits: int = 3, unicode: bool = True) -> str:
    """A rate as machine files hold it: ``flop/s`` reads ``GFLOP/s``, ``byte/s`` reads ``GB/s``, ``s`` is a time.

    Args:
        per_s: the rate, in ``unit``.
        unit: ``flop/s``, ``byte/s`` or ``s``.
        digits: significant digits, at least 1.
        unicode: whether ``µs`` may be written; ``us`` otherwise.
    """
    if unit == "s":
        return format_time(per_s, digits=digits, unicode=unicode)
    return format_si(per_s, {"flop/s": "FLOP/s", "byte/s": "B/s"}.get(unit, unit), digits=digits)


def format_size(size_bytes: float | None, *, digits: int = 3) -> str:
    """A size in B, KiB, MiB...: ``format_size(67108864)`` is ``64 MiB``.

    Args:
        size_bytes: the size in bytes.
        digits: significant digits where the size is not a whole number of its unit, at least 1.
    """
    if size_bytes is None or not math.isfinite(size_bytes):
        return tr("unknown")
    magnitude, index = abs(float(size_bytes)), 0
    # 1000 KiB already reads as MiB, so that no size needs four digits.
    while index < len(_IEC) - 1 and _rounded(magnitude, digits) >= 1000:
        magnitude, index = magnitude / 1024, index + 1
    sign = "-" if size_bytes < 0 else ""
    if magnitude.is_integer() and magnitude < 1000:
        return f"{sign}{magnitude:.0f} {_IEC[index]}"
    return f"{sign}{_plain(_rounded(magnitude, digits))} {_IEC[index]}"


def format_number(value: float | None, *, digits: int = 3) -> str:
    """A number whose unit stands elsewhere, as in the head of its column: ``95.0``, ``1,230``, ``0.0213``.

    Args:
        value: the number.
        digits: significant digits, at least 1.
    """
    if value is None or not math.isfinite(value):
        return tr("unknown")
    return "0" if value == 0 else _plain(_rounded(value, digits))


def format_percent(share: float | None) -> str:
    """A share as a percentage: ``62%``, ``3.4%``, ``<0.1%``, ``>99.9%``; only exactly 0 reads ``0%``.

    Args:
        share: the share, 1 being the whole.
    """
    if share is None or not math.isfinite(share):
        return tr("unknown")
    percent = 100 * share
    size = abs(percent)
    if size == 0:
        return "0%"
    if size < 0.05:
        return "<0.1%" if percent > 0 else ">-0.1%"
    if 99.95 <= percent < 100:
        return ">99.9%"
    if size < 9.95 or 99.5 <= percent < 100:
        return f"{percent:.1f}%"
    return f"{percent:,.0f}%"


def format_percent_range(low: float, high: float) -> str:
    """The ends of a band as percentages: ``58-66%``; ``-2 to 3%`` where a minus sign would confuse.

    Args:
        low: the lower share, 1 being the whole.
        high: the upper share.
    """
    first, last = format_percent(low), format_percent(high)
    if first == last:
        return last
    if first.startswith(("<", ">", "-")) or last.startswith(("<", ">", "-")) or not math.isfinite(low + high):
        return tr("{low} to {high}", low=first, high=last)
    return f"{first.removesuffix('%')}-{last}"


def format_ratio(ratio: float | None) -> str:
    """How many times: ``1.3x``, ``12x``, ``340x``.

    Args:
        ratio: the quotient of two quantities of one unit.
    """
    if ratio is None or not math.isfinite(ratio):
        return tr("unknown")
    if ratio == 0:
        return "0x"
    return f"{_plain(_rounded(ratio, 2))}x"


def format_count(count: float | None) -> str:
    """A number of things: ``605``, ``1,234``, ``0.5``.

    Args:
        count: how many; a mean number of things may be fractional.
    """
    if count is None or not math.isfinite(count):
        return tr("unknown")
    if float(count).is_integer() or abs(count) >= 100:
        return f"{count:,.0f}"
    return _plain(_rounded(count, 2))


def _rounded(value: float, digits: int) -> Decimal:
    return Decimal(f"{value:.{digits - 1}e}")


def _thousands(rounded: Decimal, lowest: int, prefixes: int) -> int:
    """Which prefix a number takes, after rounding, so that 999.6 ms is 1.00 s and never 1000 ms."""
    return min(max(rounded.adjusted() // 3 - lowest, 0), prefixes - 1)


def _plain(number: Decimal) -> str:
    if number and (number.adjusted() < -3 or number.adjusted() > 8):
        return f"{number:e}".replace("E", "e")
    return f"{number:,f}"


def _time_unit(index: int, unicode: bool) -> str:
    unit = _TIMES[index]
    return unit if unicode else unit.replace("µ", "u")
