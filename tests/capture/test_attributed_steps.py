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


def _second_order():
    """A step with derivatives of a network to its input in its loss, and the numbers of its lines by what they do."""
    torch.manual_seed(0)
    first, second = (torch.randn(*shape, requires_grad=True) for shape in ((2, 8), (8, 1)))

    def derivative(y, x):
        return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]

    def step():
        x = torch.rand(16, 2, requires_grad=True)
        hidden = torch.tanh(x @ first)
        y = hidden @ second
        slope = derivative(y, x)
        curve = derivative(slope.sum(1, keepdim=True), x)
        loss = (curve - y).square().mean()
        loss.backward()

    start = step.__code__.co_firstlineno
    names = ("x", "hidden", "y", "slope", "curve", "loss", "backward")
    lines = {name: start + 1 + place for place, name in enumerate(names)}
    return step, lines, derivative.__code__.co_firstlineno + 1


def test_ops_of_a_double_backward_are_charged_to_the_forward_line_whose_nodes_made_theirs():
    step, lines, call = _second_order()
    watcher, seen = watched(step)
    keys = list(watcher.sites)
    of_line = {}
    for index in seen.site:
        (_, _, _, _, line, _, phase, _, _) = keys[index]
        of_line.setdefault(line, []).append(phase)
    # What the lines of backward() and of autograd.grad() do by themselves is to make the gradient that they begin with.
    assert of_line[lines["backward"]] == ["forward"]
    assert of_line[call] == ["forward"] * 2
    # Of the line with tanh, one forward pass, and backward passes of the first, second and third order.
    assert of_line[lines["hidden"]].count("forward") <= 4
    assert of_line[lines["hidden"]].count("backward") > 20
    backward = sum(phases.count("backward") for phases in of_line.values())
    assert sum(of_line[lines[name]].count("backward") for name in ("hidden", "y", "curve", "loss")) == backward


def test_counting_charges_a_double_backward_as_a_run_does():
    step, lines, call = _second_order()
    found = {one.name: one.ops for one in count_callable(step).by_line}
    assert found[f"{__file__}:{lines['backward']}"] == 1
    assert found[f"{__file__}:{call}"] == 2
    watcher, seen = watched(step)
    keys = list(watcher.sites)
    hidden = sum(keys[index][4] == lines["hidden"] for index in seen.site)
    assert found[f"{__file__}:{lines['hidden']}"] == hidden


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
