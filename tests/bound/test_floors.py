"""The least time of one op by each ceiling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import MIB, VIEW, bandwidth, matmul_cost, overhead, pointwise_cost, round_machine, site

from boundby.bound.ceilings import Ceilings, Speed
from boundby.bound.floors import op_floors
from boundby.results.counts import OpCost

CEILINGS = Ceilings(round_machine(), Speed.unknown(), threads=1)
EMPTY = Ceilings(round_machine(), Speed.unknown(), threads=64)


def test_a_view_has_overhead_and_no_work():
    floors = op_floors(site(VIEW), 1e9, CEILINGS)
    assert floors.overhead.value == 0.5e-6
    assert floors.binding == "none"
    assert floors.work.value == floors.memory.value == 0.0


def test_a_launch_that_moves_nothing_has_no_work():
    floors = op_floors(site(OpCost(kind="scalar")), 0.0, CEILINGS)
    assert floors.binding == "none"
    assert floors.work.value == 0.0
    assert floors.overhead.value == 1e-6  # of pointwise, where its own kind was not measured


def test_a_small_pointwise_op_moves_at_cache_speed_and_a_large_one_at_memory_speed():
    small = op_floors(site(pointwise_cost(1 << 10)), 0.0, CEILINGS)
    assert small.memory.value == pytest.approx(8 * (1 << 10) / 100e9)
    large = op_floors(site(pointwise_cost(32 * MIB)), 0.0, CEILINGS)
    assert large.memory.value == pytest.approx(256 * MIB / 10e9)
    assert small.binding == large.binding == "memory"


def test_operands_pushed_out_of_the_cache_come_from_memory():
    hot = op_floors(site(pointwise_cost(1 << 10)), 0.0, CEILINGS).memory
    cold = op_floors(site(pointwise_cost(1 << 10)), 1e9, CEILINGS).memory
    assert cold.value == pytest.approx(10 * hot.value)
    # They may after all still have been there.
    assert cold.low == pytest.approx(hot.value)


def test_a_dear_function_binds_where_it_takes_clearly_longer_than_its_bytes():
    exp = op_floors(site(pointwise_cost(1 << 10, "exp")), 0.0, CEILINGS)
    assert exp.binding == "pointwise"
    assert exp.work.value == pytest.approx(2e-9 * (1 << 10))
    assert op_floors(site(pointwise_cost(1 << 10, "add")), 0.0, CEILINGS).binding == "memory"


def test_a_function_that_was_not_measured_has_no_floor():
    floors = op_floors(site(pointwise_cost(1 << 10, "unheard_of")), 0.0, CEILINGS)
    assert floors.pointwise is None
    assert floors.binding == "memory"


def test_a_square_product_is_bound_by_arithmetic():
    floors = op_floors(site(matmul_cost(512, 512, 512)), 0.0, CEILINGS)
    assert floors.binding == "matmul"
    assert floors.work.value == pytest.approx(2 * 512**3 / 100e9, rel=0.01)
    assert floors.overhead.value == 2e-6


@pytest.mark.parametrize(("m", "n"), [(1, 4096), (4096, 1), (8, 4096)])
def test_a_product_of_few_rows_is_bound_by_reading_its_weights(m, n):
    cost = matmul_cost(m, n, 4096)
    floors = op_floors(site(cost), 1e9, CEILINGS)
    assert floors.binding == "memory"
    moved = cost.bytes_read + cost.bytes_written
    assert moved / 20e9 <= floors.memory.value <= moved / 5e9 * 1.01


def test_a_product_of_no_rows_has_floors_like_any_other():
    floors = op_floors(site(matmul_cost(0, 64, 64)), 0.0, CEILINGS)
    assert floors.matmul.value == 0.0
    assert floors.memory.value >= 0.0


def test_a_dtype_whose_products_were_not_measured_has_no_matmul_floor():
    floors = op_floors(site(matmul_cost(512, 512, 512, "int8")), 0.0, CEILINGS)
    assert floors.matmul is None
    assert floors.binding == "memory"


def test_a_foreach_op_adds_for_each_tensor_of_its_list():
    cost = OpCost(kind="foreach", bytes_read=64, bytes_written=64)
    assert op_floors(site(cost, items=0), 0.0, CEILINGS).overhead.value == pytest.approx(3e-6)
    assert op_floors(site(cost, items=40), 0.0, CEILINGS).overhead.value == pytest.approx(3e-6 + 40 * 0.25e-6)


def test_the_band_of_a_foreach_op_grows_with_its_list():
    machine = round_machine(overhead("fused_optimizer", 1e-6), overhead("fused_optimizer_tensor", 1e-6, spread=0.5))
    cost = OpCost(kind="fused_optimizer", bytes_read=64, bytes_written=64)
    found = op_floors(site(cost, items=10), 0.0, Ceilings(machine, Speed.unknown(), threads=1)).overhead
    assert (found.low, found.value, found.high) == pytest.approx((6e-6, 11e-6, 16e-6))


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [("inplace", "inplace"), ("fill", "write"), ("reduction", "read"), ("copy", "copy"), ("pointwise", "triad")],
)
def test_an_op_moves_at_the_rate_of_its_own_pattern(kind, pattern):
    rates = {"inplace": 1e9, "write": 2e9, "read": 3e9, "copy": 4e9, "triad": 5e9}
    machine = round_machine()
    only = type(machine)(
        description=machine.description,
        ceilings=tuple(bandwidth(name, 1 << 20, rate) for name, rate in rates.items()),
    )
    cost = OpCost(kind=kind, bytes_read=2000, bytes_written=1000)
    found = op_floors(site(cost), 0.0, Ceilings(only, Speed.unknown(), threads=1))
    assert found.memory.value == pytest.approx(3000 / rates[pattern])


def test_without_ceilings_there_are_no_floors():
    floors = op_floors(site(matmul_cost(64, 64, 64)), 0.0, EMPTY)
    assert floors.overhead.value == floors.memory.value == floors.work.value == 0.0
    assert floors.matmul is None


@given(st.integers(0, 2000), st.integers(1, 2000), st.integers(1, 2000), st.floats(0, 1e11))
def test_every_floor_is_an_interval_at_or_above_zero(m, n, k, distance):
    floors = op_floors(site(matmul_cost(m, n, k)), distance, CEILINGS)
    for one in (floors.overhead, floors.memory, floors.matmul, floors.pointwise, floors.work):
        assert 0 <= one.low <= one.value <= one.high
