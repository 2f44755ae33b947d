"""Findings that no ceiling shows, from traces made up: what is told, what it costs, and what stays unsaid."""

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import VIEW, matmul_cost, pointwise_cost, reading, round_machine, site, trace, traces, watched

from boundby.bound.ceilings import Ceilings, Speed
from boundby.bound.explain import explain_trace
from boundby.bound.findings import habit_findings
from boundby.bound.split import divide
from boundby.results.counts import REGION_NAME, EagerEquivalent, OpCost
from boundby.results.habits import (
    Compilation,
    GraphBreak,
    GrowingLine,
    Habits,
    Held,
    ModeOn,
    Padding,
    Place,
    SetUp,
    TimedStep,
    Writes,
    WritingLine,
)
from boundby.results.interval import Interval, interval

READ = site(OpCost(kind="scalar"), "aten._local_scalar_dense.default", line=7, shapes="scalar")
PICK = site(VIEW, "aten.select.int", line=7, shapes="256")
ADD = site(pointwise_cost(1 << 16), "aten.add.Tensor", line=9)
DOUBLE = dataclasses.replace(pointwise_cost(1 << 20), dtype="fp64", bytes_read=8 << 20, bytes_written=8 << 20)
LINE = Place(path="/home/me/train.py", line=12)


def found(made, **habits):
    made = dataclasses.replace(made, habits=dataclasses.replace(made.habits, **habits))
    return {one.code: one for one in habit_findings_of(made)}


def habit_findings_of(made):
    ceilings = Ceilings(round_machine(), Speed.unknown(), threads=1)
    return list(habit_findings(made, divide(made, ceilings, None), ceilings))


def step(sites, order, windows, *, step_s=1e-3, gaps=(), **fields):
    """A trace whose watched step agrees with its bare ones."""
    return trace(
        step_s=[step_s] * 5,
        input_s=[0.0] * 5,
        sites=sites,
        site_of=order,
        windows=windows,
        gaps=gaps,
        watched=[watched(step_s, step_s)] * 3,
        **fields,
    )


def plain(count=10, seconds=1e-4, **fields):
    return step([ADD], [0] * count, [seconds] * count, step_s=count * seconds, **fields)


# Nothing to say.


def test_a_plain_step_has_none():
    assert found(plain()) == {}


@given(traces())
@settings(max_examples=40, deadline=None)
def test_any_trace_without_habits_has_findings_with_costs_in_order_and_in_the_step(made):
    here = round_machine()
    ceilings = Ceilings(here, Speed.unknown(), threads=1)
    division = divide(made, ceilings, None)
    costs = [one.time_s for one in habit_findings(made, division, ceilings)]
    known = [one.value for one in costs if one is not None]
    assert known == sorted(known, reverse=True)
    assert all(one.low >= 0 for one in costs if one is not None)
    assert all(value <= division.time_s.median * 1.0001 for value in known)


def test_they_stand_in_the_report_as_the_script_s():
    made = plain(habits=Habits(modes=(ModeOn(mode="torch-profiler", place=LINE),)))
    report = explain_trace(made, round_machine())
    (one,) = (one for one in report.findings if one.about == "script")
    assert (one.code, one.path, one.line) == ("profiler-on", "/home/me/train.py", 12)
    assert one.message.startswith("train.py:12: torch's profiler")
    assert all(one.about == "measurement" for one in report.findings if one.code != "profiler-on")


# Modes.


def test_anomaly_mode_costs_its_noting_and_its_search():
    check = site(pointwise_cost(64), "aten.isnan.default", phase="backward")
    made = step([ADD, check], [0, 1], [9e-4, 1e-4])
    mode = (ModeOn(mode="anomaly", place=LINE),)
    one = found(made, modes=mode, nodes=4.0, tracing_node_s=interval(5e-5, 4e-5, 6e-5))["anomaly-mode"]
    assert one.time_s.value == pytest.approx(4 * 5e-5 + 1e-4, rel=0.01)
    assert "30% of it" in one.message
    unknown = found(step([ADD], [0], [1e-3], device="cuda"), modes=mode)["anomaly-mode"]
    assert unknown.time_s is None
    assert "not known" in unknown.message


