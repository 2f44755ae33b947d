"""The division of a step: by arithmetic on made-up traces, and what must hold for any trace."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import (
    VIEW,
    assert_whole,
    matmul_cost,
    pointwise_cost,
    reading,
    round_machine,
    site,
    trace,
    traces,
    watched,
)

from boundby.bound.ceilings import Ceilings, Speed, measure_speed
from boundby.bound.explain import explain_trace
from boundby.bound.split import divide
from boundby.results.report import SHARE_RESOLUTION, SHARES

MACHINE = round_machine()
CEILINGS = Ceilings(MACHINE, Speed.unknown(), threads=1)
FAULT_S = 0.1e-6
TINY = pointwise_cost(1)
# Moves 8 MiB from and to memory: 0.84 ms at 10 GB/s.
STREAM = pointwise_cost(1 << 20)


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
    # The watched steps saw 1.4 ms where the bare step takes 1.
    made = trace(
        step_s=[1e-3] * 3,
        watched=(watched(1.4e-3, 1e-3),) * 3,
        sites=[site(TINY)],
        site_of=[0] * 1000,
        windows=[1.4e-6] * 1000,
    )
    division = divide(made, CEILINGS, FAULT_S)
    assert division.scale == pytest.approx(1 / 1.4e-3)
    assert division.reconciliation.value == pytest.approx(1.4)
    # An op without work is overhead up to twice what it takes in warm caches.
    assert division.split.overhead.value == pytest.approx(1.0, abs=1e-3)
    assert_whole(division)


def test_time_of_the_bare_step_that_no_watched_step_had_is_unexplained():
    made = trace(
        step_s=[4e-3] * 3,
        watched=(watched(1e-3, 4e-3),) * 3,
        sites=[site(TINY)],
        site_of=[0] * 1000,
        windows=[1e-6] * 1000,
    )
    division = divide(made, CEILINGS, FAULT_S)
    assert division.reconciliation.value == pytest.approx(0.25)
    # A step may well take 1.3 times what was seen of it; no watched one showed where the rest of those 3 ms goes.
    assert division.parts.dispatch == pytest.approx(0.25 * 1.3)
    assert division.parts.host == pytest.approx(0.0)
    assert division.split.unexplained.value == pytest.approx(0.75 - 0.25 * 0.3)
    assert division.split.unexplained.high == pytest.approx(1.0)
    # It may all be overhead, or none of it.
    assert division.split.overhead.low == pytest.approx(0.0)
    assert division.split.overhead.high == pytest.approx(1.0)
    assert_whole(division)


@pytest.mark.parametrize(
    ("gap_ms", "host_ms"), [(3.0, 3.0), (2.5, 2.5 * 4.0 / 3.5), (1.4, 1.4 * 3.0 / 2.4), (0.0, 0.0), (9.0, 3.0)]
)
def test_host_code_is_what_gaps_of_watched_steps_confirm(gap_ms, host_ms):
    """1 ms of windows in a step of 4: gaps confirm what they are long, and both may be longer by 15% of the step."""
    made = trace(
        step_s=[4e-3],
        sites=[site(TINY)],
        site_of=[0] * 1000,
        windows=[1e-6] * 1000,
        gaps=[gap_ms * 0.75e-6] * 1000,
        tail_s=gap_ms * 0.25e-3,
    )
    division = divide(made, CEILINGS, FAULT_S)
    more = min(0.6, 0.3 * (1 + gap_ms), max(0.0, 3 - gap_ms))
    assert division.parts.host == pytest.approx(host_ms / 4)
    assert division.parts.dispatch == pytest.approx((1 + more - max(0.0, host_ms - min(gap_ms, 3))) / 4)
    assert division.split.unexplained.value == pytest.approx((3 - min(3, gap_ms) - more) / 4, abs=1e-9)
    assert_whole(division)


def test_a_step_a_little_longer_than_what_was_seen_took_longer_all_over():
    """Four parts of memory to one of gaps, in a step 10% longer: shares stay as they were seen."""
    stream = 8 * (1 << 20) / 10e9
    made = trace(
        step_s=[1.1 * 1.25 * stream],
        sites=[site(STREAM)],
        windows=[stream],
        gaps=[0.25 * stream],
        distances=[1e9],
    )
    division = divide(made, CEILINGS, FAULT_S)
    assert division.split.memory.value == pytest.approx(0.8, rel=0.01)
    assert division.split.overhead.value == pytest.approx(0.2, rel=0.01)
    assert_whole(division)


def test_the_more_was_taken_off_for_watching_the_less_well_watched_steps_are_comparable():
    def host(watching_s: float) -> float:
        made = trace(
            step_s=[4e-3],
            watched=(watched(3.1e-3, 4e-3, watching_s=watching_s),),
            sites=[site(TINY)],
            site_of=[0] * 1000,
            windows=[1e-6] * 1000,
            gaps=[2.1e-6] * 1000,
        )
        return divide(made, CEILINGS, FAULT_S).split.unexplained.value

    assert host(0.0) == pytest.approx((0.9 - 0.6) / 4)
    assert host(3.2e-3) == pytest.approx((0.9 - 0.8) / 4)
    assert host(8e-3) == pytest.approx(0.0, abs=1e-9)


def test_gaps_spent_on_preparing_input_confirm_no_host_code():
    made = trace(step_s=[4e-3], sites=[site(TINY)], windows=[1e-6], gaps=[1e-3], host_input_s=1e-3)
    division = divide(made, CEILINGS, FAULT_S)
    assert division.split.input.value == pytest.approx(0.25)
    assert division.parts.host == pytest.approx(0.0)
    assert division.split.unexplained.value == pytest.approx(0.75, abs=1e-3)


def test_gaps_that_could_not_be_seen_leave_all_that_is_neither_op_nor_input_to_host_code():
    """No two watched steps alike: what they explain is still reconciled, in the sum."""
    made = trace(
        step_s=[4e-3] * 3,
        input_s=[1e-3] * 3,
        watched=(watched(2.4e-3, 3e-3),) * 3,
        sites=[site(TINY)],
        windows=[1e-6],
        gaps=[math.nan],
        tail_s=math.nan,
    )
    division = divide(made, CEILINGS, FAULT_S)
    # Of the step a quarter is waiting, and of the rest four fifths are explained.
    assert division.reconciliation.value == pytest.approx(0.25 + 0.75 * 0.8)
    assert division.parts.host == pytest.approx(0.75, abs=1e-3)
    assert division.split.unexplained.value == pytest.approx(0.0, abs=1e-9)
    assert_whole(division)
    assert divide(dataclasses.replace(made, watched=()), CEILINGS, FAULT_S).reconciliation is None


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
        seen = tuple(watched(one, 1e-3) for one in step_s)
        made = trace(step_s=step_s, watched=seen, sites=[site(TINY)], windows=[1e-6])
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


# Reconciliation.


def reconciled(*seen, fault_s: float | None = FAULT_S, **fields: object):
    made = trace(step_s=[1e-3], watched=seen, sites=[site(TINY)], windows=[1e-6], **fields)
    return divide(made, CEILINGS, fault_s).reconciliation


def test_each_watched_step_is_held_against_the_bare_ones_beside_it():
    """The machine slowed down to a third: what was watched then is as whole as before."""
    found = reconciled(watched(1e-3, 1e-3), watched(3e-3, 3e-3), watched(2e-3, 2e-3))
    assert (found.low, found.value, found.high) == pytest.approx((1.0, 1.0, 1.0))


def test_page_faults_that_only_the_watched_step_had_are_no_part_of_it():
    more = watched(2e-3, 1e-3, faults=10_500, beside_faults=500)
    fewer = watched(0.5e-3, 1e-3, faults=0, beside_faults=5000)
    assert reconciled(more).value == pytest.approx(1.0)
    assert reconciled(fewer).value == pytest.approx(1.0)
    # What they cost must be known.
    assert reconciled(more, fault_s=None).value == pytest.approx(2.0)
    assert reconciled(fewer, fault_s=None).value == pytest.approx(0.5)


def test_the_reconciliation_is_the_median_with_twice_its_error():
    five = [watched(total_s, 1e-3) for total_s in (0.8e-3, 0.9e-3, 1.0e-3, 1.1e-3, 1.2e-3)]
    found = reconciled(*five)
    error = 2 * 1.25 * (0.2 / 1.35) / math.sqrt(5)
    assert (found.low, found.value, found.high) == pytest.approx((1 - error, 1.0, 1 + error))
    # Of two steps the band is as wide as they lie apart on either side.
    found = reconciled(five[0], five[-1])
    assert (found.low, found.value, found.high) == pytest.approx((0.6, 1.0, 1.4))


def test_waiting_is_explained_in_full():
    found = reconciled(watched(0.4e-3, 0.5e-3), input_s=[0.5e-3])
    assert found.value == pytest.approx(0.5 + 0.5 * 0.8)


def test_a_watched_step_beside_nothing_says_nothing():
    assert reconciled(watched(1e-3, 0.0)) is None
    assert reconciled(watched(1e-3, 0.0), watched(0.9e-3, 1e-3)).value == pytest.approx(0.9)


# Page faults that are not in the windows of attributed steps.


def test_a_step_that_took_far_longer_when_watched_has_no_shares():
    """4.7 GFLOP of a 61 ms step take 47 ms at the least: no share that a step of 1.2 s has could say so."""
    product = site(matmul_cost(1330, 1330, 1330))
    slow = {"sites": [product, site(pointwise_cost(1 << 20))], "windows": [0.06, 1.2]}
    division = divide(trace(step_s=[0.061] * 3, watched=(watched(1.26, 0.061),) * 3, **slow), CEILINGS, FAULT_S)
    assert division.reconciliation.value == pytest.approx(20.7, abs=0.1)
    assert division.split.unexplained.value == 1.0
    for name in ("overhead", "memory", "matmul", "pointwise"):
        one = getattr(division.split, name)
        assert (one.low, one.value, one.high) == (0.0, 0.0, 1.0)
    assert_whole(division)
    assert division.scale * division.times.window.sum() <= 1.0
    # Waiting is measured in the bare steps themselves.
    waits = trace(step_s=[0.061] * 3, input_s=[0.03] * 3, watched=(watched(1.26, 0.03),) * 3, **slow)
    division = divide(waits, CEILINGS, FAULT_S)
    assert division.split.input.value == pytest.approx(0.03 / 0.061)
    assert_whole(division)
    # Host code that prepares input was seen in watched steps alone: it may have been held up as they were, or not.
    prepares = trace(step_s=[0.061] * 3, host_input_s=0.04, watched=(watched(1.26, 0.03),) * 3, **slow)
    division = divide(prepares, CEILINGS, FAULT_S)
    seen = division.reconciliation.value
    assert seen > 1.5
    assert division.split.input.value == pytest.approx(0.04 / 0.061 / seen)
    assert (division.split.input.low, division.split.input.high) == (0.0, pytest.approx(0.04 / 0.061))
    assert_whole(division)
    both = trace(step_s=[0.061] * 3, input_s=[0.03] * 3, host_input_s=0.2, watched=(watched(1.26, 0.03),) * 3, **slow)
    division = divide(both, CEILINGS, FAULT_S)
    assert division.split.input.low == pytest.approx(0.03 / 0.061)
    assert division.split.input.high == 1.0
    assert_whole(division)


@given(traces())
@settings(max_examples=50, deadline=None)
def test_no_share_that_is_not_nothing_has_a_band_of_no_width(made):
    split = explain_trace(made, MACHINE).split
    for name in SHARES:
        one = getattr(split, name)
        if 0 < one.value < 1 and one.low > 0 and one.high < 1 and name != "input":
            assert one.high - one.low >= 0.999 * SHARE_RESOLUTION


def test_work_is_doubted_as_far_as_watched_steps_are_off():
    exp = site(pointwise_cost(1 << 20, "exp"))
    made = {"step_s": [0.01] * 3, "sites": [exp], "windows": [2.1e-3]}
    quiet = divide(trace(**made, watched=(watched(0.01, 0.01),) * 3), CEILINGS, FAULT_S).split.pointwise
    off = divide(trace(**made, watched=(watched(0.012, 0.01),) * 3), CEILINGS, FAULT_S).split.pointwise
    assert quiet.high - quiet.low < 0.01
    assert (off.low, off.high) == pytest.approx((0.8 * quiet.value, 1.2 * quiet.value), rel=0.02)


def test_a_share_may_be_all_that_its_floors_demand():
    """Watched steps 1.9 times as long as the bare one scale all shares down, but no work below its own floor."""
    product = site(matmul_cost(1000, 1000, 1000))
    made = trace(step_s=[0.05] * 3, watched=(watched(0.095, 0.05),) * 3, sites=[product], windows=[0.095])
    division = divide(made, CEILINGS, FAULT_S)
    assert division.split.matmul.value < 0.4 <= division.split.matmul.high + 1e-9
    assert_whole(division)


# What of an op's overhead lies before its window.


def test_an_ops_overhead_that_its_window_has_no_room_for_lies_in_the_gap_before():
    made = trace(step_s=[140e-6], sites=[site(TINY)], site_of=[0] * 100, windows=[0.4e-6] * 100, gaps=[1e-6] * 100)
    division = divide(made, CEILINGS, FAULT_S)
    assert division.parts.dispatch == pytest.approx(100 / 140)
    assert division.parts.host == pytest.approx(40 / 140)
    assert division.times.called == pytest.approx([0.6e-6] * 100)
    assert_whole(division)


def test_overhead_before_windows_takes_no_more_than_the_gaps():
    made = trace(step_s=[60e-6], sites=[site(TINY)], site_of=[0] * 100, windows=[0.4e-6] * 100, gaps=[0.2e-6] * 100)
    division = divide(made, CEILINGS, FAULT_S)
    assert division.parts.dispatch == pytest.approx(1.0)
    assert division.parts.host == pytest.approx(0.0, abs=1e-9)
    assert division.split.overhead.high <= 1.0 + 1e-9


def test_what_runs_differ_by_is_doubt_and_explains_no_time():
    # A stream at 1.5 times its floor, of a ceiling that its run knew to 2% and other runs to a factor of two.
    narrow = round_machine()
    wide = dataclasses.replace(
        narrow,
        ceilings=tuple(
            dataclasses.replace(one, low=one.value / 2, high=one.value * 2, own=(one.low, one.high))
            for one in narrow.ceilings
        ),
    )
    site_ = site(pointwise_cost(1 << 24), "aten.add.Tensor")
    floor = explain_trace(trace(step_s=[1.0] * 3, sites=(site_,), windows=[1.0]), narrow).ops[0].floors.memory_s
    slow = trace(step_s=[1.5 * floor] * 3, sites=(site_,), windows=[1.5 * floor])
    before, after = (explain_trace(slow, machine).split for machine in (narrow, wide))
    assert after.memory.value == pytest.approx(before.memory.value)
    assert after.unexplained.value == pytest.approx(before.unexplained.value)
    assert after.memory.low < before.memory.low
