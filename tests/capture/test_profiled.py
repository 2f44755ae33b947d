"""Which of the profiler's calls are the ops of a step."""

from __future__ import annotations

from array import array

import pytest
import torch

from boundby.capture.profiled import ProfiledStep, call_name, match_calls

Call = tuple[str, int, int]  # name, begin, end


def profiled(*calls: Call, end: int = 1000) -> ProfiledStep:
    return ProfiledStep(
        names=[name for name, _, _ in calls],
        begins=array("q", [begin for _, begin, _ in calls]),
        ends=array("q", [end for _, _, end in calls]),
        begin=0,
        end=end,
        waits=[],
    )


def test_ops_are_found_inside_the_composites_that_call_them():
    step = profiled(
        ("aten::linear", 10, 40),
        ("aten::t", 12, 14),
        ("aten::addmm", 20, 38),
        ("aten::resolve", 22, 24),
        ("aten::relu", 50, 60),
    )
    matched = match_calls(step, ["aten::t", "aten::addmm", "aten::relu"], [0, 1, 1])
    assert list(matched.begins) == [12, 20, 50]
    assert list(matched.ends) == [14, 38, 60]
    assert list(matched.calls) == [1, 2, 1]
    assert list(matched.before) == [1, 0, 0]
    assert matched.after == 0


def test_an_op_that_only_a_dispatch_mode_makes_may_be_missing():
    step = profiled(("aten::relu", 10, 20), ("aten::sum", 30, 40))
    matched = match_calls(step, ["aten::relu", "aten::detach", "aten::sum"], [1, 0, 1])
    assert list(matched.calls) == [1, 0, 1]
    assert matched.begins[1] == matched.ends[1] == 20


def test_a_step_without_one_of_the_ops_is_not_this_step():
    step = profiled(("aten::relu", 10, 20))
    assert match_calls(step, ["aten::relu", "aten::sum"], [1, 1]) is None
    assert match_calls(step, ["aten::sum", "aten::relu"], [1, 1]) is None


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_step_with_more_of_the_same_ops_is_not_this_step(at):
    """A loop that ran once more: its ops are not host code between the ops of a shorter step."""
    calls = [("aten::ones", 10, 20), ("aten::add", 30, 40), ("aten::sum", 50, 60)]
    more = [*calls[: at + 1], (calls[at][0], calls[at][1] + 12, calls[at][1] + 18), *calls[at + 1 :]]
    names = [name for name, _, _ in calls]
    assert match_calls(profiled(*calls), names, [1, 1, 1]) is not None
    assert match_calls(profiled(*more), names, [1, 1, 1]) is None


def test_no_ops_match_a_step_without_calls():
    matched = match_calls(profiled(), [], [])
    assert list(matched.begins) == []
    assert matched.after == 0


def test_names_of_calls_leave_out_overload_and_place():
    assert call_name(torch.ops.aten.add.Tensor) == "aten::add"
    assert call_name(torch.ops.aten.add_.Tensor) == "aten::add"