def test_anomaly_mode_costs_what_is_not_known_where_a_part_is_not():
    mode = (ModeOn(mode="anomaly", place=LINE),)
    check = site(pointwise_cost(64), "aten.isnan.default", phase="backward")
    untimed_nodes = found(step([ADD, check], [0, 1], [9e-4, 1e-4]), modes=mode)["anomaly-mode"]
    untimed_checks = found(
        step([ADD], [0], [1e-3], device="cuda"), modes=mode, nodes=4.0, tracing_node_s=interval(5e-5)
    )["anomaly-mode"]
    for one in (untimed_nodes, untimed_checks):
        assert one.time_s is None
        assert "not known" in one.message


def test_deterministic_mode_without_a_profiled_step_is_told_without_its_cost():
    one = found(plain(), modes=(ModeOn(mode="deterministic", place=LINE),))["deterministic-fill"]
    assert one.time_s is None
    assert "what it costs is not known" in one.message


@pytest.mark.parametrize(("share", "told"), [(0.1, True), (0.001, False)])
def test_deterministic_mode_is_told_where_its_filling_takes_time(share, told):
    modes = (ModeOn(mode="deterministic", place=LINE),)
    one = found(plain(), modes=modes, filled_share=interval(share)).get("deterministic-fill")
    assert (one is not None) == told
    if one is not None:
        assert one.time_s.value == pytest.approx(1e-4)


@pytest.mark.parametrize(
    ("mode", "code"),
    [("python-profiler", "profiler-on"), ("python-tracer", "tracing-on"), ("jit-tracing", "tracing-on")],
)
def test_other_modes_have_no_cost_that_is_known(mode, code):
    one = found(plain(), modes=(ModeOn(mode=mode),))[code]
    assert one.time_s is None
    assert "what it costs is not known" in one.message


# Writing.


@pytest.mark.parametrize(("calls", "seconds", "told"), [(1.0, 1e-4, True), (0.1, 1e-4, False), (1.0, 1e-6, False)])
def test_writing_is_told_where_it_is_every_step_s_and_takes_time(calls, seconds, told):
    lines = (WritingLine(place=LINE, calls=calls, time_s=interval(seconds)),)
    one = found(plain(), writes=Writes(calls=3.0, bytes=2048.0, lines=lines)).get("writes-every-step")
    assert (one is not None) == told
    if one is not None:
        assert "2 KiB in 3 system calls" in one.message
        assert (one.path, one.line, one.time_s) == (LINE.path, LINE.line, interval(seconds))


def test_what_the_process_writes_is_told_as_its_own_with_its_band_or_not_at_all():
    lines = (WritingLine(place=LINE, calls=1.0, time_s=interval(1e-4)),)
    ranges = {"calls_range": interval(3.0, 2.0, 5.0), "bytes_range": interval(2048.0, 1024.0, 4096.0)}
    one = found(plain(), writes=Writes(calls=3.0, bytes=2048.0, lines=lines, **ranges))["writes-every-step"]
    band = "; the whole process writes 2 KiB (1 KiB to 4 KiB) in 3 (2 to 5) system calls a step"
    assert one.message.endswith(band)
    unknown = found(plain(), writes=Writes(calls=None, bytes=None, lines=lines))["writes-every-step"]
    assert "process" not in unknown.message


# Single elements.


def loop(times, **fields):
    """A step that reads ``times`` elements, with Python between them, after an op that takes as long as all of it."""
    order = [0] + [1, 2] * times
    gaps = [0.0] + [0.0, 1e-6] * times
    windows = [times * 3e-6] + [1e-6, 1e-6] * times
    return step([ADD, PICK, READ], order, windows, gaps=gaps, step_s=sum(windows) + sum(gaps), **fields)


