"""Modes that slow steps down: anomaly detection, profilers, deterministic filling."""

from __future__ import annotations

import cProfile

import pytest
import torch
from habit_steps import habits_of

from boundby.capture.anomaly import tracing_node_cost
from boundby.capture.habits import HabitsSeen, filled_share, modes_on
from boundby.capture.recorder import Recorded
from boundby.capture.schedule import Role

pytestmark = pytest.mark.usefixtures("nothing_stays")


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomaly_mode_is_seen_where_it_is_on_inside_of_steps_alone(session):
    seen = habits_of(session, around=lambda: torch.autograd.detect_anomaly())
    assert [one.mode for one in seen.modes] == ["anomaly"]
    assert seen.modes[0].place.path == __file__
    assert seen.tracing_node_s.low <= seen.tracing_node_s.value <= seen.tracing_node_s.high
    assert not torch.is_anomaly_enabled()


def test_noting_the_stack_costs_more_the_deeper_it_is():
    shallow, deep = tracing_node_cost(5), tracing_node_cost(60)
    assert 0 < shallow.value < deep.value


def test_a_profiler_of_python_is_seen(session):
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        seen = habits_of(session)
    finally:
        profiler.disable()
    assert [one.mode for one in seen.modes] == ["python-profiler"]


def test_torch_s_profiler_is_the_user_s_only_where_the_user_began_it(session):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert "torch-profiler" in modes_on()
        seen = habits_of(session)
    assert [one.mode for one in seen.modes] == ["torch-profiler"]


def test_deterministic_mode_s_filling_is_timed():
    from boundby.capture.profiled import profile_once

    before = torch.are_deterministic_algorithms_enabled()
    plain = profile_once(lambda: torch.empty(1 << 20))
    torch.use_deterministic_algorithms(True)
    try:
        filled = profile_once(lambda: torch.empty(1 << 20))
    finally:
        torch.use_deterministic_algorithms(before)
    assert filled_share([plain]).value == 0.0
    assert 0.1 < filled_share([filled]).value <= 1.0
    assert filled_share([]) is None


@pytest.mark.parametrize(("fills", "share"), [(True, None), (False, 0.0)])
def test_deterministic_mode_that_fills_nothing_costs_nothing(fills, share, monkeypatch):
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", fills)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        seen = HabitsSeen()
        seen.begin_step(Role.SETTLE)
        seen.discard()
    finally:
        torch.use_deterministic_algorithms(before)
    found = seen.found(Recorded(), [])
    assert [one.mode for one in found.modes] == ["deterministic"]
    assert (None if found.filled_share is None else found.filled_share.value) == share
