import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.machine import bands
from boundby.machine.bands import across_runs, by_regions, ceiling_key, least_share, regions_of
from boundby.machine.probe import Reading, Window, median_of, per_element, rate_of, seconds_of
from boundby.machine.rounds import Rounds, read_ceilings
from boundby.results.machine import Ceiling

ELEMENTS = 64 * 1024


def ceiling(kind="function", name="add", unit="s", *, value=1.0, low=None, high=None, threads=2, **more) -> Ceiling:
    low, high = (value if end is None else end for end in (low, high))
    return Ceiling(kind=kind, name=name, threads=threads, value=value, low=low, high=high, unit=unit, **more)


def add_reading(elements: int = ELEMENTS, **more) -> Reading:
    return Reading(
        kind="function",
        name="add",
        keys=("add", "tiny"),
        formula=per_element(elements),
        unit="s",
        dtype="fp32",
        size_bytes=4 * elements,
        **more,
    )


def windows(seconds: float, tiny: float = 1e-6) -> Rounds:
    taken = {"add": [Window(seconds=seconds)] * 8, "tiny": [Window(seconds=tiny)] * 8}
    return Rounds(windows=taken, rounds=2, dropped=0)


@given(st.floats(1e-12, 1e12), st.floats(1.0, 3.0), st.floats(1.0, 3.0), st.sampled_from(["s", "flop/s", "byte/s"]))
def test_a_band_only_ever_gets_wider_and_its_value_stays(value, below, above, unit):
    before = ceiling(unit=unit, value=value, low=value / below, high=value * above)
    (after,) = across_runs([before])
    assert after.low <= before.low <= after.value == before.value <= before.high <= after.high
    assert after.high / after.low >= (1 + least_share(before)) ** 2 * 0.999


def test_windows_that_all_agree_leave_the_least_share_of_the_kind():
    (one,) = across_runs([ceiling(value=10.0)])
    assert (one.low, one.high) == pytest.approx((10 / (1 + bands.FUNCTION_SHARE), 10 * (1 + bands.FUNCTION_SHARE)))


def test_what_windows_differ_by_and_what_runs_differ_by_are_independent():
    (one,) = across_runs([ceiling(value=1.0, low=1.0, high=1.2)])
    both = math.hypot(math.log(1.2), math.log1p(bands.FUNCTION_SHARE))
    assert one.high == pytest.approx(math.exp(both))
    assert one.high < 1.2 * (1 + bands.FUNCTION_SHARE)


@pytest.mark.parametrize(
    ("one", "share"),
    [
        (ceiling("overhead", "view"), bands.OVERHEAD_SHARE),
        (ceiling("overhead", "parallel_region"), bands.REGION_SHARE),
        (ceiling("matmul", "fma", "flop/s", stack="native"), bands.ARITHMETIC_SHARE),
        (ceiling("matmul", "mm", "flop/s"), bands.PRODUCT_SHARE),
        (ceiling("matmul", "mm", "flop/s", threads=1), bands.ONE_THREAD_SHARE),
        (ceiling("matmul", "conv_backward", "flop/s"), bands.MANY_REGIONS_SHARE),
        (ceiling("matmul", "mv", "byte/s", dtype="fp32", shape=(1, 1, 512, 1024)), bands.CACHE_SHARE),
        (ceiling("matmul", "mv", "byte/s", dtype="fp32", shape=(1, 1, 8192, 4096)), bands.SHARED_MEMORY_SHARE),
        (ceiling("bandwidth", "read", "byte/s", size_bytes=1 << 20), bands.CACHE_SHARE),
        (ceiling("bandwidth", "read", "byte/s", size_bytes=256 << 20), bands.SHARED_MEMORY_SHARE),
        (ceiling("bandwidth", "read", "byte/s", size_bytes=256 << 20, threads=1), bands.ONE_THREAD_SHARE),
        (ceiling("function", "exp", threads=1), bands.FUNCTION_SHARE),
    ],
)
def test_the_least_share_follows_from_what_is_measured_and_by_how_many_threads(one, share):
    assert least_share(one) == share


