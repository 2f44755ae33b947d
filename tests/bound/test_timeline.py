"""One step along time: order, sums and the number of stretches, whatever the trace."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest
from hypothesis import given
from made_up import VIEW, description, site, trace, traces

from boundby.bound.explain import explain_trace
from boundby.bound.timeline import MOST_SPANS, timeline
from boundby.results.machine import Machine
from boundby.results.trace import OpSite, Trace

US = 1e-6


def spans_of(made: Trace) -> list[tuple[str, str | None, int]]:
    return [(one.phase, one.module, one.ops) for one in timeline(made)]


def sites(*names: tuple[str, str | None]) -> list[OpSite]:
    return [site(VIEW, f"aten.op{place}", module=module, phase=phase) for place, (phase, module) in enumerate(names)]


@given(traces(most=40))
def test_stretches_follow_one_another_and_hold_every_op_once(made: Trace) -> None:
    spans = timeline(made)
    assert len(spans) <= MOST_SPANS
    assert made.ops is not None
    if not spans:
        return
    reached = 0.0
    for one in spans:
        assert one.start_s == pytest.approx(reached)
        assert one.time_s >= 0
        assert one.op_s <= one.time_s * (1 + 1e-9) + 1e-12
        assert (one.phase == "gap") == (one.ops == 0)
        reached = one.start_s + one.time_s
    assert sum(one.ops for one in spans) == len(made.ops.site)
    assert sum(one.op_s for one in spans) == pytest.approx(sum(made.ops.window_s))
    assert reached <= sum(made.ops.window_s) + sum(max(0.0, gap) for gap in made.ops.gap_s) + made.ops.tail_s + 1e-9


def test_ops_of_a_phase_and_module_are_one_stretch_and_long_pauses_their_own() -> None:
    made = trace(
        sites=sites(("forward", "net.0"), ("forward", "net.1"), ("backward", "net.1"), ("optimizer", None)),
        site_of=[0, 0, 1, 2, 3],
        windows=[10 * US, 10 * US, 20 * US, 40 * US, 5 * US],
        gaps=[0.0, 0.1 * US, 0.1 * US, 30 * US, 0.0],
        tail_s=20 * US,
    )
    assert spans_of(made) == [
        ("forward", "net.0", 2),
        ("forward", "net.1", 1),
        ("gap", None, 0),
        ("backward", "net.1", 1),
        ("optimizer", None, 1),
        ("gap", None, 0),
    ]
    pause = timeline(made)[2]
    assert (pause.time_s, pause.op_s) == (pytest.approx(30 * US), 0.0)


def test_of_too_many_modules_the_beginnings_of_their_paths_are_told() -> None:
    names = [("forward", f"net.{block // 100}.{block}.part") for block in range(1000)]
    found = spans_of(trace(sites=sites(*names), site_of=list(range(1000)), windows=[US] * 1000))
    assert found == [("forward", f"net.{group}", 100) for group in range(10)]


def test_phases_that_take_turns_all_the_time_are_told_by_the_larger_part() -> None:
    pairs = [0, 1] * 5000
    made = trace(sites=sites(("forward", "net"), ("backward", "net")), site_of=pairs, windows=[3 * US, US] * 5000)
    found = timeline(made)
    assert {one.phase for one in found} == {"forward"}
    assert sum(one.ops for one in found) == 10_000


def test_nothing_is_told_of_times_that_are_not_known() -> None:
    made = trace(sites=sites(("forward", "net")), site_of=[0, 0], windows=[US, US])
    assert made.ops is not None
    assert timeline(replace(made, ops=None)) == ()
    assert timeline(replace(made, ops=replace(made.ops, gap_s=array("d", [0.0, float("nan")])))) == ()
    assert timeline(replace(made, ops=replace(made.ops, window_s=array("d", [0.0, 0.0])))) == ()


def test_a_report_has_one_where_its_ops_ran_on_the_processor() -> None:
    made = trace(step_s=[3 * US], sites=sites(("forward", "net")), site_of=[0, 0], windows=[US, US])
    machine = Machine(description=description(), ceilings=())
    assert [one.ops for one in explain_trace(made, machine).timeline] == [2]
    assert explain_trace(replace(made, device="cuda"), machine).timeline == ()
