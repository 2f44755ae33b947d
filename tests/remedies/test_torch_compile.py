"""torch.compile: what is summed up for its prediction, and that a script's own module is really compiled in a trial."""

from __future__ import annotations

import dataclasses

import pytest
from made_up_rows import STEP_S, applied, report_of, row

from boundby.remedies import torch_compile
from boundby.remedies.compiled_calls import call_s
from boundby.remedies.contract import CannotTell, Evidence, NotApplicable
from boundby.results.machine import Ceiling
from boundby.results.remedy import Predicted, ScriptFacts


def ceiling(kind, name, value, **fields):
    return Ceiling(kind=kind, name=name, value=value, low=value, high=value, unit="s", **fields)


OVERHEADS = (
    ceiling("overhead", "pointwise", 2e-6),
    ceiling("overhead", "module_call", 1e-6),
    ceiling("overhead", "autograd_node", 0.5e-6),
    ceiling("overhead", "autograd_backward", 2e-6),
    ceiling("function", "exp", 1e-9, dtype="fp32"),
)


@pytest.fixture
def evidence(sample_report, monkeypatch):
    monkeypatch.setattr("boundby.remedies.torch_compile.has_compiler", lambda: True)

    def make(*rows, ceilings=OVERHEADS, step_s=STEP_S, kind="training", **facts):
        report = report_of(sample_report("memory"), *rows)
        machine = dataclasses.replace(report.machine, ceilings=(*report.machine.ceilings, *ceilings))
        time = dataclasses.replace(report.step.time_s, median=step_s)
        step = dataclasses.replace(report.step, time_s=time, kind=kind)
        report = dataclasses.replace(report, machine=machine, step=step)
        return Evidence(report=report, machine=machine, facts=ScriptFacts(**facts))

    return make


def product(share, **fields):
    return row("addmm", "64x64 64x64", share, bound="matmul", module="net", matmul_flops=10**6, **fields)


def elementwise(op, reads, share, **fields):
    n = 1 << 20
    sizes = {"bytes_read": 4 * n * reads, "bytes_written": 4 * n, "pointwise_flops": n}
    return row(op, "1048576", share, **({"module": "net", "code": "y = a * b + c", "line": 9} | sizes | fields))


def test_a_step_of_products_gains_nothing(evidence):
    found = torch_compile.predict(evidence(product(0.5), product(0.5, phase="backward")))
    assert isinstance(found, Predicted)
    assert found.high < 1.06
    assert found.low <= found.speedup <= found.high


def test_small_steps_lose_by_the_call(evidence):
    found = torch_compile.predict(evidence(product(0.5), product(0.5, phase="backward"), step_s=400e-6))
    assert found.high < 0.95
    assert "1 call of compiled code" in found.reason


def test_chains_bound_by_memory_gain_by_their_passes(evidence):
    chain = [elementwise("mul", 2, 0.5), elementwise("add", 2, 0.5)]
    found = torch_compile.predict(evidence(*chain))
    assert found.low <= 1.5 <= found.high
    assert "1 chain of elementwise ops would pass over memory 0.67 times as often" in found.reason


def test_time_that_no_ceiling_explains_is_not_promised_to_go(evidence):
    """A function a hundred times slower than its ceiling, as on denormal numbers: other code need not be quicker."""
    slow = elementwise("sqrt", 1, 0.98)
    slow = dataclasses.replace(slow, floors=dataclasses.replace(slow.floors, pointwise_s=0.001, memory_s=0.0005))
    found = torch_compile.predict(evidence(slow))
    assert found.speedup < 1.05
    assert found.high < 1.1


def test_chains_bound_by_a_function_gain_little(evidence):
    code = "y = torch.lgamma(x) * 2"
    slow = elementwise("lgamma", 1, 0.9, code=code)
    slow = dataclasses.replace(slow, floors=dataclasses.replace(slow.floors, pointwise_s=0.09, memory_s=0.01))
    found = torch_compile.predict(evidence(slow, elementwise("mul", 1, 0.1, code=code)))
    assert found.speedup < 1.15


