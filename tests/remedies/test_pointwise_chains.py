"""Chains by source line: passes before and after as counted by hand, and what must hold for any rows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_up_rows import report_of, row

import boundby
from boundby.remedies.pointwise_chains import plain_name, pointwise_chains
from boundby.remedies.source_names import names_of

N = 1000


def op(name, reads, writes, *, calls=1, line=7, code="", share=0.01, **fields):
    """A row whose every call reads and writes so many tensors of N float32 elements."""
    flops = N * calls if writes >= 1 else 0
    sizes = {"bytes_read": int(4 * N * reads * calls), "bytes_written": int(4 * N * writes * calls)}
    known = {"calls": calls, "line": line, "code": code, "pointwise_flops": flops}
    return row(name, "1000", share, **(known | sizes | fields))


@pytest.fixture
def chains(sample_report):
    return lambda *rows: pointwise_chains(report_of(sample_report("memory"), *rows))


CODES = {
    "y = a * b + c": ([("mul", 2, 1, 1), ("add", 2, 1, 1)], 6, 4),
    "return torch.sin(x) ** 2 + torch.cos(x) ** 2": (
        [("sin", 1, 1, 1), ("cos", 1, 1, 1), ("pow", 1, 1, 2), ("add", 2, 1, 1)],
        11,
        2,
    ),
    "y = torch.cos(torch.cos(x))": ([("cos", 1, 1, 2)], 4, 2),
    "y = 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.044715 * x * x * x)))": (
        [("mul", 1.5, 1, 6), ("add", 1.5, 1, 2), ("tanh", 1, 1, 1)],
        22,
        2,
    ),
    "y = x * scale + shift": ([("mul", 1, 1, 1), ("add", 1, 1, 1)], 4, 2),
    "loss = ((a - b) ** 2).mean()": ([("sub", 2, 1, 1), ("pow", 1, 1, 1), ("mean", 1, 0, 1)], 6, 2),
}


@pytest.mark.parametrize("code", CODES)
def test_passes_are_those_counted_by_hand(chains, code):
    ops, before, after = CODES[code]
    (chain,) = chains(*(op(name, reads, writes, calls=calls, code=code) for name, reads, writes, calls in ops))
    assert chain.passes_before == pytest.approx(before)
    assert chain.passes_after.value == pytest.approx(after)
    assert (chain.runs, chain.elements, chain.element_bytes) == (1, N, 4)


def test_five_ops_of_softmax_on_two_lines_are_one_chain(chains):
    first, second = "e = torch.exp(x - x.amax(-1, keepdim=True))", "return e / e.sum(-1, keepdim=True)"
    (chain,) = chains(
        op("amax", 1, 0, code=first),
        op("sub", 1, 1, code=first),
        op("exp", 1, 1, code=first),
        op("sum", 1, 0, line=8, code=second),
        op("div", 1, 1, line=8, code=second),
    )
    assert (chain.first_line, chain.line) == (7, 8)
    assert (chain.passes_before, chain.passes_after.value) == (8, 2)


def test_runs_are_told_from_the_operations_in_the_text(chains):
    (chain,) = chains(op("cos", 1, 1, calls=6, code="y = torch.cos(torch.cos(x))"))
    assert chain.runs == 3
    assert chain.passes_before == 4


@pytest.mark.parametrize(
    "rows",
    [
        [op("mul", 2, 1, code="y = a * b")],
        [op("cos", 1, 1, calls=5, code="y = torch.cos(x)")],
        [op("mul", 2, 1, line=7), op("add", 2, 1, line=40)],
        [op("mul", 2, 1, module="a"), op("add", 2, 1, module="b")],
        [op("mul", 2, 1, phase="optimizer"), op("add", 2, 1, phase="optimizer")],
        [op("sum", 1, 0), op("mean", 1, 0)],
        # A product between two lines, and one between two activations of a line.
        [op("add", 2, 1, line=7), op("mm", 2, 1, line=8, matmul_flops=9), op("add", 2, 1, line=9)],
        [op("relu", 1, 1, calls=2), op("mm", 2, 1, matmul_flops=9)],
        # A library op's gradient, added up.
        [op("sum", 1, 0, phase="backward"), op("add", 2, 1, phase="backward")],
    ],
)
def test_what_is_no_chain(chains, rows):
    assert chains(*rows) == ()


def test_the_gradient_of_a_chain_is_one_too(chains):
    code = "y = torch.tanh(x) * 2"
    found = chains(
        op("tanh", 1, 1, code=code),
        op("mul", 1, 1, code=code),
        op("tanh_backward", 2, 1, code=code, phase="backward"),
        op("mul", 1, 1, code=code, phase="backward"),
    )
    assert sorted(one.phase for one in found) == ["backward", "forward"]
    backward = next(one for one in found if one.phase == "backward")
    assert backward.passes_before == 5
    assert backward.passes_after.value == 3


def test_source_that_is_no_whole_statement_leaves_a_band(chains):
    (chain,) = chains(op("mul", 2, 1, code="y = (a *"), op("add", 2, 1, code="y = (a *"))
    assert chain.passes_after.low == 2
    assert chain.passes_after.high == 4


_NAMES = st.sampled_from(["mul", "add", "tanh", "sum", "where", "mm", "cat"])
_ROWS = st.builds(
    lambda name, reads, writes, calls, line, phase, code: op(
        name, reads, writes, calls=calls, line=line, phase=phase, code=code, matmul_flops=5 if name == "mm" else 0
    ),
    _NAMES,
    st.sampled_from([0.001, 1, 2, 3]),
    st.sampled_from([0, 0.001, 1]),
    st.integers(1, 6),
    st.integers(1, 5),
    st.sampled_from(["forward", "backward", "optimizer"]),
    st.sampled_from(["y = a * b + c", "y = f(x)", "if x > 0:", "", "y +="]),
)


@given(st.lists(_ROWS, max_size=8))
def test_fusing_never_adds_passes_and_no_row_is_in_two_chains(rows):
    found = pointwise_chains(_report(rows))
    seen = [id(one) for chain in found for one in chain.rows]
    assert len(seen) == len(set(seen))
    for chain in found:
        assert chain.ops >= 2 * chain.runs > 0
        assert 0 < chain.passes_after.low <= chain.passes_after.high <= chain.passes_before + 1e-9
        assert chain.first_line <= chain.line
        assert all(one.phase == chain.phase != "optimizer" for one in chain.rows)


def _report(rows):
    import sample_reports_for_remedies as samples

    return report_of(samples.ALL["memory"](), *rows)


@pytest.fixture(autouse=True)
def _samples(sample_report):
    """Loaded, for hypothesis' tests too."""


