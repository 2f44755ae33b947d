import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boundby.report.levels import bandwidth_levels
from boundby.results.machine import Ceiling

KIB, MIB = 1 << 10, 1 << 20
LARGEST = 256 * MIB


def point(size: int, rate: float, *, band: float = 0.05, **more) -> Ceiling:
    fields = {"kind": "bandwidth", "name": "read", "dtype": "fp32"} | more
    return Ceiling(size_bytes=size, value=rate, low=rate * (1 - band), high=rate * (1 + band), unit="byte/s", **fields)


def sweep(step: int) -> list[int]:
    sizes = [4 * KIB]
    while sizes[-1] * step <= LARGEST:
        sizes.append(sizes[-1] * step)
    return sizes


def made_up(capacities: list[int], rates: list[float], noise: list[float], *, step: int = 2) -> list[Ceiling]:
    """A pass over a set up to twice a cache still hits a part of it, as with real replacement; beyond, nothing."""
    curve = []
    for size, moved in zip(sweep(step), noise, strict=False):
        level = next((place for place, capacity in enumerate(capacities) if size <= capacity), len(capacities))
        hit = 0.0 if level == 0 else max(0.0, 2 * capacities[level - 1] / size - 1)
        seconds = (1 - hit) / rates[level] + (hit / rates[level - 1] if hit else 0.0)
        curve.append(point(size, math.exp(moved) / seconds))
    return curve


@st.composite
def caches(draw):
    """Capacities at least 16 times apart and rates at least 1.6 times, so that each level is there to be seen."""
    capacities, rates = [], [draw(st.floats(1e9, 1e12))]
    octave = draw(st.integers(14, 18))
    while octave <= 25 and len(capacities) < 3:
        capacities.append(1 << octave)
        rates.append(rates[-1] / draw(st.floats(1.6, 6)))
        octave += draw(st.integers(4, 6))
    return capacities, rates


noises = st.lists(st.floats(-0.05, 0.05), min_size=17, max_size=17)


@settings(deadline=None)
@given(caches(), noises)
def test_levels_of_made_up_caches_are_found_within_a_factor_of_two(shape, noise):
    capacities, rates = shape
    found = bandwidth_levels(made_up(capacities, rates, noise), "read")
    assert len(found) == len(rates)
    for level, capacity, rate in zip(found, [*capacities, LARGEST], rates, strict=True):
        assert capacity / 2 <= level.largest_bytes <= capacity * 2
        assert level.bytes_per_s.value == pytest.approx(rate, rel=0.12)
    assert [level.open_ended for level in found] == [False] * len(capacities) + [True]


@settings(deadline=None)
@given(caches(), noises)
def test_a_coarse_sweep_finds_no_more_levels_than_there_are(shape, noise):
    capacities, rates = shape
    found = bandwidth_levels(made_up(capacities, rates, noise, step=4), "read")
    assert 1 <= len(found) <= len(rates)
    assert found[-1].bytes_per_s.value == pytest.approx(rates[-1], rel=0.12)


rates_any = st.lists(st.floats(1e6, 1e13), min_size=0, max_size=17)


@settings(deadline=None)
@given(rates_any, st.sampled_from([2, 4]))
def test_whatever_the_curve_levels_are_apart_in_order_and_hold_their_band(rates, step):
    curve = [point(size, rate) for size, rate in zip(sweep(step), rates, strict=False)]
    found = bandwidth_levels(curve, "read")
    for level in found:
        assert level.smallest_bytes * 4 <= level.largest_bytes
        assert level.bytes_per_s.low <= level.bytes_per_s.value <= level.bytes_per_s.high
    for faster, slower in pairwise(found):
        assert faster.largest_bytes < slower.smallest_bytes
        assert not faster.open_ended


@given(st.floats(0.25, 1.5))
def test_what_falls_steadily_has_no_levels(octave):
    curve = [point(size, 1e11 * 2 ** (-octave * place)) for place, size in enumerate(sweep(2))]
    assert bandwidth_levels(curve, "read") == ()


@given(noises)
def test_a_flat_curve_is_one_level_whose_end_is_not_seen(noise):
    (level,) = bandwidth_levels([point(s, 2e10 * math.exp(n)) for s, n in zip(sweep(2), noise, strict=False)], "read")
    assert level.open_ended
    assert level.largest_bytes == LARGEST


def test_private_caches_of_several_threads_add_up():
    # Below 128 KiB one thread works alone; four then have four times the cache and four times its speed.
    rates = {size: 25e9 if size < 128 * KIB else 100e9 if size <= 4 * MIB else 20e9 for size in sweep(2)}
    found = bandwidth_levels([point(size, rate, threads=4) for size, rate in rates.items()], "read")
    assert [level.largest_bytes for level in found] == [4 * MIB, LARGEST]
    # The sizes of one thread alone say nothing about the level's bandwidth.
    assert found[0].bytes_per_s.low > 90e9


def test_a_size_that_was_disturbed_neither_ends_a_level_nor_widens_it():
    rates = dict.fromkeys(sweep(2), 80e9) | {size: 20e9 for size in sweep(2) if size > 8 * MIB}
    curve = [point(size, rate) for size, rate in rates.items()]
    curve[5] = point(curve[5].size_bytes, 30e9)
    curve[6] = point(curve[6].size_bytes, 80e9, band=0.9)
    first, second = bandwidth_levels(curve, "read")
    assert first.largest_bytes == 8 * MIB
    assert first.bytes_per_s.low > 70e9
    assert second.bytes_per_s.value == pytest.approx(20e9)


def test_only_the_curve_that_is_asked_for_is_looked_at():
    flat = [point(size, 20e9) for size in sweep(2)]
    others = [
        *(point(size, 90e9 if size < MIB else 9e9, threads=2) for size in sweep(2)),
        *(point(size, 50e9, stack="native") for size in sweep(2)),
        *(point(size, 50e9, name="write") for size in sweep(2)),
    ]
    (level,) = bandwidth_levels(flat + others, "read", threads=1)
    assert level.bytes_per_s.value == 20e9
    assert len(bandwidth_levels(flat + others, "read")) == 2
    assert bandwidth_levels(flat, "triad") == ()
    assert bandwidth_levels(flat[:1], "read") == ()
