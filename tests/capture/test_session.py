"""Watching real torch code in this process: steps are found, and nothing of the user's is changed."""

from __future__ import annotations

import copy
import os
import pickle
import random
import sys
import threading
import warnings

import numpy as np
import pytest
import sympy  # noqa: F401  # torch imports it late, and it adds a filter to the warnings
import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset, dataloader

import boundby
from boundby.capture import marks
from boundby.capture.schedule import Limits
from boundby.capture.session import Session, StopRun

SMALL = Limits(warmup=2, timed=4, watched=2)
MANY = 60  # more steps than SMALL plans, whatever settles or prepares in between


def global_state():
    return (
        dict(torch_module._global_forward_pre_hooks),
        dict(torch_optimizer._global_optimizer_pre_hooks),
        dict(torch_optimizer._global_optimizer_post_hooks),
        dataloader._BaseDataLoaderIter.__next__,
        list(warnings.filters),
        list(sys.meta_path),
        marks._listener,
        torch._C._len_torch_dispatch_stack(),
        torch._C._autograd._profiler_enabled(),
        torch.is_grad_enabled(),
    )


@pytest.fixture(autouse=True)
def _nothing_stays():
    before = global_state()
    yield
    assert global_state() == before


@pytest.fixture
def session():
    made = Session(limits=SMALL)
    yield made
    made.disarm()


def net(width: int = 8) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 1))


