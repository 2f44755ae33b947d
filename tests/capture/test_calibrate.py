"""What watching costs: from the miniature step to a step of any number of different calls."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from boundby.capture.calibrate import Calibration, WatchCost

COST = WatchCost(hot_call_s=0.5e-6, mixed_call_s=0.9e-6, mixed_names=41, per_op_s=8e-6)


def test_a_step_of_one_kind_of_call_costs_what_the_loop_does():
    assert COST.per_call_s(1) == pytest.approx(0.5e-6)


def test_half_the_miniatures_names_are_as_dear_as_all_of_them():
    assert COST.per_call_s(21) == COST.per_call_s(41) == COST.per_call_s(500) == pytest.approx(0.9e-6)
    assert COST.per_call_s(11) == pytest.approx(0.7e-6)


@given(st.integers(1, 1000), st.floats(0, 1e-5), st.floats(0, 1e-5), st.integers(1, 100))
def test_a_call_costs_between_hot_and_mixed(names, hot, mixed, mixed_names):
    cost = WatchCost(hot_call_s=hot, mixed_call_s=mixed, mixed_names=mixed_names, per_op_s=None)
    slack = 1e-18
    assert min(hot, mixed) - slack <= cost.per_call_s(names) <= max(hot, mixed) + slack


@given(st.integers(1, 100), st.integers(1, 100))
def test_more_kinds_of_calls_never_cost_less(few, more):
    few, more = sorted((few, more))
    assert COST.per_call_s(few) <= COST.per_call_s(more)


@pytest.mark.parametrize("missing", ["hot_call_s", "mixed_call_s"])
def test_what_was_not_measured_is_not_taken_off(missing):
    known = {"hot_call_s": 1e-6, "mixed_call_s": 2e-6, "mixed_names": 9, "per_op_s": None}
    assert WatchCost(**{**known, missing: None}).per_call_s(5) == 0.0


def test_the_costs_are_measured_and_nothing_of_the_users_is_touched():
    state = torch.get_rng_state()
    calibration = Calibration()
    before = calibration.cost()
    assert before.hot_call_s is before.mixed_call_s is before.per_op_s is None
    with torch.inference_mode():
        calibration.read()
    cost = calibration.cost()
    assert None not in (cost.hot_call_s, cost.mixed_call_s, cost.per_op_s)
    assert cost.mixed_names > 15  # a mixture, where the loop is of one
    assert torch.equal(torch.get_rng_state(), state)
    assert torch._C._len_torch_dispatch_stack() == 0
    assert not torch._C._autograd._profiler_enabled()


def test_several_readings_give_their_medians():
    calibration = Calibration()
    calibration._hot, calibration._mixed, calibration._per_op = [1.0, 9.0, 2.0], [3.0, 4.0], [5.0]
    cost = calibration.cost()
    assert (cost.hot_call_s, cost.mixed_call_s, cost.per_op_s, cost.mixed_names) == (2.0, 3.5, 5.0, 1)


def test_without_the_profiler_only_the_dispatch_mode_is_measured(monkeypatch):
    """Somebody else may be using it."""
    monkeypatch.setattr("boundby.capture.calibrate.can_profile", lambda: False)
    calibration = Calibration()
    calibration.read()
    cost = calibration.cost()
    assert cost.hot_call_s is cost.mixed_call_s is None
    assert cost.per_op_s is not None
    assert cost.per_call_s(9) == 0.0
