"""Habits of real steps: modes, writing, what is left behind, padding; and that looking for them leaves nothing."""

from __future__ import annotations

import builtins
import cProfile
import gc
import logging
import sys
import threading
import weakref
from collections import deque
from types import ModuleType

import pytest
import torch
from small_training import MANY, SMALL, codes, net, training
from torch import nn

from boundby.capture import retained, sources, writes
from boundby.capture.anomaly import tracing_node_cost
from boundby.capture.frame_names import names_in
from boundby.capture.habits import HabitsSeen, filled_share, growing_lines, modes_on
from boundby.capture.padding import PaddingCounts
from boundby.capture.recorder import Recorded
from boundby.capture.retained import Retained
from boundby.capture.schedule import Limits, Role
from boundby.capture.session import Session
from boundby.capture.shape_setup import ShapesMet
from boundby.capture.sources import growing_line, only_call_of
from boundby.capture.writes import StepWrites, WritingLines, resident_bytes, written

pytestmark = pytest.mark.usefixtures("nothing_stays")

# Enough rounds for three looks at what is left behind.
ROUNDS = Limits(warmup=2, timed=8, watched=8)


def habits_of(session, body=None, *, around=None, steps=MANY):
    """What a session sees of a loop of training steps that calls ``body(loss, output)`` in each."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    session.arm()
    for _ in range(steps):
        with around() if around else torch.enable_grad():
            output = model(torch.randn(4, 8))
            loss = output.square().mean()
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
        if body is not None:
            body(loss, output)
    trace = session.trace()
    assert "capture-failed" not in codes(trace)
    return trace.habits


@pytest.fixture
def rounds():
    made = Session(limits=ROUNDS)
    yield made
    made.disarm()


# Nothing.


def test_a_plain_loop_has_no_habits(rounds):
    seen = habits_of(rounds)
    assert (seen.modes, seen.held, seen.padding, seen.growing, seen.compilations) == ((), (), (), (), ())
    assert seen.writes is None or seen.writes.lines == ()
    assert seen.parameter_dtypes == ("float32",)
    # Two linear layers, the transposing of their weights, an activation, the square and the mean.
    assert seen.nodes == 7
    assert len(seen.steps) == 8
    numbers = [one.number for one in seen.steps]
    assert numbers == sorted(set(numbers))
    moments = [one.at_s for one in seen.steps]
    assert moments == sorted(set(moments))


# Modes.


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomaly_mode_is_seen_where_it_is_on_inside_of_steps_alone(session):
    seen = habits_of(session, around=lambda: torch.autograd.detect_anomaly())
    assert [one.mode for one in seen.modes] == ["anomaly"]
    assert seen.modes[0].place.path == __file__
    assert seen.tracing_node_s.low <= seen.tracing_node_s.value <= seen.tracing_node_s.high
    assert not torch.is_anomaly_enabled()


def test_noting_the_stack_costs_more_the_deeper_it_is():
    shallow, deep = tracing_node_cost(5), tracing_node_cost(60)
    assert 0 < shallow.value < deep.value


def test_a_profiler_of_python_is_seen(session):
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        seen = habits_of(session)
    finally:
        profiler.disable()
    assert [one.mode for one in seen.modes] == ["python-profiler"]


def test_torch_s_profiler_is_the_user_s_only_where_the_user_began_it(session):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert "torch-profiler" in modes_on()
        seen = habits_of(session)
    assert [one.mode for one in seen.modes] == ["torch-profiler"]


def test_deterministic_mode_s_filling_is_timed():
    from boundby.capture.profiled import profile_once

    before = torch.are_deterministic_algorithms_enabled()
    plain = profile_once(lambda: torch.empty(1 << 20))
    torch.use_deterministic_algorithms(True)
    try:
        filled = profile_once(lambda: torch.empty(1 << 20))
    finally:
        torch.use_deterministic_algorithms(before)
    assert filled_share([plain]).value == 0.0
    assert 0.1 < filled_share([filled]).value <= 1.0
    assert filled_share([]) is None


@pytest.mark.parametrize(("fills", "share"), [(True, None), (False, 0.0)])
def test_deterministic_mode_that_fills_nothing_costs_nothing(fills, share, monkeypatch):
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", fills)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        seen = HabitsSeen()
        seen.begin_step(Role.SETTLE)
        seen.discard()
    finally:
        torch.use_deterministic_algorithms(before)
    found = seen.found(Recorded(), [])
    assert [one.mode for one in found.modes] == ["deterministic"]
    assert (None if found.filled_share is None else found.filled_share.value) == share


# Writing.


def test_lines_that_write_are_timed_and_everything_is_put_back(rounds, capsys):
    logger = logging.getLogger("test_habits")
    plain = builtins.print, logging.Handler.handle

    def write(loss, output):
        print("loss", loss.item())
        logger.warning("loss %f", loss)

    seen = habits_of(rounds, write)
    assert (builtins.print, logging.Handler.handle) == plain
    first = write.__code__.co_firstlineno
    assert {(one.place.path, one.place.line, one.calls) for one in seen.writes.lines} >= {(__file__, first + 1, 1.0)}
    assert all(one.time_s.value > 0 for one in seen.writes.lines)
    assert capsys.readouterr().out.count("loss") == MANY


def test_what_writing_raises_goes_through_and_undoes_nothing():
    lines = WritingLines()
    lines.open()
    try:
        with pytest.raises(TypeError):
            print("a", sep=3)
    finally:
        lines.close()
    assert builtins.print.__module__ == "builtins"
    assert len(lines.found()) == 1


def test_a_function_taken_during_a_step_is_the_plain_one_after_it(capsys):
    lines = WritingLines()
    lines.open()
    taken = builtins.print
    lines.close()
    for _ in range(3):
        taken("after")
    assert (lines.found(), lines._step) == ((), {})
    lines.open()
    taken("in a later step")
    lines.close()
    assert [one.calls for one in lines.found()] == [0.5]
    assert capsys.readouterr().out.count("after") == 3


def test_what_other_threads_write_is_not_the_step_s(capsys):
    lines = WritingLines()
    lines.open()
    try:
        other = threading.Thread(target=lambda: print("other"))
        other.start()
        other.join()
    finally:
        lines.close()
    assert capsys.readouterr().out == "other\n"
    assert lines.found() == ()


@pytest.mark.skipif(written() is None, reason="this system does not tell what a process writes")
def test_system_calls_and_bytes_are_counted(tmp_path):
    seen = StepWrites()
    with (tmp_path / "log").open("wb", buffering=0) as file:
        for _ in range(3):
            seen.begin()
            file.write(b"x" * 100)
            file.write(b"x" * 50)
            seen.end()
    found = seen.found()
    assert (found.calls, found.bytes) == (2.0, 150.0)
    assert (found.calls_range.low, found.calls_range.high, found.bytes_range.value) == (2.0, 2.0, 150.0)


def test_writes_that_the_system_does_not_tell_are_unknown(monkeypatch, capsys):
    monkeypatch.setattr(writes, "written", lambda: None)
    seen = StepWrites()
    seen.begin()
    seen.end()
    assert seen.found() is None
    seen.lines.open()
    print("line")
    seen.lines.close()
    assert (seen.found().calls, seen.found().bytes, len(seen.found().lines)) == (None, None, 1)


def test_memory_in_use_is_told_or_unknown():
    now = resident_bytes()
    assert now is None or now > 1 << 20


# What is left behind.


class Meter:
    def __init__(self):
        self.results = {"outputs": [], "other": 3}

    def update(self, output):
        self.results["outputs"].append((output.detach(), 1))


# pytest puts locals() into functions that assert, whose variables are then left alone: loops stand in functions of
# their own.


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


def evaluating(frames, model):
    return [eval("model"), frames.send(None)]


def following(frames, model):
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        return frames.send(None)
    finally:
        sys.settrace(before)


def running(frames, model):
    model.eval()
    return frames.send(None)


def held_elsewhere(frames):
    value = 3
    mine = getattr(getattr(sys, "_get" + "frame")(), "f_" + "locals")
    frames.send(None)
    return dict(mine), value


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="a function's names are no dict that is shared")
def test_a_dict_of_names_that_somebody_holds_is_not_emptied():
    def names():
        while True:
            yield names_in(sys._getframe(1))

    kept, value = held_elsewhere(names())
    assert kept["value"] == value


def test_names_of_functions_are_read_where_that_is_not_noticed():
    def names():
        while True:
            yield names_in(sys._getframe(1))

    model = net()
    assert evaluating(names(), model) == [model, []]
    assert following(names(), model) == []
    assert [(name, value is model) for name, value in running(names(), model)] == [("frames", False), ("model", True)]


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


def test_the_growing_line_is_looked_for_in_the_running_function():
    def other():
        values = []
        values.append(1)
        return values

    def mine():
        values = []
        values.append(2)
        return growing_line(__file__, "values", sys._getframe())

    assert other() == [1]
    assert mine().code == "values.append(2)"
    assert growing_line("/no/such/file.py", "values", None).line is None


# The line that switches a mode on.

CALLS = {
    "from torch.profiler import profile as watched\nwatched()": 2,
    "import torch\ntorch.profiler.profile()": 2,
    "import torch.profiler as p\ndef main():\n    with p.profile():\n        pass": 3,
    # Others of the same name, and what is not known.
    "def profile(): pass\nprofile()": None,
    "import torch\ntorch.profile = torch.trace\ntorch.trace(torch.eye(3))\ndel torch.profile": None,
    "from torch.profiler import profile\ndef main(profile):\n    profile()": None,
    "def main():\n    from torch.profiler import profile\n    profile()": None,
    # More than one.
    "from torch.profiler import profile\nprofile()\nprofile()": None,
    "from torch.profiler import profile\nprofile()\nif 0: profile(False)": 2,
}


@pytest.mark.parametrize("source", CALLS)
def test_a_line_is_named_only_where_it_alone_calls_what_is_looked_for(source, tmp_path, monkeypatch):
    file = tmp_path / "script.py"
    file.write_text(source)
    module = ModuleType("script")
    module.__file__ = str(file)
    exec(compile(source, str(file), "exec"), vars(module))
    monkeypatch.setattr(sources, "users_modules", lambda: [(module, str(file))])
    assert only_call_of([torch.profiler.profile]).line == CALLS[source]


def test_lines_that_do_more_in_each_step_are_told(rounds):
    history = []
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    rounds.arm()
    for _ in range(MANY):
        output = model(torch.randn(4, 8))
        history.append(output.detach())
        loss = (output - torch.cat(history).mean()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    growing = rounds.trace().habits.growing
    assert growing[0].place.path == __file__
    assert growing[0].bytes[1] > growing[0].bytes[0]
    assert growing_lines([], []) == ()


# Padding.


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8, padding_idx=0)
        self.out = nn.Linear(8, 2)

    def forward(self, ids):
        return self.out(self.embedding(ids))


def test_indices_that_are_padding_are_counted(session):
    model = Tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    ids = torch.arange(1, 17).view(2, 8)
    ids[1, 4:] = 0
    session.arm()
    for _ in range(MANY):
        loss = model(ids).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    (one,) = session.trace().habits.padding
    assert one.told_by == "padding_idx"
    assert one.padded / one.tokens == 0.25
    assert one.place.path == __file__


def attention_padding(mask, *, causal=False):
    counts = PaddingCounts()
    op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    q = torch.randn(2, 1, 4, 8)
    args, kwargs = (q, q, q, 0.0, causal), {"attn_mask": mask}
    if counts.looks_at(op, args, kwargs):
        counts.look(op, args, kwargs, __file__, 1)
    return [(one.padded, one.tokens) for one in counts.found()]


def test_keys_that_no_query_sees_are_padding():
    keys = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]], dtype=torch.bool).view(2, 1, 1, 4)
    assert attention_padding(keys) == [(2, 8)]
    additive = torch.zeros(2, 1, 1, 4).masked_fill(~keys, torch.finfo(torch.float32).min)
    assert attention_padding(additive) == [(2, 8)]
    assert attention_padding(keys.expand(2, 1, 4, 4)) == [(2, 8)]


def test_causal_masks_and_no_masks_say_nothing_of_padding():
    assert attention_padding(torch.ones(4, 4, dtype=torch.bool).tril()) == [(0, 4)]
    assert attention_padding(None, causal=True) == []


def test_embeddings_without_padding_say_nothing():
    counts = PaddingCounts()
    op = torch.ops.aten.embedding.default
    assert not counts.looks_at(op, (torch.ones(3, 2), torch.zeros(4, dtype=torch.long)), {})
    assert not counts.looks_at(torch.ops.aten.mm.default, (torch.ones(2, 2), torch.ones(2, 2)), {})


def test_tensors_without_values_are_passed_over():
    counts = PaddingCounts()
    op = torch.ops.aten.embedding.default
    args = (torch.ones(3, 2, device="meta"), torch.zeros(4, dtype=torch.long, device="meta"), 0)
    assert counts.looks_at(op, args, {})
    counts.look(op, args, {}, None, None)
    assert counts.found() == ()


# Sizes that change.


@pytest.mark.parametrize("changing", [True, False])
def test_convolutions_of_changing_sizes_are_told_with_what_preparing_takes(rounds, changing):
    model = nn.Conv1d(4, 4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    before = torch.get_rng_state()
    rounds.arm()
    for index in range(MANY):
        loss = model(torch.ones(2, 4, 20 + index * changing)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    set_ups = rounds.trace().habits.set_ups
    assert torch.equal(torch.get_rng_state(), before)
    assert [(one.op, one.place.path) for one in set_ups] == [("convolution", __file__)] * changing
    assert all(0 <= one.time_s.low <= one.time_s.value for one in set_ups)


def test_an_lstm_and_a_bf16_product_are_probed_and_a_float32_one_is_not():
    met = ShapesMet()
    weights = [torch.zeros(16, 3), torch.zeros(16, 4)]
    for size in (5, 6):
        met.begin_step()
        met.note(torch.ops.aten.mkldnn_rnn_layer.default, (torch.zeros(size, 2, 3), *weights), "net.py", 1)
        for line, dtype in ((2, torch.bfloat16), (3, torch.float32)):
            product = (torch.zeros(size, 8, dtype=dtype), torch.zeros(8, 4, dtype=dtype))
            met.note(torch.ops.aten.mm.default, product, "net.py", line)
    found = met.found()
    assert {(one.op, one.place.line, one.sizes) for one in found} == {("mkldnn_rnn_layer", 1, 2), ("mm", 2, 2)}


def test_layers_of_other_sizes_at_one_line_are_no_change():
    met = ShapesMet()
    for _ in range(2):
        met.begin_step()
        for size in (5, 6):
            product = (torch.zeros(size, 8, dtype=torch.bfloat16), torch.zeros(8, 4, dtype=torch.bfloat16))
            met.note(torch.ops.aten.mm.default, product, "net.py", 1)
    assert met.found() == ()


# Sessions in which there is nothing to look at.


def test_inference_names_the_dtypes_and_the_line_of_the_forward_pass(session):
    model = net()
    session.arm()
    with torch.no_grad():
        for _ in range(MANY):
            model(torch.randn(4, 8))
    trace, facts = session.trace(), session.facts()
    assert trace.habits.parameter_dtypes == ("float32",)
    assert facts.forward_path == __file__


def test_results_are_the_same_with_habits_looked_for():
    def losses(watched):
        torch.manual_seed(0)
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        session = Session(limits=SMALL)
        if watched:
            session.arm()
        found = training(model, optimizer, MANY)
        session.disarm()
        return found

    assert losses(True) == losses(False)
