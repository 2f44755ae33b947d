"""Which of the profiler's calls are the ops of a step."""

from __future__ import annotations

import os
from array import array

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from boundby.capture.lean import LeanWatcher
from boundby.capture.profiled import ProfiledStep, ProfilingWatcher, Span, call_name, match_calls, profile_once, wall_ns

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


def test_names_that_two_ops_share_are_one():
    assert call_name(torch.ops.aten._reshape_alias.default) == call_name(torch.ops.aten.view.default) == "aten::view"
    assert call_name(torch.ops.aten.relu_.default) == call_name(torch.ops.aten.relu.default)
    assert call_name(torch.ops.aten.mul.Tensor) != call_name(torch.ops.aten.mm.default)


@pytest.mark.parametrize("made", [torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor])
@pytest.mark.parametrize("noted", [torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor])
def test_an_op_in_place_and_one_out_of_place_match(made, noted):
    """The autograd engine takes the one or the other by who holds the gradient, and a watcher holds some."""
    step = profiled((call_name(noted), 10, 20), ("aten::sum", 30, 40))
    matched = match_calls(step, [call_name(made), "aten::sum"], [1, 1])
    assert list(matched.begins) == [10, 30]


def test_a_composite_around_an_op_of_the_same_name_is_that_op():
    """index_put_ calls _index_put_impl_, which bears the same name: one op and one call nested in it."""
    step = profiled(
        ("aten::relu", 5, 8), ("aten::index_put", 10, 40), ("aten::index_put", 15, 35), ("aten::sum", 50, 60)
    )
    matched = match_calls(step, ["aten::relu", "aten::index_put", "aten::sum"], [1, 1, 1])
    assert list(matched.begins) == [5, 10, 50]
    assert list(matched.ends) == [8, 40, 60]
    assert list(matched.calls) == [1, 2, 1]


def test_a_composite_that_bears_the_name_of_another_op_is_no_extra_call():
    """It has the name of a later op, and an op inside it."""
    step = profiled(("aten::clone", 10, 40), ("aten::copy", 20, 35), ("aten::clone", 50, 60))
    matched = match_calls(step, ["aten::copy", "aten::clone"], [1, 1])
    assert list(matched.begins) == [20, 50]
    assert list(matched.before) == [1, 0]
    # The same call beside the op, not around it, is one op more.
    beside = profiled(("aten::clone", 10, 15), ("aten::copy", 20, 35), ("aten::clone", 50, 60))
    assert match_calls(beside, ["aten::copy", "aten::clone"], [1, 1]) is None


def test_views_may_be_missing_and_others_may_be_there():
    """Without a dispatch mode torch takes other views: t where there was a transpose, no detach of what is saved."""
    step = profiled(("aten::t", 5, 8), ("aten::mm", 10, 20), ("aten::as_strided", 25, 28), ("aten::sum", 30, 40))
    ops = ["aten::transpose", "aten::mm", "aten::detach", "aten::detach", "aten::sum", "aten::detach"]
    matched = match_calls(step, ops, [0, 1, 0, 0, 1, 0])
    assert list(matched.calls) == [0, 1, 0, 0, 1, 0]
    assert list(matched.before) == [0, 1, 0, 0, 1, 0]
    # A missing one has no time of its own: it begins and ends where the op before it ended.
    assert list(matched.begins) == [0, 10, 20, 20, 30, 40]
    assert list(matched.ends) == [0, 20, 20, 20, 40, 40]
    assert matched.after == 0


def test_an_op_that_works_may_not_be_missing_though_views_may():
    step = profiled(("aten::view", 5, 8), ("aten::mm", 10, 20))
    ops = ["aten::view", "aten::mm", "aten::relu"]
    assert match_calls(step, ops, [0, 1, 1]) is None
    assert match_calls(step, ops, [0, 1, 0]) is not None


def test_calls_after_the_last_op_are_told():
    step = profiled(("aten::relu", 10, 20), ("aten::inner", 12, 14), ("autograd", 30, 40), ("aten::is_leaf", 50, 60))
    matched = match_calls(step, ["aten::relu"], [1])
    assert list(matched.calls) == [2]
    assert matched.after == 2


