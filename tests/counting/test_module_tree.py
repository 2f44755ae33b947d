"""The tree of modules: its parts add up, shared modules and parameters count once, work belongs to who made it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.checkpoint import checkpoint

from boundby.capture.counter import count_callable
from boundby.results.module_tree import ModuleNode

WORK = ("ops", "launches", "matmul_flops", "pointwise_flops", "bytes_read", "bytes_written")


def nodes(tree: ModuleNode) -> Iterator[ModuleNode]:
    yield tree
    for child in tree.children:
        yield from nodes(child)


def by_path(tree: ModuleNode) -> dict[str, ModuleNode]:
    return {node.path: node for node in nodes(tree)}


def work_of(counts: Any) -> tuple[int, ...]:
    return tuple(getattr(counts, name) for name in WORK)


def check_sums(tree: ModuleNode) -> None:
    for node in nodes(tree):
        below = [work_of(child.total) for child in node.children]
        assert work_of(node.total) == tuple(map(sum, zip(work_of(node.own), *below, strict=True)))
        assert node.saved_bytes == node.own_saved_bytes + sum(child.saved_bytes for child in node.children)
        assert node.parameters == node.own_parameters + sum(child.parameters for child in node.children)


class Tied(nn.Module):
    """A decoder with an embedding tied to its head, one layer called three times and one not called."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(10, 8)
        self.blocks = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])
        self.again = nn.Linear(8, 8)
        self.same = nn.Identity()
        self.spare = nn.Linear(3, 3)
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x).relu()
        for _ in range(3):
            x = self.again(x)
        return self.head(self.same(x))


TOKENS = torch.randint(0, 10, (4, 5))
ROWS = 20


def test_a_tree_of_a_forward() -> None:
    tree = count_callable(Tied(), TOKENS).tree
    check_sums(tree)
    (model,) = tree.children
    assert [child.name for child in model.children] == ["tokens", "blocks", "again", "same", "spare", "head"]
    found = by_path(tree)
    product = 2 * ROWS * 8 * 8
    assert found["blocks"].type == "ModuleList"
    assert found["blocks"].total.matmul_flops == 2 * product
    assert found["blocks.0"].total.matmul_flops == product
    assert found["head"].total.matmul_flops == 2 * ROWS * 8 * 10
    assert (model.own.matmul_flops, model.own.launches) == (0, 2)  # the two relu


def test_a_module_called_three_times_has_three_calls_and_its_parameters_once() -> None:
    again = by_path(count_callable(Tied(), TOKENS).tree)["again"]
    assert (again.calls, again.parameters, again.total.matmul_flops) == (3, 72, 3 * 2 * ROWS * 8 * 8)


def test_a_tied_weight_counts_once_and_is_marked() -> None:
    model = Tied()
    tree = count_callable(model, TOKENS).tree
    found = by_path(tree)
    assert (found["tokens"].parameters, found["tokens"].shared) == (80, False)
    assert (found["head"].parameters, found["head"].shared) == (0, True)
    assert tree.parameters == sum(one.numel() for one in model.parameters())


def test_modules_that_run_no_op_are_there() -> None:
    found = by_path(count_callable(Tied(), TOKENS).tree)
    assert (found["spare"].calls, found["spare"].parameters, found["spare"].total.ops) == (0, 12, 0)
    assert (found["same"].calls, found["same"].parameters) == (0, 0)


def test_backward_belongs_to_the_module_of_its_forward() -> None:
    model = Tied()
    forward = by_path(count_callable(model, TOKENS).tree)
    both = count_callable(lambda: model(TOKENS).sum().backward())
    check_sums(both.tree)
    found = by_path(both.tree)
    for path in ("blocks.0", "blocks.1", "again", "head"):
        assert found[path].total.matmul_flops == 3 * forward[path].total.matmul_flops
    # The sum, and in backward the gradients it begins with.
    assert both.tree.own.launches == 2
    assert work_of(both.tree.total) == work_of(both)


def test_a_module_under_two_parents_has_a_line_under_each() -> None:
    shared = nn.Linear(4, 4)
    model = nn.Sequential(nn.Sequential(nn.ReLU(), shared), nn.Sequential(shared, shared))
    tree = count_callable(model, torch.zeros(3, 4)).tree
    check_sums(tree)
    found = by_path(tree)
    assert (found["0.1"].calls, found["0.1"].parameters, found["0.1"].shared) == (1, 20, False)
    assert (found["1.0"].calls, found["1.0"].parameters, found["1.0"].shared) == (2, 0, True)
    assert tree.parameters == 20


