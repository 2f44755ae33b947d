"""What goes wrong in the user's code, in other threads and processes, or in boundby itself: the loop goes on."""

from __future__ import annotations

import os
import threading

import pytest
import torch
from small_training import MANY, SMALL, net, training
from torch import nn
from torch.optim import optimizer as torch_optimizer

import boundby
from boundby.capture import marks
from boundby.capture.session import Session

pytestmark = pytest.mark.usefixtures("nothing_stays")


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
