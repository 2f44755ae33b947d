"""Watching real torch code in this process: steps are found, and nothing of the user's is changed."""

from __future__ import annotations

import copy
import pickle
import random
import threading

import numpy as np
import pytest
import torch
from small_training import MANY, SMALL, codes, net, training
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

import boundby
from boundby.capture.schedule import Limits
from boundby.capture.session import Session, StopRun

pytestmark = pytest.mark.usefixtures("nothing_stays")


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


def test_a_loop_that_updates_by_itself_trains_though_it_has_no_optimizer(session):
    model = net()
    session.arm()
    for _ in range(MANY):
        loss = model(torch.randn(4, 8)).square().mean()
        weights = list(model.parameters())
        with torch.no_grad():
            for weight, slope in zip(weights, torch.autograd.grad(loss, weights), strict=True):
                weight.sub_(0.01 * slope)
    assert session.trace().kind == "training"


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


def test_stop_never_raises_in_a_thread(monkeypatch):
    session, model, raised, done = Session(limits=SMALL, stop=True), net(), [], []
    monkeypatch.setattr(threading, "excepthook", raised.append)

    def work():
        done.append(training(model, torch.optim.SGD(model.parameters(), lr=0.1), MANY))

    session.arm()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not raised
    assert len(done) == 1
    assert session.ended
    assert [one.code for one in session.trace().findings].count("not-stopped") == 1


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
