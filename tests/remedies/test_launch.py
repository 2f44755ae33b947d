"""Launches: predicted from their number and cost on a made-up device; nothing to save on a CPU."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from made_up_rows import applied

from boundby.remedies import launch
from boundby.remedies.contract import CannotTell, Evidence, NotApplicable
from boundby.results.interval import interval
from boundby.results.machine import Ceiling
from boundby.results.remedy import Predicted, ScriptFacts


def cost(name, value):
    return Ceiling(kind="launch", name=name, value=value, low=0.9 * value, high=1.1 * value, unit="s")


BOTH = (cost("back_to_back", 5e-6), cost("graph_kernel", 1e-6))


@pytest.fixture
def evidence(sample_report):
    def make(*, launches=1000, overhead=0.6, device="cuda", ceilings=BOTH, step_s=0.01, **facts):
        report = sample_report("overhead")
        time = dataclasses.replace(report.step.time_s, median=step_s)
        machine = dataclasses.replace(report.machine, ceilings=(*report.machine.ceilings, *ceilings))
        report = dataclasses.replace(
            report,
            machine=machine,
            step=dataclasses.replace(report.step, device=device, time_s=time),
            counts=dataclasses.replace(report.counts, launches=launches),
            split=dataclasses.replace(report.split, overhead=interval(overhead, 0.9 * overhead, 1.1 * overhead)),
        )
        return Evidence(report=report, machine=machine, facts=ScriptFacts(**facts))

    return make


def test_launches_times_what_one_costs_beyond_a_replay(evidence):
    found = launch.predict(evidence())
    assert isinstance(found, Predicted)
    # 1,000 launches at 5 us less 1 us, of 10 ms.
    assert found.speedup == pytest.approx(10 / 6)
    assert found.low < found.speedup <= found.high
    assert "1,000 launches" in found.reason


def test_where_the_device_is_busy_launches_hide_behind_it(evidence):
    found = launch.predict(evidence(overhead=0.05))
    assert found.speedup == pytest.approx(1 / 0.95)
    assert found.high < 1.07


def test_a_step_is_never_quicker_than_its_replay(evidence):
    found = launch.predict(evidence(launches=9000, overhead=0.95))
    assert found.speedup == pytest.approx(0.01 / (9000 * 1e-6))
    assert found.high == pytest.approx(0.01 / (9000 * 0.9e-6))


@pytest.mark.parametrize("case", [{"device": "cpu"}, {"ceilings": (cost("back_to_back", 5e-6),)}, {"compiled": True}])
def test_where_it_does_not_apply(evidence, case):
    assert isinstance(launch.predict(evidence(**case)), NotApplicable)


@pytest.mark.parametrize("case", [{"ceilings": ()}, {"launches": 0}])
def test_what_cannot_be_told(evidence, case):
    assert isinstance(launch.predict(evidence(**case)), CannotTell)


def test_without_a_device_nothing_is_changed():
    found = applied("launch", "found['same'] = torch.nn.Linear(2, 2)(torch.ones(1, 2)).shape[1] == 2")
    assert found["same"]
    if not torch.cuda.is_available():
        assert found["refused"] == ["there is no device with launches to save"]
