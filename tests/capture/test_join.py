"""From recorded steps to a trace: nothing of a watched step is lost or counted twice."""

from __future__ import annotations

import dataclasses
import math
from array import array
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boundby.capture.attribute import AttributedStep
from boundby.capture.calibrate import NO_COST, WatchCost
from boundby.capture.join import _Bare, build_trace
from boundby.capture.lean import LeanStep
from boundby.capture.profiled import ProfiledStep
from boundby.capture.recorder import Recorded
from boundby.capture.usage import NO_USAGE, StepUsage
from boundby.results.counts import OpCost

US = 1000


def attributed(ops: list[str], sites: list[int] | None = None, window_us: int = 7) -> AttributedStep:
    count = len(ops)
    return AttributedStep(
        ops=ops,
        stamps=array("q", [at for op in range(count) for at in (op * 100 * US, (op * 100 + window_us) * US)]),
        site=array("I", sites or range(count)),
        faults=array("I", range(count)),
        keys=array("Q", [1] * count),
        sizes=array("Q", [8] * count),
        offsets=array("Q", range(count + 1)),
        inputs=array("B", [1] * count),
        works=array("B", [1] * count),
        device="cpu",
    )


def lean(
    ops: list[str], spans: list[tuple[int, int]], *, waits=(), usage: StepUsage = NO_USAGE, turn: int = 0
) -> LeanStep:
    """A step from 0 whose ops follow one another with (gap, window) in us, and 5 us after the last."""
    now, stamps = 0, array("q")
    for gap, window in spans:
        stamps.extend([(now + gap) * US, (now + gap + window) * US])
        now += gap + window
    return LeanStep(ops, stamps, 0, (now + 5) * US, list(waits), usage, turn)


def profiled(*calls: tuple[str, int, int], end: int, usage: StepUsage = NO_USAGE, turn: int = 0) -> ProfiledStep:
    """A step from 0 to ``end`` whose calls are (name, begin, end); all in us."""
    return ProfiledStep(
        names=[name for name, _, _ in calls],
        begins=array("q", [begin * US for _, begin, _ in calls]),
        ends=array("q", [last * US for _, _, last in calls]),
        begin=0,
        end=end * US,
        waits=[],
        usage=usage,
        turn=turn,
    )


def site_key(op: str, *, phase: str = "forward", module: str | None = "m"):
    return (op, OpCost(kind="other"), "", None, None, module, phase, False, 0)


def faults(*counts: int) -> list[StepUsage]:
    return [StepUsage(faults=count) for count in counts]


def joined(
    kept: Recorded, keys=None, *, kind: str = "training", cost: WatchCost | float = NO_COST, irregular: bool = False
):
    """The trace; ``cost`` may be that of a lean watcher alone; what is not told of the timed steps is nothing."""
    if not isinstance(cost, WatchCost):
        cost = dataclasses.replace(NO_COST, per_op_s=cost)
    for column, nothing in ((kept.input_s, 0.0), (kept.usage, NO_USAGE), (kept.turns, 0), (kept.threads, 1)):
        column.extend([nothing] * (len(kept.timed_s) - len(column)))
    longest = max((step.ops for step in kept.attributed), key=len, default=[])
    recorder = SimpleNamespace(
        kept=kept,
        site_keys=keys or [site_key(op) for op in longest],
        watch_cost=cost,
        anchor_readings=[],
        device=None,
    )
    return build_trace(recorder, kind=kind, events_per_step=1, irregular=irregular, findings=())


def codes(trace) -> set[str]:
    return {finding.code for finding in trace.findings}


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1, max_size=12))
@settings(deadline=None)
def test_windows_gaps_and_tail_are_the_whole_watched_step(spans):
    ops = [f"aten::op{at}" for at in range(len(spans))]
    trace = joined(
        Recorded(
            timed_s=[1.0],
            usage=faults(11),
            lean=[lean(ops, spans, usage=StepUsage(faults=7))],
            attributed=[attributed(ops)],
        )
    )
    whole = (sum(map(sum, spans)) + 5) * 1e-6
    assert sum(trace.ops.window_s) + sum(trace.ops.gap_s) + trace.ops.tail_s == pytest.approx(whole)
    assert list(trace.ops.window_s) == pytest.approx([window * 1e-6 for _, window in spans], abs=1e-12)
    (seen,) = trace.watched
    assert seen.total_s == pytest.approx(whole)
    assert (seen.faults, seen.beside_s, seen.beside_faults) == (7, 1.0, 11)


