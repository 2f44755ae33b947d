"""``boundby.explain`` on callables, generators and batches, on a made-up machine."""

from __future__ import annotations

import itertools

import pytest
import torch
from made_up import overhead, round_machine

import boundby
from boundby.capture import marks
from boundby.results.errors import EXIT_USAGE, BoundbyError

FEW = {"warmup": 1, "steps": 3, "watch": 2}


@pytest.fixture(scope="module")
def machine():
    threads = torch.get_num_threads()
    return round_machine(overhead("pointwise", 1e-6, threads=threads))


@pytest.fixture(autouse=True)
def _nothing_stays():
    yield
    assert marks._listener is None
    assert torch._C._len_torch_dispatch_stack() == 0
    assert not torch._C._autograd._profiler_enabled()


def test_a_callable_is_called_with_its_arguments(machine):
    calls = []

    def step(x, *, scale):
        calls.append((x, scale))
        return x * scale

    x = torch.ones(4)
    report = boundby.explain(step, x, scale=2.0, machine=machine, **FEW)
    assert all(seen is x and scale == 2.0 for seen, scale in calls)
    assert report.machine is machine
    assert report.step.kind == "callable"
    assert 1 <= report.step.steps_timed <= 3
    assert report.counts.ops == report.counts.launches == 1
    assert {row.op for row in report.ops} == {"aten.mul.Tensor"}
    assert report.ops[0].path == __file__
    split = report.split
    whole = (split.overhead, split.memory, split.matmul, split.pointwise, split.input, split.unexplained)
    assert sum(one.value for one in whole) == pytest.approx(1.0)
    assert report.to_json()


def test_each_next_of_a_generator_is_a_step(machine):
    def steps():
        x = torch.ones(4)
        while True:
            x = x + 1
            yield

    generator = steps()
    report = boundby.explain(generator, machine=machine, **FEW)
    assert report.counts.ops == 1
    next(generator)  # it is still the caller's


def test_a_generator_that_ends_early_gives_what_there_was(machine):
    report = boundby.explain((torch.ones(2) + 1 for _ in range(6)), warmup=1, steps=50, machine=machine)
    assert report.step.steps_timed >= 1


def test_batches_are_the_first_argument_and_waiting_for_them_is_input(machine):
    def batches():
        for number in itertools.count():
            torch.zeros(100_000).sum()
            yield torch.full((2,), float(number))

    seen = []

    def step(batch, weight):
        seen.append(batch[0].item())
        return batch * weight

    report = boundby.explain(step, torch.ones(2), batches=batches(), machine=machine, **FEW)
    assert seen == [float(number) for number in range(len(seen))]
    assert report.split.input.value > 0
    assert "aten.zeros.default" not in {row.op for row in report.ops}


@pytest.mark.parametrize("given", [[], [1], [1, 2]])
def test_too_few_batches_are_said_to_be_too_few(machine, given):
    with pytest.raises(BoundbyError) as caught:
        boundby.explain(lambda batch: torch.ones(2) + batch, batches=given, warmup=5, machine=machine)
    assert caught.value.code in ("no-steps", "one-step")
    assert caught.value.advice


@pytest.mark.parametrize("wrong", [3, None, "train.py", [torch.add]])
def test_what_cannot_be_a_step_is_refused(machine, wrong):
    with pytest.raises(BoundbyError) as caught:
        boundby.explain(wrong, machine=machine)
    assert caught.value.code == "not-callable"
    assert caught.value.status == EXIT_USAGE


@pytest.mark.parametrize("asked", [{"steps": 0}, {"warmup": -1}, {"watch": 1}])
def test_bad_counts_are_refused_before_anything_runs(machine, asked):
    calls = []
    with pytest.raises(BoundbyError) as caught:
        boundby.explain(lambda: calls.append(1), machine=machine, **asked)
    assert caught.value.code == "bad-steps"
    assert calls == []


def test_the_callables_own_error_passes(machine):
    error = KeyError("mine")
    calls = itertools.count()

    def step():
        torch.ones(2).add(1)
        if next(calls) == 6:
            raise error

    with pytest.raises(KeyError) as caught:
        boundby.explain(step, machine=machine, **FEW)
    assert caught.value is error


def test_a_training_step_with_an_optimizer_inside_is_one_call(machine):
    model = torch.nn.Linear(4, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        for _ in range(2):
            sgd.zero_grad()
            model(torch.ones(3, 4)).sum().backward()
            sgd.step()

    report = boundby.explain(step, machine=machine, **FEW)
    assert report.step.kind == "callable"
    assert report.step.events_per_step == 1
    assert {group.name: group.ops for group in report.counts.by_op}["aten.addmm.default"] == 2


def test_a_step_that_runs_no_op_has_a_time_and_no_ops(machine):
    report = boundby.explain(lambda: sum(range(1000)), machine=machine, **FEW)
    assert report.step.time_s.median > 0
    assert report.counts.ops == 0


def test_an_empty_batch_is_explained_like_any_other(machine):
    weight = torch.ones(16, 16)
    report = boundby.explain(lambda: torch.ones(0, 16) @ weight, machine=machine, **FEW)
    assert report.counts.matmul_flops == 0


@pytest.mark.parametrize("lengths", [itertools.count(1), itertools.cycle([3, 30, 7])], ids=["growing", "cycling"])
def test_steps_of_changing_length_are_explained_by_one_of_their_kinds(machine, lengths):
    def step():
        x = torch.ones(2)
        for _ in range(next(lengths)):
            x = x + 1

    report = boundby.explain(step, warmup=1, steps=8, watch=12, machine=machine)
    assert "steps-vary" in {finding.code for finding in report.findings}
    assert len(report.step.classes) > 1
    assert report.counts.ops in {one.ops for one in report.step.classes}
    assert sum(one.steps for one in report.step.classes) == report.step.steps_watched