def training(model, optimizer, steps: int, width: int = 8):
    """The losses of ``steps`` training steps on random batches."""
    losses = []
    for _ in range(steps):
        loss = model(torch.randn(4, width)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def codes(trace) -> list[str]:
    return [finding.code for finding in trace.findings]


# Steps are found.


def test_training_steps_are_found(session):
    model = net()
    session.arm()
    training(model, torch.optim.SGD(model.parameters(), lr=0.1), MANY)
    assert session.ended
    trace = session.trace()
    assert trace.kind == "training"
    assert trace.events_per_step == 1
    assert 1 <= len(trace.step_s) <= 4
    assert all(seconds > 0 for seconds in trace.step_s)
    assert trace.ops is not None
    phases = {site.phase for site in trace.sites}
    assert {"forward", "backward", "optimizer"} <= phases
    assert "capture-failed" not in codes(trace)
    products = sum(trace.sites[index].cost.matmul_flops for index in trace.ops.site)
    # Two linear layers on four rows: forward, and backward for the weights and for the second layer's input.
    assert products == 2 * 4 * (2 * 8 * 16 + 3 * 16)


def test_inference_steps_are_the_outermost_module_calls(session):
    model = net()
    session.arm()
    with torch.no_grad():
        for _ in range(MANY):
            model(torch.randn(4, 8))
    assert session.ended
    trace = session.trace()
    assert trace.kind == "inference"
    assert trace.events_per_step == 1
    assert {site.op.split(".")[1] for site in trace.sites} >= {"addmm", "relu"}


def test_the_two_optimizers_of_a_gan_make_one_step(session):
    discriminator, generator = net(), net()
    sgd = {one: torch.optim.SGD(one.parameters(), lr=0.1) for one in (discriminator, generator)}
    session.arm()
    for _ in range(MANY):
        training(discriminator, sgd[discriminator], 2)
        training(generator, sgd[generator], 1)
    assert session.ended
    trace = session.trace()
    assert trace.kind == "training"
    assert trace.events_per_step == 3
    backward = [index for index in trace.ops.site if trace.sites[index].phase == "backward"]
    assert len([index for index in backward if "mm" in trace.sites[index].op]) == 3 * 3


def test_training_takes_over_from_the_inference_before_it(session):
    model = net()
    session.arm()
    for _ in range(MANY):
        model(torch.randn(4, 8))
    training(model, torch.optim.SGD(model.parameters(), lr=0.1), MANY)
    assert session.trace().kind == "training"


def test_marks_take_over(session):
    model = net()
    session.arm()
    training(model, torch.optim.SGD(model.parameters(), lr=0.1), 3)
    for _ in boundby.step(range(MANY)):
        torch.ones(3) + 1
        training(model, torch.optim.SGD(model.parameters(), lr=0.1), 2)
    trace = session.trace()
    assert trace.kind == "callable"
    assert len([index for index in trace.ops.site if trace.sites[index].phase == "backward"]) % 2 == 0


def test_an_optimizer_that_wraps_another_steps_once(session):
    class Wrapped(torch.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner
            super().__init__(inner.param_groups[0]["params"], {})

        def step(self, closure=None):
            return self.inner.step(closure)

    model = net()
    session.arm()
    training(model, Wrapped(torch.optim.SGD(model.parameters(), lr=0.1)), MANY)
    trace = session.trace()
    assert trace.events_per_step == 1
    assert len([index for index in trace.ops.site if "addmm" in trace.sites[index].op]) == 2


def test_waiting_for_a_data_loader_is_input(session):
    class Slow(TensorDataset):
        def __getitem__(self, index):
            threading.Event().wait(0.002)
            return super().__getitem__(index)

    loader = DataLoader(Slow(torch.randn(MANY * 2, 8)), batch_size=2)
    model = net()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    session.arm()
    for (batch,) in loader:
        model(batch).sum().backward()
        sgd.step()
    trace = session.trace()
    assert all(0.004 <= waited <= whole for waited, whole in zip(trace.input_s, trace.step_s, strict=True))
    # The loader's own ops (stacking samples) are not the step's.
    assert not [index for index in trace.ops.site if "stack" in trace.sites[index].op or "cat" in trace.sites[index].op]


def test_a_script_that_ends_early_gives_what_there_was():
    session = Session(limits=Limits(warmup=1, timed=1000))
    model = net()
    session.arm()
    training(model, torch.optim.SGD(model.parameters(), lr=0.1), 12)
    assert not session.ended
    assert len(session.trace().step_s) >= 1


def test_without_any_step_there_is_no_trace(session):
    session.arm()
    torch.ones(3).sum()
    assert session.torch_seen
    assert session.trace() is None


def test_stop_ends_the_script_when_all_was_seen():
    session = Session(limits=SMALL, stop=True)
    model = net()
    session.arm()
    with pytest.raises(StopRun):
        training(model, torch.optim.SGD(model.parameters(), lr=0.1), 10_000)
    assert session.ended
    assert session.trace() is not None


# Nothing of the user's is changed.


def test_results_and_random_numbers_are_bit_identical(session):
    def run():
        torch.manual_seed(3)
        np.random.seed(3)
        random.seed(3)
        model = net()
        losses = training(model, torch.optim.Adam(model.parameters()), MANY)
        return losses, torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()

    plain = run()
    session.arm()
    watched = run()
    assert session.ended
    assert watched[0] == plain[0]
    assert torch.equal(watched[1], plain[1])
    assert watched[2:] == plain[2:]


def test_modules_and_optimizers_are_left_as_they_were(session):
    model = net()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)

    def looks():
        modules = [{key: copy.copy(value) for key, value in one.__dict__.items()} for one in model.modules()]
        return modules, [type(one) for one in model.modules()], set(sgd.__dict__), dict(sgd._optimizer_step_pre_hooks)

    plain = looks()
    session.arm()
    for _ in range(MANY):
        with torch.no_grad():
            model(torch.randn(4, 8))
        sgd.step()
        assert looks() == plain
    assert session.ended


def test_models_can_be_pickled_copied_and_saved_while_watched(session, tmp_path):
    model = net()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    session.arm()
    for _ in range(MANY):
        training(model, sgd, 1)
        twin = pickle.loads(pickle.dumps(model))
        assert torch.equal(copy.deepcopy(model)[0].weight, twin[0].weight)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    assert session.ended
    assert torch.equal(torch.load(tmp_path / "model.pt")["0.weight"], model[0].weight)


def test_module_hooks_are_gone_after_the_end_of_watching_not_only_of_the_script(session):
    before = dict(torch_module._global_forward_pre_hooks)
    model = net()
    session.arm()
    training(model, torch.optim.SGD(model.parameters(), lr=0.1), MANY)
    assert session.ended
    # Before anybody disarmed it by hand:
    assert dict(torch_module._global_forward_pre_hooks) == before
    assert not torch_optimizer._global_optimizer_post_hooks
    assert torch._C._len_torch_dispatch_stack() == 0


def test_a_mode_of_the_users_own_sees_their_ops_and_no_others(session):
    class Seeing(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.ops = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.ops.append(str(func))
            return func(*args, **(kwargs or {}))

    def run():
        model = net()
        with Seeing() as seeing:
            training(model, torch.optim.SGD(model.parameters(), lr=0.1), MANY)
        return seeing.ops

    plain = run()
    session.arm()
    watched = run()
    assert session.ended
    assert len(watched) == len(plain)
    assert watched == plain


def test_the_users_own_profiler_is_left_alone(session):
    model = net()
    session.arm()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        training(model, torch.optim.SGD(model.parameters(), lr=0.1), MANY)
    names = {event.name for event in profile.events()}
    assert "aten::addmm" in names
    trace = session.trace()
    assert "capture-failed" not in codes(trace)


def test_a_profiler_begun_while_watching_works(session):
    """The user's own begins in the middle of a watched step."""
    model = net()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    session.arm()
    for _ in range(MANY):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            model(torch.randn(4, 8)).sum().backward()
        assert "aten::addmm" in {event.name for event in profile.events()}
        sgd.step()
    assert "capture-failed" not in codes(session.trace())


def test_autograd_modes_of_the_user_do_not_disturb_watching(session):
    model = net()
    session.arm()
    with torch.inference_mode():
        for _ in range(MANY):
            model(torch.randn(4, 8))
    trace = session.trace()
    assert trace.kind == "inference"
    assert "capture-failed" not in codes(trace)


def test_a_default_device_or_dtype_of_the_user_does_not_disturb_watching(session):
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("cpu"):
            model = net()
            session.arm()
            training(model, torch.optim.SGD(model.parameters(), lr=0.1), MANY)
        trace = session.trace()
    finally:
        torch.set_default_dtype(torch.float32)
    assert "capture-failed" not in codes(trace)
    assert {site.cost.dtype for site in trace.sites if site.cost.matmul_flops} == {"fp64"}


# Exceptions, threads, forks.


class Fails(nn.Module):
    def __init__(self, every: int) -> None:
        super().__init__()
        self.inner = net()
        self.calls = 0
        self.every = every

    def forward(self, x):
        out = self.inner(self.inner(x).expand(4, 8))
        self.calls += 1
        if self.calls % self.every == 0:
            raise ValueError("mine")
        return out


def test_module_calls_that_fail_raise_their_own_error_and_the_next_ones_are_seen(session):
    model = Fails(every=5)
    failed = 0
    session.arm()
    for _ in range(3 * MANY):
        try:
            model(torch.randn(4, 8))
        except ValueError as error:
            assert str(error) == "mine"  # noqa: PT017  # a loop that catches its own errors is what is tested
            failed += 1
    assert failed == 3 * MANY // 5
    trace = session.trace()
    assert trace.kind == "inference"
    assert trace.events_per_step == 1
    assert len(trace.step_s) >= 1
    # Inner modules are parts of the call, not steps of their own.
    assert len([index for index in trace.ops.site if "addmm" in trace.sites[index].op]) == 4


def test_an_optimizer_step_that_fails_does_not_hide_the_next_ones(session):
    class Moody(torch.optim.SGD):
        calls = 0

        def step(self, closure=None):
            self.calls += 1
            if self.calls == 5:
                raise ValueError("mine")
            return super().step(closure)

    model = net()
    sgd = Moody(model.parameters(), lr=0.1)
    session.arm()
    for _ in range(MANY):
        try:
            training(model, sgd, 1)
        except ValueError:
            continue
    assert session.ended


def test_marks_left_by_an_exception_or_a_break_leave_no_watcher_behind(session):
    session.arm()
    x = torch.ones(8)
    most = 0
    for turn in range(4 * MANY):
        try:
            with boundby.step():
                x.add(1)
                if turn % 3 == 0:
                    raise KeyError
        except KeyError:
            pass
        most = max(most, torch._C._len_torch_dispatch_stack())
    assert session.ended
    assert most <= 1


def test_each_epoch_of_marked_batches_ends_the_watching_of_its_last_step(session):
    session.arm()
    x = torch.ones(8)
    left = []
    for _ in range(MANY):
        for _ in boundby.step(range(3)):
            x.add(1)
        left.append((torch._C._len_torch_dispatch_stack(), torch._C._autograd._profiler_enabled()))
    assert session.ended
    assert set(left) == {(0, False)}


def test_steps_of_other_threads_are_not_taken_for_the_scripts(session):
    model, other = net(), net()
    session.arm()
    thread = threading.Thread(target=training, args=(other, torch.optim.SGD(other.parameters(), lr=0.1), 30))
    thread.start()
    thread.join()
    assert session.events_seen == 0
    training(model, torch.optim.SGD(model.parameters(), lr=0.1), MANY)
    assert session.trace().events_per_step == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_is_left_alone(session):
    model = net()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    session.arm()
    training(model, sgd, 1)
    child = os.fork()
    if child == 0:
        hooked = bool(torch_optimizer._global_optimizer_post_hooks) or marks._listener is not None
        right = session.ended and session.foreign_process and not hooked
        os._exit(0 if right and torch._C._len_torch_dispatch_stack() == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not session.foreign_process
    training(model, sgd, MANY)
    assert session.ended
    assert session.trace().kind == "training"


@pytest.mark.parametrize("after", [1, 6, 11])
def test_an_error_of_boundbys_own_ends_watching_and_the_loop_goes_on(session, monkeypatch, after):
    model = net()
    session.arm()
    finder = session._finder
    plain, calls = finder.event, 0

    def broken(*args):
        nonlocal calls
        calls += 1
        if calls == after:
            raise RuntimeError("a bug of boundby's")
        plain(*args)

    monkeypatch.setattr(finder, "event", broken)
    losses = training(model, torch.optim.SGD(model.parameters(), lr=0.1), MANY)
    assert len(losses) == MANY
    assert session.ended
    assert calls == after
    (finding,) = session.findings
    assert finding.code == "capture-failed"
    assert "RuntimeError: a bug of boundby's" in finding.message
    assert torch._C._len_torch_dispatch_stack() == 0
    assert not torch_optimizer._global_optimizer_post_hooks


def test_probes_are_read_between_steps_and_closed():
    from boundby.results.trace import AnchorReading

    class Probes:
        def __init__(self, threads):
            self.threads, self.reads, self.closed = threads, 0, False

        def read(self, clock):
            self.reads += 1
            return AnchorReading(at_s=clock() / 1e9, seconds={"matmul": 1.0})

        def close(self):
            self.closed = True

    made = []

    def make(threads):
        made.append(Probes(threads))
        return made[0]

    session = Session(limits=SMALL, probes=make)
    model = net()
    session.arm()
    training(model, torch.optim.SGD(model.parameters(), lr=0.1), MANY)
    (probes,) = made
    assert probes.closed
    assert probes.threads == torch.get_num_threads()
    trace = session.trace()
    assert len(trace.anchors) == probes.reads >= 2