def test_passes_of_real_ops_are_as_counted_by_hand():
    a, b, c = (torch.randn(4096) for _ in range(3))

    def two():
        return a * b + c

    with torch.no_grad():
        report = boundby.explain(two, warmup=1, steps=2, watch=2, machine=_machine())
    (chain,) = pointwise_chains(report)
    assert (chain.passes_before, chain.passes_after.value, chain.elements) == (6, 4, 4096)


def _machine():
    import sample_reports_for_remedies as samples

    return samples.MACHINE


@pytest.mark.parametrize(
    ("lines", "outside", "operations"),
    [
        (["y = a * b + c"], {"a", "b", "c"}, 2),
        (["y = math.sqrt(2 / math.pi) * x"], {"x"}, 1),
        (["e = x.exp()", "return e / e.sum()"], {"x"}, 3),
        (["x = x + self.scale"], {"x", "self.scale"}, 1),
        (["x += bias"], {"x", "bias"}, 1),
        (["def f(): return torch.cos(torch.cos(x))"], {"x"}, 2),
        (["y = x.view(-1, 2).transpose(0, 1)"], {"x"}, 0),
        (["y = -x if flag else x > 0"], {"x", "flag"}, 2),
        (["for a, b in zip(old, new): a.mul_(0.9).add_(b, alpha=0.1)"], {"a", "b"}, 2),
    ],
)
def test_names_from_outside(lines, outside, operations):
    found = names_of(lines)
    assert found.outside == outside
    assert found.operations == operations


@pytest.mark.parametrize("lines", [["y = ("], ["else:"], [], ["x = 1\x00"]])
def test_source_that_says_nothing(lines):
    assert names_of(lines) is None


@pytest.mark.parametrize(
    ("op_name", "plain"), [("aten.mul_.Tensor", "mul"), ("aten.add.Tensor", "add"), ("custom", "custom")]
)
def test_plain_names(op_name, plain):
    assert plain_name(op_name) == plain


def test_the_costliest_chain_comes_first(chains):
    cheap = [op("mul", 2, 1, code="y = a * b + c"), op("add", 2, 1, code="y = a * b + c")]
    dear = [op("exp", 1, 1, line=30, calls=2, code="y = torch.exp(torch.exp(x))", share=0.5)]
    assert [one.line for one in chains(*cheap, *dear)] == [30, 7]
