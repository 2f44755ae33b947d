"""Recording on a fake clock: what is kept of each step, and that watching ends with the step."""

from __future__ import annotations

import pytest
import torch

from boundby.capture.calibrate import NO_COST
from boundby.capture.finder import TRAINING, StepFinder
from boundby.capture.recorder import Recorder
from boundby.capture.schedule import Limits, Role
from boundby.capture.usage import StepUsage

MS = 1_000_000


class Clock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def recorder_of(clock: Clock, **limits: int) -> Recorder:
    return Recorder(Limits(**limits), clock=clock)


def watching() -> tuple[int, bool]:
    return torch._C._len_torch_dispatch_stack(), torch._C._autograd._profiler_enabled()


def one_step(recorder: Recorder, clock: Clock, ms: int = 5, **known: bool) -> Role:
    role = recorder.schedule.role
    recorder.begin()
    torch.ones(2)
    clock.now += ms * MS
    recorder.end(clock.now, cycle_known=known.get("cycle_known", True))
    return role


def test_each_role_is_kept_where_it_belongs(clock):
    recorder = recorder_of(clock, warmup=2, timed=3, watched=4)
    roles = []
    while not recorder.done:
        roles.append(one_step(recorder, clock))
        if recorder.schedule.role not in (Role.PREPARE, Role.LEAN):  # through a burst of those watching may go on
            assert watching() == (0, False)
    kept = recorder.kept
    assert len(kept.warm_faults) == roles.count(Role.WARMUP) == 2
    assert kept.timed_s == [0.005] * 3
    assert len(kept.input_s) == len(kept.usage) == len(kept.turns) == 3
    assert len(kept.attributed) == roles.count(Role.ATTRIBUTED)
    # Told time runs ahead of the profiler's own, so that steps of a burst overlap and not all of them can be matched.
    assert 1 <= len(kept.lean) + len(kept.profiled) <= roles.count(Role.LEAN)
    assert len(kept.attributed) + roles.count(Role.LEAN) == 4


def test_attributed_and_leanly_watched_steps_hold_the_ops_of_the_step(clock):
    recorder = recorder_of(clock, warmup=0, timed=1, watched=2)
    while not recorder.done:
        one_step(recorder, clock)
    assert [str(op) for op in recorder.kept.attributed[0].ops] == ["aten.ones.default"]
    (key,) = recorder.site_keys
    assert key[3] == __file__


def test_time_between_an_end_and_the_next_begin_is_no_steps(clock):
    recorder = recorder_of(clock, warmup=0, timed=4, watched=2)
    for _ in range(3):
        one_step(recorder, clock)
        clock.now += 1000 * MS
    assert set(recorder.kept.timed_s) == {0.005}


def test_waiting_for_input_is_told_apart(clock):
    recorder = recorder_of(clock, warmup=0, timed=2, watched=2)
    while recorder.schedule.role is not Role.TIMED:
        one_step(recorder, clock)
    recorder.begin()
    clock.now += 1 * MS
    recorder.input_begins()
    recorder.input_begins()  # a loader inside a loader waits once
    assert recorder.in_input
    clock.now += 3 * MS
    recorder.input_ends()
    recorder.input_ends()
    assert not recorder.in_input
    clock.now += 2 * MS
    recorder.end(clock.now, cycle_known=True)
    assert recorder.kept.timed_s == [0.006]
    assert recorder.kept.input_s == [0.003]


def test_a_step_that_begins_while_waiting_has_the_rest_of_the_wait(clock):
    recorder = recorder_of(clock, warmup=0, timed=2, watched=2)
    while recorder.schedule.role is not Role.TIMED:
        one_step(recorder, clock)
    recorder.input_begins()
    clock.now += 50 * MS
    recorder.begin()
    clock.now += 3 * MS
    recorder.input_ends()
    clock.now += 1 * MS
    recorder.end(clock.now, cycle_known=True)
    assert recorder.kept.timed_s == [0.004]
    assert recorder.kept.input_s == [0.003]


def test_ops_of_the_input_are_not_the_steps(clock):
    recorder = recorder_of(clock, warmup=0, timed=1, watched=2)
    while not recorder.done:
        recorder.begin()
        recorder.input_begins()
        torch.zeros(3)
        recorder.input_ends()
        torch.ones(2)
        clock.now += 5 * MS
        recorder.end(clock.now, cycle_known=True)
    assert recorder.kept.attributed
    for step in recorder.kept.attributed:
        assert [str(op) for op in step.ops] == ["aten.ones.default"]
    for step in recorder.kept.lean:
        assert [str(op) for op in step.ops] == ["aten.ones.default"]


@pytest.mark.parametrize("role", [Role.TIMED, Role.ATTRIBUTED, Role.LEAN])
def test_a_discarded_step_leaves_nothing_behind(clock, role):
    recorder = recorder_of(clock, warmup=0, timed=1, watched=2)
    while recorder.schedule.role is not role:
        one_step(recorder, clock)
    before = (len(recorder.kept.timed_s), len(recorder.kept.attributed), len(recorder.kept.lean))
    recorder.begin()
    torch.ones(2)
    recorder.discard()
    assert watching() == (0, False)
    clock.now += 99 * MS
    recorder.end(clock.now, cycle_known=True)  # of a step that is no more
    assert (len(recorder.kept.timed_s), len(recorder.kept.attributed), len(recorder.kept.lean)) == before
    assert recorder.schedule.role is role