def test_masks_that_dropout_keeps_cost_their_storing(evidence):
    rows = [product(0.4), product(0.4, phase="backward"), elementwise("native_dropout", 1, 0.2)]
    found = torch_compile.predict(evidence(*rows))
    assert found.speedup < 0.95
    assert "masks stored" in found.reason
    inference = torch_compile.predict(evidence(rows[0], rows[2]))
    assert "masks stored" not in inference.reason


def test_the_call_is_the_measured_one_where_there_is_one(evidence):
    measured = ceiling("overhead", "compiled_call", 40e-6, stack="torch.compile")
    machine = evidence(product(1.0), ceilings=(*OVERHEADS, measured)).machine
    assert call_s(machine, trains=False).value == 40e-6
    assert call_s(machine, trains=False, unused_gradient=True).value == pytest.approx(120e-6)
    assert call_s(machine, trains=True).value > 100e-6


def test_the_module_is_called_as_often_as_its_products(evidence):
    calls = torch_compile.outermost_calls([product(0.3, calls=3), product(0.3, calls=3, line=4)])
    assert calls == 6
    assert torch_compile.outermost_calls([elementwise("mul", 2, 0.1)]) == 1


@pytest.mark.parametrize(
    ("rows", "facts"),
    [
        ([product(1.0)], {"compiled": True}),
        ([row("torch.compile region", "", 0.9, module="net")], {}),
        ([row("mul", "4", 0.9, phase="optimizer")], {}),
    ],
)
def test_where_it_does_not_apply(evidence, rows, facts):
    rows = [
        dataclasses.replace(one, op=one.op.replace("aten.torch.compile region.default", "torch.compile region"))
        for one in rows
    ]
    assert isinstance(torch_compile.predict(evidence(*rows, **facts)), NotApplicable)


def test_without_a_compiler_it_does_not_apply(evidence, monkeypatch):
    monkeypatch.setattr("boundby.remedies.torch_compile.has_compiler", lambda: False)
    found = torch_compile.predict(evidence(product(1.0)))
    assert isinstance(found, NotApplicable)
    assert "no C++ compiler" in found.reason


def test_without_overheads_it_cannot_be_told(evidence):
    assert isinstance(torch_compile.predict(evidence(product(1.0), ceilings=())), CannotTell)


SCRIPT = """
import copy
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 4)
    def forward(self, x):
        return torch.tanh(self.a(x)) * 2
net, loss = Net(), torch.nn.MSELoss()
x = torch.randn(3, 4)
plain = torch.tanh(net.a(x)) * 2
found["equal"] = torch.allclose(net(x), plain, atol=1e-6)
twin = copy.deepcopy(net)
with torch.no_grad():
    twin.a.weight.zero_(); twin.a.bias.zero_()
found["a copy is its own"] = float(twin(x).abs().max()) == 0.0
loss(net(x), torch.zeros(3, 4)).backward()
found["has a gradient"] = net.a.weight.grad is not None
found["nothing is left"] = "forward" not in vars(net)
"""


def test_the_script_s_module_is_compiled_and_otherwise_as_it_was():
    found = applied("torch_compile", SCRIPT)
    assert found["seen"]["graph compiled"] >= 1
    assert all(found[name] for name in ("equal", "a copy is its own", "has a gradient", "nothing is left"))


def test_what_cannot_be_compiled_runs_as_it_was(monkeypatch):
    monkeypatch.setenv("CXX", "/no/such/compiler")
    found = applied(
        "torch_compile",
        "m = torch.nn.Linear(4, 4)\nfound['shape'] = list((torch.tanh(m(torch.ones(2, 4)))).shape)"
        "\nm2 = torch.nn.Sequential(m, torch.nn.GELU(), torch.nn.Tanh())\nm2(torch.ones(2, 4))",
    )
    assert found["shape"] == [2, 4]
