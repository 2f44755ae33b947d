"""What is read off op rows, and the step once some of them take another time."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_rows import STEP_S, bare_row, evidence_of, filled_report

from boundby.remedies.contract import CannotTell
from boundby.remedies.in_step import base_name, replaced_rows, seconds_of, slow_dtype, tensor_shapes
from boundby.results.interval import Interval
from boundby.results.machine import Ceiling
from boundby.results.remedy import Predicted


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("96x64 64x192", ((96, 64), (64, 192))),
        ("scalar 8", ((), (8,))),
        ("", ()),
        ("4x4 ... 6 more", ((4, 4),)),
    ],
)
def test_shapes_are_read_as_they_are_shown(text, shapes):
    assert tensor_shapes(bare_row("mm", text, 0.1)) == shapes


def test_an_op_is_known_by_its_base_name():
    assert base_name("aten.addmm.default") == "addmm"
    assert base_name("mylib.addmm.default") != "addmm"


@pytest.fixture(scope="session")
def report(sample_report):
    return filled_report(sample_report("overhead"), (bare_row("mm", "8x8 8x8", 0.6), bare_row("add", "8x8 8x8", 0.1)))


def interval(value: float, spread: float = 0.0) -> Interval:
    return Interval(value=value, low=value * (1 - spread), high=value * (1 + spread))


def test_rows_that_take_half_as_long_save_half_their_share(report):
    seconds = seconds_of(report, report.ops[:1])
    assert seconds == pytest.approx(0.6 * STEP_S)
    found = replaced_rows(report, seconds, interval(0.5), what="multiplying", change="less")
    assert isinstance(found, Predicted)
    assert found.speedup == pytest.approx(1 / 0.7)
    assert "takes 60.0 ms of the step's 100 ms; it would take 30.0 ms" in found.reason


@pytest.mark.parametrize(
    ("step_s", "told"), [(5.0, "takes 3.00 s of the step's 5.00 s"), (5e-4, "300 µs of the step's 500 µs")]
)
def test_times_have_the_unit_of_their_size(report, step_s, told):
    time = dataclasses.replace(report.step.time_s, median=step_s)
    longer = dataclasses.replace(report, step=dataclasses.replace(report.step, time_s=time))
    found = replaced_rows(longer, 0.6 * step_s, interval(0.5), what="multiplying", change="less")
    assert told in found.reason


@given(share=st.floats(0.0, 1.5), value=st.floats(0.0, 5.0), spread=st.floats(0.0, 0.3))
def test_the_band_holds_the_value_and_is_no_wider_than_the_probe_makes_it(report, share, value, spread):
    found = replaced_rows(report, share * STEP_S, interval(value, spread), what="it", change="x")
    assert isinstance(found, Predicted)
    assert 0 < found.low <= found.speedup <= found.high
    if spread == 0.0:
        assert found.high / found.low <= (1.15 / 0.85) * 1.001


def test_time_that_nothing_explains_may_be_everybodys(sample_report):
    rows = (bare_row("mm", "8x8 8x8", 0.4), bare_row("add", "8x8 8x8", 0.1))
    seen = filled_report(sample_report("overhead"), rows)

    half = dataclasses.replace(seen, overhead_parts=dataclasses.replace(seen.overhead_parts, host=0.0))
    sure, unsure = (replaced_rows(one, 0.4 * STEP_S, interval(0.1), what="it", change="x") for one in (seen, half))
    assert unsure.low <= sure.speedup < unsure.speedup < unsure.high
    assert unsure.high > 1 / (1 - 0.8 * 0.9)


@pytest.mark.parametrize(("value", "decided"), [(1.0, False), (0.05, True)])
def test_a_disturbed_probe_decides_only_what_is_clear_all_the_same(report, value, decided):
    found = replaced_rows(report, 0.5 * STEP_S, interval(value, 0.6), what="it", change="x")
    assert isinstance(found, Predicted if decided else CannotTell)


def test_a_slow_dtype_is_one_that_loses_at_every_shape_measured(report):
    def rate(dtype: str, value: float, size: int) -> Ceiling:
        return Ceiling(
            kind="matmul", name="mm", dtype=dtype, shape=(1, size, size, size), value=value, low=value, high=value,
            unit="flop/s",
        )  # fmt: skip

    fp32 = (rate("fp32", 100.0, 8), rate("fp32", 100.0, 16))
    slow = evidence_of(report, ceilings=(*fp32, rate("bf16", 10.0, 8), rate("bf16", 20.0, 16))).report
    mixed = evidence_of(report, ceilings=(*fp32, rate("bf16", 10.0, 8), rate("bf16", 200.0, 16))).report
    assert slow_dtype(slow, "bf16")
    assert not slow_dtype(mixed, "bf16")
    assert not slow_dtype(report, "bf16")
