"""What watching costs: from the miniature step to a step of any number of different calls."""

from __future__ import annotations

import dataclasses
from array import array

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from boundby.capture.calibrate import NO_COST, Calibration, WatchCost, outermost_calls
from boundby.capture.profiled import ProfiledStep

COST = WatchCost(
    hot_call_s=0.5e-6, hot_nested_s=0.4e-6, mixed_call_s=0.9e-6, mixed_nested=0.5, mixed_names=41, per_op_s=8e-6
)


def flat(*names: str) -> ProfiledStep:
    """A step of calls one after the other, one nested in each of those called ``outer``."""
    spans = []
    for at, name in enumerate(names):
        spans.append((name, 10 * at, 10 * at + 9))
        if name == "outer":
            spans.append(("inner", 10 * at + 2, 10 * at + 8))
    return ProfiledStep(
        names=[name for name, _, _ in spans],
        begins=array("q", [begin for _, begin, _ in spans]),
        ends=array("q", [end for _, _, end in spans]),
        begin=0,
        end=10 * len(names),
        waits=[],
    )


def named(count: int) -> ProfiledStep:
    return flat(*(f"op{at}" for at in range(count)))


def test_a_step_of_one_kind_of_call_costs_what_the_loop_does():
    assert COST.calls_s(flat("add", "add", "add")) == pytest.approx([0.5e-6] * 3)


def test_nested_calls_are_cheaper_and_their_names_make_no_mixture():
    assert COST.calls_s(flat("outer", "outer")) == pytest.approx([0.5e-6, 0.4e-6] * 2)


def test_a_call_that_begins_where_another_ends_is_not_nested():
    touching = ProfiledStep(
        names=["a", "b"], begins=array("q", [0, 5]), ends=array("q", [5, 9]), begin=0, end=9, waits=[]
    )
    assert outermost_calls(touching).tolist() == [True, True]


def test_nested_two_deep_and_after_a_shorter_sibling():
    step = ProfiledStep(
        names=["a", "b", "c", "d", "e"],
        begins=array("q", [0, 1, 2, 6, 20]),
        ends=array("q", [10, 5, 4, 8, 30]),
        begin=0,
        end=30,
        waits=[],
    )
    assert outermost_calls(step).tolist() == [True, False, False, False, True]


def test_a_mixture_like_the_miniatures_costs_what_it_costs():
    # Half of the miniature's calls are nested: 0.45 us in a loop, 0.9 us on average as it is.
    mean = COST.calls_s(flat(*["outer"] * 21)).mean()
    assert mean == pytest.approx(0.45e-6)
    assert COST.calls_s(named(21)) == pytest.approx([1e-6] * 21)


def test_half_the_miniatures_names_are_as_dear_as_all_of_them():
    assert COST.calls_s(named(21))[0] == COST.calls_s(named(41))[0] == COST.calls_s(named(500))[0]
    assert COST.calls_s(named(11))[0] == pytest.approx(0.75e-6)


@given(st.integers(1, 200), st.floats(1e-9, 1e-5), st.floats(1e-9, 1e-5), st.integers(1, 100))
def test_a_call_costs_between_hot_and_mixed(names, hot, mixed, mixed_names):
    cost = WatchCost(
        hot_call_s=hot, hot_nested_s=hot, mixed_call_s=mixed, mixed_nested=0.3, mixed_names=mixed_names, per_op_s=None
    )
    each = cost.calls_s(named(names))
    assert (each >= min(hot, mixed) * (1 - 1e-9)).all()
    assert (each <= max(hot, mixed) * (1 + 1e-9)).all()


@given(st.integers(1, 100), st.integers(1, 100))
def test_more_kinds_of_calls_never_cost_less(few, more):
    few, more = sorted((few, more))
    assert COST.calls_s(named(few))[0] <= COST.calls_s(named(more))[0]


@pytest.mark.parametrize("missing", ["hot_call_s", "hot_nested_s", "mixed_call_s"])
def test_what_was_not_measured_is_not_taken_off(missing):
    cost = dataclasses.replace(COST, **{missing: None})
    assert cost.calls_s(flat("outer", "add")).tolist() == [0.0, 0.0, 0.0]


def test_a_step_without_calls_costs_nothing():
    assert COST.calls_s(flat()).tolist() == []


def test_the_costs_are_measured_and_nothing_of_the_users_is_touched():
    state = torch.get_rng_state()
    calibration = Calibration()
    before = calibration.cost()
    assert before == NO_COST
    with torch.inference_mode():
        calibration.read()
    cost = calibration.cost()
    assert None not in (cost.hot_call_s, cost.hot_nested_s, cost.mixed_call_s, cost.per_op_s)
    assert cost.mixed_names > 15  # a mixture, where the loop is of one
    assert torch.equal(torch.get_rng_state(), state)
    assert torch._C._len_torch_dispatch_stack() == 0
    assert not torch._C._autograd._profiler_enabled()


def test_several_readings_give_their_medians():
    calibration = Calibration()
    calibration._calls = {
        calibration._step: flat("outer", "add", "mul"),
        calibration._nesting_loop: flat("outer", "outer"),
    }
    calibration._hot, calibration._mixed, calibration._per_op = [2.0, 9.0, 1.0], [3.0, 4.0], [5.0]
    calibration._nesting = [1.5]
    cost = calibration.cost()
    assert (cost.hot_call_s, cost.mixed_call_s, cost.per_op_s) == (2.0, 3.5, 5.0)
    # Half of the nesting loop's calls are nested: 2 s and 1 s make 1.5 s on average.
    assert cost.hot_nested_s == pytest.approx(1.0)
    assert (cost.mixed_nested, cost.mixed_names) == (0.25, 3)


def test_without_the_profiler_only_the_dispatch_mode_is_measured(monkeypatch):
    """Somebody else may be using it."""
    monkeypatch.setattr("boundby.capture.calibrate.can_profile", lambda: False)
    calibration = Calibration()
    calibration.read()
    cost = calibration.cost()
    assert cost.hot_call_s is cost.hot_nested_s is cost.mixed_call_s is None
    assert cost.per_op_s is not None
    assert cost.calls_s(named(9)).sum() == 0.0