@st.composite
def calls_of_ops(draw: st.DrawFn) -> tuple[list[str], list[int], ProfiledStep]:
    """Ops in order, and calls for all that work, in composites and with others nested in them or between them."""
    # Views bear names of their own, so that none is taken for an op that works.
    ops = draw(st.lists(st.sampled_from(["aten::mm", "aten::add", "aten::sum", "aten::view", "aten::t"]), max_size=8))
    works = [int(op not in ("aten::view", "aten::t")) for op in ops]
    calls: list[Call] = []
    now = 0
    for op, work in zip(ops, works, strict=True):
        if not work and draw(st.booleans()):
            continue
        nested = draw(st.integers(0, 3))
        if draw(st.booleans()):
            calls.append(("aten::composite", now, now + 2 * nested + 8))
        calls.append((op, now + 2, now + 2 * nested + 5))
        calls += [("aten::inner", now + 3 + 2 * at, now + 4 + 2 * at) for at in range(nested)]
        now += 20
        if draw(st.booleans()):
            calls.append(("autograd::node", now, now + 5))
            now += 20
    return ops, works, profiled(*calls, end=now + 5)


@given(calls_of_ops())
def test_every_call_is_counted_once(made):
    ops, works, step = made
    matched = match_calls(step, ops, works)
    assert sum(matched.calls) + sum(matched.before) + matched.after == len(step.names)
    for op, work, begin, end, calls in zip(ops, works, matched.begins, matched.ends, matched.calls, strict=True):
        assert calls or not work
        if calls:
            assert (op, begin, end) in zip(step.names, step.begins, step.ends, strict=True)
            assert calls == sum(begin <= one < end for one in step.begins)
    edges = [edge for pair in zip(matched.begins, matched.ends, strict=True) for edge in pair]
    assert edges == sorted(edges)


def test_a_real_step_is_matched_with_the_ops_that_a_dispatch_mode_saw():
    weight = torch.ones(8, 8, requires_grad=True)
    x = torch.ones(4, 8)

    def step() -> None:
        h = torch.relu(x @ weight.t()).view(2, 16)
        (grad,) = torch.autograd.grad((h.exp() + h).sum(), weight)
        with torch.no_grad():
            weight.sub_(grad, alpha=0.0)

    watcher = LeanWatcher()
    watcher.start()
    step()
    watcher.stop()
    ops = [call_name(op) for op in watcher.ops]
    works = [int(op not in ("aten::t", "aten::view", "aten::detach", "aten::expand")) for op in ops]
    seen = profile_once(step)
    matched = match_calls(seen, ops, works)
    assert matched is not None
    assert ops.count("aten::mm") == 2
    assert sum(matched.calls) + sum(matched.before) + matched.after == len(seen.names)
    # One more product is another step.
    assert match_calls(profile_once(lambda: (x @ x.t(), step())), ops, works) is None


def test_a_profiler_of_the_users_own_takes_over_and_sees_its_own_calls():
    x = torch.randn(4, 4)
    names = dict(vars(torch.autograd.profiler))
    watcher = ProfilingWatcher()
    watcher.start()
    begin = wall_ns()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(5):
            x @ x
    assert sum(event.count for event in profile.key_averages() if event.key == "aten::mm") == 5
    assert watcher.stop([Span(begin=begin, end=wall_ns(), waits=[])]) == []
    assert watcher.broken
    assert dict(vars(torch.autograd.profiler)) == names


def test_a_burst_that_somebody_else_ended_is_lost_without_an_error():
    watcher = ProfilingWatcher()
    watcher.start()
    torch._C._autograd._disable_profiler()
    assert watcher.stop([Span(begin=0, end=wall_ns(), waits=[])]) == []
    assert watcher.broken


def test_without_a_file_to_keep_them_in_the_profilers_lines_are_let_through(monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "memfd_create", full, raising=False)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert profile_once(lambda: torch.ones(3) + 1).names
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after == before
