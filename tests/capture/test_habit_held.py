"""What steps leave behind, and that looking for it runs nothing of the script's and keeps nothing alive."""

from __future__ import annotations

import gc
import sys
import weakref
from collections import deque
from types import ModuleType

import pytest
import torch
from habit_steps import ROUNDS, habits_of
from small_training import MANY, net

from boundby.capture import retained
from boundby.capture.retained import Retained
from boundby.capture.session import Session

pytestmark = pytest.mark.usefixtures("nothing_stays")


class Meter:
    def __init__(self):
        self.results = {"outputs": [], "other": 3}

    def update(self, output):
        self.results["outputs"].append((output.detach(), 1))


def keeping(rounds):
    history, numbers, batch = [], [], []
    recent: deque = deque(maxlen=1000)
    meter = Meter()

    def keep(loss, output):
        history.append(loss)
        numbers.append(loss.item())
        meter.update(output)
        recent.append(output.detach())
        batch.append(output.detach())
        if len(batch) > 3:
            batch.clear()

    return habits_of(rounds, keep)


@pytest.fixture(scope="module")
def held():
    """What is held after a loop that keeps things in several ways, by name."""
    made = Session(limits=ROUNDS)
    try:
        return {one.name: one for one in keeping(made).held}
    finally:
        made.disarm()


def test_losses_as_numbers_are_of_no_matter(held):
    assert "numbers" not in held or (held["numbers"].kind, held["numbers"].graphs) == ("plain", False)


def test_a_list_of_losses_is_told_with_its_graph(held):
    one = held["history"]
    assert (one.kind, one.per_step, one.graphs, one.what) == ("container", 1.0, True, "list")
    assert one.saved is False
    assert one.place.code == "history.append(loss)"


def test_attributes_of_objects_are_found_by_name(held):
    one = held["meter.results['outputs']"]
    assert (one.kind, one.graphs, one.bytes_per_step) == ("container", False, 16.0)
    assert one.place.code == 'self.results["outputs"].append((output.detach(), 1))'


def test_containers_with_a_limit_and_those_that_are_emptied_do_not_grow(held):
    assert {name for name in held if name != "numbers"} == {"history", "meter.results['outputs']"}


def adding_up(rounds):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    total = torch.zeros(())
    rounds.arm()
    for _ in range(MANY):
        loss = model(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = total + loss
    return total


def test_a_graph_that_goes_on_is_told_by_what_holds_it(rounds):
    adding_up(rounds)
    (one,) = (one for one in rounds.trace().habits.held if one.kind == "graph")
    assert one.name == "total"
    assert one.place.code == "total = total + loss"
    # The seven of the step and the addition.
    assert one.per_step == 8.0


def test_nothing_of_the_script_s_is_kept_alive():
    class Thing:
        pass

    def step(looks):
        thing = Thing()
        thing.values = [torch.ones(3, requires_grad=True) * 2]
        references.append(weakref.ref(thing))
        looks.look(len(references))

    references = []
    looks = Retained()
    gc.disable()
    try:
        for _ in range(5):
            step(looks)
            assert references[-1]() is None
    finally:
        gc.enable()


def test_local_variables_are_let_go_while_the_function_runs():
    def run():
        tensor = torch.ones(3, requires_grad=True) * 2
        reference = weakref.ref(tensor)
        looks.look(1)
        del tensor
        return reference()

    looks = Retained()
    assert run() is None


def look_often(step, looks=3, apart=10):
    """What is held after looks between calls of ``step``."""
    seen = Retained()
    for at in range(looks * apart):
        if at % apart == 0:
            seen.look(at + 1)
        step()
    seen.look(looks * apart + 1)
    return {one.name: one for one in seen.found()}


def test_a_dict_that_locals_gave_stays_as_it_is():
    def run(rate=0.1):
        config = locals()
        kept = dict(config)
        later = 3
        looks.look(1)
        looks.look(9)
        assert config == kept
        return later

    looks = Retained()
    run()


def test_a_dict_that_somebody_else_asked_a_frame_for_stays_as_it_is(tmp_path):
    file = tmp_path / "asks.py"
    asks = "import sys\ndef ask():\n    return sys._getframe(1).f_" + "locals\n"
    file.write_text(asks + "def run(look):\n    config = ask()\n    kept = dict(config)\n    look()\n")
    with file.open("a") as more:
        more.write("    return config == kept\n")
    names = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    looks = Retained()
    assert names["run"](lambda: looks.look(1))


class Asked:
    """Whatever runs of it is an error."""

    times = 0

    def _asked(self, *args):
        Asked.times += 1
        raise RuntimeError("asked")

    __class__ = property(_asked)
    __dict__ = property(_asked)
    __getattribute__ = __eq__ = __hash__ = __len__ = __iter__ = __bool__ = __getattr__ = _asked


class AskedModule(ModuleType):
    def __getattribute__(self, name):
        Asked.times += 1
        raise RuntimeError("asked")


def test_no_code_of_the_script_s_objects_runs(monkeypatch):
    monkeypatch.setitem(sys.modules, "asked_module", AskedModule("asked_module"))
    held = [Asked()]
    state = {"held": held, "more": []}
    function = lambda: state  # noqa: E731  # a closure that leads there
    Asked.times = 0
    found = look_often(lambda: state["more"].append((Asked(), torch.ones(3))))
    assert Asked.times == 0
    assert found["state['more']"].kind == "container"
    assert function() is state


def test_modes_of_the_script_for_torch_s_functions_are_not_asked():
    class Counting(torch.overrides.TorchFunctionMode):
        times = 0

        def __torch_function__(self, function, types, args=(), kwargs=None):
            Counting.times += 1
            return function(*args, **(kwargs or {}))

    losses = [torch.ones(3, requires_grad=True) * 2]
    with Counting():
        before = Counting.times
        Retained().look(1)
        assert Counting.times == before
    assert len(losses) == 1


def test_views_of_memory_that_was_there_add_none():
    data = torch.zeros(64, 1024)
    views, rows = [], []

    def step():
        views.append(data[len(views)])
        rows.append(torch.zeros(1024))

    found = look_often(step)
    assert found["views"].bytes_per_step == 0.0
    assert found["rows"].bytes_per_step == 4096.0


@pytest.mark.parametrize(("freed", "saved"), [(True, False), (False, True)])
def test_graphs_whose_saved_tensors_backward_freed_are_told_apart(freed, saved):
    weight = torch.ones(3, requires_grad=True)
    losses = []

    def step():
        loss = Doubled.apply(weight).square().sum()
        if freed:
            loss.backward()
        losses.append(loss)

    assert look_often(step)["losses"].saved is saved


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, given):
        ctx.save_for_backward(given)
        return given * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2

    def __getattr__(self, name):
        raise AssertionError(name)


def test_objects_that_raise_when_asked_cost_what_is_held_alone(rounds, monkeypatch):
    def refuses(self, step):
        raise RuntimeError("not here")

    monkeypatch.setattr(retained.Retained, "look", refuses)
    seen = habits_of(rounds)
    assert seen.held == ()
    assert len(seen.steps) == 8
