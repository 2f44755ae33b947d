"""What must hold of any counts, and agreement with torch's own counter where that has rules."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from counting_cases import count
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from boundby.capture.costs.traffic import distinct_bytes
from boundby.results.counts import Counts

VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "t": lambda x: x.t(),
    "slice": lambda x: x[1:],
    "step": lambda x: x[::2],
    "unsqueeze": lambda x: x.unsqueeze(0),
    "flatten": lambda x: x.view(-1),
    "expand": lambda x: x.expand(3, *x.shape),
    "detach": lambda x: x.detach(),
    "narrow": lambda x: x.narrow(0, 0, 1),
    "select": lambda x: x.select(0, 0),
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(0, 1, 1),
    "real": lambda x: torch.view_as_complex(x.view(x.shape[0], -1, 2)).real,
    "bits": lambda x: x.view(torch.int32),
    "split": lambda x: x.split(1)[0],
}


@given(name=st.sampled_from(sorted(VIEWS)), rows=st.integers(2, 6), columns=st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_a_view_adds_nothing(name: str, rows: int, columns: int) -> None:
    x = torch.randn(rows, 2 * columns)
    seen = count(lambda: VIEWS[name](x))
    assert (
        seen.launches,
        seen.matmul_flops,
        seen.pointwise_flops,
        seen.bytes_read,
        seen.bytes_written,
    ) == (0, 0, 0, 0, 0)
    assert not seen.unmodelled


@given(batch=st.integers(1, 8), widths=st.lists(st.integers(1, 12), min_size=2, max_size=5))
@settings(max_examples=30, deadline=None)
def test_twice_the_batch_is_twice_the_flops(batch: int, widths: list[int]) -> None:
    model = _stack(widths)
    one, two = (count(model, torch.randn(rows, widths[0])) for rows in (batch, 2 * batch))
    assert 2 * one.matmul_flops == two.matmul_flops
    assert 2 * one.pointwise_flops == two.pointwise_flops
    assert one.ops == two.ops


@given(batch=st.integers(1, 8), widths=st.lists(st.integers(1, 12), min_size=2, max_size=5))
@settings(max_examples=30, deadline=None)
def test_training_a_linear_stack_is_three_forwards_less_the_first_input_gradient(batch: int, widths: list[int]) -> None:
    model, x = _stack(widths), torch.randn(batch, widths[0])
    forward = count(model, x).matmul_flops
    step = count(lambda: model(x).sum().backward())
    assert 3 * forward - 2 * batch * widths[0] * widths[1] == step.matmul_flops
    phases = {one.name: one.matmul_flops for one in step.by_phase}
    assert phases == {"forward": forward, "backward": step.matmul_flops - forward}


@given(rows=st.integers(1, 9), columns=st.integers(1, 9))
@settings(max_examples=30, deadline=None)
def test_a_square_reads_half_of_a_product(rows: int, columns: int) -> None:
    x, y = torch.randn(rows, columns), torch.randn(rows, columns)
    square, product = count(lambda: x * x), count(lambda: x * y)
    assert 2 * square.bytes_read == product.bytes_read
    assert square.pointwise_flops == product.pointwise_flops
    assert square.bytes_written == product.bytes_written


@given(
    views=st.lists(
        st.tuples(
            st.integers(0, 5),
            st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 1, 2, 3, 4, 6, 8, 12])), max_size=3),
        ),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=300, deadline=None)
def test_distinct_bytes_equal_enumeration(views: list[tuple[int, list[tuple[int, int]]]]) -> None:
    base = torch.zeros(200, dtype=torch.uint8)
    tensors = [
        base.as_strided([size for size, _ in dims], [stride for _, stride in dims], offset) for offset, dims in views
    ]
    places = torch.arange(200)
    touched = {
        int(place)
        for offset, dims in views
        for place in places.as_strided([size for size, _ in dims], [stride for _, stride in dims], offset).reshape(-1)
    }
    assert len(touched) == distinct_bytes(tensors)


def _stack(widths: list[int]) -> nn.Module:
    return nn.Sequential(*(nn.Linear(i, o) for i, o in pairwise(widths)))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (one.view(2, 5, 4, 4).transpose(1, 2) for one in self.qkv(self.norm(x)).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2)).softmax(-1)
        return x + self.out((scores @ v).transpose(1, 2).reshape(2, 5, 16))


class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.trunk(x).relu() @ self.trunk(x.flip(0)).t()


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    "mlp": lambda: (
        nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.Linear(20, 3)),
        (torch.randn(7, 12),),
    ),
    "attention": lambda: (Block(), (torch.randn(2, 5, 16),)),
    "siamese": lambda: (Siamese(), (torch.randn(4, 8),)),
    "convnet": lambda: (
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 4, 3, stride=2),
            nn.Flatten(),
            nn.Linear(4 * 3 * 3, 5),
        ),
        (torch.randn(2, 3, 16, 16),),
    ),
    "upsampler": lambda: (nn.ConvTranspose2d(4, 6, 3, stride=2), (torch.randn(2, 4, 5, 5),)),
    "cells": lambda: (nn.GRU(6, 7), (torch.randn(3, 2, 6),)),
    "embedding": lambda: (nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 9)), (torch.tensor([[1, 2], [3, 1]]),)),
}


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("train", [False, True])
def test_agrees_with_the_stock_counter_where_that_has_rules(name: str, train: bool) -> None:
    model, inputs = MODELS[name]()

    def work() -> None:
        out = model(*inputs)
        out = out[0] if isinstance(out, tuple) else out
        if train:
            out.sum().backward()

    with FlopCounterMode(display=False) as stock:
        work()
    assert stock.get_total_flops() == count(work).matmul_flops > 0


# Where boundby and the stock counter differ, and why: (what runs, boundby's FLOPs, the stock counter's).
DIFFERENCES: dict[str, tuple[Callable[[], Callable[[], object]], int, int]] = {
    "attention on a CPU has no stock rule": (
        lambda: (lambda q: lambda: F.scaled_dot_product_attention(q, q, q))(torch.randn(1, 2, 8, 4)),
        4 * 2 * 8 * 8 * 4,
        0,
    ),
    "a fused LSTM has no stock rule": (
        lambda: (lambda m, x: lambda: m(x))(nn.LSTM(4, 6), torch.randn(3, 2, 4)),
        2 * 6 * 24 * 10,
        0,
    ),
    "a matrix-vector product has no stock rule": (
        lambda: (lambda a, v: lambda: a @ v)(torch.randn(5, 6), torch.randn(6)),
        2 * 30,
        0,
    ),
    "the stock rule charges a sparse product as a dense one": (
        lambda: (lambda s, d: lambda: s @ d)(torch.eye(4).to_sparse(), torch.randn(4, 3)),
        2 * 4 * 3,
        2 * 4 * 4 * 3,
    ),
    "the stock rule charges a complex product as a real one": (
        lambda: (lambda a: lambda: a @ a)(torch.randn(4, 4, dtype=torch.complex64)),
        8 * 64,
        2 * 64,
    ),
}


@pytest.mark.parametrize("reason", DIFFERENCES)
def test_differs_from_the_stock_counter_only_for_a_reason(reason: str) -> None:
    build, ours, theirs = DIFFERENCES[reason]
    work = build()
    with FlopCounterMode(display=False) as stock:
        work()
    assert (ours, theirs) == (count(work).matmul_flops, stock.get_total_flops())


def _training_step() -> Callable[[], None]:
    torch.manual_seed(0)
    model, (x,) = MODELS["convnet"]()
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), torch.tensor([0, 1])).backward()
        optimizer.step()

    step()
    return step


def test_counts_are_equal_across_runs() -> None:
    step = _training_step()
    assert count(step) == count(step) == count(_training_step())


def test_counts_are_equal_across_threads() -> None:
    expected = count(_training_step())
    seen: list[Counts] = []

    def run() -> None:
        seen.append(count(_training_step()))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    assert [expected, expected] == seen


def test_groups_add_up_to_the_total() -> None:
    seen = count(_training_step())
    for groups in (seen.by_op, seen.by_phase, seen.by_line):
        for field in ("ops", "launches", "matmul_flops", "pointwise_flops", "bytes_read", "bytes_written"):
            assert getattr(seen, field) == sum(getattr(one, field) for one in groups)
    assert {"forward", "backward", "optimizer", "other"} == {one.name for one in seen.by_phase}
