"""No prediction promises more of a step than was seen of what it changes."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_rows import STEP_S, FixedProbe, bare_row, evidence_of, filled_report, optimizer

from boundby.remedies import bf16_autocast, bf16_weights, fused_optimizer, int8_weights, matmul_precision
from boundby.remedies.contract import NotApplicable
from boundby.remedies.in_step import SLACK, explained_s, savable_s
from boundby.results.remedy import Predicted
from boundby.results.report import Floors


def with_floors(found, *, overhead_s=0.0, memory_s=0.0, pointwise_s=0.0):
    floors = Floors(
        overhead_s=overhead_s, memory_s=memory_s, matmul_s=0.0, pointwise_s=pointwise_s, bound=found.floors.bound
    )
    return dataclasses.replace(found, floors=floors)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp64"])
def test_products_in_another_precision_than_fp32_are_left_alone(sample_report, dtype):
    product = dataclasses.replace(bare_row("mm", "64x512 512x512", 0.9, flops=10**8), dtype=dtype)
    report = filled_report(sample_report("memory"), [product], kind="inference")
    for remedy in (bf16_autocast, matmul_precision, bf16_weights, int8_weights):
        assert isinstance(remedy.predict(evidence_of(report, probe=FixedProbe(0.5))), NotApplicable)


def test_stepping_takes_no_more_of_a_step_than_optimizer_and_host_code_do(sample_report):
    """The probe says 40 ms, of a step in which the optimizer's ops take 5 ms and host code 5 ms of 100."""
    rows = [bare_row("addcdiv_", "512x512", 0.05, phase="optimizer"), bare_row("mm", "64x512 512x512", 0.9)]
    report = filled_report(sample_report("overhead"), rows)
    report = dataclasses.replace(report, overhead_parts=dataclasses.replace(report.overhead_parts, host=0.05))
    evidence = evidence_of(report, probe=FixedProbe(0.1, base_s=0.04), optimizers=(optimizer("AdamW", (512, 512)),))
    found = fused_optimizer.predict(evidence)
    assert isinstance(found, Predicted)
    assert found.speedup == pytest.approx(1 / (1 - 0.1 * 0.9))


def test_fusing_saves_starting_ops_and_explained_work_and_nothing_of_products(sample_report):
    plain = with_floors(bare_row("mul", "64x512", 0.5), memory_s=0.01, overhead_s=0.002)
    product = with_floors(bare_row("mm", "64x512 512x512", 0.4, flops=10**8), memory_s=0.01, overhead_s=0.001)
    report = dataclasses.replace(filled_report(sample_report("memory"), [plain, product]), page_faults=None)
    assert explained_s(report, plain) == pytest.approx(SLACK * 0.01)
    assert savable_s(report, [plain, product]) == pytest.approx(SLACK * (0.012 + 0.001))


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_no_more_is_savable_than_is_spent(sample_report, share, overhead_s, memory_s, pointwise_s):
    one = with_floors(
        bare_row("mul", "64x512", share), overhead_s=overhead_s, memory_s=memory_s, pointwise_s=pointwise_s
    )
    report = filled_report(sample_report("memory"), [one])
    assert 0.0 <= savable_s(report, [one]) <= share * STEP_S * (1 + 1e-9)
