"""Waits for input that a few steps have for many."""

from __future__ import annotations

import pytest
from made_up import round_machine, trace

from boundby.bound.explain import explain_trace


def waiting(*waits: float):
    steps = tuple(0.010 + wait for wait in waits)
    return trace(step_s=steps, input_s=waits, step_faults=(0,) * len(waits))


def test_waits_in_bursts_count_by_their_mean():
    report = explain_trace(waiting(*[0.0, 0.0, 0.0, 0.160] * 5), round_machine())
    assert report.step.time_s.median == pytest.approx(0.050)
    assert report.split.input.value == pytest.approx(0.8)
    assert "input-bursty" in {one.code for one in report.findings}


def test_a_single_mishap_is_no_burst():
    report = explain_trace(waiting(*[0.0] * 19, 1.0), round_machine())
    assert report.step.time_s.median == pytest.approx(0.010)
    assert report.split.input.value == 0.0


def test_even_waits_count_by_their_median():
    report = explain_trace(waiting(*[0.030] * 9), round_machine())
    assert report.step.time_s.median == pytest.approx(0.040)
    assert report.split.input.value == pytest.approx(0.75)
    assert "input-bursty" not in {one.code for one in report.findings}
