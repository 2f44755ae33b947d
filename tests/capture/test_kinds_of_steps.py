"""Steps that differ in shapes, and timed steps that lived on input fetched ahead."""

from __future__ import annotations

import dataclasses
import itertools
from array import array

import numpy as np
import pytest

from boundby.capture.attribute import AttributedStep
from boundby.capture.calibrate import NO_COST
from boundby.capture.join import _after_first_wait
from boundby.capture.profiled import ProfiledStep
from boundby.capture.recorder import Recorded
from boundby.capture.step_kinds import StepsSeen, WatchedTimes, by_shapes, seconds_by_name, windows_by_name
from boundby.capture.usage import NO_USAGE


def attributed(site: int, seconds: float) -> AttributedStep:
    return AttributedStep(
        ops=["op"],
        stamps=array("q", [0, int(seconds * 1e9)]),
        site=array("I", [site]),
        works=array("B", [1]),
        faults=array("I", [0]),
        keys=array("Q"),
        sizes=array("Q"),
        offsets=array("Q", [0, 0]),
        inputs=array("B", [0]),
        device="cpu",
    )


def times(seconds: float) -> WatchedTimes:
    return WatchedTimes(
        windows=np.array([seconds]),
        gaps=np.zeros(1),
        cleared=np.zeros(1),
        tail=0.0,
        usage=NO_USAGE,
        turn=1,
        watching=0.0,
    )


def test_shapes_that_show_in_the_length_make_kinds_of_their_own():
    seen = StepsSeen(
        ops=["op"],
        attributed=[attributed(0, 1.0), attributed(1, 4.0)],
        times=[times(0.9), times(1.2), times(3.5), times(4.1), times(5.0)],
    )
    short, long = by_shapes(seen, ["4x4", "8x8"])
    assert [one.windows[0] for one in short.times] == [0.9, 1.2]
    assert [one.windows[0] for one in long.times] == [3.5, 4.1, 5.0]
    assert (short.attributed[0].site[0], long.attributed[0].site[0]) == (0, 1)


def test_shapes_that_hardly_matter_do_not():
    seen = StepsSeen(ops=["op"], attributed=[attributed(0, 1.0), attributed(1, 1.1)], times=[times(1.0)])
    assert by_shapes(seen, ["4x4", "8x8"]) == [seen]


def test_other_costs_at_the_same_shapes_make_no_other_kind():
    seen = StepsSeen(ops=["op"], attributed=[attributed(0, 1.0), attributed(1, 4.0)], times=[times(1.0)])
    assert by_shapes(seen, ["100x16 4x12", "100x16 4x12"]) == [seen]


def test_steps_up_to_the_first_wait_of_a_round_are_left_out():
    kept = Recorded(
        timed_s=[1.0, 1.0, 4.0, 1.0, 4.0, 1.0, 1.0, 4.0, 1.0],
        input_s=[0.0, 0.0, 3.0, 0.0, 3.0, 0.0, 0.0, 3.0, 0.0],
        turns=[1, 1, 1, 1, 1, 2, 2, 2, 2],
    )
    assert _after_first_wait(kept, list(range(9))) == [3, 4, 8]


def test_all_steps_stay_where_none_waits():
    kept = Recorded(timed_s=[1.0] * 4, input_s=[0.0] * 4, turns=[1, 1, 2, 2])
    assert _after_first_wait(kept, [0, 1, 2, 3]) == [0, 1, 2, 3]


# Steps no two of which are alike: windows by the measure of what calls of that name take in profiled steps.

FREE = dataclasses.replace(NO_COST, hot_call_s=0.0, hot_nested_s=0.0, mixed_call_s=0.0)


def profiled(*calls: tuple[str, int, int]) -> ProfiledStep:
    return ProfiledStep(
        names=[name for name, _, _ in calls],
        begins=array("q", [begin for _, begin, _ in calls]),
        ends=array("q", [end for _, _, end in calls]),
        begin=0,
        end=max(end for _, _, end in calls),
        waits=[],
    )


def test_seconds_by_name_are_means_over_steps_and_calls_inside_others_are_part_of_those():
    steps = [
        profiled(("aten::linear", 0, 50), ("aten::addmm", 10, 40), ("aten::add", 20, 30), ("aten::add", 60, 70)),
        profiled(("aten::addmm", 0, 50), ("aten::other", 60, 90)),
    ]
    found = seconds_by_name(steps, frozenset({"aten::addmm", "aten::add"}), FREE)
    assert found == pytest.approx({"aten::addmm": 40e-9, "aten::add": 10e-9})


def test_seconds_by_name_are_less_half_the_calls_own_cost_and_all_of_those_inside():
    cost = dataclasses.replace(FREE, hot_call_s=4e-9, hot_nested_s=3e-9, mixed_call_s=3.5e-9, mixed_nested=0.5)
    step = profiled(("aten::sum", 0, 50), ("aten::inner", 10, 40))
    assert seconds_by_name([step], frozenset({"aten::sum"}), cost) == pytest.approx({"aten::sum": 45e-9})


def attributed_ops(*ops: tuple[str, int, int]) -> AttributedStep:
    """Ops by name, ns and whether they work, one after the other."""
    ends = list(itertools.accumulate(ns for _, ns, _ in ops))
    stamps = [stamp for end, (_, ns, _) in zip(ends, ops, strict=True) for stamp in (end - ns, end)]
    return dataclasses.replace(
        attributed(0, 1.0),
        ops=[name for name, _, _ in ops],
        stamps=array("q", stamps),
        works=array("B", [works for _, _, works in ops]),
    )


def test_windows_of_a_name_are_scaled_to_what_such_calls_take_under_the_profiler():
    step = attributed_ops(("aten::mm", 100, 1), ("aten::mm", 300, 1), ("aten::detach", 50, 0), ("aten::rare", 70, 1))
    windows = windows_by_name(step, {"aten::mm": 100e-9})
    # A view that no profiled step calls is the dispatch mode's own; an op that works keeps what it was seen to take.
    assert windows == pytest.approx([50e-9, 150e-9, 0.0, 70e-9])


def test_without_a_profiled_step_windows_stay_as_they_are():
    step = attributed_ops(("aten::mm", 100, 1), ("aten::detach", 50, 0))
    assert windows_by_name(step, {}) == pytest.approx([100e-9, 50e-9])