def test_a_restart_forgets_every_step(clock):
    recorder = recorder_of(clock, warmup=1, timed=2, watched=2)
    while not recorder.done:
        one_step(recorder, clock)
    assert recorder.enough or recorder.kept.timed_s
    recorder.restart()
    kept = recorder.kept
    assert kept.timed_s == kept.lean == kept.profiled == kept.attributed == []
    assert kept.input_s == kept.usage == kept.turns == kept.warm_faults == []
    assert recorder.schedule.role is Role.WARMUP
    assert not recorder.done


def test_without_warmup_parts_of_a_cycle_are_not_kept(clock):
    """Two optimizers of 10 and 30 ms: before their order is known no step is whole, whatever was asked for."""
    recorder = recorder_of(clock, warmup=0, timed=3, watched=2)
    finder = StepFinder(recorder, lambda kind: None)
    for _ in range(40):
        for ident, ms in ((0, 10), (1, 30)):
            clock.now += ms * MS
            finder.event(TRAINING, ident, clock.now)
    assert recorder.done
    assert recorder.kept.timed_s == pytest.approx([0.04] * 3)


def test_an_end_without_a_begin_is_nothing(clock):
    recorder = recorder_of(clock, warmup=0, timed=1, watched=2)
    recorder.end(5, cycle_known=True)
    assert recorder.kept.timed_s == []


def test_a_second_begin_without_an_end_leaves_one_watcher_at_most(clock):
    recorder = recorder_of(clock, warmup=0, timed=1, watched=4)
    while recorder.schedule.role is not Role.LEAN:
        one_step(recorder, clock)
    for _ in range(4):
        recorder.begin()
        stacked, profiling = watching()
        assert stacked + profiling <= 1
    recorder.discard()
    assert watching() == (0, False)


def test_finishing_in_the_middle_of_a_step_ends_the_watching(clock):
    recorder = recorder_of(clock, warmup=0, timed=1, watched=4)
    while recorder.schedule.role is not Role.LEAN:
        one_step(recorder, clock)
    recorder.begin()
    recorder.finish()
    assert watching() == (0, False)


def test_page_faults_and_interruptions_of_a_step_are_those_since_its_begin(clock, monkeypatch):
    told = StepUsage(faults=1000, preemptions=50)

    def usage_now() -> StepUsage:
        return told

    monkeypatch.setattr("boundby.capture.recorder.usage_now", usage_now)
    recorder = recorder_of(clock, warmup=1, timed=1, watched=2)
    seen = []
    while not recorder.done:
        recorder.begin()
        torch.ones(2)
        clock.now += 5 * MS
        more = StepUsage(faults=10 * (len(seen) + 1), preemptions=len(seen))
        told = StepUsage(told.faults + more.faults, told.preemptions + more.preemptions)
        seen.append((recorder.schedule.role, more))
        recorder.end(clock.now, cycle_known=True)
        told = StepUsage(told.faults + 777, told.preemptions + 77)  # between the steps: nobody's
    kept = recorder.kept
    assert kept.warm_faults == [more.faults for role, more in seen if role is Role.WARMUP] == [10]
    assert kept.usage == [more for role, more in seen if role is Role.TIMED]
    lean = [more for role, more in seen if role is Role.LEAN]
    assert [one.usage for one in (*kept.lean, *kept.profiled)] == lean
    assert len(lean) == 1


def test_timed_and_watched_steps_bear_the_round_they_belong_to(clock):
    recorder = recorder_of(clock, warmup=2, timed=12, watched=8)
    turns: dict[Role, list[int]] = {Role.TIMED: [], Role.LEAN: []}
    turn = 0
    while not recorder.done:
        turn += recorder.schedule.probes_now
        turns.setdefault(recorder.schedule.role, []).append(turn)
        one_step(recorder, clock)
    kept = recorder.kept
    assert kept.turns == turns[Role.TIMED]
    assert len(set(kept.turns)) >= 3
    assert {one.turn for one in (*kept.lean, *kept.profiled)} <= set(turns[Role.LEAN])


def test_without_a_round_the_cost_of_watching_is_unknown(clock):
    recorder = recorder_of(clock, warmup=1, timed=1, watched=2)
    assert recorder.watch_cost == NO_COST
    while not recorder.done:
        one_step(recorder, clock)
    assert recorder.watch_cost.per_op_s is not None


@pytest.mark.parametrize(("most_ops", "longest"), [(2, 2), (1, 1), (40_000, 3)])
def test_a_burst_ends_before_the_profiler_keeps_too_much(clock, monkeypatch, most_ops, longest):
    """Steps of one op; the profiler goes on from a prepared step to as many as it may hold."""
    monkeypatch.setattr("boundby.capture.recorder.PROFILED_OPS", most_ops)
    recorder = recorder_of(clock, warmup=1, timed=1, watched=4)
    bursts, running = [], 0
    while not recorder.done:
        role = one_step(recorder, clock)
        running += role in (Role.PREPARE, Role.LEAN)
        if running and not watching()[1]:
            bursts.append(running)
            running = 0
    assert max(bursts) == longest
    assert len(recorder.kept.attributed) + len(recorder.kept.profiled) + len(recorder.kept.lean) == 4


def test_a_step_too_long_for_the_profiler_is_watched_leanly(clock, monkeypatch):
    monkeypatch.setattr("boundby.capture.recorder.PROFILED_OPS", 0)
    recorder = recorder_of(clock, warmup=1, timed=1, watched=4)
    while not recorder.done:
        one_step(recorder, clock)
    assert len(recorder.kept.lean) == 2
    assert not recorder.kept.profiled
