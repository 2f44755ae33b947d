"""Fusion by source line: the library function it names, and the gain by passes and by functions."""

from __future__ import annotations

import dataclasses

import pytest
from made_up_rows import STEP_S, applied, report_of, row

from boundby.remedies import fusion
from boundby.remedies.contract import CannotTell, Evidence, NotApplicable
from boundby.remedies.fused_times import fused_time, generated_ratio
from boundby.remedies.pointwise_chains import pointwise_chains
from boundby.results.machine import Ceiling
from boundby.results.remedy import Predicted, ScriptFacts

N = 1 << 20


def op(name, reads, share, *, calls=1, code="y = a * b + c", function_s=0.0, memory_s=None, **fields):
    sizes = {
        "bytes_read": int(4 * N * reads) * calls,
        "bytes_written": 4 * N * calls,
        "pointwise_flops": N * calls,
        "calls": calls,
    }
    made = row(name, " ".join([str(N)] * max(1, int(reads))), share, **({"code": code, "line": 9} | sizes | fields))
    memory = share * STEP_S if memory_s is None else memory_s
    return dataclasses.replace(made, floors=dataclasses.replace(made.floors, memory_s=memory, pointwise_s=function_s))


@pytest.fixture
def evidence(sample_report):
    def make(*rows, ceilings=()):
        seen = sum(one.share for one in rows)
        report = report_of(sample_report("memory"), *rows, host=max(0.0, 1.0 - seen))
        machine = dataclasses.replace(report.machine, ceilings=(*report.machine.ceilings, *ceilings))
        report = dataclasses.replace(report, machine=machine)
        return Evidence(report=report, machine=machine, facts=ScriptFacts())

    return make


def function(name, value, stack="torch"):
    return Ceiling(kind="function", name=name, dtype="fp32", value=value, low=value, high=value, unit="s", stack=stack)


MULTIPLY_ADD = (op("mul", 2, 0.3), op("add", 2, 0.3))
GATED = "y = torch.sigmoid(x) * self.net(x)"
GELU_CODE = "return 0.5 * x * (1 + torch.tanh(0.79 * (x + 0.044715 * x * x * x)))"


def test_where_memory_binds_the_gain_is_the_ratio_of_passes(evidence):
    found = fusion.predict(evidence(*MULTIPLY_ADD))
    assert isinstance(found, Predicted)
    # 60% of the step falls to four sixths of itself.
    assert found.speedup == pytest.approx(1 / (0.4 + 0.6 * 4 / 6), rel=0.01)
    assert found.low <= found.speedup <= found.high
    assert "train.py:9: 6 -> 4" in found.reason
    assert "then bound by memory" in found.reason
    assert found.change == "train.py:9: torch.addcmul(c, a, b) if it is that"


def test_where_the_function_binds_little_is_gained(evidence):
    code = "y = torch.lgamma(torch.lgamma(x))"
    found = fusion.predict(evidence(op("lgamma", 1, 0.9, calls=2, code=code, function_s=0.09, memory_s=0.01)))
    assert 1.0 < found.speedup < 1.15
    assert "4 -> 2" in found.reason
    assert "then bound by its functions" in found.reason


def test_compiled_functions_are_used_where_they_were_measured(evidence):
    rows = (op("cos", 1, 0.9, calls=2, code="y = torch.cos(torch.cos(x))", function_s=0.09, memory_s=0.001),)
    twice_as_fast = (function("cos", 1e-9), function("cos", 0.5e-9, stack="torch.compile"))
    known = evidence(*rows, ceilings=twice_as_fast)
    assert generated_ratio("cos", known.machine).value == 0.5
    assert generated_ratio("lgamma", known.machine) is None
    assert fusion.predict(known).speedup > 1.5


def test_a_hand_written_gelu_is_named_with_its_gradient(evidence):
    rows = (
        op("mul", 1.5, 0.3, calls=6, code=GELU_CODE),
        op("add", 1.5, 0.1, calls=2, code=GELU_CODE),
        op("tanh", 1, 0.2, code=GELU_CODE, function_s=0.018),
        op("mul", 2, 0.3, calls=8, code=GELU_CODE, phase="backward"),
        op("tanh_backward", 2, 0.05, code=GELU_CODE, phase="backward"),
    )
    (place,) = fusion.fusible_places(pointwise_chains(evidence(*rows).report), evidence(*rows).report)
    assert len(place.chains) == 2
    assert place.library.call == 'F.gelu(x, approximate="tanh")'
    assert fusion.predict(evidence(*rows)).speedup > 1.5


@pytest.mark.parametrize(
    ("names", "call"),
    [
        (("amax", "sub", "exp", "sum", "div"), "F.softmax(x, dim)"),
        (("sub", "exp", "sum", "log"), "F.log_softmax(x, dim)"),
        (("sigmoid", "mul"), "F.silu(x)"),
        (("sub", "pow", "mean"), "F.mse_loss(a, b)"),
        (("erf", "mul", "add"), "F.gelu(x)"),
        (("mean", "sub", "pow", "rsqrt", "mul"), "F.layer_norm"),
        (("pow", "mean", "rsqrt", "mul"), "F.rms_norm"),
        (("sin", "cos", "add"), None),
        (("sigmoid", "mul", "tanh"), None),
    ],
)
def test_library_functions_are_told_from_the_ops(evidence, names, call):
    report = evidence(*(op(name, 1, 0.1, code="y = (") for name in names)).report
    (chain,) = pointwise_chains(report)
    found = fusion.library_for(chain)
    assert (found.call if found else None) == call


