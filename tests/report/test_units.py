"""Numbers as people read them."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.results.units import (
    digits_for,
    format_count,
    format_percent,
    format_percent_range,
    format_rate,
    format_ratio,
    format_si,
    format_size,
    format_time,
    format_time_band,
)

SECONDS = {"ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0}
SI = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
IEC = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40, "PiB": 2.0**50, "EiB": 2.0**60}

positive = st.floats(min_value=1e-15, max_value=1e15)
signed = st.one_of(positive, positive.map(lambda value: -value))


def number(text: str) -> float:
    return float(text.replace(",", ""))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.00382, "3.82 ms"),
        (0.9996, "1.00 s"),
        (0.0009996, "1.00 ms"),
        (1.06e-9, "1.06 ns"),
        (2.8e-10, "0.280 ns"),
        (2.5e-7, "250 ns"),
        (5.21e-5, "52.1 µs"),
        (83.4, "83.4 s"),
        (12345.0, "12,300 s"),
        (-0.00382, "-3.82 ms"),
        (0.0, "0 s"),
        (None, "unknown"),
        (math.nan, "unknown"),
        (math.inf, "unknown"),
    ],
)
def test_times(seconds: float | None, expected: str) -> None:
    assert expected == format_time(seconds)


def test_ascii_times() -> None:
    assert format_time(5.21e-5, unicode=False) == "52.1 us"


@given(signed, st.sampled_from([2, 3]))
def test_a_time_keeps_its_magnitude_and_never_needs_four_digits(seconds: float, digits: int) -> None:
    value, unit = format_time(seconds, digits=digits).split(" ")
    assert math.isclose(number(value) * SECONDS[unit], seconds, rel_tol=0.6 * 10 ** (1 - digits))
    assert unit == "s" or abs(number(value)) < 1000


@given(signed, st.sampled_from([2, 3]))
def test_a_rate_keeps_its_magnitude(value: float, digits: int) -> None:
    shown, unit = format_si(value, "FLOP/s", digits=digits).split(" ")
    scale = SI[unit.removesuffix("FLOP/s")]
    assert math.isclose(number(shown) * scale, value, rel_tol=0.6 * 10 ** (1 - digits))
    assert abs(number(shown)) < 1000


@given(st.integers(min_value=-(2**63), max_value=2**63))
def test_a_size_keeps_its_magnitude(size: int) -> None:
    shown, unit = format_size(size).split(" ")
    assert math.isclose(number(shown) * IEC[unit], size, rel_tol=0.006)
    assert abs(number(shown)) < 1000


@given(st.floats(min_value=1e-9, max_value=1e3), st.floats(0, 1), st.floats(0, 20))
def test_a_time_band_holds_its_value_and_keeps_its_ends_magnitudes(value: float, below: float, above: float) -> None:
    low, high = value * (1 - below), value * (1 + above)
    text = format_time_band(value, low, high)
    assert "1000" not in text
    match = re.fullmatch(r"(\S+) (\S+)(?: \(([\d.,]+)-([\d.,]+) (\S+)\)| \((\S+) (\S+) to (\S+) (\S+)\))?", text)
    assert match is not None
    shown, unit, low_text, high_text, shared, far_low, low_unit, far_high, high_unit = match.groups()
    assert math.isclose(number(shown) * SECONDS[unit], value, rel_tol=0.06)
    if shared:
        assert shared == unit
        assert number(low_text) <= number(high_text)
        assert math.isclose(number(high_text) * SECONDS[unit], high, rel_tol=0.06)
    elif far_low:
        assert math.isclose(number(far_high) * SECONDS[high_unit], high, rel_tol=0.06)
        assert math.isclose(number(far_low) * SECONDS[low_unit], low, rel_tol=0.06)


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (0.00382, 0.00371, 0.00405, "3.8 ms (3.7-4.1 ms)"),
        (0.652, 0.648, 0.655, "652 ms (648-655 ms)"),
        (0.0228, 0.0228, 0.0228, "22.8 ms"),
        (0.99, 0.9, 1.2, "990 ms (900 ms to 1.2 s)"),
        (0.01, 0.000002, 0.02, "10 ms (2.0 µs to 20 ms)"),
        (0.0, 0.0, 0.0, "0 s"),
        (math.nan, 0.0, 1.0, "unknown"),
        (None, 0.0, 1.0, "unknown"),
    ],
)
def test_time_bands(value: float | None, low: float, high: float, expected: str) -> None:
    assert expected == format_time_band(value, low, high)


def test_digits_follow_the_spread() -> None:
    assert (digits_for(100, 99, 101), digits_for(100, 90, 110), digits_for(0, 0, 0), digits_for(math.nan, 0, 1)) == (
        3,
        2,
        2,
        2,
    )


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.62, "62%"),
        (0.0341, "3.4%"),
        (0.09949, "9.9%"),
        (0.0996, "10%"),
        (0.0002, "<0.1%"),
        (-0.0002, ">-0.1%"),
        (-0.03, "-3.0%"),
        (0.9951, "99.5%"),
        (0.9999, ">99.9%"),
        (1.0, "100%"),
        (12.34, "1,234%"),
        (0.0, "0%"),
        (None, "unknown"),
        (math.nan, "unknown"),
    ],
)
def test_percents(share: float | None, expected: str) -> None:
    assert expected == format_percent(share)


@given(st.floats(min_value=-10, max_value=10))
def test_only_nothing_is_zero_percent_and_only_all_is_a_hundred(share: float) -> None:
    text = format_percent(share)
    assert (text == "0%") == (share == 0)
    assert text != "100%" or share >= 1


def test_percent_ranges() -> None:
    assert format_percent_range(0.58, 0.66) == "58-66%"
    assert format_percent_range(-0.02, 0.03) == "-2.0% to 3.0%"
    assert format_percent_range(0.0001, 0.03) == "<0.1% to 3.0%"
    assert format_percent_range(0.5, 0.5) == "50%"
    assert format_percent_range(0.0, math.nan) == "0% to unknown"


def test_rates_as_machine_files_name_them() -> None:
    assert format_rate(97.3e9, "flop/s") == "97.3 GFLOP/s"
    assert format_rate(27.1e9, "byte/s", digits=2) == "27 GB/s"
    assert format_rate(9e-7, "s") == "900 ns"
    assert format_rate(9e-6, "s", unicode=False) == "9.00 us"
    assert format_rate(None, "flop/s") == "unknown"


def test_sizes() -> None:
    assert format_size(64 * 2**20) == "64 MiB"
    assert format_size(1023) == "0.999 KiB"
    assert format_size(0) == "0 B"
    assert format_size(-1536) == "-1.50 KiB"
    assert format_size(None) == format_size(math.nan) == "unknown"


def test_other_numbers() -> None:
    assert [format_ratio(ratio) for ratio in (1.26, 12.4, 0.0, None, math.inf)] == [
        "1.3x",
        "12x",
        "0x",
        "unknown",
        "unknown",
    ]
    assert [format_count(count) for count in (605, 131072.4, 0.5, 0, None)] == [
        "605",
        "131,072",
        "0.50",
        "0",
        "unknown",
    ]
    assert format_si(12, "FLOP") == "12 FLOP"
    assert format_si(0, "FLOP") == "0 FLOP"
