"""The allocator's remedy: predicted from the page faults that were counted, seen to be set in the trial."""

from __future__ import annotations

import dataclasses

import pytest

from boundby.remedies import allocator
from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable
from boundby.results.remedy import Predicted, ScriptFacts
from boundby.results.report import OverheadParts, PageFaults


@pytest.fixture
def evidence(sample_report):
    def make(faults: PageFaults | None, allocation: float = 0.8) -> Evidence:
        parts = OverheadParts(dispatch=0.0, host=0.0, allocation=allocation)
        report = dataclasses.replace(sample_report("memory"), page_faults=faults, overhead_parts=parts)
        return Evidence(report=report, machine=report.machine, facts=ScriptFacts())

    return make


@pytest.fixture(autouse=True)
def a_plain_glibc(monkeypatch):
    monkeypatch.setattr("platform.libc_ver", lambda: ("glibc", "2.36"))
    for name in (*allocator.ENVIRONMENT, "GLIBC_TUNABLES", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)


def test_the_step_loses_its_page_faults(evidence, sample_report):
    step = sample_report("memory").step.time_s.median
    half = PageFaults(per_step=10_000, seconds_each=step / 20_000, time_s=step / 2)
    found = allocator.predict(evidence(half))
    assert isinstance(found, Predicted)
    assert found.speedup == pytest.approx(2.0)
    assert found.low < 2.0 < found.high
    assert "10,000 page faults" in found.reason


def test_no_more_is_saved_than_the_split_has_for_fresh_memory(evidence, sample_report):
    step = sample_report("memory").step.time_s.median
    dear = PageFaults(per_step=10_000, seconds_each=step / 5_000, time_s=2 * step)
    found = allocator.predict(evidence(dear, allocation=0.5))
    assert found.speedup == pytest.approx(2.0)
    # Faults that were in no op's window are among what nothing explains.
    unexplained = sample_report("memory").split.unexplained.value
    assert found.high == pytest.approx(1 / (0.5 - unexplained))


@pytest.mark.parametrize("faults", [None, PageFaults(per_step=3, seconds_each=1e-6, time_s=3e-6)])
def test_a_step_without_page_faults_gains_nothing(evidence, faults):
    assert isinstance(allocator.predict(evidence(faults)), NotApplicable)


def test_faults_of_unknown_cost_cannot_be_predicted(evidence):
    unknown = PageFaults(per_step=10_000, seconds_each=None, time_s=None)
    assert isinstance(allocator.predict(evidence(unknown)), CannotTell)


@pytest.mark.parametrize("name", ["MALLOC_MMAP_THRESHOLD_", "LD_PRELOAD"])
def test_an_allocator_that_was_chosen_is_left_alone(evidence, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    many = PageFaults(per_step=10_000, seconds_each=1e-6, time_s=1e-2)
    assert isinstance(allocator.predict(evidence(many)), NotApplicable)


def test_another_c_library_has_no_such_thresholds(evidence, monkeypatch):
    monkeypatch.setattr("platform.libc_ver", lambda: ("musl", "1.2"))
    many = PageFaults(per_step=10_000, seconds_each=1e-6, time_s=1e-2)
    assert isinstance(allocator.predict(evidence(many)), NotApplicable)


def test_the_trial_sees_whether_it_was_told(monkeypatch):
    effects = Effects()
    allocator.apply(effects)
    assert not effects.took_effect
    for name, value in allocator.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    allocator.apply(effects)
    assert effects.took_effect
