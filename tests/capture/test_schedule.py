"""What is done with each step, on a clock that is only told."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boundby.capture.schedule import (
    LONGEST_WARMUP,
    Limits,
    Role,
    Schedule,
    checked_limits,
    default_lean,
    default_timed,
)
from boundby.results.errors import EXIT_USAGE, BoundbyError

EXTRA = (Role.SETTLE, Role.PREPARE)


def roles_of(schedule: Schedule, seconds: float, most: int = 500) -> list[Role]:
    """The roles of steps that all last ``seconds``, to the end of the plan."""
    roles = []
    while schedule.role is not Role.DONE and len(roles) < most:
        roles.append(schedule.role)
        schedule.finish_step(seconds)
    return roles


def warmup_of(times: list[float]) -> int:
    schedule = Schedule(Limits())
    for count, seconds in enumerate(times):
        if schedule.role is not Role.WARMUP:
            return count
        schedule.finish_step(seconds)
    assert schedule.role is not Role.WARMUP
    return len(times)


def test_steady_steps_need_three_to_warm_up():
    assert warmup_of([0.01] * 30) == 3


def test_long_steps_need_two_to_warm_up():
    assert warmup_of([3.0] * 30) == 2


def test_warmup_lasts_while_steps_are_slower_than_the_fastest():
    assert warmup_of([1.0, 0.01, 0.5, 0.5, 0.5, 0.01] + [0.01] * 5) == 6


def test_a_slow_first_step_alone_is_no_reason_to_wait():
    assert warmup_of([50.0, 0.01, 0.01] + [0.01] * 5) == 3


def test_warmup_ends_at_twenty_whatever_the_times():
    assert warmup_of([0.001, *([1.0, 0.5] * 30)]) == LONGEST_WARMUP == 20


@given(st.lists(st.floats(1e-6, 100.0), min_size=20, max_size=40))
def test_warmup_never_lasts_over_twenty_steps(times):
    assert 2 <= warmup_of(times) <= 20


def test_warmup_lasts_until_the_cycle_is_known():
    schedule = Schedule(Limits())
    for _ in range(50):
        assert schedule.finish_step(0.01, cycle_known=False) is Role.WARMUP
    assert schedule.finish_step(0.01) is not Role.WARMUP


@pytest.mark.parametrize("warmup", [1, 4, 30])
def test_an_asked_warmup_is_kept_to(warmup):
    roles = roles_of(Schedule(Limits(warmup=warmup)), 0.01)
    assert roles.count(Role.WARMUP) == warmup
    assert roles[:warmup] == [Role.WARMUP] * warmup


def test_no_warmup_begins_with_the_plan():
    schedule = Schedule(Limits(warmup=0, timed=3, watched=2))
    assert schedule.probes_now
    roles = roles_of(schedule, 0.01)
    assert Role.WARMUP not in roles
    assert roles.count(Role.TIMED) == 3


@given(
    warmup=st.none() | st.integers(0, 5),
    timed=st.none() | st.integers(1, 200),
    watched=st.none() | st.integers(2, 60),
    seconds=st.floats(1e-5, 20.0),
)
@settings(max_examples=200)
def test_a_plan_holds_exactly_what_was_asked(warmup, timed, watched, seconds):
    schedule = Schedule(Limits(warmup=warmup, timed=timed, watched=watched))
    roles = roles_of(schedule, seconds)
    assert schedule.role is Role.DONE
    # With no warm-up the step's length is not known when the plan is made.
    known = seconds if warmup != 0 else 0.05
    assert roles.count(Role.TIMED) == (timed or default_timed(known))
    attributed, lean = roles.count(Role.ATTRIBUTED), roles.count(Role.LEAN)
    assert 1 <= attributed <= 2
    assert lean >= 1
    assert lean == default_lean(known) if watched is None else attributed + lean == watched


@given(timed=st.integers(1, 100), watched=st.integers(2, 40), seconds=st.floats(1e-4, 0.09))
def test_short_steps_settle_before_they_are_timed_and_prepare_before_they_are_watched(timed, watched, seconds):
    roles = roles_of(Schedule(Limits(warmup=1, timed=timed, watched=watched)), seconds)
    for at, role in enumerate(roles):
        if role is Role.TIMED:
            assert roles[at - 1] in (Role.SETTLE, Role.TIMED)
        if role is Role.LEAN:
            assert roles[at - 1] in (Role.PREPARE, Role.LEAN)


@given(timed=st.integers(1, 100), watched=st.integers(2, 40), seconds=st.floats(0.1, 10.0))
def test_long_steps_are_none_of_them_spent_on_settling(timed, watched, seconds):
    roles = roles_of(Schedule(Limits(warmup=1, timed=timed, watched=watched)), seconds)
    assert not set(roles) & set(EXTRA)


@pytest.mark.parametrize("seconds", [0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0])
def test_a_script_of_twelve_steps_has_some_of_each(seconds):
    roles = roles_of(Schedule(Limits()), seconds)[:12]
    assert {Role.TIMED, Role.ATTRIBUTED, Role.LEAN} <= set(roles)


def test_timed_and_watched_steps_alternate_in_rounds_with_probes_before_each():
    schedule = Schedule(Limits(warmup=1, timed=20, watched=8))
    schedule.finish_step(0.01)
    rounds: list[list[Role]] = []
    while schedule.role is not Role.DONE:
        if schedule.probes_now:
            rounds.append([])
        rounds[-1].append(schedule.role)
        schedule.finish_step(0.01)
    assert len(rounds) >= 3
    assert all(Role.TIMED in one and set(one) & {Role.LEAN, Role.ATTRIBUTED} for one in rounds)


def test_no_probes_before_the_plan_or_after_it():
    schedule = Schedule(Limits(timed=2, watched=2))
    assert not schedule.probes_now
    roles_of(schedule, 0.01)
    assert not schedule.probes_now


def test_a_restart_is_a_fresh_start_with_the_same_limits():
    schedule = Schedule(Limits(timed=3, watched=2))
    first = roles_of(schedule, 0.01)
    schedule.restart()
    assert schedule.role is Role.WARMUP
    assert schedule.warm == []
    assert roles_of(schedule, 0.01) == first


def test_a_done_plan_stays_done():
    schedule = Schedule(Limits(timed=1, watched=2))
    roles_of(schedule, 0.01)
    assert schedule.finish_step(0.01) is Role.DONE


@pytest.mark.parametrize(
    ("asked", "option"),
    [({"warmup": -1}, "--warmup"), ({"timed": 0}, "--steps"), ({"watched": 1}, "--watch"), ({"timed": -3}, "--steps")],
)
def test_too_small_a_count_is_refused_by_its_option(asked, option):
    with pytest.raises(BoundbyError) as caught:
        checked_limits(**{"warmup": None, "timed": None, "watched": None, **asked})
    assert caught.value.code == "bad-steps"
    assert caught.value.status == EXIT_USAGE
    assert option in caught.value.message
    assert caught.value.advice


def test_the_least_counts_are_accepted():
    assert checked_limits(warmup=0, timed=1, watched=2) == Limits(warmup=0, timed=1, watched=2)
    assert checked_limits(warmup=None, timed=None, watched=None) == Limits()


@given(st.floats(0, 1e4))
def test_the_defaults_keep_to_their_bounds(seconds):
    assert 6 <= default_timed(seconds) <= 60
    assert 3 <= default_lean(seconds) <= 12


@pytest.mark.parametrize(("watched", "attributed"), [(2, 1), (3, 1), (4, 2), (5, 2), (30, 2)])
@pytest.mark.parametrize("seconds", [0.01, 0.5])
def test_the_count_of_watched_steps_is_of_attributed_and_lean_ones_together(watched, attributed, seconds):
    roles = roles_of(Schedule(Limits(timed=6, watched=watched)), seconds)
    assert roles.count(Role.ATTRIBUTED) == attributed
    assert roles.count(Role.LEAN) == watched - attributed


def test_of_very_long_steps_one_is_attributed():
    roles = roles_of(Schedule(Limits(timed=6, watched=8)), 5.0)
    assert (roles.count(Role.ATTRIBUTED), roles.count(Role.LEAN)) == (1, 7)


@given(
    st.lists(st.floats(1e-4, 10.0), min_size=30, max_size=30), st.integers(1, 6), st.integers(1, 9), st.integers(2, 9)
)
def test_the_same_steps_are_watched_however_long_they_take_where_that_is_asked_for(seconds, warmup, timed, watched):
    def roles(durations):
        schedule = Schedule(Limits(warmup=warmup, timed=timed, watched=watched, same_steps=True))
        seen = []
        for duration in durations:
            seen.append(schedule.role)
            schedule.finish_step(duration)
        return seen

    assert roles(seconds) == roles([1e-3] * 30)
