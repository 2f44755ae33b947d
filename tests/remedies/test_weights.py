"""Weights of inference in bf16 and int8: which products, probed as they are read, converted at the first inference."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_up_rows import FixedProbe, applied, bare_row, evidence_of, filled_report, optimizer

from boundby.capture.facts import FactsSeen
from boundby.remedies import bf16_weights, int8_weights
from boundby.remedies.contract import CannotTell, NotApplicable
from boundby.remedies.probing import TurnsProbe
from boundby.remedies.weights import LinearWork, Product, linear_work, probed_products
from boundby.results.remedy import Predicted

ROWS = (
    bare_row("mm", "1x256 256x512", 0.5, calls=3),
    bare_row("addmm", "64 1x512 512x64", 0.1),
    bare_row("mm", "64x64 64x64", 0.1, module=None),
    bare_row("bmm", "4x8x8 4x8x8", 0.1),
)
BOTH = pytest.mark.parametrize("remedy", [bf16_weights, int8_weights])


@pytest.fixture
def evidence(sample_report):
    def make(rows=ROWS, kind="inference", **more):
        return evidence_of(filled_report(sample_report("memory"), rows, kind=kind), **more)

    return make


def test_products_inside_modules_are_linear_layers(evidence):
    work = linear_work(evidence())
    assert isinstance(work, LinearWork)
    wide, narrow = Product(rows=1, inputs=256, outputs=512), Product(rows=1, inputs=512, outputs=64)
    assert work.products == (wide, wide, wide, narrow)
    assert work.seconds == pytest.approx(0.06)


def test_products_of_other_layers_are_none_of_linear_ones(evidence):
    work = linear_work(evidence(linear_shapes=((512, 256), (10, 10))))
    assert isinstance(work, LinearWork)
    assert set(work.products) == {Product(rows=1, inputs=256, outputs=512)}
    assert isinstance(linear_work(evidence(linear_shapes=((10, 10),))), NotApplicable)


def test_the_linear_layers_of_all_outermost_modules_are_seen():
    seen = FactsSeen()
    assert seen.facts(inference=True).linear_shapes is None
    for module in (torch.nn.GRU(4, 8), torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())):
        seen.module(module)
        seen.module(module)
    assert seen.facts(inference=True).linear_shapes == ((3, 4),)
    kept = [torch.nn.ReLU() for _ in range(20)]
    for module in kept:
        seen.module(module)
    assert seen.facts(inference=True).linear_shapes is None


@BOTH
def test_the_linear_layers_change_and_the_rest_stays(evidence, remedy):
    found = remedy.predict(evidence(probe=FixedProbe(0.25)))
    assert isinstance(found, Predicted)
    assert found.speedup == pytest.approx(1 / (1 - 0.6 * 0.75))
    assert "4 linear layers" in found.reason


@BOTH
def test_a_real_probe_gives_an_answer(evidence, remedy):
    found = remedy.predict(evidence(probe=TurnsProbe(budget_s=0.02)))
    assert isinstance(found, Predicted | CannotTell)  # undecided where the machine is busy


@BOTH
@pytest.mark.parametrize(("alone", "kind"), [(0.3, CannotTell), (1.4, Predicted)])
def test_what_is_slower_only_with_all_threads_may_be_the_load(evidence, remedy, alone, kind):
    class Loaded(FixedProbe):
        def __call__(self, base, changed, *, budget_s=None):
            self.ratio = alone if torch.get_num_threads() == 1 else 3.0
            return super().__call__(base, changed, budget_s=budget_s)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert isinstance(remedy.predict(evidence(probe=Loaded(3.0))), kind)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@BOTH
@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"kind": "training"}, NotApplicable),
        ({"rows": (*ROWS, bare_row("mm", "8x8 8x8", 0.1, phase="backward"))}, NotApplicable),
        ({"optimizers": (optimizer("SGD", (8, 8)),)}, NotApplicable),
        ({"rows": ROWS[2:]}, NotApplicable),
        ({"rows": (bare_row("mm", "1x256 256x512", 0.04),)}, NotApplicable),
        ({"probe": None}, CannotTell),
    ],
)
def test_where_it_does_not_apply_or_cannot_be_told(evidence, remedy, more, kind):
    assert isinstance(remedy.predict(evidence(**{"probe": FixedProbe(0.5), **more})), kind)


@given(
    st.lists(
        st.builds(Product, rows=st.integers(1, 4096), inputs=st.integers(64, 4096), outputs=st.integers(64, 4096)),
        min_size=1,
        max_size=60,
    )
)
def test_a_probe_reads_no_more_than_its_share_and_keeps_the_weights_shapes(products):
    chosen = probed_products(products, most_bytes=64 << 20)
    assert chosen
    assert {(one.inputs, one.outputs) for one in chosen} <= {(one.inputs, one.outputs) for one in products}
    largest = max(one.weight_bytes for one in products)
    assert sum(one.weight_bytes for one in chosen) <= (64 << 20) + largest
    if sum(one.weight_bytes for one in products) <= 64 << 20:
        assert len(chosen) == len(products)


SCRIPT = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64, bias=False)
    def forward(self, x):
        return {{"y": self.two(torch.relu(self.one(x)))}}

class OwnTensors(Net):
    def forward(self, x):
        return self.two(torch.eye(64) + 0 * super().forward(x)["y"].sum())

net, x = Net(), torch.randn(3, 64)
with torch.inference_mode(False), torch.no_grad():
    before = torch.relu(x @ net.one.weight.T + net.one.bias) @ net.two.weight.T
with torch.inference_mode():
    for _ in range(2):
        y = net(x)["y"]
found["dtype"], found["weight"] = str(y.dtype), str(net.one.weight.dtype)
found["apart"] = float((y - before).abs().max() / before.abs().max())
own = OwnTensors()
with torch.no_grad():
    found["own"] = list(own(x).shape), str(own.one.weight.dtype)
    found["none"] = torch.nn.ReLU()(x).dtype.is_floating_point
trained = Net()
optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
trained(x)["y"].sum().backward()
optimizer.step()
found["trained"] = str(trained.one.weight.grad.dtype)
"""


def test_applied_weights_are_bf16_and_results_fp32_where_the_module_can():
    found = applied("bf16_weights", SCRIPT.format())
    assert (found["dtype"], found["weight"]) == ("torch.float32", "torch.bfloat16")
    assert 0 < found["apart"] < 0.05
    # A module that makes fp32 tensors of its own is put back.
    assert found["own"] == [[64, 64], "torch.float32"]
    assert found["trained"] == "torch.float32"
    assert found["seen"] == {"forward pass with bf16 weights": 2}
    assert any("OwnTensors in bf16" in why for why in found["refused"])
    assert any("ReLU has no fp32 weights" in why for why in found["refused"])
    assert "the weights are trained" in found["refused"]


def test_applied_linear_layers_compute_in_int8_and_keep_their_weights():
    found = applied("int8_weights", SCRIPT.format())
    assert (found["dtype"], found["weight"]) == ("torch.float32", "torch.float32")
    assert 0 < found["apart"] < 0.1
    assert found["own"] == [[64, 64], "torch.float32"]
    assert found["trained"] == "torch.float32"
    # Two layers in two calls, and all of the other module's.
    assert found["seen"] == {"linear layer in int8": 7}
    assert "ReLU has no linear layer with 4,096 fp32 weights or more" in found["refused"]