def test_saved_bytes_belong_to_the_earliest_op_that_keeps_them() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    counts = count_callable(model, torch.zeros(3, 4))
    found = by_path(counts.tree)
    # The input, then the result of the ReLU, which the second layer keeps as well.
    assert [found[path].saved_bytes for path in "012"] == [4 * 3 * 4, 4 * 3 * 8, 0]
    assert counts.tree.saved_bytes == counts.saved_bytes == 4 * 3 * 12


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_checkpointing_runs_again_belongs_to_its_module_and_is_no_call(reentrant: bool) -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
            self.outer = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.outer(checkpoint(self.inner, x, use_reentrant=reentrant))

    model, x = Checkpointed(), torch.zeros(5, 8, requires_grad=True)
    counts = count_callable(lambda: model(x).sum().backward())
    check_sums(counts.tree)
    found = by_path(counts.tree)
    assert [child.name for child in counts.tree.children] == ["Checkpointed"]
    assert [found[path].calls for path in ("inner", "inner.0", "outer")] == [1, 1, 1]
    once = 2 * 5 * 8 * 8
    assert found["inner.0"].total.matmul_flops == 4 * once
    assert counts.recomputed_flops > 0


def test_forwards_that_are_checkpointed_without_a_call_have_their_recomputation() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.Linear(8, 8)

        def inner(self, x: torch.Tensor) -> torch.Tensor:
            return self.mix(torch.tanh(x)).sin()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.inner, x, use_reentrant=False)

    model, x = nn.Sequential(Block(), Block(), Block()), torch.zeros(5, 8, requires_grad=True)
    counts = count_callable(lambda: model(x).sum().backward())
    check_sums(counts.tree)
    found = by_path(counts.tree)
    # In each block: tanh and sine, both again in backward, and their gradients; the sum's own are outside.
    assert {found[path].own.launches for path in "012"} == {found["0"].own.launches}
    assert found["0"].own.launches >= 5
    assert counts.tree.own.launches == 2