def test_each_op_takes_the_median_of_its_windows_over_the_steps():
    ops = ["aten::a", "aten::b"]
    steps = [lean(ops, [(1, window), (2, 10)]) for window in (30, 10, 20)]
    trace = joined(Recorded(timed_s=[1.0], lean=steps, attributed=[attributed(ops)]))
    assert list(trace.ops.window_s) == pytest.approx([20e-6, 10e-6])
    assert list(trace.ops.gap_s) == pytest.approx([1e-6, 2e-6])


def test_the_cost_of_watching_is_taken_from_the_gaps():
    ops = ["aten::a", "aten::b"]
    kept = Recorded(timed_s=[1.0], lean=[lean(ops, [(10, 30), (10, 30)])], attributed=[attributed(ops)])
    trace = joined(kept, cost=4e-6)
    assert list(trace.ops.gap_s) == pytest.approx([6e-6, 6e-6])
    assert list(trace.ops.window_s) == pytest.approx([30e-6, 30e-6])


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_wait_for_input_is_no_gap(at):
    ops = ["aten::a", "aten::b"]
    step = LeanStep(ops, array("q", [50 * US, 60 * US, 110 * US, 120 * US]), 0, 170 * US, [(at, 40 * US)])
    trace = joined(Recorded(timed_s=[1.0], lean=[step], attributed=[attributed(ops)]))
    gaps = [*trace.ops.gap_s, trace.ops.tail_s]
    assert gaps == pytest.approx([10e-6 if one == at else 50e-6 for one in range(3)])


def test_the_commonest_kind_of_step_is_explained_and_the_others_told_of():
    short, long = ["aten::a"], ["aten::a", "aten::b"]
    kept = Recorded(
        timed_s=[10e-6, 11e-6, 500e-6, 12e-6],
        lean=[lean(short, [(1, 4)])] * 3 + [lean(long, [(1, 4), (90, 400)])],
        attributed=[attributed(long), attributed(short)],
    )
    trace = joined(kept)
    assert "steps-vary" in codes(trace)
    assert [(one.steps, one.ops) for one in trace.classes] == [(4, 1), (2, 2)]
    assert len(trace.ops.site) == 1
    # Nobody watched the timed steps: those as long as the short kind are taken for it.
    assert trace.step_s == (10e-6, 11e-6, 12e-6)


def test_steps_that_all_differ_are_explained_by_an_attributed_one_with_gaps_unknown():
    sequences = [[f"aten::op{at}" for at in range(length)] for length in (2, 4, 6, 3, 5)]
    kept = Recorded(
        timed_s=[1e-3] * 3,
        lean=[lean(ops, [(1, 2)] * len(ops)) for ops in sequences[3:]],
        attributed=[attributed(ops) for ops in sequences[:3]],
    )
    trace = joined(kept)
    assert len(trace.ops.site) == 4  # of the median length
    assert list(trace.ops.window_s) == pytest.approx([7e-6] * 4)
    assert all(math.isnan(gap) for gap in trace.ops.gap_s)
    assert len(trace.classes) == 5
    assert "steps-vary" in codes(trace)


def test_steps_interrupted_by_other_processes_are_left_out_where_enough_remain():
    ops = ["aten::a"]
    steps = {"lean": [lean(ops, [(1, 4)])], "attributed": [attributed(ops)]}
    held_up = [StepUsage(preemptions=count) for count in (0, 3, 0, 0)]
    trace = joined(Recorded(timed_s=[1.0, 9.0, 1.1, 1.2], usage=held_up, **steps))
    assert trace.step_s == (1.0, 1.1, 1.2)
    assert "preempted" in codes(trace)
    held_up = [StepUsage(preemptions=count) for count in (0, 3, 1)]
    trace = joined(Recorded(timed_s=[1.0, 9.0, 1.1], usage=held_up, **steps))
    assert trace.step_s == (1.0, 9.0, 1.1)
    assert "preempted" not in codes(trace)