def test_neighbouring_lines_are_told_apart_by_their_library_functions(evidence):
    first, second = "e = torch.exp(x - x.amax(-1, keepdim=True))", "y = e / e.sum(-1, keepdim=True)"
    rows = [op(name, 1, 0.1, code=first, line=7) for name in ("amax", "sub", "exp")]
    rows += [op(name, 1, 0.1, code=second, line=8) for name in ("sum", "div")]
    rows += [
        op(name, 1, 0.1, calls=calls, code=GELU_CODE, line=9) for name, calls in (("mul", 6), ("add", 2), ("tanh", 1))
    ]
    report = evidence(*rows).report
    assert len(pointwise_chains(report)) == 1
    places = fusion.fusible_places(pointwise_chains(report), report)
    assert {(one.chains[0].first_line, one.chains[0].line, one.library.call) for one in places} == {
        (7, 8, "F.softmax(x, dim)"),
        (9, 9, 'F.gelu(x, approximate="tanh")'),
    }


def test_time_that_nothing_explains_may_be_the_chain_s(evidence):
    known = evidence(*MULTIPLY_ADD)
    parts = dataclasses.replace(known.report.overhead_parts, host=0.0)
    report = dataclasses.replace(known.report, overhead_parts=parts)
    found, surely = fusion.predict(dataclasses.replace(known, report=report)), fusion.predict(known)
    assert found.high > surely.high
    assert found.low == surely.low


def test_an_interval_holds_what_it_says(evidence):
    report = evidence(*MULTIPLY_ADD).report
    (chain,) = pointwise_chains(report)
    time = fused_time(chain, report)
    assert time.now_s == pytest.approx(0.06)
    assert time.fused_s.low < time.fused_s.value < time.fused_s.high
    assert time.saved.value == pytest.approx(time.now_s - time.fused_s.value)


def test_fresh_memory_for_what_lies_between_is_saved(evidence, sample_report):
    from boundby.results.report import PageFaults

    rows = (op("mul", 2, 0.3, faults=1000, memory_s=0.005), op("add", 2, 0.3, faults=1000, memory_s=0.005))
    report = dataclasses.replace(
        evidence(*rows).report, page_faults=PageFaults(per_step=2000, seconds_each=25e-6, time_s=0.05)
    )
    (chain,) = pointwise_chains(report)
    assert fused_time(chain, report).fused_s.value == pytest.approx(0.0317, rel=0.02)


@pytest.mark.parametrize("path", ["/usr/lib/python3/site-packages/net.py", "<string>"])
def test_installed_code_is_not_the_user_s_to_change(evidence, path):
    rows = [dataclasses.replace(one, path=path) for one in MULTIPLY_ADD]
    assert isinstance(fusion.predict(evidence(*rows)), NotApplicable)


def test_chains_that_take_no_time_are_not_named(evidence):
    assert isinstance(fusion.predict(evidence(op("mul", 2, 1e-4), op("add", 2, 1e-4))), NotApplicable)


def test_without_compiler_and_library_function_it_cannot_be_told(evidence, monkeypatch):
    monkeypatch.setattr("boundby.remedies.fusion.has_compiler", lambda: False)
    rows = (op("cos", 1, 0.9, calls=2, code="y = torch.cos(torch.cos(x))"),)
    assert isinstance(fusion.predict(evidence(*rows)), CannotTell)


def test_nothing_is_applied_from_outside():
    found = applied("fusion", "")
    assert found["seen"] == {}
    assert "source lines" in found["refused"][0]


def test_a_running_mean_is_a_lerp_and_a_product_by_a_number_no_addcmul(evidence):
    mean = (
        op("mul_", 1, 0.3, code="a.mul_(0.9).add_(b, alpha=0.1)"),
        op("add_", 2, 0.3, code="a.mul_(0.9).add_(b, alpha=0.1)"),
    )
    assert fusion.predict(evidence(*mean)).change == "train.py:9: a.lerp_(b, weight) if it is that"
    found = fusion.predict(evidence(op("mul", 1, 0.3, code="y = 2 * a + b"), op("add", 2, 0.3, code="y = 2 * a + b")))
    assert "alpha=number" in found.change


def test_times_told_are_those_that_the_speedup_promises(evidence):
    # The ops took ten times what their floors say: what nothing explains is promised to nobody.
    slow = [dataclasses.replace(one, floors=dataclasses.replace(one.floors, memory_s=3e-3)) for one in MULTIPLY_ADD]
    found = fusion.predict(evidence(*slow))
    left_ms = STEP_S * 1e3 * (0.6 - (1 - 1 / found.speedup))
    assert f"60 ms -> {left_ms:.2g} ms" in found.reason


def test_ops_between_the_steps_of_a_recurrent_layer_are_no_chain(evidence):
    product = row("addmm", "64 16x64 64x64", 0.3, code=GATED, line=9, bytes_read=1 << 16, matmul_flops=9)
    gate = (op("sigmoid", 1, 0.2, code=GATED), op("mul", 2, 0.2, code=GATED))
    assert isinstance(fusion.predict(evidence(product, *gate)), Predicted)
    recurrent = dataclasses.replace(product, calls=60)
    assert isinstance(fusion.predict(evidence(recurrent, *gate)), NotApplicable)
