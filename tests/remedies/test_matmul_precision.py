"""The precision inside fp32 products: probed and put back, applied unless the script chooses."""

from __future__ import annotations

import pytest
import torch
from made_up_rows import FixedProbe, applied, bare_row, evidence_of, filled_report

from boundby.remedies import matmul_precision
from boundby.remedies.contract import CannotTell, Effects, NotApplicable
from boundby.results.machine import Ceiling
from boundby.results.remedy import Predicted

ROWS = (
    bare_row("mm", "64x32 32x16", 0.3, flops=2 * 64 * 32 * 16),
    bare_row("mm", "64x16 16x32", 0.3, phase="backward"),
)


def rate(dtype: str, value: float) -> Ceiling:
    return Ceiling(
        kind="matmul", name="mm", dtype=dtype, shape=(1, 8, 8, 8), value=value, low=value, high=value, unit="flop/s"
    )


@pytest.fixture
def evidence(sample_report):
    def make(rows=ROWS, **more):
        return evidence_of(filled_report(sample_report("overhead"), rows), **more)

    return make


def test_the_products_are_probed_at_the_other_precision_which_is_put_back(evidence):
    before = torch.get_float32_matmul_precision()
    seen = []

    class Notes(FixedProbe):
        def __call__(self, base, changed, *, budget_s=None):
            with torch.autograd.graph.saved_tensors_hooks(note, lambda one: one):
                return super().__call__(base, changed, budget_s=budget_s)

    def note(tensor):
        seen.append(torch.get_float32_matmul_precision())
        return tensor

    found = matmul_precision.predict(evidence(probe=Notes(0.5)))
    assert isinstance(found, Predicted)
    assert found.speedup == pytest.approx(1 / 0.7)
    assert set(seen) == {before, "medium"}
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize(
    ("rows", "more", "kind"),
    [
        (ROWS, {"matmul_precision": "medium"}, NotApplicable),
        (ROWS, {"autocast": True}, NotApplicable),
        (ROWS, {"ceilings": (rate("fp32", 1e11), rate("bf16", 1e10))}, NotApplicable),
        ((bare_row("mm", "64x32 32x16", 0.05),), {}, NotApplicable),
        ((bare_row("convolution", "2x6x9x9 4x6x3x3", 0.9, flops=2 * 2 * 49 * 4 * 6 * 9),), {}, NotApplicable),
        (ROWS, {"probe": None}, CannotTell),
    ],
)
def test_where_it_does_not_apply_or_cannot_be_told(evidence, rows, more, kind):
    assert isinstance(matmul_precision.predict(evidence(rows, **{"probe": FixedProbe(0.5), **more})), kind)


def test_applied_the_modules_see_it_until_the_script_chooses():
    found = applied(
        "matmul_precision",
        """
        net = torch.nn.Linear(8, 8)
        net(torch.ones(2, 8))
        torch.set_float32_matmul_precision("highest")
        net(torch.ones(2, 8))
        """,
    )
    assert found["seen"] == {"module called with products at medium precision": 1}
    assert found["refused"] == ["the script sets the precision itself"]


def test_a_callable_has_it_inside_alone():
    effects = Effects()
    before = torch.get_float32_matmul_precision()
    assert matmul_precision.wrap(torch.get_float32_matmul_precision, effects)() == "medium"
    assert torch.get_float32_matmul_precision() == before
    assert effects.took_effect
