"""Autocast: predicted by the script's own products and what follows them, applied to outermost module calls."""

from __future__ import annotations

import pytest
import torch
import torch.utils.flop_counter
from made_up_rows import FixedProbe, applied, bare_row, evidence_of, filled_report

from boundby.remedies import bf16_autocast
from boundby.remedies.contract import CannotTell, Effects, NotApplicable
from boundby.remedies.probing import TurnsProbe
from boundby.results.machine import Ceiling
from boundby.results.remedy import Predicted

ROWS = (
    bare_row("addmm", "64 256x128 128x64", 0.2, flops=2 * 256 * 128 * 64),
    bare_row("mm", "64x256 256x128", 0.3, phase="backward", calls=2),
    bare_row("relu", "256x64", 0.1),
    bare_row("threshold_backward", "256x64 256x64", 0.1, phase="backward"),
    bare_row("addcdiv_", "128x64 128x64", 0.2, phase="optimizer"),
)


@pytest.fixture
def evidence(sample_report):
    def make(rows=ROWS, **more):
        return evidence_of(filled_report(sample_report("overhead"), rows), **more)

    return make


def test_products_and_what_follows_them_change_and_the_rest_stays(evidence):
    probe = FixedProbe(0.5)
    found = bf16_autocast.predict(evidence(probe=probe))
    assert isinstance(found, Predicted)
    assert probe.calls == 2  # the linear layer and the ReLU, forward and backward
    assert found.speedup == pytest.approx(1 / (1 - 0.7 / 2))
    assert found.low < found.speedup < found.high
    assert found.changes_numbers


def test_many_products_of_unlike_shapes_are_not_probed_by_the_first(evidence):
    # A recurrent layer's line: the first product has all samples, later ones fewer; a layer's loop has a few of each.
    varied = bare_row("addmm", "64 256x128 128x64", 0.2, calls=40, flops=40 * 2 * 32 * 128 * 64)
    assert isinstance(bf16_autocast.predict(evidence((varied, *ROWS[1:]), probe=FixedProbe(0.5))), CannotTell)
    few = bare_row("addmm", "64 256x128 128x64", 0.2, calls=3, flops=3 * 2 * 32 * 128 * 64)
    assert isinstance(bf16_autocast.predict(evidence((few, *ROWS[1:]), probe=FixedProbe(0.5))), Predicted)


def test_what_casts_add_to_short_products_is_added_whole(evidence):
    # Each call takes longer in the probe than in the step, being mostly its start: 50 us more for each of 400.
    rows = (bare_row("mm", "4x16 16x16", 0.1, calls=400, flops=400 * 2048),)
    found = bf16_autocast.predict(evidence(rows, probe=FixedProbe(1.5, base_s=1e-4)))
    assert isinstance(found, Predicted)
    assert found.speedup == pytest.approx(0.1 / (0.1 + 400 * 50e-6), rel=1e-6)
    assert found.high < 1.0


@pytest.mark.parametrize(
    ("rows", "facts", "kind"),
    [
        ((bare_row("add", "256x64 256x64", 0.9),), {}, NotApplicable),
        (ROWS, {"autocast": True}, NotApplicable),
        (ROWS, {"probe": None}, CannotTell),
        ((*ROWS[2:], bare_row("convolution", "2x6x9x9 4x5x3x3", 0.3, flops=9)), {}, CannotTell),
        ((*ROWS[:1], bare_row("mkldnn_rnn_layer", "8x4x16 64x16", 0.5, flops=9)), {}, CannotTell),
        (ROWS, {"probe": FixedProbe(1.0, spread=0.6)}, CannotTell),
    ],
)
def test_where_it_does_not_apply_or_cannot_be_told(evidence, rows, facts, kind):
    assert isinstance(bf16_autocast.predict(evidence(rows, **{"probe": FixedProbe(0.5), **facts})), kind)


def test_a_dtype_without_hardware_is_probed_with_little_work(evidence):
    def ceiling(dtype: str, rate: float) -> Ceiling:
        return Ceiling(
            kind="matmul", name="mm", dtype=dtype, shape=(1, 8, 8, 8), value=rate, low=rate, high=rate, unit="flop/s"
        )

    work = []

    class Notes(FixedProbe):
        def __call__(self, base, changed, *, budget_s=None):
            with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
                base()
            work.append(counter.get_total_flops())
            return super().__call__(base, changed, budget_s=budget_s)

    rows = (bare_row("mm", "4096x512 512x512", 0.9, flops=2 * 4096 * 512 * 512),)
    for ceilings in ((), (ceiling("fp32", 100e9), ceiling("bf16", 4e9))):
        bf16_autocast.predict(evidence(rows, probe=Notes(1.0), ceilings=ceilings))
    assert work[1] < work[0] / 4


def test_the_scripts_own_products_of_every_sort_are_made_again(evidence):
    rows = (
        bare_row("addmm", "8 32x16 16x8", 0.1, flops=2 * 32 * 16 * 8),
        bare_row("bmm", "4x8x16 4x16x8", 0.1, flops=2 * 4 * 8 * 16 * 8),
        bare_row("convolution", "2x6x9x9 4x3x3x3 4", 0.1, flops=2 * 2 * 25 * 4 * 27),
        bare_row("_scaled_dot_product_flash_attention_for_cpu", "1x2x8x8 1x2x8x8 1x2x8x8", 0.1, flops=4096),
        bare_row("gelu", "64x128", 0.1),
        bare_row("_softmax", "64x128", 0.1),
        bare_row("max_pool2d_with_indices", "4x8x16x16", 0.1),
        bare_row("mm", "64x256 256x128", 0.1, phase="backward"),
    )
    found = bf16_autocast.predict(evidence(rows, probe=TurnsProbe(budget_s=0.01)))
    assert isinstance(found, Predicted | CannotTell)  # undecided where the machine is busy
    if isinstance(found, CannotTell):
        assert "not quiet" in found.reason


def test_applied_only_outermost_calls_are_cast_and_the_scripts_own_choice_is_left():
    found = applied(
        "bf16_autocast",
        """
        net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
        found["dtype"] = str(net(torch.ones(2, 8)).dtype)
        found["outside"] = str(torch.nn.functional.linear(torch.ones(2, 8), torch.ones(8, 8)).dtype)
        with torch.autocast("cpu", dtype=torch.float16):
            found["own"] = str(net(torch.ones(2, 8)).dtype)
        net(torch.ones(2, 8)).sum().backward()
        found["grad"] = str(net[0].weight.grad.dtype)
        """,
    )
    assert (found["dtype"], found["outside"], found["own"]) == ("torch.bfloat16", "torch.float32", "torch.float16")
    assert found["grad"] == "torch.float32"
    assert found["seen"] == {"forward pass under autocast": 2}


def test_a_callable_runs_under_autocast():
    effects = Effects()
    step = bf16_autocast.wrap(lambda: torch.ones(2, 4) @ torch.ones(4, 4), effects)
    assert step().dtype is torch.bfloat16
    assert effects.took_effect