def test_silence_before_the_forward_pass_is_preparing_input():
    ops = ["aten::a", "aten::b", "aten::c"]
    keys = [site_key("a", module=None, phase="other"), site_key("b"), site_key("c", phase="backward")]
    kept = Recorded(timed_s=[1.0], lean=[lean(ops, [(50, 5), (400, 5), (800, 5)])], attributed=[attributed(ops)])
    trace = joined(kept, keys)
    assert trace.host_input_s == pytest.approx(400e-6)  # not 50: too short; not 800: within the step's own work


def test_each_forward_pass_of_a_step_has_its_input():
    ops = [f"aten::{at}" for at in range(8)]
    module = {"module": "m", "phase": "forward"}
    keys = [
        site_key("fetch", module=None, phase="other"),
        site_key("a", **module),
        site_key("loss", module=None),
        site_key("b", phase="backward"),
        site_key("fetch", module=None, phase="other"),
        site_key("a", **module),
        site_key("b", phase="backward"),
        site_key("c", module=None, phase="optimizer"),
    ]
    gaps = [200, 300, 1000, 1000, 400, 500, 1000, 1000]
    kept = Recorded(timed_s=[1.0], lean=[lean(ops, [(gap, 5) for gap in gaps])], attributed=[attributed(ops)])
    # None of the silence before a loss, within a backward pass, or before the optimizer is input's.
    assert joined(kept, keys).host_input_s == pytest.approx(1400e-6)


def test_clearing_gradients_before_the_forward_pass_prepares_no_input():
    ops = ["aten::a", "aten::b"]
    keys = [site_key("a", module=None, phase="other"), site_key("b")]
    step = dataclasses.replace(lean(ops, [(50, 5), (400, 5)]), clearing_at=[(1, 150 * US)])
    trace = joined(Recorded(timed_s=[1.0], lean=[step], attributed=[attributed(ops)]), keys)
    assert trace.host_input_s == pytest.approx(250e-6)
    # One that holds an op is no silence, and one that leaves little of it leaves none.
    for begin, end, silence_us in ((60, 210, 250), (60, 440, 0), (20, 460, 400)):
        clearing = ("Optimizer.zero_grad#SGD.zero_grad", begin, end)
        calls = sorted([("aten::a", 50, 55), ("aten::b", 455, 460), clearing], key=lambda call: call[1])
        kept = Recorded(timed_s=[1.0], profiled=[profiled(*calls, end=465)], attributed=[attributed(ops)])
        assert joined(kept, keys).host_input_s == pytest.approx(silence_us * 1e-6)


def test_what_is_left_of_a_silence_is_told_step_by_step():
    ops = ["aten::a"]
    steps = [
        dataclasses.replace(lean(ops, [(gap, 5)]), clearing_at=[(0, cleared * US)])
        for gap, cleared in ((150, 0), (1000, 850), (1000, 50))
    ]
    trace = joined(Recorded(timed_s=[1.0], lean=steps, attributed=[attributed(ops)]))
    assert trace.host_input_s == pytest.approx(150e-6)


def test_silence_after_an_inference_step_is_preparing_the_next_input():
    ops = ["aten::a"]
    step = LeanStep(ops, array("q", [0, 5 * US]), 0, 905 * US, [])
    trace = joined(Recorded(timed_s=[1.0], lean=[step], attributed=[attributed(ops)]), kind="inference")
    assert trace.host_input_s == pytest.approx(900e-6)


def test_a_step_without_ops_is_all_tail():
    trace = joined(Recorded(timed_s=[1e-3], lean=[lean([], [])], attributed=[attributed([])]))
    assert len(trace.ops.site) == 0
    assert trace.ops.tail_s == pytest.approx(5e-6)