def test_a_loop_over_elements_costs_its_ops_and_the_python_between_them():
    one = found(loop(100))["element-loop"]
    assert one.line == 7
    assert "200 ops" in one.message
    assert "reads 100 of them" in one.message
    assert one.time_s.value == pytest.approx(300e-6, rel=0.02)


def test_a_loop_gone_through_twice_is_one_finding_without_what_another_line_reads_beside_it():
    """Accumulation: a loop over elements, a model whose line reads its loss, and the same again."""
    model = dataclasses.replace(ADD, line=9)
    grad = dataclasses.replace(site(pointwise_cost(1 << 16), "aten.mul.Tensor", line=9), phase="backward")
    loss = dataclasses.replace(READ, line=9)
    micro = [*[0, 1] * 10, 2, *[3] * 40, 4]
    made = step(
        [PICK, READ, model, grad, loss], micro * 2, ([1e-6] * 20 + [1e-4] + [1e-4] * 40 + [1e-6]) * 2, step_s=8.3e-3
    )
    assert [one for one in habit_findings_of(made) if one.code == "element-loop"] == []
    made = step([PICK, READ, model, grad, loss], micro * 2, ([1e-5] * 20 + [1e-6] * 42) * 2, step_s=0.5e-3)
    (one,) = (one for one in habit_findings_of(made) if one.code == "element-loop")
    assert one.line == 7
    assert "reads 20 of them" in one.message
    assert "40 ops" in one.message
    # As a share of a step that is a little shorter than its windows are together.
    assert one.time_s.value == pytest.approx(400e-6, rel=0.05)


def test_few_reads_are_what_every_script_does_and_told_without_advice():
    (one,) = found(loop(2)).values()
    assert one.code == "value-read"
    assert one.line == 7
    assert one.advice == ""
    assert "an accelerator would be waited for here" in one.message
    assert one.time_s.value == pytest.approx(2e-6, rel=0.02)


def test_cheap_reads_of_several_lines_are_told_in_one_sentence():
    lines = [dataclasses.replace(READ, line=line) for line in (7, 8, 9)]
    made = step([ADD, *lines], [0, 1, 2, 2, 3], [1e-3, 1e-6, 1e-6, 1e-6, 1e-6], step_s=1.004e-3)
    (one,) = found(made).values()
    assert (one.code, one.line) == ("value-read", 8)
    assert "and so do 2 more lines" in one.message
    assert one.time_s.value == pytest.approx(4e-6, rel=0.02)


def test_many_reads_without_indexing_are_told_as_reads():
    made = step([ADD, READ], [0] + [1] * 20, [1e-4] + [1e-6] * 20, step_s=1.2e-4)
    one = found(made)["reads-values"]
    assert "20 values" in one.message
    assert one.time_s.value == pytest.approx(20e-6, rel=0.02)


def test_on_an_accelerator_a_single_read_is_told_without_a_cost():
    one = found(loop(1, device="cuda"))["reads-values"]
    assert one.time_s is None
    assert "waits for the device" in one.message


@pytest.mark.parametrize(
    "fields", [{"phase": "optimizer"}, {"path": "/usr/lib/python3/site-packages/x.py"}, {"phase": "backward"}]
)
def test_reads_of_optimizers_and_of_installed_code_are_not_the_user_s(fields):
    sites = [ADD, dataclasses.replace(PICK, **fields), dataclasses.replace(READ, **fields)]
    assert found(step(sites, [0] + [1, 2] * 50, [1e-4] + [1e-6] * 100, step_s=2e-4)) == {}


def test_rows_picked_one_by_one_are_no_single_elements():
    rows = dataclasses.replace(PICK, shapes="64x32")
    made = step([ADD, rows], [0] + [1, 0] * 50, [1e-6] * 101, step_s=1.01e-4)
    assert found(made) == {}


# Double precision.


