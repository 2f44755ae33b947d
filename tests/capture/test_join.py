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
from boundby.capture.calibrate import WatchCost
from boundby.capture.join import build_trace
from boundby.capture.lean import LeanStep
from boundby.capture.profiled import ProfiledStep
from boundby.capture.recorder import Recorded
from boundby.capture.usage import NO_USAGE, StepUsage
from boundby.results.counts import OpCost

US = 1000
NO_COST = WatchCost(hot_call_s=None, mixed_call_s=None, mixed_names=1, per_op_s=None)


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
    """The trace; ``cost`` may be that of a lean watcher alone. Steps whose input, usage or round is not told had none."""
    if not isinstance(cost, WatchCost):
        cost = dataclasses.replace(NO_COST, per_op_s=cost)
    for column, nothing in ((kept.input_s, 0.0), (kept.usage, NO_USAGE), (kept.turns, 0)):
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
