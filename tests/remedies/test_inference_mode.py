"""Inference mode: predicted from the nodes of the graph, applied where nothing trains."""

from __future__ import annotations

import pytest
from made_up_rows import STEP_S, applied, bare_row, evidence_of, filled_report

from boundby.remedies import inference_mode
from boundby.remedies.contract import CannotTell, NotApplicable
from boundby.results.machine import Ceiling
from boundby.results.remedy import Predicted

NODE = Ceiling(kind="overhead", name="autograd_node", value=5e-6, low=5e-6, high=5e-6, unit="s")


@pytest.fixture
def evidence(sample_report):
    def make(*rows, kind="inference", ceilings=(NODE,), **facts):
        return evidence_of(filled_report(sample_report("overhead"), rows, kind=kind), ceilings=ceilings, **facts)

    return make


def test_each_op_of_a_module_saves_its_node(evidence):
    found = inference_mode.predict(evidence(bare_row("mm", "8x8 8x8", 0.5, calls=2000), grad_in_inference=True))
    assert isinstance(found, Predicted)
    assert found.speedup == pytest.approx(STEP_S / (STEP_S - 2000 * 5e-6))
    assert found.low < found.speedup < found.high
    assert "2,000 ops" in found.reason


@pytest.mark.parametrize(
    ("kind", "phase", "grad"),
    [
        ("inference", "forward", False),
        ("inference", "forward", None),
        ("training", "forward", True),
        ("callable", "backward", True),
    ],
)
def test_where_it_does_not_apply(evidence, kind, phase, grad):
    found = inference_mode.predict(evidence(bare_row("mm", "8x8", 0.5, phase=phase), kind=kind, grad_in_inference=grad))
    assert isinstance(found, NotApplicable)


def test_a_node_of_unknown_cost_cannot_be_told(evidence):
    known = evidence(bare_row("mm", "8x8", 0.5), ceilings=(), grad_in_inference=True)
    assert isinstance(inference_mode.predict(known), CannotTell)


def test_forward_loops_build_no_graph_and_give_the_same():
    found = applied(
        "inference_mode",
        "model = torch.nn.Linear(4, 4)\nx = torch.ones(2, 4)\ny = model(x)\n"
        "found['graph'] = y.requires_grad\nfound['same'] = torch.equal(y, x @ model.weight.T + model.bias)",
    )
    assert found["seen"] == {"module called in inference mode": 1}
    assert not found["graph"]
    assert found["same"]


def test_a_script_that_trains_is_left_alone():
    found = applied(
        "inference_mode",
        "model = torch.nn.Linear(4, 4)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "model(torch.ones(2, 4)).sum().backward()\noptimizer.step()\nfound['graph'] = model.weight.grad is not None",
    )
    assert found["seen"] == {}
    assert found["refused"] == ["the script trains with SGD"]
    assert found["graph"]
