"""Page faults in the division of a step: those inside ops, those beside them, and those of slow writers."""

from __future__ import annotations

import dataclasses

import pytest
from made_up import VIEW, assert_whole, pointwise_cost, round_machine, site, trace, watched

from boundby.bound.ceilings import Ceilings, Speed
from boundby.bound.split import divide

CEILINGS = Ceilings(round_machine(), Speed.unknown(), threads=1)
FAULT_S = 0.1e-6
TINY = pointwise_cost(1)
# Moves 8 MiB from and to memory: 0.84 ms at 10 GB/s.
STREAM = pointwise_cost(1 << 20)
# 4 MiB of fresh memory are 1024 pages: 102.4 us of page faults at most.
STREAM_S = 8 * (1 << 20) / 10e9
PAGES_S = 1024 * FAULT_S
INPLACE = dataclasses.replace(STREAM, kind="inplace")


def test_page_faults_inside_an_op_are_allocation():
    made = trace(
        step_s=[1e-3],
        sites=[site(TINY)],
        windows=[1e-3],
        faults=[5000],
        step_faults=(5000,),
        watched=(watched(1e-3, 1e-3, faults=5000, beside_faults=5000),),
    )
    division = divide(made, CEILINGS, FAULT_S)
    assert division.parts.allocation == pytest.approx(0.5)
    assert division.faults.per_step == 5000
    assert division.faults.time_s == pytest.approx(5e-4)


def test_the_cost_of_page_faults_is_unknown_where_it_was_not_measured():
    made = trace(step_s=[1e-3], sites=[site(TINY)], windows=[1e-3], faults=[5000], step_faults=(5000,))
    division = divide(made, CEILINGS, None)
    assert division.parts.allocation == 0.0
    assert division.faults.seconds_each is None
    assert division.faults.time_s is None


def test_page_faults_of_the_bare_step_beyond_the_watched_ones_are_allocation_and_not_host():
    made = trace(
        step_s=[1e-3] * 3,
        step_faults=(4900, 5000, 9000),
        watched=(watched(0.7e-3, 1e-3, faults=2000, beside_faults=5000),) * 3,
        sites=[site(TINY)],
        windows=[1e-6],
        gaps=[0.7e-3],
    )
    division = divide(made, CEILINGS, FAULT_S)
    assert division.parts.allocation == pytest.approx(0.3)
    assert division.parts.host == pytest.approx(0.699)
    assert division.reconciliation.value == pytest.approx(1.0)
    assert division.split.unexplained.value == pytest.approx(0.0, abs=1e-9)
    assert_whole(division)
    # Their cost must be known.
    unknown = divide(made, CEILINGS, None)
    assert unknown.parts.allocation == 0.0
    assert unknown.parts.host == pytest.approx(0.85, abs=1e-3)


def test_page_faults_of_the_bare_step_take_no_more_than_there_is_beside_the_windows():
    made = trace(
        step_s=[1e-3],
        step_faults=(4_000,),
        watched=(watched(1e-3, 1e-3, beside_faults=4_000),),
        sites=[site(TINY)],
        site_of=[0] * 900,
        windows=[1e-6] * 900,
    )
    division = divide(made, CEILINGS, FAULT_S)
    assert division.parts.dispatch == pytest.approx(0.9)
    assert division.parts.allocation == pytest.approx(0.1)
    assert division.parts.host == pytest.approx(0.0, abs=1e-9)
    assert_whole(division)


def test_a_bare_step_with_fewer_faults_than_the_watched_ones_has_none_outside():
    made = trace(
        step_s=[1e-3],
        step_faults=(10,),
        watched=(watched(1e-3, 1e-3, faults=5000),),
        sites=[site(VIEW)],
        windows=[1e-4],
    )
    assert divide(made, CEILINGS, FAULT_S).parts.allocation == 0.0


def slow_writers(*costs, seen: int, faults: list[int] | None = None, slow_s: float = 500e-6):
    """Ops that each take ``slow_s`` beyond their floors, where watched steps had ``seen`` page faults."""
    window = STREAM_S + 1e-6 + slow_s
    total = window * len(costs)
    made = trace(
        step_s=[total],
        sites=[site(cost, f"aten.op{at}") for at, cost in enumerate(costs)],
        windows=[window] * len(costs),
        distances=[1e9] * len(costs),
        faults=faults or (),
        watched=(watched(total, total, faults=seen, beside_faults=seen),),
    )
    division = divide(made, CEILINGS, FAULT_S)
    assert_whole(division)
    parts = division.times.dispatch + division.times.allocation + sum(division.times.work.values())
    assert parts + division.times.unexplained == pytest.approx(division.times.window)
    return division.times


def test_slow_writers_of_fresh_memory_had_the_page_faults_that_attributed_steps_had_not():
    times = slow_writers(STREAM, STREAM, seen=600)
    # 60 us of faults, half to each: both are as slow and write as much.
    assert list(times.allocation) == pytest.approx([30e-6, 30e-6])
    assert list(times.unexplained) == pytest.approx([470e-6, 470e-6], rel=0.05)


def test_no_writer_has_more_page_faults_than_pages():
    assert list(slow_writers(STREAM, seen=90_000).allocation) == pytest.approx([PAGES_S])


def test_an_op_in_place_writes_no_fresh_memory():
    assert list(slow_writers(INPLACE, STREAM, seen=500).allocation) == pytest.approx([0.0, 50e-6])
    assert list(slow_writers(INPLACE, seen=500).allocation) == [0.0]


def test_page_faults_seen_in_the_ops_are_not_missing():
    assert list(slow_writers(STREAM, STREAM, seen=500, faults=[500, 0]).allocation) == pytest.approx([50e-6, 0.0])
    # 300 are missing, and the one has fewer pages left for them than the other.
    times = slow_writers(STREAM, STREAM, seen=800, faults=[500, 0])
    room = [PAGES_S - 50e-6, PAGES_S]
    assert list(times.allocation) == pytest.approx([50e-6 + 30e-6 * room[0] / sum(room), 30e-6 * room[1] / sum(room)])


def test_a_writer_at_its_ceiling_had_no_page_faults():
    assert list(slow_writers(STREAM, seen=500, slow_s=0.0).allocation) == pytest.approx([0.0], abs=1e-7)


def test_page_faults_that_would_take_longer_than_the_step_have_no_known_cost():
    made = trace(step_s=[0.01] * 3, sites=(site(STREAM),), windows=[0.009])
    made = dataclasses.replace(made, step_faults=(1000,) * 3)
    known, contradicted = (divide(made, CEILINGS, each) for each in (5e-6, 5e-5))
    assert known.faults.time_s == pytest.approx(5e-3)
    assert contradicted.faults.time_s is None
    assert contradicted.parts.allocation == 0.0
    assert_whole(contradicted)
