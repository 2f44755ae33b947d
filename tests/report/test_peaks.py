import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.report.peaks import best_product, half_performance_size
from boundby.results.machine import Ceiling

SIZES = (16, 32, 64, 128, 256, 512, 1024)


def product(shape, rate, *, band=0.0, name="mm", dtype="fp32", threads=1, stack="torch", unit="flop/s") -> Ceiling:
    return Ceiling(
        kind="matmul", name=name, dtype=dtype, shape=shape, threads=threads, stack=stack, unit=unit,
        value=rate, low=rate * (1 - band), high=rate * (1 + band),
    )  # fmt: skip


def square(n: int, rate: float, **more) -> Ceiling:
    return product((1, n, n, n), rate, **more)


def call(seconds: float, dtype: str = "fp32", threads: int = 1) -> Ceiling:
    return Ceiling(
        kind="overhead", name=f"matmul/mm {dtype}", dtype=dtype, value=seconds, low=seconds, high=seconds, unit="s",
        threads=threads,
    )  # fmt: skip


@given(st.floats(20, 900), st.floats(1e9, 1e13), st.floats(0, 0.2))
def test_the_size_of_a_known_law_is_found(half, peak, band):
    # r(n) = peak / (1 + (half / n)^2), which is half of the peak at n = half.
    squares = [square(n, peak / (1 + (half / n) ** 2), band=band) for n in (*SIZES, 4096, 16384)]
    found = half_performance_size(squares, "fp32")
    assert found is not None
    assert found.value == pytest.approx(half, rel=0.08)
    assert found.low <= found.value <= found.high
    if band > 0.05:
        assert found.low < half < found.high


def test_what_a_call_costs_counts():
    # At a constant 100 GFLOP/s beyond 1 us a call, half is reached where the work takes as long as the call.
    squares = [square(n, 100e9) for n in SIZES]
    assert half_performance_size(squares, "fp32") is None
    found = half_performance_size([*squares, call(1e-6)], "fp32")
    assert found.value == pytest.approx((1e-6 * 100e9 / 2) ** (1 / 3), rel=0.03)
    assert half_performance_size([*squares, call(1e-6, "bf16"), call(1e-6, threads=2)], "fp32") is None


def test_what_the_sizes_do_not_tell_is_unknown():
    assert half_performance_size([], "fp32") is None
    assert half_performance_size([square(64, 1e9)], "fp32") is None
    assert half_performance_size([square(16, 90e9), square(64, 100e9)], "fp32") is None
    assert half_performance_size([square(16, 1e9), square(64, 100e9)], "bf16") is None


def test_a_dip_after_half_was_reached_does_not_matter():
    rates = (10e9, 40e9, 80e9, 30e9, 90e9, 100e9, 100e9)
    found = half_performance_size([square(n, rate) for n, rate in zip(SIZES, rates, strict=True)], "fp32")
    share = math.log(50 / 40) / math.log(80 / 40)
    assert found.value == pytest.approx(32 ** (1 - share) * 64**share)


def test_the_best_product_is_a_plain_one_of_its_dtype_and_threads():
    ceilings = [
        square(512, 90e9),
        product((1, 2048, 192, 64), 95e9, name="mm_nt"),
        product((1, 64, 64, 64), 120e9, name="conv"),
        product((1, 1, 1024, 512), 130e9, name="mv", unit="byte/s"),
        square(512, 200e9, dtype="bf16"),
        square(512, 150e9, stack="native"),
    ]
    assert best_product(ceilings, "fp32").shape == (1, 2048, 192, 64)
    assert best_product(ceilings, "bf16").value == 200e9
    assert best_product(ceilings, "fp64") is None
    both = [*ceilings, square(256, 170e9, threads=2)]
    assert best_product(both, "fp32").threads == 2
    assert best_product(both, "fp32", threads=1).value == 95e9
