"""Rows and counts are the step's ops, each once."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from hypothesis import given, settings
from made_up import VIEW, bandwidth, matmul_cost, overhead, pointwise_cost, round_machine, site, trace, traces

from boundby.bound.explain import explain_trace
from boundby.bound.split import MOST_STRETCH, _step_time
from boundby.results.counts import OpCost
from boundby.results.report import has_shares

MACHINE = round_machine()
TOTALS = ("launches", "matmul_flops", "pointwise_flops", "bytes_read", "bytes_written")


@given(traces())
@settings(max_examples=100, deadline=None)
def test_rows_hold_every_window_once(made):
    report = explain_trace(made, MACHINE)
    # All windows, less page faults that the bare step does not have.
    windows = sum(row.time_s for row in report.ops)
    assert windows <= sum(made.ops.window_s) + 1e-12
    if not sum(made.ops.faults):
        assert windows == pytest.approx(sum(made.ops.window_s), abs=1e-12)
    for rows in (report.ops, report.lines):
        assert sum(row.time_s for row in rows) == pytest.approx(windows, abs=1e-12)
        assert sum(row.calls for row in rows) == len(made.ops.site)
        assert [row.time_s for row in rows] == sorted((row.time_s for row in rows), reverse=True)
    # The shares of all rows are what ops' windows are of the step, or of windows and input where those are longer; or a
    # little more, where the bare step took a little longer than all that was seen.
    time_s, waited, _ = _step_time(made)
    inputs = waited + made.host_input_s
    inside = windows / max(windows + inputs, time_s.median)
    for rows in (report.ops, report.lines):
        shares = sum(row.share for row in rows)
        assert shares <= (1 + MOST_STRETCH) * inside + 1e-9
        assert shares >= inside - 1e-9 or not has_shares(report.reconciliation)
        assert shares <= 1.0 - report.split.input.value - report.overhead_parts.host + 1e-9


@given(traces())
@settings(max_examples=100, deadline=None)
def test_counts_are_the_sums_over_the_ops(made):
    counts = explain_trace(made, MACHINE).counts
    sites = [made.sites[index] for index in made.ops.site]
    assert counts.ops == len(sites)
    for name in TOTALS:
        total = sum(getattr(one.cost, name) for one in sites)
        assert getattr(counts, name) == total
        for groups in (counts.by_op, counts.by_phase, counts.by_module, counts.by_line):
            assert sum(getattr(group, name) for group in groups) == total
    for groups in (counts.by_op, counts.by_phase, counts.by_module, counts.by_line):
        assert sum(group.ops for group in groups) == len(sites)
        assert len({group.name for group in groups}) == len(groups)
    assert counts.recomputed_flops == sum(one.cost.matmul_flops for one in sites if one.recomputed)


@given(traces())
@settings(max_examples=50, deadline=None)
def test_a_row_is_one_op_on_one_line_in_one_module_and_phase(made):
    report = explain_trace(made, MACHINE)
    sites = [made.sites[index] for index in made.ops.site]
    calls = Counter((one.op, one.path, one.line, one.module, one.phase) for one in sites)
    assert {(row.op, row.path, row.line, row.module, row.phase): row.calls for row in report.ops} == calls
    assert {(row.path, row.line): row.calls for row in report.lines} == Counter((one.path, one.line) for one in sites)


@given(traces())
@settings(max_examples=50, deadline=None)
def test_a_report_of_any_trace_can_be_written_and_read(made):
    from boundby.results.files import decode_report

    report = explain_trace(made, MACHINE)
    assert decode_report(report.to_json().encode(), name="made up") == report


def test_sites_that_differ_only_in_shape_share_a_row():
    made = trace(
        step_s=[1e-3],
        sites=[site(matmul_cost(8, 8, 8), shapes="8x8 8x8"), site(matmul_cost(16, 16, 16), shapes="16x16 16x16")],
        windows=[2e-6, 3e-6],
    )
    (row,) = explain_trace(made, MACHINE).ops
    assert row.calls == 2
    assert row.matmul_flops == 2 * 8**3 + 2 * 16**3
    assert row.shapes == "8x8 8x8"


def test_the_floor_a_row_names_is_the_one_its_time_went_to():
    exp = pointwise_cost(1 << 12, "exp")
    made = trace(
        step_s=[1e-2],
        sites=[site(VIEW, "view", line=1), site(exp, "exp", line=2), site(matmul_cost(512, 512, 512), "mm", line=3)],
        windows=[1e-6, 2e-9 * (1 << 12) + 1e-6, 3e-3],
    )
    report = explain_trace(made, MACHINE)
    assert {row.op: row.floors.bound for row in report.ops} == {"view": "overhead", "exp": "pointwise", "mm": "matmul"}
    assert {row.line: row.floors.bound for row in report.lines} == {1: "overhead", 2: "pointwise", 3: "matmul"}


def test_a_line_that_takes_far_longer_than_all_of_its_floors_is_bound_by_none():
    """A floor of 33 us, and 24 ms: nothing says that those are overhead, or memory."""
    made = trace(step_s=[0.03], sites=[site(pointwise_cost(1 << 12, "exp"), "norm")], windows=[24e-3])
    report = explain_trace(made, MACHINE)
    assert [row.floors.bound for row in (*report.lines, *report.ops)] == ["unexplained"] * 2


def test_an_op_whose_functions_cost_was_not_measured_is_partly_modelled():
    argmin = OpCost(
        kind="reduction", bytes_read=4 << 20, bytes_written=8 << 10, function="argmin", function_elements=1 << 20
    )
    few = dataclasses.replace(argmin, bytes_read=64, bytes_written=8, function_elements=16)
    sites = [
        site(argmin, "aten.argmin"),
        site(few, "aten.argmax"),
        site(pointwise_cost(1 << 20, "exp"), "aten.exp"),
        site(pointwise_cost(1 << 20, "add"), "aten.add"),
        site(VIEW, "aten.view"),
    ]
    made = trace(step_s=[0.01], sites=sites, windows=[4e-3, 1e-6, 2.1e-3, 1e-3, 0.5e-6])
    report = explain_trace(made, MACHINE)
    # On a few elements it is overhead, whatever it computes.
    (argmin_row,) = report.partly_modelled
    assert (argmin_row.name, argmin_row.calls) == ("aten.argmin", 1)
    assert argmin_row.share == pytest.approx(next(row.share for row in report.ops if row.op == "aten.argmin"))
    assert {row.op: row.floors.bound for row in report.ops}["aten.argmin"] == "unexplained"
    assert report.counts.unmodelled == ()


@pytest.mark.parametrize(("of_floor", "above"), [(0.5, True), (0.7, False), (0.97, False), (1.5, False)])
def test_a_line_is_above_its_floor_only_beyond_the_band(of_floor, above):
    copied = OpCost(kind="copy", bytes_read=1 << 29, bytes_written=1 << 29)
    machine = round_machine()
    others = tuple(one for one in machine.ceilings if one.kind != "bandwidth")
    machine = dataclasses.replace(machine, ceilings=(*others, bandwidth("copy", 256 << 20, 10e9, spread=0.5)))
    made = trace(step_s=[1.0], sites=[site(copied)], windows=[of_floor * (1 << 30) / 10e9])
    report = explain_trace(made, machine)
    assert report.lines[0].floors.memory_s == pytest.approx((1 << 30) / 10e9)
    assert report.lines[0].floors.above is above
    assert report.ops[0].floors.above is above


@pytest.mark.parametrize(
    ("window", "gap", "above"),
    [(0.2e-6, 0.0, True), (0.2e-6, 0.8e-6, False), (1e-6, 0.0, False), (0.2e-6, float("nan"), False)],
)
def test_the_call_from_python_in_the_gap_before_is_part_of_what_overhead_is_compared_with(window, gap, above):
    made = trace(step_s=[1e-3], sites=[site(pointwise_cost(1))], windows=[window], gaps=[gap])
    assert explain_trace(made, round_machine(overhead("add", 1e-6))).lines[0].floors.above is above


def test_a_line_lists_its_costliest_ops_first():
    sites = [site(pointwise_cost(1), f"op{number}") for number in range(7)]
    made = trace(step_s=[1e-3], sites=sites, windows=[1e-6 * (1 + number) for number in range(7)])
    (line,) = explain_trace(made, MACHINE).lines
    assert line.ops == ("op6", "op5", "op4", "op3", "op2")
    assert line.calls == 7


def test_ops_without_a_cost_rule_are_named_with_their_share():
    strange = OpCost(kind="other", modelled=False)
    made = trace(
        step_s=[1e-3],
        sites=[site(strange, "strange"), site(strange, "stranger", line=2), site(VIEW, "view")],
        site_of=[0, 0, 1, 2],
        windows=[0.1e-3, 0.1e-3, 0.5e-3, 0.3e-3],
    )
    unmodelled = explain_trace(made, MACHINE).counts.unmodelled
    assert [(one.name, one.calls) for one in unmodelled] == [("stranger", 1), ("strange", 2)]
    assert [one.share for one in unmodelled] == pytest.approx([0.5, 0.2])


def test_without_ops_there_are_no_rows_and_nothing_is_counted():
    made = dataclasses.replace(trace(step_s=[1e-3]), saved_bytes=64)
    report = explain_trace(made, MACHINE)
    assert report.ops == report.lines == ()
    assert report.counts.ops == 0
    assert report.counts.saved_bytes == 64
    assert report.verdict.bound == "unknown"