def test_without_attributed_steps_there_are_times_but_no_ops():
    trace = joined(Recorded(timed_s=[1e-3], lean=[lean(["aten::a"], [(1, 2)])]))
    assert trace.ops is None
    assert trace.step_s == (1e-3,)


def test_without_any_step_there_is_no_trace():
    assert joined(Recorded()) is None


def test_an_irregular_order_of_events_is_told_of():
    assert "irregular-steps" in codes(joined(Recorded(timed_s=[1e-3]), irregular=True))


# Reconciliation, round by round.


def ten_us_steps(**fields: object) -> LeanStep:
    """A lean step of one op whose gap, window and tail sum to 10 us."""
    return lean(["aten::a"], [(1, 4)], **fields)


def test_a_watched_step_is_held_against_the_bare_ones_of_its_own_round():
    kept = Recorded(
        timed_s=[10e-6, 12e-6, 11e-6, 20e-6, 24e-6, 25e-6],
        input_s=[0.0, 0.0, 0.0, 0.0, 2e-6, 2e-6],
        usage=faults(5, 6, 7, 50, 60, 70),
        turns=[1, 1, 1, 2, 2, 2],
        lean=[ten_us_steps(turn=1, usage=StepUsage(faults=9)), ten_us_steps(turn=2), ten_us_steps(turn=3)],
        attributed=[attributed(["aten::a"])],
    )
    one, two, three = joined(kept).watched
    assert (one.total_s, one.faults) == (pytest.approx(10e-6), 9)
    assert (one.beside_s, one.beside_faults) == (pytest.approx(11e-6), 6)
    # Waits for input are in neither.
    assert (two.total_s, two.faults) == (pytest.approx(10e-6), 0)
    assert (two.beside_s, two.beside_faults) == (pytest.approx(22e-6), 60)
    # A round without a bare step goes by the one nearest.
    assert (three.beside_s, three.beside_faults) == (two.beside_s, two.beside_faults)


def test_interrupted_steps_are_neither_watched_nor_beside_where_enough_remain():
    held_up = StepUsage(preemptions=2)
    kept = Recorded(
        timed_s=[10e-6, 10e-6, 99e-6, 10e-6],
        usage=[NO_USAGE, NO_USAGE, held_up, NO_USAGE],
        turns=[1, 1, 1, 1],
        lean=[*[ten_us_steps(turn=1)] * 3, lean(["aten::a"], [(1, 94)], turn=1, usage=held_up)],
        attributed=[attributed(["aten::a"])],
    )
    trace = joined(kept)
    assert [one.total_s for one in trace.watched] == pytest.approx([10e-6] * 3)
    assert [one.beside_s for one in trace.watched] == pytest.approx([10e-6] * 3)
    assert list(trace.ops.window_s) == pytest.approx([4e-6])


def test_ops_are_told_at_the_speed_of_all_rounds():
    """The machine was twice as slow in the second round, and so were its watched step's ops."""
    kept = Recorded(
        timed_s=[10e-6, 10e-6, 20e-6, 20e-6, 10e-6],
        turns=[1, 1, 2, 2, 3],
        lean=[lean(["aten::a"], [(2, 8)], turn=2)],
        attributed=[attributed(["aten::a"])],
    )
    trace = joined(kept)
    assert list(trace.ops.window_s) == pytest.approx([4e-6])
    assert list(trace.ops.gap_s) == pytest.approx([1e-6])
    assert trace.ops.tail_s == pytest.approx(2.5e-6)
    # The reconciliation is of the round itself.
    assert trace.watched[0].total_s == pytest.approx(15e-6)
    assert trace.watched[0].beside_s == pytest.approx(20e-6)


def bare(seconds: list[float], counts: list[int]) -> _Bare:
    return _Bare(seconds=dict(enumerate(seconds)), faults=dict(enumerate(counts)))


