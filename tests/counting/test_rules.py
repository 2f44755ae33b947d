"""Users' rules, what has no rule, kept costs, and where ops come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from counting_cases import count, group
from torch import nn
from torch.utils.flop_counter import register_flop_formula

from boundby.capture.costs import CostCache, cost_of, cost_rule, signature
from boundby.capture.sites import SiteFinder
from boundby.results.counts import OpCost

r = torch.randn
aten = torch.ops.aten


@torch.library.custom_op("countingtests::scaled_mm", mutates_args=())
def scaled_mm(a: torch.Tensor, b: torch.Tensor, scale: float) -> torch.Tensor:
    return a @ b * scale


@torch.library.custom_op("countingtests::by_stock_formula", mutates_args=())
def by_stock_formula(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


@register_flop_formula(torch.ops.countingtests.by_stock_formula)
def _stock_formula(a_shape: Any, b_shape: Any, *, out_shape: Any = None, **kwargs: Any) -> int:
    return 2 * a_shape[0] * a_shape[1] * b_shape[1]


@torch.library.custom_op("countingtests::unknown", mutates_args=())
def unknown(a: torch.Tensor) -> torch.Tensor:
    return a + 1


def test_a_users_rule_gives_flops() -> None:
    a, b = r(4, 8), r(8, 3)
    before = count(lambda: torch.ops.countingtests.scaled_mm(a, b, 2.0))
    assert [(one.name, one.calls) for one in before.unmodelled] == [("countingtests::scaled_mm", 1)]

    @cost_rule(torch.ops.countingtests.scaled_mm)
    def rule(a: torch.Tensor, b: torch.Tensor, scale: float, *, out: torch.Tensor) -> int:
        return 2 * a.numel() * out.shape[1]

    seen = count(lambda: torch.ops.countingtests.scaled_mm(a, b, 2.0))
    assert not seen.unmodelled
    assert seen.matmul_flops == 2 * 4 * 8 * 3
    assert seen.bytes_read == 4 * (32 + 24)
    assert seen.bytes_written == 4 * 12


def test_a_users_rule_may_say_everything() -> None:
    @cost_rule(torch.ops.countingtests.unknown.default)
    def rule(a: torch.Tensor, *, out: torch.Tensor) -> OpCost:
        return OpCost(kind="pointwise", pointwise_flops=a.numel(), function="add", function_elements=a.numel())

    seen = count(lambda: torch.ops.countingtests.unknown(r(5)))
    assert (seen.pointwise_flops, seen.unmodelled) == (5, ())


def test_a_rule_for_something_else_than_an_op_is_refused() -> None:
    with pytest.raises(TypeError, match=r"torch\.ops\.mylib\.op"):
        cost_rule("mylib::op")


def test_formulas_registered_with_torch_are_used() -> None:
    seen = count(lambda: torch.ops.countingtests.by_stock_formula(r(4, 8), r(8, 3)))
    assert (seen.matmul_flops, seen.unmodelled) == (2 * 4 * 8 * 3, ())


def test_a_rule_that_fails_leaves_the_users_step_alone() -> None:
    @torch.library.custom_op("countingtests::bad_rule", mutates_args=())
    def bad(a: torch.Tensor) -> torch.Tensor:
        return a + 1

    @cost_rule(torch.ops.countingtests.bad_rule)
    def rule(a: torch.Tensor, *, out: torch.Tensor) -> int:
        raise ValueError("no such size")

    seen = count(lambda: torch.ops.countingtests.bad_rule(r(3)))
    assert [one.name for one in seen.unmodelled] == ["countingtests::bad_rule"]


@pytest.mark.parametrize(
    "work",
    [
        lambda x: torch.linalg.svd(x),
        lambda x: torch.linalg.eigh(x @ x.t()),
        lambda x: torch.linalg.eigvals(x),
        lambda x: torch.linalg.lstsq(x, x),
        lambda x: torch.from_numpy(x.numpy() @ x.numpy()),
        lambda x: torch.from_numpy(np.asarray(x) @ np.asarray(x)),
        lambda x: torch.from_numpy(np.linalg.norm(x.detach().cpu().numpy(), axis=0)),
        lambda x: torch.tensor(x.numpy(force=True) * 2),
    ],
)
def test_what_cannot_be_modelled_is_named(work: Any) -> None:
    assert count(work, r(6, 6)).unmodelled


@pytest.mark.parametrize(
    "work",
    [
        lambda x: x.sum().item(),
        lambda x: x.tolist(),
        lambda x: x.detach() + 1,
        lambda x: torch.tensor([1.0, 2.0]) * 2,
        lambda x: torch.from_numpy(np.ones(3)) * 2,
        lambda x: x.mean().numpy(),
    ],
)
def test_ordinary_code_is_not_called_unmodelled(work: Any) -> None:
    assert not count(work, r(6, 6)).unmodelled


# ---- kept costs --------------------------------------------------------------------------------------------
def test_costs_are_kept_by_signature_and_aliasing_is_part_of_it() -> None:
    costs = CostCache()
    x, y = r(4, 4), r(4, 4)
    reads = [
        costs.lookup(aten.mul.Tensor, (x, y), {}, x * y)[0].bytes_read,
        costs.lookup(aten.mul.Tensor, (y, x), {}, x * y)[0].bytes_read,
        costs.lookup(aten.mul.Tensor, (x, x), {}, x * x)[0].bytes_read,
        costs.lookup(aten.mul.Tensor, (x, x.t()), {}, x * x.t())[0].bytes_read,
        costs.lookup(aten.mul.Tensor, (x[:2], x[2:]), {}, x[:2] * x[2:])[0].bytes_read,
        costs.lookup(aten.mul.Tensor, (x[:2], x[:2]), {}, x[:2] * x[:2])[0].bytes_read,
    ]
    assert reads == [128, 128, 64, 64, 64, 32]
    assert (costs.hits, costs.misses) == (1, 5)


def test_costs_that_depend_on_values_are_not_kept() -> None:
    costs = CostCache()
    table = r(10, 4)
    for ids, rows in (([1, 1, 1], 1), ([1, 2, 3], 3)):
        index = torch.tensor(ids)
        cost, _ = costs.lookup(aten.embedding.default, (table, index), {}, table[index])
        assert 3 * 8 + rows * 16 == cost.bytes_read
    mask = torch.tensor([True, False])
    assert signature(aten.masked_select.default, (r(2), mask), {}) is None
    assert signature(aten.mm.default, (table.to_sparse(), r(4, 2)), {}) is None


def test_a_changing_learning_rate_does_not_fill_the_cache() -> None:
    x = r(3)
    keys = {signature(aten.mul.Scalar, (x, rate), {}) for rate in (0.1, 0.01, 0.001)}
    assert len(keys) == 1
    assert signature(aten.mul.Scalar, (x, 0.0), {}) not in keys


def test_shapes_are_written_for_people() -> None:
    a, b = r(96, 64), r(64, 192)
    assert CostCache().lookup(aten.mm.default, (a, b), {}, a @ b)[1] == "96x64 64x192"
    assert CostCache().lookup(aten.exp.default, (torch.tensor(1.0),), {}, torch.tensor(1.0))[1] == "scalar"


@pytest.mark.parametrize(
    ("work", "kind", "function", "elements", "dtype"),
    [
        (lambda: (aten.exp.default, (r(6),)), "pointwise", "exp", 6, "fp32"),
        (lambda: (aten.tanh_.default, (r(6).double(),)), "inplace", "tanh", 6, "fp64"),
        (lambda: (aten.pow.Tensor_Scalar, (r(6), 2)), "pointwise", "mul", 6, "fp32"),
        (lambda: (aten.gt.Scalar, (r(6).bfloat16(), 0)), "pointwise", "compare", 6, "bf16"),
        (lambda: (aten._softmax.default, (r(2, 3), 1, False)), "softmax", "softmax", 6, "fp32"),
        (lambda: (aten.normal_.default, (r(6),)), "random", "normal", 6, "fp32"),
        (lambda: (aten.t.default, (r(2, 3),)), "view", None, 0, "fp32"),
        (lambda: (aten.empty.memory_format, ([2, 3],)), "empty", None, 0, "fp32"),
        (lambda: (aten.clone.default, (r(6),)), "copy", None, 0, "fp32"),
        (lambda: (aten.sum.default, (torch.ones(6, dtype=torch.int64),)), "reduction", "sum", 6, "int64"),
        (lambda: (aten.zero_.default, (r(6),)), "fill", None, 0, "fp32"),
    ],
)
def test_kinds_and_functions(work: Any, kind: str, function: str | None, elements: int, dtype: str) -> None:
    func, args = work()
    cost = cost_of(func, args, {}, func(*args))
    assert (kind, function, elements, dtype) == (cost.kind, cost.function, cost.function_elements, cost.dtype)
    assert (kind not in ("view", "empty")) == bool(cost.launches)


def test_every_ordinary_op_of_a_training_step_has_a_rule() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.Dropout(0.1), nn.Flatten(), nn.Linear(144, 5)
    )
    for optimizer in (torch.optim.Adam, torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.NAdam):
        stepper = optimizer(model.parameters(), lr=0.1)

        def step(stepper: Any = stepper) -> None:
            stepper.zero_grad()
            loss = nn.functional.cross_entropy(model(r(2, 3, 8, 8)), torch.tensor([0, 1]))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            stepper.step()

        assert count(step).unmodelled == ()


# ---- where ops come from -------------------------------------------------------------------------------------
class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(4, 12)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.ModuleDict({"attn": Attention()}) for _ in range(2)])
        self.head = nn.Linear(12, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.blocks[1]["attn"].qkv(x)  # line of the inner product
        return self.head(inner.relu())  # line of the head


def _line(comment: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, text in enumerate(lines, 1) if text.endswith(f"# {comment}"))


def test_ops_and_their_gradients_are_charged_to_modules_and_forward_lines() -> None:
    net, x = Net(), r(5, 4)
    seen = count(lambda: net(x).sum().backward())
    modules, lines = group(seen.by_module), group(seen.by_line)
    inner, head = 2 * 5 * 4 * 12, 2 * 5 * 12 * 2
    assert 2 * inner == modules["blocks.1.attn.qkv"].matmul_flops
    assert 3 * head == modules["head"].matmul_flops
    assert modules["Net"].pointwise_flops == 2 * 60  # relu and its gradient
    assert 2 * inner == lines[f"{__file__}:{_line('line of the inner product')}"].matmul_flops
    assert 3 * head == lines[f"{__file__}:{_line('line of the head')}"].matmul_flops


def test_a_shared_module_called_three_times_is_three_calls() -> None:
    layer = nn.Linear(4, 4, bias=False)
    net = nn.Sequential(layer, layer, layer)
    seen = count(net, r(5, 4))
    assert seen.matmul_flops == 3 * 2 * 5 * 16


def test_places_without_modules() -> None:
    path, line, module = SiteFinder().find()  # line of the call
    assert (__file__, _line("line of the call"), None) == (path, line, module)
