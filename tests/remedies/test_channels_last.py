"""Channels last: convolutions told from their bytes and FLOPs, predicted by probes, and turned in a trial."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_rows import FixedProbe, applied, bare_row, evidence_of, filled_report

from boundby.remedies import channels_last
from boundby.remedies.contract import CannotTell, NotApplicable
from boundby.remedies.probing import TurnsProbe
from boundby.results.remedy import Predicted


def convolution(image, weight, results, share, *, flops, phase="forward", calls=1):
    elements = torch.Size(image).numel() + torch.Size(weight).numel()
    shapes = " ".join("x".join(map(str, one)) for one in (image, weight))
    op = "convolution_backward" if phase == "backward" else "convolution"
    made = bare_row(op, shapes, share, phase=phase, calls=calls, flops=flops * calls)
    written = 4 * torch.Size(results).numel() * calls
    return dataclasses.replace(made, bytes_read=4 * elements * calls, bytes_written=written)


def real(batch, channels, outputs, size, taps, stride, padding, transposed=False):
    kind = torch.nn.ConvTranspose2d if transposed else torch.nn.Conv2d
    module = kind(channels, outputs, taps, stride=stride, padding=padding, bias=False).to("meta")
    image = torch.empty(batch, channels, size, size, device="meta")
    result = module(image)
    per_place = module.weight[0].numel()
    flops = 2 * per_place * (image.numel() if transposed else result.numel())
    return tuple(image.shape), tuple(module.weight.shape), tuple(result.shape), flops


@settings(deadline=None)  # the first call loads code
@given(
    st.integers(1, 3), st.integers(1, 5), st.integers(1, 5), st.integers(6, 20), st.integers(1, 5),
    st.integers(1, 3), st.integers(0, 2), st.booleans(), st.integers(1, 4),
)  # fmt: skip
def test_any_convolution_is_told_from_its_row(batch, channels, outputs, size, taps, stride, padding, transposed, calls):
    padding = min(padding, taps - 1)
    image, weight, result, flops = real(batch, channels, outputs, size, taps, stride, padding, transposed)
    found = channels_last.convolution_of(convolution(image, weight, result, 0.5, flops=flops, calls=calls))
    assert found is not None
    run = torch.nn.functional.conv_transpose2d if found.transposed else torch.nn.functional.conv2d
    tensors = [torch.empty(one, device="meta") for one in (found.image, found.weight)]
    again = run(*tensors, stride=found.stride, padding=found.padding, groups=found.groups)
    assert again.numel() == torch.Size(result).numel()


def test_a_row_that_no_convolution_explains(sample_report):
    strange = convolution((2, 3, 8, 8), (4, 3, 3, 3), (2, 4, 8, 8), 0.9, flops=17)
    assert channels_last.convolution_of(strange) is None
    found = channels_last.predict(evidence_of(filled_report(sample_report("memory"), [strange]), probe=FixedProbe(0.5)))
    assert isinstance(found, CannotTell)


@pytest.fixture
def training(sample_report):
    image, weight, result, flops = real(2, 3, 4, 8, 3, 1, 1)
    rows = [
        convolution(image, weight, result, 0.3, flops=flops),
        convolution(image, weight, result, 0.5, flops=2 * flops, phase="backward"),
    ]
    return lambda **more: evidence_of(filled_report(sample_report("memory"), rows), **more)


def test_the_probe_s_ratio_is_applied_to_all_convolutions(training):
    found = channels_last.predict(training(probe=FixedProbe(0.5)))
    assert isinstance(found, Predicted)
    assert found.speedup == pytest.approx(1 / 0.6, rel=0.05)
    slower = channels_last.predict(training(probe=FixedProbe(1.5)))
    assert slower.high < 1.0


def test_real_probes_run_forward_and_backward(training):
    found = channels_last.predict(training(probe=TurnsProbe(budget_s=0.02)))
    assert isinstance(found, (Predicted, CannotTell))


def test_pooling_and_norms_are_probed_beside(sample_report):
    image, weight, result, flops = real(2, 3, 4, 8, 3, 1, 1)
    pool = dataclasses.replace(bare_row("max_pool2d_with_indices", "2x4x8x8", 0.2), bytes_written=12 * 2 * 4 * 16)
    norm = bare_row("native_batch_norm", "2x4x8x8 4 4 4 4", 0.2)
    rows = [convolution(image, weight, result, 0.3, flops=flops), pool, norm]
    probe = FixedProbe(0.5)
    found = channels_last.predict(evidence_of(filled_report(sample_report("memory"), rows), probe=probe))
    assert probe.calls == 3
    assert found.speedup == pytest.approx(1 / 0.65, rel=0.05)


def test_without_convolutions_it_does_not_apply(sample_report):
    report = filled_report(sample_report("memory"), [bare_row("mm", "8x8 8x8", 0.9)])
    assert isinstance(channels_last.predict(evidence_of(report, probe=FixedProbe(1.0))), NotApplicable)


def test_without_a_probe_it_cannot_be_told(training):
    assert isinstance(channels_last.predict(training()), CannotTell)


SCRIPT = """
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU())
other = torch.nn.Linear(4, 4)
x = torch.randn(2, 3, 8, 8)
y = model(x)
other(torch.ones(2, 4))
y.sum().backward()
found["weights"] = model[0].weight.is_contiguous(memory_format=torch.channels_last)
found["results"] = y.is_contiguous(memory_format=torch.channels_last)
found["the input"] = x.is_contiguous()
"""


def test_modules_with_convolutions_are_turned_and_others_left():
    found = applied("channels_last", SCRIPT)
    assert found["seen"] == {"module in channels-last format": 1}
    assert found["weights"]
    assert found["results"]
    assert found["the input"]
