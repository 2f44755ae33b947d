"""Attention by hand is told by its rows, whatever stands between the products, and its gain comes from a probe."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from made_up_rows import FixedProbe, applied, bare_row, evidence_of, filled_report

from boundby.remedies import sdpa
from boundby.remedies.contract import CannotTell, NotApplicable
from boundby.remedies.probing import TurnsProbe
from boundby.results.remedy import Predicted

WEIGHTS = "4x2x32x32"


def at(line, made, code=None):
    return dataclasses.replace(made, line=line, code=code)


def by_hand(module="net.attn", *, code="scores.masked_fill(causal, -inf)"):
    return (
        at(10, bare_row("bmm", "8x32x16 8x16x32", 0.1, module=module)),
        at(10, bare_row("div", WEIGHTS, 0.05, module=module)),
        at(11, bare_row("masked_fill", f"{WEIGHTS} 32x32", 0.05, module=module), code),
        at(12, bare_row("_softmax", WEIGHTS, 0.1, module=module)),
        at(13, bare_row("bmm", "8x32x32 8x32x16", 0.1, module=module)),
        at(13, bare_row("bmm", "8x32x16 8x16x32", 0.1, module=module, phase="backward")),
        at(12, bare_row("_softmax_backward_data", f"{WEIGHTS} {WEIGHTS}", 0.1, module=module, phase="backward")),
    )


def test_all_rows_of_the_attention_change_and_no_others(sample_report):
    rows = (
        *by_hand(),
        at(13, bare_row("addmm", "16 128x16 16x16", 0.2, module="net.attn")),
        bare_row("relu", "4x4", 0.1),
    )
    evidence = evidence_of(filled_report(sample_report("memory"), rows), probe=FixedProbe(0.5))
    (found,) = sdpa.attentions(evidence.report)
    assert {one.op for one in found.rows} == {one.op for one in by_hand()}
    assert (found.weights, found.width, found.masked, found.causal) == ((4, 2, 32, 32), 16, True, True)
    predicted = sdpa.predict(evidence)
    assert isinstance(predicted, Predicted)
    # 60% of the step in half of its time.
    assert predicted.low <= 1 / 0.7 <= predicted.high
    assert predicted.change == "train.py:12: F.scaled_dot_product_attention(q, k, v, is_causal=True) if it is that"
    assert not predicted.from_outside


def test_the_same_lines_in_many_layers_are_one_attention(sample_report):
    rows = [dataclasses.replace(one, share=0.04) for name in ("a.0", "a.1", "a.2") for one in by_hand(name)]
    (found,) = sdpa.attentions(filled_report(sample_report("memory"), rows))
    assert len(found.rows) == 3 * len(by_hand())


@pytest.mark.parametrize("missing", [0, 3, 4])
def test_without_both_products_and_the_softmax_it_is_none(sample_report, missing):
    rows = [one for index, one in enumerate(by_hand()) if index != missing]
    evidence = evidence_of(filled_report(sample_report("memory"), rows), probe=FixedProbe(0.5))
    assert isinstance(sdpa.predict(evidence), NotApplicable)


def test_a_softmax_over_classes_beside_products_is_none(sample_report):
    rows = [
        at(10, bare_row("addmm", "10 64x32 32x10", 0.3)),
        at(11, bare_row("_softmax", "64x10", 0.3)),
        at(12, bare_row("bmm", "4x8x8 4x8x8", 0.3)),
    ]
    assert sdpa.attentions(filled_report(sample_report("memory"), rows)) == ()


def test_without_a_probe_it_cannot_be_told(sample_report):
    assert isinstance(sdpa.predict(evidence_of(filled_report(sample_report("memory"), by_hand()))), CannotTell)


@pytest.mark.parametrize(
    ("dtypes", "probed"),
    [
        (("bf16", "bf16"), "bfloat16"),
        (("fp64", "fp64"), "float64"),
        ((None, "fp32"), "float32"),
        (("fp32", "bf16"), None),
        (("int8", "int8"), None),
    ],
)
def test_the_probe_has_the_dtype_of_the_products(sample_report, monkeypatch, dtypes, probed):
    seen = []
    plain = sdpa.timed_call
    monkeypatch.setattr(
        sdpa, "timed_call", lambda replay, names, **options: seen.append(names) or plain(replay, names, **options)
    )
    rows = [dataclasses.replace(one, dtype=dtypes[one.line == 13]) for one in by_hand()]
    told = sdpa.predict(evidence_of(filled_report(sample_report("memory"), rows), probe=FixedProbe(0.5)))
    assert seen == ([] if probed is None else [(probed,) * 3] * 2)
    assert isinstance(told, CannotTell if probed is None else Predicted)


def test_lines_of_installed_code_are_none_to_change(sample_report):
    rows = [dataclasses.replace(one, path="/lib/python3/site-packages/x/net.py") for one in by_hand()]
    assert sdpa.attentions(filled_report(sample_report("memory"), rows)) == ()


@pytest.mark.parametrize(("masked", "causal"), [(False, False), (True, True), (True, False)])
def test_the_probe_computes_the_same_both_ways(masked, causal):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, 8, 4, generator=generator) for _ in range(3))
    options = {"masked": masked, "causal": causal, "dropout": 0.0}
    assert torch.allclose(sdpa._by_hand(q, k, v, **options), sdpa._in_one_kernel(q, k, v, **options), atol=1e-6)


def test_a_real_attention_of_many_tokens_gains(sample_report):
    rows = [
        dataclasses.replace(one, shapes=one.shapes.replace("32x32", "384x384").replace("32x16", "384x16"))
        for one in by_hand()
    ]
    rows[0] = dataclasses.replace(rows[0], shapes="8x384x16 8x16x384")
    evidence = evidence_of(filled_report(sample_report("memory"), rows), probe=TurnsProbe(budget_s=0.2))
    assert math.prod(sdpa.attentions(evidence.report)[0].weights) == 4 * 2 * 384 * 384
    predicted = sdpa.predict(evidence)
    # On a machine that is not quiet the probe says that it cannot tell; never that it would be slower.
    assert isinstance(predicted, CannotTell) or predicted.speedup > 1.0


def test_nothing_is_applied_from_outside():
    found = applied("sdpa", "")
    assert found["seen"] == {}
    assert "source lines" in found["refused"][0]