def test_anchors_are_of_their_moment_and_keep_their_bands():
    one = ceiling("anchor", "memory", value=2.0, low=1.9, high=2.1)
    assert across_runs([one]) == (one,)


def test_a_short_op_on_all_threads_may_take_a_region_more_or_less():
    """3.3 us of work: between 1.1 and 5.5 us with a region dearer or cheaper by 2.2."""
    readings = [add_reading()]
    rounds = windows(4.3e-6)
    (before,) = read_ceilings(readings, rounds, threads=2)
    moved = by_regions(readings, rounds, threads=2, entered={}, region_s=1e-6)
    (after,) = across_runs([before], moved)
    share = 1 + bands.FUNCTION_SHARE
    assert after.low * ELEMENTS == pytest.approx(1.1e-6 / share)
    assert after.high * ELEMENTS == pytest.approx(5.5e-6 * share)


@given(st.floats(2e-6, 1.0), st.floats(0.0, 1e-4))
def test_regions_never_move_an_end_inwards_nor_by_more_than_their_bound(seconds, region_s):
    readings = [add_reading()]
    moved = by_regions(readings, windows(seconds), threads=2, entered={}, region_s=region_s)
    for low, high in moved.values():
        assert 1 / bands.MOST_BY_REGIONS <= low <= 1.0 <= high <= bands.MOST_BY_REGIONS


def test_a_long_op_does_not_notice_a_region():
    ((low, high),) = by_regions([add_reading()], windows(1e-2), threads=2, entered={}, region_s=None).values()
    assert (low, high) == pytest.approx((1.0, 1.0), abs=1e-3)


def test_rates_fall_where_a_region_costs_more():
    reading = Reading(
        kind="matmul",
        name="mm",
        keys=("add", "tiny"),
        formula=rate_of(1e6),
        unit="flop/s",
        dtype="fp32",
        shape=(1, 64, 64, 64),
    )
    rounds = windows(1e-4, 1e-6)
    (before,) = read_ceilings([reading], rounds, threads=2)
    moved = by_regions([reading], rounds, threads=2, entered={}, region_s=1e-6)
    low, high = moved[ceiling_key(before)]
    more = bands.PRODUCT_REGIONS * bands.REGION_MOVES_S
    assert low == pytest.approx(99e-6 / (99e-6 + more))
    assert high == pytest.approx(99e-6 / (99e-6 - more))


def test_one_thread_enters_no_region():
    assert by_regions([add_reading()], windows(4e-6), threads=1, entered={}, region_s=None) == {}


def test_a_machine_of_dear_regions_is_allowed_half_of_one():
    dear = 40e-6
    ((low, high),) = by_regions([add_reading()], windows(101e-6), threads=64, entered={}, region_s=dear).values()
    assert (low, high) == pytest.approx((0.8, 1.2))


def test_regions_are_those_that_torch_can_enter():
    assert regions_of(add_reading(), {}) == 1
    # torch leaves as many to one thread, and native loops have threads of their own.
    assert regions_of(add_reading(32 * 1024), {}) == 0
    assert regions_of(add_reading(stack="native"), {}) == 0
    triad = replace(add_reading(), kind="bandwidth", name="triad")
    assert regions_of(replace(triad, size_bytes=3 * 4 * 32 * 1024), {}) == 0
    assert regions_of(replace(triad, size_bytes=3 * 4 * 33 * 1024), {}) == 1
    assert regions_of(replace(add_reading(), kind="matmul", unit="byte/s"), {}) == 1


def test_ops_on_almost_nothing_enter_as_many_as_were_found():
    one = Reading(kind="overhead", name="softmax/softmax", keys=("softmax",), formula=seconds_of, unit="s")
    assert (regions_of(one, {"softmax": 2}), regions_of(one, {})) == (2, 0)
    several = Reading(kind="overhead", name="x", keys=("a", "b", "c"), formula=median_of, unit="s", span=True)
    assert regions_of(several, {"a": 3, "b": 1}) == 1