@pytest.mark.parametrize(
    ("dtypes", "told"), [(("float32",), True), (("bfloat16", "float32"), True), (("float64",), False), ((), False)]
)
def test_double_precision_is_told_where_the_parameters_are_single(dtypes, told):
    made = step([site(DOUBLE, "aten.mul.Tensor", line=5), ADD], [0, 1], [3e-4, 7e-4])
    one = found(made, parameter_dtypes=dtypes).get("double-precision")
    assert (one is not None) == told
    if one is not None:
        assert one.line == 5
        assert one.time_s.value == pytest.approx(3e-4, rel=0.01)
        # Half the bytes, and the bandwidth of the smaller working set: half or less.
        assert "float32 would take" in one.message


def test_a_little_double_precision_is_no_matter():
    made = step([site(DOUBLE, "aten.mul.Tensor", line=5), ADD], [0, 1], [1e-6, 9.99e-4])
    assert found(made, parameter_dtypes=("float32",)) == {}


# Copied operands.


def copied(read, written):
    copy = site(OpCost(kind="copy", bytes_read=read, bytes_written=written), "aten.clone.default", line=3)
    product = site(matmul_cost(64, 64, 64), "aten.bmm.default", line=3)
    return step([copy, site(VIEW, "aten.view", line=3), product], [0, 1, 2], [4e-4, 1e-5, 5.9e-4])


def test_a_repeated_operand_is_told_with_its_bytes():
    one = found(copied(1 << 20, 8 << 20))["operand-copied"]
    assert "1 MiB become 8 MiB" in one.message
    assert one.time_s.value == pytest.approx(4e-4, rel=0.01)


def test_a_copy_that_only_orders_memory_is_none():
    assert found(copied(8 << 20, 8 << 20)) == {}


# Padding.


@pytest.mark.parametrize(("padded", "told"), [(400, True), (50, False)])
def test_padding_costs_at_most_its_share_of_the_work(padded, told):
    padding = (Padding(told_by="padding_idx", place=LINE, padded=padded, tokens=1000),)
    one = found(plain(), padding=padding).get("padding")
    assert (one is not None) == told
    if one is not None:
        assert "40% of the tokens" in one.message
        assert one.time_s.low == 0.0
        assert 0.3e-3 < one.time_s.value <= 0.4e-3


def test_packed_sequences_are_not_padded():
    packing = site(OpCost(kind="other"), "aten._pack_padded_sequence.default")
    made = step([ADD, packing], [0, 1], [9e-4, 1e-4])
    padding = (Padding(told_by="padding_idx", place=LINE, padded=400, tokens=1000),)
    assert found(made, padding=padding) == {}


# Sizes that change.


@pytest.mark.parametrize(("each", "told"), [(1e-4, True), (1e-6, False)])
def test_preparing_for_new_sizes_costs_at_most_every_call(each, told):
    product = site(OpCost(kind="convolution"), "aten.convolution.default", line=12, path=LINE.path)
    made = step([ADD, product], [0, 1, 1], [8e-4, 1e-4, 1e-4])
    set_ups = (SetUp(op="convolution", place=LINE, sizes=2, time_s=interval(each)),)
    one = found(made, set_ups=set_ups).get("shape-set-up")
    assert (one is not None) == told
    if one is not None:
        assert (one.time_s.low, one.time_s.value) == (0.0, 2 * each)


# Growth.