def test_the_factor_is_from_the_speed_of_a_round_to_that_of_all():
    rounds = bare([1.0, 2.0, 4.0], [100, 100, 100])
    assert [rounds.factor(turn) for turn in (0, 1, 2)] == pytest.approx([2.0, 1.0, 0.5])
    assert rounds.factor(9) == rounds.factor(2)  # the nearest round


@pytest.mark.parametrize(
    ("count", "comparable"), [(1000, True), (1199, True), (801, True), (1201, False), (799, False)]
)
def test_a_round_with_other_page_faults_is_not_comparable(count, comparable):
    """Off by more than 50 and 15% of the usual thousand."""
    rounds = bare([2.0, 1.0, 1.0], [count, 1000, 1000])
    assert rounds.factor(0) == (0.5 if comparable else 1.0)
    assert rounds.factor(1) == 1.0


def test_a_round_of_no_time_has_no_factor():
    assert bare([0.0, 1.0, 1.0], [0, 0, 0]).factor(0) == 1.0


def test_steps_no_two_of_which_are_alike_are_reconciled_round_by_round():
    sequences = [[f"aten::op{at}" for at in range(length)] for length in (2, 3, 4, 5)]
    kept = Recorded(
        timed_s=[20e-6, 22e-6, 40e-6],
        usage=faults(10, 12, 30),
        turns=[1, 1, 2],
        # 11, 14 and 17 us; the cost of watching, 1 us an op, is taken off.
        lean=[
            lean(sequences[0], [(1, 2)] * 2, turn=1, usage=StepUsage(faults=4)),
            lean(sequences[1], [(1, 2)] * 3, turn=1, usage=StepUsage(faults=8)),
            lean(sequences[2], [(1, 2)] * 4, turn=2, usage=StepUsage(faults=20)),
        ],
        attributed=[attributed(sequences[3])],
    )
    trace = joined(kept, cost=1e-6)
    assert all(math.isnan(gap) for gap in trace.ops.gap_s)
    assert len(trace.watched) == 2
    one, two = trace.watched
    assert (one.total_s, one.faults) == (pytest.approx((9e-6 + 11e-6) / 2), 6)
    assert (one.beside_s, one.beside_faults) == (pytest.approx(21e-6), 11)
    assert (two.total_s, two.faults) == (pytest.approx(13e-6), 20)
    assert (two.beside_s, two.beside_faults) == (pytest.approx(40e-6), 30)


def test_varied_steps_under_the_profiler_lose_their_waits_and_the_cost_of_their_calls():
    calls = [("aten::x", 10, 20), ("aten::y", 30, 40), ("aten::x", 50, 60)]
    step = dataclasses.replace(profiled(*calls, end=100, usage=StepUsage(faults=3), turn=1), waits=[(62 * US, 72 * US)])
    kept = Recorded(timed_s=[90e-6], turns=[1], profiled=[step], attributed=[attributed(["aten::z"])])
    cost = WatchCost(
        hot_call_s=1e-6, hot_nested_s=1e-6, mixed_call_s=2e-6, mixed_nested=0.0, mixed_names=3, per_op_s=None
    )
    (seen,) = joined(kept, cost=cost).watched
    # Two names are half as many as three and then some: 2 us a call.
    assert seen.total_s == pytest.approx(100e-6 - 10e-6 - 3 * 2e-6)
    assert (seen.faults, seen.beside_s) == (3, pytest.approx(90e-6))


def test_profiled_steps_lose_half_a_calls_cost_on_either_side_and_all_of_a_nested_ones():
    ops = ["aten::a", "aten::b"]
    step = profiled(
        ("aten::composite", 10, 60), ("aten::a", 20, 50), ("aten::inner", 30, 40), ("aten::b", 70, 90), end=100
    )
    kept = Recorded(timed_s=[1.0], profiled=[step], attributed=[attributed(ops)])
    cost = WatchCost(
        hot_call_s=2e-6, hot_nested_s=1e-6, mixed_call_s=1e-6, mixed_nested=1.0, mixed_names=9, per_op_s=None
    )
    trace = joined(kept, cost=cost)
    # a: half of its own call and the inner one; before it half of its own and the composite, which is outermost.
    assert list(trace.ops.window_s) == pytest.approx([28.5e-6, 19e-6])
    assert list(trace.ops.gap_s) == pytest.approx([17.5e-6, 19e-6])
    assert trace.ops.tail_s == pytest.approx(10e-6)
    assert trace.watched[0].total_s == pytest.approx(100e-6 - 6 * 1e-6)
    assert trace.watched[0].watching_s == pytest.approx(6e-6)