def test_a_module_that_calls_itself_is_one_node() -> None:
    class Halving(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.mix(x) if len(x) == 1 else torch.cat([self(half) for half in x.chunk(2)])

    tree = count_callable(Halving(), torch.zeros(4, 4)).tree
    check_sums(tree)
    (top,) = tree.children
    assert [(child.name, child.calls) for child in top.children] == [("mix", 4)]
    assert top.calls == 1 + 2 + 4


def test_modules_outside_the_caller_are_named_after_an_owner_or_their_class() -> None:
    loose = nn.Linear(4, 4)

    class Calls(nn.Module):
        def __init__(self, *called: nn.Module) -> None:
            super().__init__()
            self.called = called  # a plain tuple, so not registered

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for one in self.called:
                x = one(x)
            return x

    class Owner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.owned = nn.Linear(4, 4)
            self.caller = Calls(self.owned, loose, nn.Linear(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.caller(x)

    tree = count_callable(Owner(), torch.zeros(2, 4)).tree
    check_sums(tree)
    names = [child.name for child in by_path(tree)["caller"].children]
    assert names == ["owned", "(Linear)", "(Linear) #2"]
    assert tree.parameters == 60


def test_several_outermost_modules_stand_beside_each_other() -> None:
    first, second, loss = nn.Linear(4, 4), nn.Linear(4, 2), nn.MSELoss()
    x, target = torch.zeros(3, 4), torch.zeros(3, 2)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        loss(second(first(x)), target).backward()
        optimizer.step()

    counts = count_callable(step)
    check_sums(counts.tree)
    assert [child.name for child in counts.tree.children] == ["Linear", "Linear #2", "MSELoss"]
    assert work_of(counts.tree.total) == work_of(counts)
    optimizing = {one.name: one for one in counts.by_phase}["optimizer"]
    assert counts.tree.own.launches >= optimizing.launches > 0


def test_unmodelled_ops_are_named_with_their_module() -> None:
    @torch.library.custom_op("treetest::opaque", mutates_args=())
    def opaque(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    class Opaque(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return opaque(opaque(x)) + torch.from_numpy(x.numpy())

    counts = count_callable(nn.Sequential(nn.ReLU(), Opaque()), torch.ones(3))
    unmodelled = {one.name: one.calls for one in by_path(counts.tree)["1"].unmodelled}
    assert unmodelled == {"treetest::opaque": 2, "numpy (outside torch)": 1}
    assert unmodelled == {one.name: one.calls for one in counts.unmodelled}


def test_a_call_that_raises_leaves_nothing_behind() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(5, 5))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        count_callable(model, torch.zeros(2, 4))
    assert count_callable(model[0], torch.zeros(2, 4)).matmul_flops == 2 * 2 * 4 * 4


def test_no_module_at_all() -> None:
    tree = count_callable(lambda: torch.zeros(3, 3) @ torch.zeros(3, 3)).tree
    assert (tree.children, tree.parameters, tree.total.matmul_flops) == ((), 0, 54)


def _nested(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, width), nn.Tanh())


def _mlp(widths: list[int], kinds: list[str]) -> nn.Module:
    layers: list[nn.Module] = []
    for (wide, out), kind in zip(pairwise(widths), kinds, strict=False):
        between: dict[str, Callable[[], nn.Module]] = {
            "relu": nn.ReLU,
            "dropout": nn.Dropout,
            "norm": partial(nn.LayerNorm, out),
            "nested": partial(_nested, out),
        }
        layers += [nn.Linear(wide, out), between[kind]()]
    return nn.Sequential(*layers)


@given(
    widths=st.lists(st.integers(1, 6), min_size=2, max_size=5),
    kinds=st.lists(st.sampled_from(["relu", "dropout", "norm", "nested"]), min_size=4, max_size=4),
    times=st.integers(1, 3),
    backward=st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_parts_add_up_whatever_the_model(widths: list[int], kinds: list[str], times: int, backward: bool) -> None:
    model = _mlp(widths, kinds)
    x = torch.randn(3, widths[0])

    def call() -> None:
        results = [model(x).sum() for _ in range(times)]
        if backward:
            torch.stack(results).sum().backward()

    counts = count_callable(call)
    check_sums(counts.tree)
    assert work_of(counts.tree.total) == work_of(counts)
    assert counts.tree.saved_bytes == counts.saved_bytes
    assert counts.tree.parameters == sum(one.numel() for one in model.parameters())
    assert counts.tree.children[0].calls == times
    products = {node.path: node.total.matmul_flops for node in nodes(counts.tree) if node.type == "Linear"}
    assert sum(products.values()) == counts.matmul_flops


def test_ops_in_place_belong_to_their_module() -> None:
    class Normalised(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x + 1
            y /= y.sum(-1, keepdim=True)
            y[0] *= 2
            return y

    model, x = nn.Sequential(nn.Linear(4, 4), Normalised()), torch.zeros(3, 4)
    counts = count_callable(lambda: model(x).sum().backward())
    check_sums(counts.tree)
    assert counts.tree.own_saved_bytes == 0
    assert {one.name for one in counts.by_line if "counter.py" in one.name} == set()
    # The sum, and in backward the gradients it begins with.
    assert counts.tree.own.launches == 2


def test_by_module_is_the_own_work_of_the_tree() -> None:
    shared = nn.Linear(8, 8)
    model = nn.Sequential(nn.Sequential(shared, nn.ReLU()), nn.Sequential(shared, nn.Dropout()))
    x = torch.zeros(3, 8, requires_grad=True)
    counts = count_callable(lambda: model[1](checkpoint(model[0], model(x), use_reentrant=False)).sum().backward())
    own: dict[str, list[int]] = {}
    for node in nodes(counts.tree):
        if node.path and node.own.ops:
            sums = own.setdefault(node.path, [0] * len(WORK))
            own[node.path] = [one + more for one, more in zip(sums, work_of(node.own), strict=True)]
    assert {one.name: list(work_of(one)) for one in counts.by_module} == own
    assert "0.0" in own


def test_a_compiled_region_belongs_to_the_module_that_calls_it() -> None:
    torch._dynamo.reset()
    inner = nn.Sequential(nn.Linear(4, 8), nn.GELU())
    model, x = nn.Sequential(nn.Linear(4, 4), torch.compile(inner)), torch.zeros(3, 4)
    forward = nn.Sequential(nn.Linear(4, 4), inner)
    plain = count_callable(lambda: forward(x).sum().backward())
    compiled = count_callable(lambda: model(x).sum().backward())
    torch._dynamo.reset()
    check_sums(compiled.tree)
    assert by_path(compiled.tree)["1"].total.matmul_flops == 3 * 2 * 3 * 4 * 8
    assert compiled.matmul_flops == plain.matmul_flops
    assert (compiled.tree.parameters, compiled.unmodelled) == (plain.tree.parameters, ())