def timed(seconds, *, rounds=4, memory=None):
    each = len(seconds) // rounds
    return tuple(
        TimedStep(number=2 * at, round=at // each, seconds=one, resident_bytes=None if memory is None else memory[at])
        for at, one in enumerate(seconds)
    )


GROWING = (GrowingLine(place=LINE, ops=(10, 10), bytes=(1 << 20, 4 << 20), steps=3),)


def test_steady_growth_is_told_with_its_slope():
    steps = timed([1e-3 + 2e-5 * one for one in range(40)])
    one = found(plain(), steps=steps)["step-time-grows"]
    assert "takes 10.0 µs longer" in one.message
    assert one.time_s.value == pytest.approx(1e-5 * 39)
    assert one.line is None


def test_a_line_that_does_more_and_its_holder_are_named():
    steps = timed([1e-3 + 4e-6 * one for one in range(40)])
    held = (Held(kind="plain", name="log", what="list", place=LINE, per_step=30.0, bytes_per_step=None, graphs=False),)
    one = found(plain(), steps=steps, growing=GROWING, held=held)["step-time-grows"]
    assert one.line == 12
    assert "through 1 MiB a step at first, and 4 MiB at last" in one.message
    assert "log gains 30 elements a step" in one.message


def test_small_growth_alone_may_be_the_machine_s():
    assert found(plain(), steps=timed([1e-3 + 4e-6 * one for one in range(40)])) == {}


def test_a_machine_that_slows_down_is_told_by_its_probes():
    slower = [reading(matmul=1e-3), reading(matmul=1.2e-3), reading(matmul=1.4e-3), reading(matmul=1.8e-3)]
    steps = timed([1e-3 * (1 + 0.02 * one) for one in range(40)])
    assert "step-time-grows" in found(plain(), steps=steps)
    assert found(plain(anchors=slower), steps=steps) == {}


DRIFTS = {"straight": lambda at: 1 + 0.4 * at, "bent": lambda at: 1 + 0.6 * at * at}


@pytest.mark.parametrize("drift", DRIFTS.values(), ids=DRIFTS)
@pytest.mark.parametrize("growing", [(), GROWING])
@pytest.mark.parametrize("dated", [False, True])
def test_steps_that_slow_down_with_the_machine_do_not_grow(drift, growing, dated):
    noise = random.Random(1)
    steps = timed([1e-3 * (1 + noise.gauss(0, 0.02)) * drift(at / 39) for at in range(40)])
    slower = [dataclasses.replace(reading(), at_s=at, seconds={"loop": 1e-3 * drift(at / 5)}) for at in range(6)]
    if dated:
        steps = tuple(dataclasses.replace(one, at_s=5 * at / 39) for at, one in enumerate(steps))
    assert found(plain(anchors=slower), steps=steps, growing=growing) == {}
    # Steps that grow besides are told, by what they grow beyond the machine.
    more = tuple(dataclasses.replace(one, seconds=one.seconds * (1 + at / 10)) for at, one in enumerate(steps))
    assert "step-time-grows" in found(plain(anchors=slower), steps=more, growing=growing)


def test_a_line_that_did_more_once_is_no_sign_of_growth_unless_it_names_what_grows():
    steps = timed([1e-3 + 4e-6 * one for one in range(40)])
    longer = (dataclasses.replace(GROWING[0], steps=2, place=Place(path="/me/net.py", line=7, code="y = cat(log)")),)
    assert found(plain(), steps=steps, growing=longer) == {}
    held = (Held(kind="plain", name="log", what="list", place=LINE, per_step=1.0, bytes_per_step=None, graphs=False),)
    assert found(plain(), steps=steps, growing=longer, held=held)["step-time-grows"].line == 7
    other = (dataclasses.replace(held[0], name="self.lo"),)
    assert found(plain(), steps=steps, growing=longer, held=other) == {}


def test_a_single_jump_is_no_growth():
    assert found(plain(), steps=timed([1e-3] * 30 + [2e-3] * 10)) == {}


@given(st.lists(st.floats(0.9e-3, 1.6e-3), min_size=40, max_size=40))
@settings(max_examples=50, deadline=None)
def test_noise_is_no_growth(seconds):
    # Sorted noise is growth for all that can be known; in any other order it is told by its rounds.
    rounds = [sorted(seconds[at : at + 10])[5] for at in range(0, 40, 10)]
    if rounds != sorted(set(rounds)):
        assert "step-time-grows" not in found(plain(), steps=timed(seconds))


def test_held_graphs_are_told_with_name_and_line():
    held = (
        Held(kind="graph", name="total", what="tensor", place=LINE, per_step=7.0, bytes_per_step=None, graphs=True),
    )
    steps = timed([1e-3] * 40, memory=[1 << 18] * 40)
    one = found(plain(), held=held, steps=steps)["graph-held"]
    assert one.message.startswith("train.py:12: total gains 7 nodes")
    assert "256 KiB a step" in one.message


@pytest.mark.parametrize(
    ("saved", "text"),
    [
        (True, "the graph behind stays with all that it saved"),
        (False, "what they saved was freed by backward"),
        (None, "the graph behind stays, and is never given back"),
    ],
)
def test_a_held_graph_is_said_to_keep_what_it_saved_only_where_it_does(saved, text):
    one = Held(
        kind="container",
        name="losses",
        what="list",
        place=LINE,
        per_step=1.0,
        bytes_per_step=4.0,
        graphs=True,
        saved=saved,
    )
    message = found(plain(), held=(one,))["graph-held"].message
    assert text in message
    assert ("all that it saved" in message) == (saved is True)


@pytest.mark.parametrize(("size", "told"), [(1 << 20, True), (64, False)])
def test_held_tensors_are_told_where_they_are_large(size, told):
    held = (
        Held(kind="container", name="out", what="list", place=LINE, per_step=1.0, bytes_per_step=size, graphs=False),
    )
    assert ("tensors-held" in found(plain(), held=held)) == told


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        ([1 << 20] * 40, True),
        ([1 << 20, -1 << 20] * 20, False),
        ([1 << 20] * 20 + [0] * 20, False),
        ([4096] * 40, False),
    ],
)
def test_memory_that_nobody_was_found_to_hold(memory, told):
    assert ("memory-grows" in found(plain(), steps=timed([1e-3] * 40, memory=memory))) == told


