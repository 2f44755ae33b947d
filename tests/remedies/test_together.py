"""The best remedies together: which they are, and what they should do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.remedies.predicting import LEAST_LEFT
from boundby.remedies.together import best_together, predict_together
from boundby.results.remedy import Measured, Remedy


def alone(name: str, speedup: float, *, band: float = 0.02, advice: str = "do") -> Remedy:
    result = Measured(
        speedup=speedup,
        low=speedup * (1 - band),
        high=speedup * (1 + band),
        floor=0.02,
        turns=5,
        steps_per_turn=9,
        base_step_s=1.0,
        step_s=1.0 / speedup,
        base_start_s=1.0,
        start_s=1.0,
    )
    return Remedy(name=name, measured=result, advice=advice, took_effect=True)


def test_those_worth_it_that_can_hold_at_a_time_the_best_first():
    tried = [
        alone("bf16-weights", 1.5),
        alone("fused-optimizer", 1.2),
        alone("int8-weights", 3.0),
        alone("compile", 0.9, advice="skip"),
        alone("allocator", 1.1, advice="unknown"),
    ]
    assert best_together(tried) == ["int8-weights", "fused-optimizer"]


def test_other_work_is_left_out():
    assert best_together([alone("batch-x2", 1.9), alone("fused-optimizer", 1.2)]) == ["fused-optimizer"]


def test_savings_on_different_parts_of_the_step_add_up():
    tried = [alone("fused-optimizer", 1.25, band=0.0), alone("bf16-autocast", 2.0, band=0.0)]
    found = predict_together(tried, ["bf16-autocast", "fused-optimizer"])
    assert found.speedup == pytest.approx(1 / (1 - 0.2 - 0.5))
    assert (found.low, found.high) == (pytest.approx(found.speedup), pytest.approx(found.speedup))
    assert "different parts" in found.reason


def test_savings_on_the_same_part_lie_between_the_best_alone_and_the_sum():
    tried = [alone("channels-last", 1.25, band=0.0), alone("bf16-autocast", 2.0, band=0.0)]
    found = predict_together(tried, ["bf16-autocast", "channels-last"])
    assert found.low == pytest.approx(2.0)
    assert found.speedup == pytest.approx(2.5)
    assert found.high == pytest.approx(1 / (1 - 0.2 - 0.5))
    assert "channels-last 1.25x" in found.reason


NAMES = ("fused-optimizer", "bf16-autocast", "allocator", "workers-2", "sparse-gradients")


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.floats(1.05, 50.0)), min_size=2, unique_by=lambda one: one[0]))
def test_together_is_an_interval_no_worse_than_the_best_and_leaves_something(some):
    tried = [alone(name, speedup) for name, speedup in some]
    found = predict_together(tried, [one.name for one in tried])
    assert found.low <= found.speedup <= found.high <= 1 / LEAST_LEFT + 1e-9
    best = max(one.measured.low for one in tried)
    assert found.low >= min(best, 1 / LEAST_LEFT) * (1 - 1e-9)
