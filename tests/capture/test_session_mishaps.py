"""What goes wrong in the user's code, in other threads and processes, or in boundby itself: the loop goes on."""

from __future__ import annotations

import gc
import os
import threading
import weakref

import pytest
import torch
from small_training import MANY, SMALL, net, training
from torch import nn
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

import boundby
from boundby.capture import marks
from boundby.capture.finder import StepFinder
from boundby.capture.habits import HabitsSeen
from boundby.capture.session import Session
from boundby.results.errors import BoundbyError
from boundby.results.habits import Habits

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


def in_thread(act, *args):
    thread = threading.Thread(target=act, args=args)
    thread.start()
    thread.join()


def test_steps_of_other_threads_are_not_taken_for_the_scripts(session):
    model, other = net(), net()
    sgd, others = (torch.optim.SGD(one.parameters(), lr=0.1) for one in (model, other))
    session.arm()
    for _ in range(MANY):
        training(model, sgd, 1)
        in_thread(training, other, others, 1)
    assert session.ended
    assert session.trace().events_per_step == 1


def test_a_script_that_trains_in_a_thread_of_its_own_is_heard(session):
    model = net()
    session.arm()
    in_thread(training, model, torch.optim.SGD(model.parameters(), lr=0.1), MANY)
    assert session.ended
    assert session.trace().kind == "training"


@pytest.mark.parametrize("first", [training, lambda model, sgd, steps: model(torch.randn(4, 8))])
def test_a_few_steps_in_a_thread_do_not_hide_those_of_the_script(session, first):
    model = net()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    session.arm()
    in_thread(first, model, sgd, 1)
    training(model, sgd, MANY)
    assert session.ended
    assert session.trace().kind == "training"


def test_an_optimizer_that_failed_for_good_does_not_hide_the_others(session):
    class Fails(torch.optim.SGD):
        def step(self, closure=None):
            raise ValueError("mine")

    model = net()
    session.arm()
    with pytest.raises(ValueError, match="mine"):
        Fails(model.parameters(), lr=0.1).step()
    training(model, torch.optim.SGD(model.parameters(), lr=0.1), MANY)
    assert session.ended


def test_exceptions_that_the_script_keeps_do_not_hide_the_calls_after_them(session):
    model, kept = Fails(every=5), []
    session.arm()
    for _ in range(3 * MANY):
        try:
            model(torch.randn(4, 8))
        except ValueError as error:
            kept.append(error)
    assert session.ended
    assert session.events_seen > 10


def test_a_pre_hook_that_replaces_the_input_makes_no_outermost_calls_of_the_inner_ones(session):
    model = net()
    model.register_forward_pre_hook(lambda module, args: (args[0].float(),))
    session.arm()
    for _ in range(MANY):
        model(torch.randn(4, 8, dtype=torch.float64))
    assert session.ended
    assert session.trace().events_per_step == 1


@pytest.mark.parametrize("kind", ["inference", "training"])
def test_marks_take_over_after_all_steps_by_a_weaker_sign_were_seen(session, kind):
    model, x = net(), torch.ones(8)
    session.arm()
    if kind == "training":
        training(model, torch.optim.SGD(model.parameters(), lr=0.1), MANY)
    for _ in range(MANY):
        model(torch.randn(4, 8))
    assert session.ended
    for _ in boundby.step(range(MANY)):
        x.add(1)
    assert session.ended
    trace = session.trace()
    assert trace.kind == "callable"
    assert {trace.sites[index].op for index in trace.ops.site} == {"aten.add.Tensor"}


def test_an_inner_session_gives_the_marks_back(session):
    session.arm()
    inner = Session(limits=SMALL)
    inner.arm()
    inner.disarm()
    x = torch.ones(8)
    for _ in boundby.step(range(MANY)):
        x.add(1)
    assert session.ended


def test_what_was_seen_does_not_outlive_its_session():
    made = Session(limits=SMALL)
    made.arm(modules=False)
    for _ in boundby.step(range(MANY)):
        torch.ones(3)
    trace = made.trace()
    alive = weakref.ref(made)
    del made
    gc.collect()
    assert trace is not None
    assert alive() is None


def test_tidying_up_goes_on_after_an_error_in_it(session):
    session.arm()

    def broken():
        raise RuntimeError("a bug of boundby's")

    session._undo_steps.insert(0, broken)
    session.disarm()
    assert [finding.code for finding in session.findings] == ["capture-failed"]
    assert not torch_optimizer._global_optimizer_post_hooks
    assert marks._listener is None


def test_a_global_hook_of_the_users_own_is_compiled_whole(session):
    session.arm()
    seen = []

    def backend(graph, inputs):
        seen.append(graph)
        return graph.forward

    handle = torch_module.register_module_forward_hook(lambda module, args, out: out + 1)
    try:
        compiled = torch.compile(nn.Identity(), backend=backend, fullgraph=True)
        with torch.no_grad():
            for _ in range(MANY):
                assert compiled(torch.ones(2)).tolist() == [3, 3]  # torch runs it for the compiled module as well
    finally:
        handle.remove()
    assert not torch_module._global_forward_hooks
    assert len(seen) == 1


@pytest.mark.parametrize("outer", [True, False])
def test_compiled_modules_are_compiled_once_and_whole(session, outer):
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    session.arm()
    inner = torch.compile(net(), backend=backend, fullgraph=True)
    model = inner if outer else nn.Sequential(inner, nn.Identity())
    with torch.no_grad():
        for _ in range(MANY):
            model(torch.ones(4, 8))
        assert session.ended
        model(torch.ones(4, 8))
    assert len(graphs) == 1
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


def test_habits_that_cannot_be_told_cost_the_report_nothing_else(session, monkeypatch):
    def broken(*args, **kwargs):
        raise AttributeError("torch has moved it")

    monkeypatch.setattr(HabitsSeen, "found", broken)
    model = net()
    session.arm()
    training(model, torch.optim.SGD(model.parameters(), lr=0.1), MANY)
    trace = session.trace()
    assert trace.step_s
    assert trace.habits == Habits()
    (finding,) = (one for one in trace.findings if one.code == "capture-failed")
    assert "AttributeError: torch has moved it" in finding.message
    assert "stopped early" not in finding.message


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


def test_explain_says_that_watching_failed_rather_than_that_there_were_no_steps(monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("a bug of boundby's")

    monkeypatch.setattr(StepFinder, "mark", broken)
    with pytest.raises(BoundbyError, match="a bug of boundby's") as caught:
        boundby.explain(lambda: torch.ones(3) + 1)
    assert caught.value.code == "capture-failed"