# Allocation that shifts once steps are watched.


def shifted_run(first: list[int], later: list[int], *, warm: list[int] = (), step_s: float = 1e-3):
    kept = Recorded(
        timed_s=[step_s * (1 + at / 100) for at in range(len(first) + len(later))],
        usage=faults(*first, *later),
        turns=[1] * len(first) + [2] * len(later),
        lean=[ten_us_steps(turn=1, usage=StepUsage(faults=1000)), ten_us_steps(turn=2)],
        attributed=[attributed(["aten::a"])],
        warm_faults=list(warm),
    )
    return joined(kept)


def test_where_watching_moved_the_allocator_the_steps_before_it_count():
    trace = shifted_run([1000, 1010, 990], [100, 110, 90])
    (finding,) = [one for one in trace.findings if one.code == "allocation-shifted"]
    assert "from 1,000 to 100" in finding.message
    assert "the 3 steps before, and 3 timed later are left out" in finding.message
    assert trace.step_s == pytest.approx([1e-3, 1.01e-3, 1.02e-3])
    assert trace.step_faults == (1000, 1010, 990)
    assert finding.advice
    # What was watched is still held against the steps of its own round.
    assert [one.beside_faults for one in trace.watched] == [1000, 100]


def test_faults_that_watching_adds_are_a_shift_as_well():
    trace = shifted_run([10, 10, 10], [500, 500, 500])
    assert "allocation-shifted" in codes(trace)
    assert trace.step_faults == (10, 10, 10)


@pytest.mark.parametrize(
    ("first", "later", "step_s"),
    [
        ([1000] * 3, [1000] * 3, 1e-3),
        ([100] * 3, [140] * 3, 1e-6),  # few
        ([1000] * 3, [860] * 3, 1e-6),  # a small share
        ([1000] * 3, [100] * 3, 10e-3),  # 900 faults take at least 0.2 ms, under 3% of the step
        ([1000] * 3, [], 1e-3),  # nothing after the first watched step to compare with
    ],
)
def test_a_shift_that_is_small_or_costs_nothing_is_none(first, later, step_s):
    trace = shifted_run(first, later, step_s=step_s)
    assert "allocation-shifted" not in codes(trace)
    assert len(trace.step_s) == len(first) + len(later)


@pytest.mark.parametrize(("first", "told"), [([0], "1 step alone was"), ([0, 0], "2 steps alone were")])
def test_a_steps_time_is_not_that_of_one_or_two_steps_before_watching(first, told):
    trace = shifted_run(first, [352] * 6)
    (finding,) = [one for one in trace.findings if one.code == "allocation-shifted"]
    assert told in finding.message
    assert f"that of all {len(first) + 6}" in finding.message
    assert len(trace.step_s) == len(first) + 6
    # What is said of page faults is of the same steps as the time.
    assert sorted(trace.step_faults)[len(trace.step_faults) // 2] == 352


def test_warm_up_steps_tell_how_it_was_before_watching_but_for_the_first():
    # The only timed step of the first round is unlike the warm-up, whose first step alone sets memory up.
    assert "allocation-shifted" not in codes(shifted_run([900], [500] * 3, warm=[900, 500, 500, 500]))
    assert "allocation-shifted" not in codes(shifted_run([500], [500] * 3, warm=[90_000]))
    assert "allocation-shifted" in codes(shifted_run([500], [500] * 3, warm=[500, 900, 900, 900]))
    assert joined(Recorded(timed_s=[1.0], warm_faults=[9, 9, 9])).warmup_steps == 3
