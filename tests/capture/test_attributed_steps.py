"""What an attributed step notes: activations kept for backward, touched memory, costs known from ops like it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from boundby.capture.attribute import AttributingWatcher
from boundby.capture.counter import count_callable


def watched(step, steps=1):
    watcher = AttributingWatcher(lambda: False)
    for _ in range(steps):
        watcher.reset()
        watcher.start()
        step()
        watcher.stop()
    return watcher, watcher.take()


@pytest.fixture
def training():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.BatchNorm1d(16), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(6, 8)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def test_saved_activations_are_those_that_count_finds(training):
    training()
    for steps in (1, 3):
        _, step = watched(training, steps)
        assert step.saved_bytes == count_callable(training).saved_bytes > 0


def test_parameters_outside_modules_are_no_activations():
    weight = nn.Parameter(torch.randn(8, 4))
    x = torch.randn(6, 8)
    _, step = watched(lambda: (x @ weight).exp().sum().backward())
    assert step.saved_bytes == 4 * (6 * 8 + 6 * 4)  # x for the weight's gradient, the result of exp


def test_without_a_backward_it_is_not_known():
    model, x = nn.Linear(8, 4), torch.randn(6, 8)
    _, step = watched(lambda: model(x))
    assert step.saved_bytes is None


def test_transforms_and_saved_tensor_hooks_of_the_user_work_as_ever():
    x = torch.randn(5)
    packed = []

    def pack(saved):
        packed.append(saved.numel())
        return saved

    def step():
        torch.func.grad(lambda one: one.sin().sum())(x)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
            x.clone().requires_grad_().exp().sum().backward()

    watched(step)
    assert packed == [5]


def test_each_input_and_output_is_touched_with_its_bytes(training):
    a, b = torch.randn(6, 8), torch.randn(8, 4)
    out = torch.empty(6, 4)
    _, step = watched(lambda: torch.mm(a, b, out=out))
    at = [op.name() for op in step.ops].index("aten::mm.out")
    begin, end = step.offsets[at], step.offsets[at + 1]
    assert list(step.keys[begin:end]) == [a.data_ptr(), b.data_ptr(), out.data_ptr(), out.data_ptr()]
    assert list(step.sizes[begin:end]) == [4 * 48, 4 * 32, 4 * 24, 4 * 24]
    assert step.inputs[at] == 3


def test_views_touch_nothing():
    a = torch.randn(6, 8)
    _, step = watched(lambda: a.t())
    assert (len(step.keys), list(step.works)) == (0, [0])


def test_sites_are_the_same_in_every_step(training):
    watcher, first = watched(training, 2)
    watcher.reset()
    watcher.start()
    training()
    watcher.stop()
    assert first.site == watcher.take().site


def test_after_the_first_step_costs_come_from_memory(training):
    watcher, _ = watched(training)
    misses = watcher.cache_info.misses
    for _ in range(3):
        watcher.start()
        training()
        watcher.stop()
    info = watcher.cache_info
    assert info.misses == misses
    assert info.hit_rate == info.hits / (info.hits + info.misses + info.uncached) > 0.75
    assert info.hits + info.misses + info.uncached == len(watcher.take().ops)


def test_one_signature_on_two_lines_is_two_sites():
    x = torch.randn(4)

    def step():
        x.exp()
        x.exp()

    watcher, seen = watched(step)
    assert seen.site[0] != seen.site[1]
    assert watcher.cache_info.misses == 1
