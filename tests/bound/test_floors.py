"""The least time of one op by each ceiling."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import (
    MIB,
    VIEW,
    bandwidth,
    function,
    matmul_cost,
    matvec,
    overhead,
    pointwise_cost,
    product,
    round_machine,
    site,
)

from boundby.bound.ceilings import Ceilings, Speed
from boundby.bound.floors import ARITHMETIC, WIDEST_BAND, op_floors
from boundby.results.counts import MatmulShape, OpCost

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


# The op's own ceiling comes before that of its kind.


def ceilings_with(*extra) -> Ceilings:
    return Ceilings(round_machine(*extra), Speed.unknown(), threads=1)


@pytest.mark.parametrize("name", sorted(ARITHMETIC))
def test_plain_arithmetic_is_bound_by_memory_whatever_its_function_costs(name):
    floors = op_floors(site(pointwise_cost(1 << 10, name)), 0.0, ceilings_with(function(name, 5e-9)))
    assert floors.pointwise.value > 10 * floors.memory.value
    assert floors.binding == "memory"
    assert floors.work.value == floors.memory.value


@pytest.mark.parametrize(("times_memory", "binding"), [(1.05, "memory"), (1.2, "pointwise")])
def test_another_function_binds_only_where_it_is_clearly_slower(times_memory, binding):
    # 8 bytes an element at 100 GB/s.
    ceilings = ceilings_with(function("sinh", times_memory * 8 / 100e9))
    assert op_floors(site(pointwise_cost(1 << 10, "sinh")), 0.0, ceilings).binding == binding


def test_the_band_of_work_is_no_wider_than_a_good_measurements():
    sinh = dataclasses.replace(function("sinh", 2e-9), low=1e-9, high=20e-9)
    floors = op_floors(site(pointwise_cost(1000, "sinh")), 0.0, ceilings_with(sinh))
    assert floors.pointwise.high == pytest.approx(20e-6)
    assert (floors.work.low, floors.work.value) == pytest.approx((1e-6, 2e-6))
    assert floors.work.high == pytest.approx(WIDEST_BAND * 2e-6) == pytest.approx(3e-6)
    sinh = dataclasses.replace(sinh, high=2.2e-9)
    assert op_floors(site(pointwise_cost(1000, "sinh")), 0.0, ceilings_with(sinh)).work.high == pytest.approx(2.2e-6)


def test_the_band_of_a_disturbed_bandwidth_is_capped_too():
    machine = round_machine()
    only = type(machine)(description=machine.description, ceilings=(bandwidth("copy", 1 << 20, 10e9, spread=0.9),))
    floors = op_floors(site(pointwise_cost(1000)), 0.0, Ceilings(only, Speed.unknown(), threads=1))
    assert floors.memory.high == pytest.approx(10 * floors.memory.value)
    assert floors.work.high == pytest.approx(1.5 * floors.memory.value)


@pytest.mark.parametrize(
    ("op", "seconds"), [("aten.gelu.default", 3e-6), ("aten::gelu", 3e-6), ("aten.tanh.default", 1e-6), ("gelu", 3e-6)]
)
def test_an_op_has_the_overhead_that_was_measured_of_it(op, seconds):
    ceilings = ceilings_with(overhead("pointwise/gelu", 3e-6))
    assert op_floors(site(pointwise_cost(8), op), 0.0, ceilings).overhead.value == pytest.approx(seconds)


def test_an_op_in_place_has_an_overhead_of_its_own():
    ceilings = ceilings_with(overhead("inplace", 2e-6), overhead("inplace/add_", 0.5e-6), overhead("inplace/add", 9e-6))
    cost = dataclasses.replace(pointwise_cost(8), kind="inplace")
    assert op_floors(site(cost, "aten.add_.Tensor"), 0.0, ceilings).overhead.value == pytest.approx(0.5e-6)
    assert op_floors(site(cost, "aten.mul_.Tensor"), 0.0, ceilings).overhead.value == pytest.approx(2e-6)


@pytest.mark.parametrize(
    ("op", "name"),
    [
        ("aten.silu_backward.default", "silu_backward"),
        ("aten.exp_.default", "exp"),
        ("aten._softmax.default", "softmax"),
        ("aten._softmax_backward_data.default", "softmax_backward"),
        ("aten._log_softmax_backward_data.default", "log_softmax_backward"),
        ("aten._safe_softmax.default", "softmax"),
        ("aten.native_layer_norm_backward.default", "layer_norm_backward"),
        ("aten.native_dropout.default", "dropout"),
        ("aten.bernoulli_.float", "dropout"),
        ("aten.randn.default", "normal"),
        ("aten.rand_like.default", "uniform"),
    ],
)
def test_a_function_has_the_ceiling_that_was_measured_of_the_op(op, name):
    cost = pointwise_cost(1000, "cosh")
    ceilings = ceilings_with(function("cosh", 3e-9), *([function(name, 7e-9)] if name != "exp" else []))
    each = 2e-9 if name == "exp" else 7e-9
    assert op_floors(site(cost, op), 0.0, ceilings).pointwise.value == pytest.approx(1000 * each)


def test_without_a_ceiling_of_its_own_an_op_takes_that_of_its_scalar_function():
    ceilings = ceilings_with(function("gelu", 3e-9))
    cost = pointwise_cost(1000, "gelu")
    assert op_floors(site(cost, "aten.gelu_backward.default"), 0.0, ceilings).pointwise.value == pytest.approx(3e-6)


@pytest.mark.parametrize(
    ("kind", "op", "name"),
    [
        ("convolution", "aten.convolution.default", "conv"),
        ("convolution", "aten.convolution_backward.default", "conv_backward"),
        ("attention", "aten._scaled_dot_product_flash_attention_for_cpu.default", "attention"),
        ("attention", "aten._scaled_dot_product_flash_attention_for_cpu_backward.default", "attention_backward"),
    ],
)
def test_convolutions_and_attention_have_their_own_products_backward_too(kind, op, name):
    cost = dataclasses.replace(matmul_cost(256, 256, 256), kind=kind)
    rates = {"conv": 20e9, "conv_backward": 15e9, "attention": 30e9, "attention_backward": 25e9}
    measured = [product((1, 256, 256, 256), rate, name=one) for one, rate in rates.items()]
    found = op_floors(site(cost, op), 0.0, ceilings_with(*measured)).matmul
    assert found.value == pytest.approx(2 * 256**3 / rates[name])
    # Where it was not measured, a plain product's rate stands for it.
    others = [one for one in measured if one.name != name]
    found = op_floors(site(cost, op), 0.0, ceilings_with(*others)).matmul
    assert found.value == pytest.approx(2 * 256**3 / 100e9, rel=0.01)


def test_a_product_of_few_rows_reads_a_weight_of_its_own_depth():
    deep, shallow = matvec((1, 1, 256, 4096), 40e9), matvec((1, 1, 4096, 256), 10e9)
    ceilings = Ceilings(
        type(round_machine())(description=round_machine().description, ceilings=(deep, shallow)),
        Speed.unknown(),
        threads=1,
    )
    for n, k, rate in ((256, 4096, 40e9), (4096, 256, 10e9)):
        cost = matmul_cost(1, n, k)
        assert cost.matmul_shape == MatmulShape(batch=1, m=1, n=n, k=k)
        moved = cost.bytes_read + cost.bytes_written
        assert op_floors(site(cost), 0.0, ceilings).memory.value == pytest.approx(moved / rate)
