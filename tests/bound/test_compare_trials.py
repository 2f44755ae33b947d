"""Trials of two reports side by side: what each remedy did, and whether that differs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up import pointwise_cost, round_machine, site, trace, watched

from boundby.bound.compare import compare_reports
from boundby.bound.compare_trials import compare_trials
from boundby.bound.explain import explain_trace
from boundby.report.compare_page import render_comparison
from boundby.results.comparison import ReportComparison
from boundby.results.remedy import Measured, Remedy
from boundby.results.report import Report


def tried(name: str, speedup: float, *, spread: float = 0.02) -> Remedy:
    measured = Measured(
        speedup=speedup,
        low=speedup * (1 - spread),
        high=speedup * (1 + spread),
        floor=0.01,
        turns=10,
        steps_per_turn=3,
        base_step_s=0.01,
        step_s=0.01 / speedup,
        base_start_s=1.0,
        start_s=1.0,
    )
    return Remedy(name=name, measured=measured, advice="do" if speedup > 1.05 else "skip")


def report(*remedies: Remedy) -> Report:
    sites = (site(pointwise_cost(256), "aten.add.Tensor", line=10, code="x = x + 1"),)
    made = trace(step_s=[1e-3] * 20, sites=sites, windows=[1e-3], watched=(watched(1e-3, 1e-3),) * 2)
    return replace(explain_trace(made, round_machine()), remedies=remedies)


BEFORE = report(tried("fused", 1.2), tried("compile", 2.0), tried("gone", 1.1), Remedy(name="x"))
AFTER = report(
    tried("compile", 1.4), tried("fused", 1.21), Remedy(name="gone", failed="the script ended"), tried("new", 1.0)
)


def compared(a: Report, b: Report) -> ReportComparison:
    return compare_reports(a, b, name_a="a.json", name_b="b.json")


def test_each_remedy_that_was_measured_is_compared() -> None:
    found = {one.name: one for one in compare_trials(BEFORE, AFTER)}
    assert list(found) == ["compile", "fused", "gone", "new"]
    assert {name: one.differs for name, one in found.items()} == {
        "compile": True,
        "fused": False,
        "gone": None,
        "new": None,
    }
    assert found["gone"].b is None
    assert found["new"].a is None
    assert (found["new"].advice_a, found["new"].advice_b) == (None, "skip")


def test_reports_without_trials_have_none() -> None:
    assert compared(report(), report()).trials == ()


def test_trials_of_other_machines_are_compared_only_where_that_is_asked_for() -> None:
    machine = replace(AFTER.machine, description=replace(AFTER.machine.description, cpu="Z80"))
    other = replace(AFTER, machine=machine)
    assert compared(BEFORE, other).trials == ()
    asked = compare_reports(BEFORE, other, name_a="a", name_b="b", across_machines=True)
    assert len(asked.trials) == 4


@pytest.mark.parametrize("width", [40, 80])
def test_trials_are_shown(width: int) -> None:
    text = render_comparison(compared(BEFORE, AFTER), width=width, color=False, unicode=True)
    told = " ".join(text.split())
    assert "What remedies did" in told
    assert max(map(len, text.splitlines())) <= width
    if width == 80:
        assert "compile 2.00x (1.96-2.04x) 1.40x (1.37-1.43x) differs" in told
        assert "gone 1.10x (1.08-1.12x) not tried tried in one only" in told


def test_trials_that_were_unclear_are_no_results() -> None:
    def unclear(low: float, high: float) -> Report:
        one = tried("workers-0", 0.93)
        return report(replace(one, measured=replace(one.measured, low=low, high=high)))

    text = render_comparison(compared(unclear(0.0, 295.0), AFTER), width=80, color=False, unicode=True)
    assert "workers-0 unclear (0.00-295x) not tried tried in one only" in " ".join(text.split())
    both = render_comparison(compared(unclear(0.0, 295.0), unclear(0.5, 2.0)), width=80, color=False, unicode=True)
    assert "unclear (0.00-295x) unclear (0.50-2.00x) cannot be told" in " ".join(both.split())
