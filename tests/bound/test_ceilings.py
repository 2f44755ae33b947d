"""Looking ceilings up between, at and beyond what was measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import (
    MIB,
    anchor,
    bandwidth,
    description,
    function,
    matvec,
    overhead,
    product,
    reading,
    round_machine,
)

from boundby.bound.ceilings import Ceilings, Speed, measure_speed
from boundby.results.counts import MatmulShape
from boundby.results.interval import interval
from boundby.results.machine import MAIN_MEMORY_BYTES, Machine

ROUNDING = 1e-9


def ceilings_of(*ceilings, speed: Speed | None = None, threads: int = 1) -> Ceilings:
    return Ceilings(
        Machine(description=description(), ceilings=tuple(ceilings)), speed or Speed.unknown(), threads=threads
    )


def speed_of(matmul=1.0, cache=1.0, memory=1.0, dispatch=1.0) -> Speed:
    return Speed(matmul=interval(matmul), cache=interval(cache), memory=interval(memory), dispatch=interval(dispatch))


curves = st.lists(
    st.tuples(st.integers(1, 1 << 34), st.floats(1e8, 1e12), st.floats(0, 0.5)),
    min_size=1,
    max_size=8,
    unique_by=lambda point: point[0],
)


@given(curves, st.floats(1, 1e12))
def test_a_bandwidth_lies_between_those_of_its_neighbours(points, size):
    found = ceilings_of(*(bandwidth("copy", at, rate, spread=spread) for at, rate, spread in points)).bandwidth(
        "copy", size
    )
    points = sorted(points)
    if points[-1][0] < min(size, MAIN_MEMORY_BYTES):
        assert found is None
        return
    below = [point for point in points if point[0] <= size] or points[:1]
    above = [point for point in points if point[0] >= size] or points[-1:]
    near = (below[-1], above[0])
    rates = [rate for _, rate, _ in near]
    assert min(rates) * (1 - ROUNDING) <= found.value <= max(rates) * (1 + ROUNDING)
    assert min(rate * (1 - spread) for _, rate, spread in near) * (1 - ROUNDING) <= found.low
    assert found.high <= max(rate * (1 + spread) for _, rate, spread in near) * (1 + ROUNDING)


@given(curves, st.floats(1.0, 100.0))
def test_a_bandwidth_is_never_extrapolated(points, beyond):
    points = sorted(points)
    ceilings = ceilings_of(*(bandwidth("read", at, rate) for at, rate, _ in points))
    largest = ceilings.bandwidth("read", points[-1][0] * beyond)
    if points[-1][0] < MAIN_MEMORY_BYTES and beyond > 1:
        # The sweep ended in a cache: what lies behind it was not measured.
        assert largest is None
    else:
        assert largest.value == pytest.approx(points[-1][1])
    assert ceilings.bandwidth("read", points[0][0] / beyond).value == pytest.approx(points[0][1])


def test_a_measured_size_gives_what_was_measured():
    ceilings = ceilings_of(bandwidth("read", 1 << 20, 80e9), bandwidth("read", 1 << 24, 20e9))
    assert ceilings.bandwidth("read", 1 << 20).value == pytest.approx(80e9)
    # Half way in powers of two: the geometric mean.
    assert ceilings.bandwidth("read", 1 << 22).value == pytest.approx(40e9)


def test_what_was_not_measured_is_unknown():
    ceilings = ceilings_of(bandwidth("read", 1 << 20, 80e9))
    assert ceilings.threads_measured
    assert ceilings.bandwidth("write", 1 << 20) is None
    assert ceilings.function("tanh", "fp32") is None
    assert ceilings.overhead("view") is None
    assert ceilings.matmul("fp32", None) is None
    assert ceilings.matvec("fp32", 1, 512, 1 << 20) is None


def test_only_ceilings_of_the_thread_count_are_used():
    ceilings = ceilings_of(overhead("view", 1e-6, threads=1), overhead("view", 5e-6, threads=4), threads=4)
    assert ceilings.overhead("view").value == 5e-6
    assert not ceilings_of(overhead("view", 1e-6, threads=1), threads=2).threads_measured


def test_a_few_ceilings_at_another_thread_count_are_not_taken_for_the_whole():
    # The machine was measured at one thread; what it has at four only shows what more threads bring.
    ceilings = (overhead("view", 1e-6, threads=1), overhead("view", 5e-6, threads=4))
    assert ceilings_of(*ceilings, threads=1).threads_measured
    assert not ceilings_of(*ceilings, threads=4).threads_measured


shapes = st.tuples(st.integers(1, 64), *[st.integers(1, 8192)] * 3)


@given(st.lists(st.tuples(shapes, st.floats(1e9, 1e13)), min_size=1, max_size=8), shapes)
def test_a_product_is_no_faster_and_no_slower_than_all_measured_ones(known, asked):
    ceilings = ceilings_of(*(product(shape, rate) for shape, rate in known))
    batch, m, n, k = asked
    found = ceilings.matmul("fp32", MatmulShape(batch=batch, m=m, n=n, k=k))
    rates = [rate for _, rate in known]
    assert min(rates) * (1 - ROUNDING) <= found.value <= max(rates) * (1 + ROUNDING)
    assert found.low <= found.value <= found.high
    assert ceilings.peak("fp32").value == max(rates)


def test_a_product_like_a_measured_one_takes_mostly_its_rate():
    ceilings = ceilings_of(product((1, 512, 512, 512), 100e9), product((1, 16, 16, 16), 10e9))
    assert ceilings.matmul("fp32", MatmulShape(batch=1, m=512, n=512, k=512)).value == pytest.approx(100e9, rel=0.02)
    assert ceilings.matmul("fp32", MatmulShape(batch=1, m=16, n=16, k=16)).value == pytest.approx(10e9, rel=0.02)


def test_the_farther_the_nearest_product_the_wider_the_band():
    ceilings = ceilings_of(product((1, 512, 512, 512), 100e9))
    near = ceilings.matmul("fp32", MatmulShape(batch=1, m=512, n=512, k=512))
    far = ceilings.matmul("fp32", MatmulShape(batch=1, m=4, n=64, k=64))
    assert near.high - near.low < far.high - far.low


def test_a_product_of_no_rows_can_be_asked_about():
    """An empty batch: a detector without a single proposal multiplies (0, k) by (k, n)."""
    ceilings = ceilings_of(matvec((1, 1, 1024, 1024), 20e9), product((1, 64, 64, 64), 1e10))
    assert ceilings.matvec("fp32", 0, 64, 4096.0).value == pytest.approx(20e9)
    assert ceilings.matmul("fp32", MatmulShape(batch=1, m=0, n=64, k=64)).value > 0


def test_a_matrix_vector_product_takes_the_curve_of_the_nearest_row_count():
    ceilings = ceilings_of(
        matvec((1, 1, 1024, 1024), 20e9),
        matvec((1, 1, 8192, 8192), 5e9),
        matvec((1, 8, 1024, 1024), 10e9),
    )
    assert ceilings.matvec("fp32", 1, 1024, 4 * MIB).value == pytest.approx(20e9)
    assert ceilings.matvec("fp32", 1, 8192, 1 << 40).value == pytest.approx(5e9)
    assert ceilings.matvec("fp32", 7, 1024, 4 * MIB).value == pytest.approx(10e9)


def test_a_matrix_vector_product_takes_the_weight_of_the_nearest_depth_at_each_size():
    """A (4096, 256) and a (256, 4096) weight are of one size, and are read at different speeds."""
    ceilings = ceilings_of(
        matvec((1, 1, 4096, 256), 12e9),
        matvec((1, 1, 256, 4096), 24e9),
        matvec((1, 1, 8192, 8192), 5e9),
    )
    assert ceilings.matvec("fp32", 1, 300, 4 * MIB).value == pytest.approx(12e9)
    assert ceilings.matvec("fp32", 1, 3000, 4 * MIB).value == pytest.approx(24e9)
    # Between two sizes it lies between the weights that were chosen, and only those.
    assert ceilings.matvec("fp32", 1, 256, 12 * MIB).value < 12e9
    assert 12e9 < ceilings.matvec("fp32", 1, 4096, 8 * MIB).value < 24e9
    # A depth of nothing is asked of an empty product.
    assert ceilings.matvec("fp32", 1, 0, 4 * MIB).value == pytest.approx(12e9)


def test_a_matrix_vector_product_is_looked_up_in_its_own_dtype():
    ceilings = ceilings_of(matvec((1, 1, 1024, 1024), 20e9), matvec((1, 1, 1024, 1024), 8e9, "bf16"))
    assert ceilings.matvec("bf16", 1, 1024, 2 * MIB).value == pytest.approx(8e9)
    assert ceilings.matvec("fp16", 1, 1024, 2 * MIB) is None


def test_weights_beyond_the_caches_are_all_of_one_size():
    """How far beyond no longer matters: the one of the nearest depth stands for all."""
    ceilings = ceilings_of(matvec((1, 1, 16384, 1024), 6e9), matvec((1, 1, 16384, 8192), 4e9))
    assert ceilings.matvec("fp32", 1, 1024, 1 << 40).value == pytest.approx(6e9)
    assert ceilings.matvec("fp32", 1, 8192, 1 << 25).value == pytest.approx(4e9)


def test_the_ceiling_of_the_op_itself_comes_before_that_of_its_kind():
    ceilings = ceilings_of(overhead("pointwise", 1e-6), overhead("pointwise/gelu", 3e-6))
    assert ceilings.overhead("pointwise", "gelu").value == pytest.approx(3e-6)
    assert ceilings.overhead("pointwise", "relu").value == pytest.approx(1e-6)
    assert ceilings.overhead("pointwise").value == pytest.approx(1e-6)
    assert ceilings.overhead("inplace", "gelu") is None


# The machine's speed at the time.


@given(st.floats(0.25, 4.0))
def test_a_slower_machine_has_lower_rates_and_longer_times(speed):
    machine = round_machine()
    plain = Ceilings(machine, Speed.unknown(), threads=1)
    scaled = Ceilings(machine, speed_of(speed, speed, speed, speed), threads=1)
    shape = MatmulShape(batch=1, m=300, n=300, k=300)
    for size in (1e4, 4e6, 1e9):
        assert scaled.bandwidth("copy", size).value == pytest.approx(speed * plain.bandwidth("copy", size).value)
    assert scaled.matmul("fp32", shape).value == pytest.approx(speed * plain.matmul("fp32", shape).value)
    assert scaled.overhead("view").value == pytest.approx(plain.overhead("view").value / speed)
    assert scaled.function("exp", "fp32").value == pytest.approx(plain.function("exp", "fp32").value / speed)


def test_each_kind_of_ceiling_moves_with_its_own_anchor():
    machine = round_machine()
    ceilings = Ceilings(machine, speed_of(matmul=0.5, cache=0.25, memory=2.0, dispatch=4.0), threads=1)
    assert ceilings.peak("fp32").value == pytest.approx(50e9)
    assert ceilings.function("exp", "fp32").value == pytest.approx(8e-9)
    assert ceilings.overhead("pointwise").value == pytest.approx(0.25e-6)
    assert ceilings.bandwidth("read", 1e4).value == pytest.approx(25e9)
    assert ceilings.bandwidth("read", 1e9).value == pytest.approx(20e9)


def test_the_speed_is_then_over_now_with_the_middle_half_as_band():
    machine = Machine(description=description(), ceilings=(anchor("matmul", 1e-3), function("exp", 1e-9)))
    readings = [reading(matmul=seconds) for seconds in (1e-3, 2e-3, 2e-3, 2e-3, 8e-3)]
    speed = measure_speed(machine, readings)
    assert speed.matmul == interval(0.5**0.5, 0.5, 1.0)  # half of the change is believed, the band holds both ends
    assert speed.cache == interval(1.0)  # no such anchor was measured


@given(st.lists(st.floats(1e-5, 1e-1), max_size=9))
def test_a_speed_is_an_interval_around_its_value(seconds):
    machine = Machine(description=description(), ceilings=(anchor("memory", 1e-3),))
    speed = measure_speed(machine, [reading(memory=one) for one in seconds]).memory
    assert 0 < speed.low <= speed.value <= speed.high