# Compiling.


def compiled(*, eager_launches, **fields):
    region = OpCost(
        kind="other",
        launches=2,
        bytes_read=1 << 20,
        bytes_written=1 << 20,
        eager=EagerEquivalent(ops=40, launches=eager_launches, bytes_read=1 << 20, bytes_written=1 << 20),
    )
    return step([site(region, REGION_NAME)], [0], [1e-3], **fields)


def compilation(seconds=1.0, again=None, name="forward"):
    return Compilation(name=name, place=LINE, seconds=seconds, again_because=again)


def test_recompiling_is_told_with_its_reason_and_when_it_pays():
    again = [compilation(0.5, "size mismatch at index 0") for _ in range(3)]
    one = found(compiled(eager_launches=42), compilations=(compilation(), *again))["recompiles"]
    assert one.line == 12
    assert "compiled 3 times again" in one.message
    assert "size mismatch" in one.message
    assert "1.50 s of the 2.50 s" in one.message
    # 40 launches of 1 us each are saved: 2.5 s after 62,500 steps, to two digits.
    assert "pays after 63,000 steps (42,000 to 130,000)" in one.message


def test_once_again_is_how_dynamic_sizes_begin():
    made = compiled(eager_launches=40_000)
    assert found(made, compilations=(compilation(), compilation(0.5, "size mismatch"))) == {}


@pytest.mark.parametrize(("launches", "told"), [(40_000, False), (10, True), (2, True)])
def test_compiling_that_pays_late_or_never_is_told(launches, told):
    one = found(compiled(eager_launches=launches), compilations=(compilation(30.0),)).get("compile-pays-late")
    assert (one is not None) == told
    if launches == 2:
        assert "never pays" in one.message


def test_graph_breaks_are_told_with_their_lines():
    breaks = (
        GraphBreak(reason="call of print", place=LINE, times=2),
        GraphBreak(reason="a condition", place=Place(path="/home/me/net.py", line=3), times=1),
    )
    one = found(compiled(eager_launches=40_000), compilations=(compilation(),), graph_breaks=breaks)["graph-breaks"]
    assert "at 2 places: train.py:12: call of print; net.py:3: a condition" in one.message


def test_costs_have_intervals():
    one = found(loop(100))["element-loop"]
    assert isinstance(one.time_s, Interval)
    assert one.time_s.low <= one.time_s.value <= one.time_s.high
