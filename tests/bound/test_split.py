"""The division of a step: by arithmetic on made-up traces, and what must hold for any trace."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import VIEW, matmul_cost, pointwise_cost, reading, round_machine, site, trace, traces

from boundby.bound.ceilings import Ceilings, Speed, measure_speed
from boundby.bound.explain import explain_trace
from boundby.bound.split import divide
from boundby.results.report import SHARES

MACHINE = round_machine()
CEILINGS = Ceilings(MACHINE, Speed.unknown(), threads=1)
FAULT_S = 0.1e-6
TINY = pointwise_cost(1)
# Moves 8 MiB from and to memory: 0.84 ms at 10 GB/s.
STREAM = pointwise_cost(1 << 20)


def shares_of(division):
    return {name: getattr(division.split, name) for name in SHARES}


def assert_whole(division):
    parts = division.parts
    found = shares_of(division)
    assert math.isclose(sum(one.value for one in found.values()), 1.0, rel_tol=1e-9)
    for name, one in found.items():
        assert -1e-12 <= one.low <= one.value <= one.high <= 1 + 1e-9, name
    assert parts.dispatch + parts.host + parts.allocation == pytest.approx(found["overhead"].value)
    assert min(parts.dispatch, parts.host, parts.allocation) >= 0


@given(traces())
@settings(max_examples=150, deadline=None)
def test_the_split_of_any_trace_sums_to_one_with_ordered_bands(made):
    speed = measure_speed(MACHINE, made.anchors)
    assert_whole(divide(made, Ceilings(MACHINE, speed, threads=1), FAULT_S))


@given(traces(), st.sampled_from([None, 0.0, 1e-3]))
@settings(max_examples=50, deadline=None)
def test_the_split_is_whole_without_ceilings_too(made, fault_s):
    assert_whole(divide(made, Ceilings(MACHINE, Speed.unknown(), threads=64), fault_s))


@given(traces())
@settings(max_examples=50, deadline=None)
def test_the_split_is_whole_without_ops(made):
    assert_whole(divide(dataclasses.replace(made, ops=None), CEILINGS, FAULT_S))


@given(traces())
@settings(max_examples=50, deadline=None)
def test_each_window_is_used_up_exactly_once(made):
    times = divide(made, CEILINGS, FAULT_S).times
    parts = times.dispatch + times.allocation + sum(times.work.values()) + times.unexplained
    assert parts == pytest.approx(times.window, abs=1e-12)
    assert all((column >= 0).all() for column in (times.dispatch, times.allocation, times.unexplained))


def test_tiny_ops_back_to_back_are_dispatch():
    made = trace(step_s=[2000e-6] * 5, sites=[site(TINY)], site_of=[0] * 2000, windows=[1e-6] * 2000)
    division = divide(made, CEILINGS, FAULT_S)
    assert division.split.overhead.value == pytest.approx(1.0)
    assert division.parts.dispatch == pytest.approx(1.0)
    assert division.reconciliation is None  # nothing says how sure that is: no watched step


def test_views_are_nothing_but_dispatch_however_long_they_take():
    division = divide(trace(step_s=[1e-3], sites=[site(VIEW)], windows=[1e-3]), CEILINGS, FAULT_S)
    assert division.parts.dispatch == pytest.approx(1.0)


def test_a_product_at_its_ceiling_is_matmul():
    at_ceiling = 2 * 512**3 / 100e9
    made = trace(step_s=[at_ceiling + 2e-6], sites=[site(matmul_cost(512, 512, 512))], windows=[at_ceiling + 2e-6])
    split = divide(made, CEILINGS, FAULT_S).split
    assert split.matmul.value == pytest.approx(1.0, abs=0.02)
    assert split.unexplained.value == pytest.approx(0.0, abs=0.02)


def test_a_mixture_in_known_proportion_comes_out_in_it():
    stream = 8 * (1 << 20) / 10e9
    exp = 2e-9 * 1000
    ops = [site(STREAM), site(pointwise_cost(1000, "exp"))]
    count = round(stream / exp)
    total = 3 * stream + (count + 1) * 1e-6
    made = trace(
        step_s=[total],
        sites=ops,
        site_of=[0] + [1] * count,
        windows=[stream + 1e-6] + [exp + 1e-6] * count,
        gaps=[stream] + [0.0] * count,
        distances=[1e9] * (count + 1),
    )
    division = divide(made, CEILINGS, FAULT_S)
    assert division.split.memory.value == pytest.approx(stream / total, rel=0.01)
    assert division.split.pointwise.value == pytest.approx(stream / total, rel=0.01)
    assert division.parts.host == pytest.approx(stream / total, rel=0.01)
    assert_whole(division)


def test_time_beyond_the_floors_is_unexplained():
    stream = 8 * (1 << 20) / 10e9
    made = trace(step_s=[4 * stream], sites=[site(STREAM)], windows=[4 * stream], distances=[1e9])
    split = divide(made, CEILINGS, FAULT_S).split
    assert split.memory.value == pytest.approx(0.25, rel=0.01)
    assert split.unexplained.value == pytest.approx(0.75, rel=0.01)
    # What is unexplained may all be memory's: a slow kernel, or a ceiling set too high.
    assert split.memory.high == pytest.approx(1.0, abs=0.01)


def test_page_faults_inside_an_op_are_allocation():
    made = trace(
        step_s=[1e-3], sites=[site(TINY)], windows=[1e-3], faults=[5000], step_faults=(5000,), watched_s=(1e-3,)
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


def test_time_between_ops_is_host_overhead():
    made = trace(step_s=[1e-3], sites=[site(TINY)], windows=[1e-6], gaps=[0.5e-3], tail_s=0.499e-3)
    division = divide(made, CEILINGS, FAULT_S)
    assert division.parts.host == pytest.approx(0.999)


def test_waiting_for_input_is_input():
    made = trace(step_s=[1e-3] * 3, input_s=[0.6e-3] * 3, sites=[site(TINY)], windows=[1e-6], gaps=[0.399e-3])
    split = divide(made, CEILINGS, FAULT_S).split
    assert split.input.value == pytest.approx(0.6)
    assert split.overhead.value == pytest.approx(0.4)


def test_host_code_that_prepares_input_is_input_and_not_host():
    made = trace(step_s=[1e-3], sites=[site(TINY)], windows=[1e-6], gaps=[0.999e-3], host_input_s=0.9e-3)
    division = divide(made, CEILINGS, FAULT_S)
    assert division.split.input.value == pytest.approx(0.9)
    assert division.parts.host == pytest.approx(0.099)


def test_windows_longer_than_the_step_are_scaled_down_to_it():
    # The watched steps saw 2 ms where the bare step takes 1.
    made = trace(
        step_s=[1e-3] * 3, watched_s=(2e-3,) * 3, sites=[site(TINY)], site_of=[0] * 1000, windows=[2e-6] * 1000
    )
    division = divide(made, CEILINGS, FAULT_S)
    assert division.scale == pytest.approx(1 / 2e-3)
    assert division.reconciliation.value == pytest.approx(2.0)
    assert division.split.overhead.value == pytest.approx(0.5)
    assert_whole(division)


def test_time_of_the_bare_step_that_is_neither_op_nor_input_is_host_code_in_doubt():
    made = trace(
        step_s=[4e-3] * 3, watched_s=(4e-3,) * 3, sites=[site(TINY)], site_of=[0] * 1000, windows=[1e-6] * 1000
    )
    division = divide(made, CEILINGS, FAULT_S)
    assert division.reconciliation.value == pytest.approx(0.25)
    assert division.parts.dispatch == pytest.approx(0.25)
    assert division.parts.host == pytest.approx(0.75)
    # No watched step showed where those 3 ms go, so the bands leave it open.
    assert division.split.overhead.low == pytest.approx(0.25)
    assert division.split.unexplained.high >= 0.75


def test_gaps_that_could_not_be_seen_leave_the_reconciliation_unknown():
    made = trace(step_s=[4e-3] * 3, watched_s=(4e-3,) * 3, sites=[site(TINY)], windows=[1e-3], gaps=[math.nan])
    division = divide(made, CEILINGS, FAULT_S)
    assert division.reconciliation is None
    assert_whole(division)


def test_without_ops_all_but_the_input_is_unexplained():
    division = divide(trace(step_s=[1e-3], input_s=[0.25e-3]), CEILINGS, FAULT_S)
    assert division.split.input.value == pytest.approx(0.25)
    assert division.split.unexplained.value == pytest.approx(0.75)
    assert division.times is None
    assert division.reconciliation is None


def test_the_time_is_the_median_with_the_middle_half():
    time = divide(trace(step_s=[5.0, 1.0, 3.0, 2.0, 4.0]), CEILINGS, None).time_s
    assert (time.median, time.low, time.high) == (3.0, 2.0, 4.0)


def test_a_reconciled_share_is_surer_with_more_and_steadier_steps():
    def width(step_s: list[float]) -> float:
        made = trace(step_s=step_s, watched_s=tuple(step_s), sites=[site(TINY)], windows=[1e-6])
        found = divide(made, CEILINGS, None).reconciliation
        return (found.high - found.low) / found.value

    assert width([1e-3, 1.1e-3] * 20) < width([1e-3, 1.1e-3] * 2)
    assert width([1e-3, 1.01e-3] * 5) < width([1e-3, 1.5e-3] * 5)


def test_a_slower_machine_explains_more_of_a_window():
    stream = 8 * (1 << 20) / 10e9
    made = trace(step_s=[2 * stream], sites=[site(STREAM)], windows=[2 * stream], distances=[1e9])
    slow = dataclasses.replace(made, anchors=(reading(memory=2e-3, cache=2e-3),) * 3)
    assert explain_trace(made, MACHINE).split.memory.value == pytest.approx(0.5, rel=0.01)
    assert explain_trace(slow, MACHINE).split.memory.value == pytest.approx(1.0, rel=0.01)
