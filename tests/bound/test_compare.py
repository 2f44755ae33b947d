"""What changed between two reports, of runs whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import matmul_cost, pointwise_cost, reading, round_machine, site, trace, traces, watched

from boundby.bound.compare import compare_reports, same_machine
from boundby.bound.compare_lines import Place, pair_places
from boundby.bound.explain import explain_trace
from boundby.results.comparison import ReportComparison, ShareChange, encode_comparison
from boundby.results.interval import Interval, interval
from boundby.results.machine import Finding, Machine
from boundby.results.report import Report
from boundby.results.trace import AnchorReading, OpSite

MACHINE = round_machine()
SITES = (
    site(pointwise_cost(256), "aten.add.Tensor", line=10, code="x = x + 1"),
    site(matmul_cost(128, 128, 128), "aten.mm.default", line=11, code="y = x @ w"),
)


def steps(seconds: float, count: int = 30) -> tuple[float, ...]:
    """Step times within 2% of ``seconds``."""
    return tuple(seconds * (1 + 0.01 * ((index * 7) % 5 - 2)) for index in range(count))


def run(
    seconds: float = 1e-3,
    *,
    sites: Sequence[OpSite] = SITES,
    windows: Sequence[float] | None = None,
    machine: Machine = MACHINE,
    anchors: Sequence[AnchorReading] = (),
    count: int = 30,
) -> Report:
    """The report of a step of ``seconds`` whose ops share its time evenly."""
    shared = [seconds / len(sites)] * len(sites) if windows is None else windows
    made = trace(
        step_s=steps(seconds, count),
        sites=sites,
        windows=shared,
        watched=(watched(seconds, seconds), watched(seconds, seconds)),
        anchors=tuple(anchors),
    )
    return explain_trace(made, machine)


def compared(a: Report, b: Report, *, across_machines: bool = False) -> ReportComparison:
    return compare_reports(a, b, name_a="a.json", name_b="b.json", across_machines=across_machines)


def on(machine: Machine, **description: object) -> Machine:
    return replace(machine, description=replace(machine.description, **description))


def codes(found: ReportComparison) -> list[str]:
    return [one.code for one in found.findings]


def test_a_run_does_not_differ_from_itself() -> None:
    found = compared(run(), run())
    assert found.time is not None
    assert found.time.ratio is not None
    assert found.time.differs is False
    assert found.time.ratio.value == 1.0
    assert found.counts_equal
    assert (found.groups, found.lines, codes(found)) == ((), (), [])
    assert found.sentence == "No difference: 1.00 ms a step in a.json, 1.00 ms in b.json. Their counts are equal."
    assert not any(one.differs for one in found.split)


@settings(max_examples=40, deadline=None)
@given(traces())
def test_any_run_does_not_differ_from_itself(any_trace) -> None:
    report = explain_trace(any_trace, MACHINE)
    found = compared(report, report)
    assert found.time is not None
    assert not found.time.differs
    assert found.counts_equal
    assert found.groups == ()
    assert not found.lines
    assert encode_comparison(found)


@pytest.mark.parametrize(("factor", "word"), [(1.3, "slower"), (1 / 1.3, "faster")])
def test_a_change_of_1_3_is_found(factor: float, word: str) -> None:
    found = compared(run(), run(factor * 1e-3))
    assert found.time is not None
    assert found.time.ratio is not None
    assert found.time.differs
    assert found.time.ratio.value == pytest.approx(factor, rel=1e-3)
    assert found.time.ratio.low <= factor <= found.time.ratio.high
    assert found.sentence.startswith(f"b.json is 1.30x {word} than a.json (1.2")


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-5, 1.0), st.floats(1e-5, 1.0))
def test_turned_round_it_says_the_inverse(a: float, b: float) -> None:
    one, other = compared(run(a), run(b)).time, compared(run(b), run(a)).time
    assert one is not None
    assert other is not None
    assert one.ratio is not None
    assert other.ratio is not None
    assert one.differs == other.differs
    assert one.ratio.value == pytest.approx(1 / other.ratio.value)
    assert one.ratio.low == pytest.approx(1 / other.ratio.high)


def test_the_noise_that_is_told_is_the_least_that_differs() -> None:
    time = compared(run(), run()).time
    assert time is not None
    assert time.noise is not None
    told = time.noise.told_apart
    assert time.noise.between_runs <= told < 0.1
    below, above = (
        compared(run(), run(1e-3 * (1 + 0.9 * told))).time,
        compared(run(), run(1e-3 * (1 + 1.1 * told))).time,
    )
    assert below is not None
    assert above is not None
    assert (below.differs, above.differs) == (False, True)


def test_what_the_machine_did_is_not_put_down_to_the_code() -> None:
    overhead = [site(pointwise_cost(1), "aten.add.Tensor", line=1, code="x + 1")] * 20
    before = run(1e-4, sites=overhead, anchors=[reading(), reading()])
    slow = [reading(dispatch=1.3e-3), reading(dispatch=1.3e-3)]
    found = compared(before, run(1.3e-4, sites=overhead, anchors=slow))
    assert found.time is not None
    assert found.time.ratio is not None
    assert found.time.differs is False
    assert found.time.ratio.value == pytest.approx(1.3)
    assert "probes-moved" in codes(found)
    far = compared(before, run(2e-4, sites=overhead, anchors=slow)).time
    assert far is not None
    assert far.differs is True


def test_a_probe_that_the_step_does_not_use_moves_nothing() -> None:
    overhead = [site(pointwise_cost(1), "aten.add.Tensor", line=1, code="x + 1")] * 20
    a = run(1e-4, sites=overhead, anchors=[reading(), reading()])
    b = run(1.3e-4, sites=overhead, anchors=[reading(matmul=9e-3), reading(matmul=9e-3)])
    found = compared(a, b)
    assert found.time is not None
    assert found.time.differs is True
    assert "probes-moved" not in codes(found)


def test_another_state_of_the_machine_is_not_put_down_to_the_code() -> None:
    overhead = [site(pointwise_cost(1), "aten.add.Tensor", line=1, code="x + 1")] * 20

    def found(memory: float, threads: int, seconds: float = 1.3e-4) -> ReportComparison:
        anchors = [reading(memory=memory), reading(memory=memory)]
        a, b = run(1e-4, sites=overhead, anchors=[reading(), reading()]), run(seconds, sites=overhead, anchors=anchors)
        return compared(*(replace(one, step=replace(one.step, threads=threads)) for one in (a, b)))

    for memory in (1.5e-3, 0.7e-3):
        moved = found(memory, 2)
        assert moved.time.differs is False
        assert moved.time.noise.told_apart > 0.3
        assert "probes-moved" in codes(moved)
        assert found(memory, 2, 2e-4).time.differs is True
        # One thread waits for no other.
        assert found(memory, 1).time.differs is True
    assert found(1.1e-3, 2).time.differs is True


def test_a_difference_that_no_limit_explains_is_doubted() -> None:
    # Their floors are a few microseconds: nearly all of both steps is unexplained.
    assert "difference-unexplained" in codes(compared(run(), run(2e-3)))
    assert "difference-unexplained" not in codes(compared(run(), run()))
    extra = site(pointwise_cost(256), "aten.exp.default", line=12, code="z = y.exp()")
    assert "difference-unexplained" not in codes(compared(run(), run(2e-3, sites=(*SITES, extra))))


def test_too_few_steps_to_tell() -> None:
    found = compared(run(count=2), run(9e-3))
    assert found.time is not None
    assert (found.time.ratio, found.time.differs) == (None, None)
    assert found.sentence.startswith("Too few steps were timed to tell a.json")


def test_reports_without_single_steps_are_compared_by_their_quartiles() -> None:
    a, b, slow = (
        replace(one, step=replace(one.step, time_s=replace(one.step.time_s, samples_s=())))
        for one in (run(), run(1.02e-3), run(1.5e-3))
    )
    same, slower = compared(a, b).time, compared(a, slow).time
    assert same is not None
    assert slower is not None
    assert (same.differs, slower.differs) == (False, True)
    assert same.noise is not None
    assert same.noise.rounds_a is None


def test_times_of_two_machines_are_compared_only_where_told() -> None:
    other = run(1.4e-3, machine=on(MACHINE, cpu="another"))
    found = compared(run(), other)
    assert (found.time, found.split, found.lines) == (None, (), ())
    assert found.counts_equal
    assert found.sentence == (
        "a.json and b.json were made on different machines: their times are not compared. Their counts are equal."
    )
    assert codes(found) == ["machines-differ"]
    told = compared(run(), other, across_machines=True)
    assert told.time is not None
    assert told.time.differs is True
    assert told.split
    assert codes(told) == ["machines-differ"]


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"cpu": "another"}, False),
        ({"cpu": None}, None),
        ({"logical_cores": 8}, False),
        ({"device": "cuda"}, False),
        ({"torch": "2.9", "python": "3.14", "os": "another", "usable_cores": 1}, True),
        ({"memory_bytes": 1001 * 2**20}, True),
        ({"memory_bytes": 2000 * 2**20}, False),
        ({"memory_bytes": None}, True),
    ],
)
def test_what_makes_a_machine_the_same(change: dict[str, object], same: bool | None) -> None:
    here = replace(MACHINE.description, memory_bytes=1000 * 2**20)
    assert same_machine(here, replace(here, **change)) is same
    assert same_machine(replace(here, **change), here) is same


def test_other_software_is_told_of() -> None:
    found = compared(run(), run(machine=on(MACHINE, torch="2.9", python="3.14")))
    assert codes(found) == ["settings-differ"]
    assert found.findings[0].message.endswith("torch unknown and 2.9; Python 3.11 and 3.14")


def test_an_op_more_is_named_with_its_line() -> None:
    extra = site(pointwise_cost(256), "aten.exp.default", line=12, code="z = y.exp()")
    found = compared(run(), run(sites=(*SITES, extra)))
    assert not found.counts_equal
    totals = {one.name: (one.a, one.b) for one in found.counts}
    assert totals["ops"] == (2, 3)
    assert [(one.by, one.name, one.a_ops, one.b_ops) for one in found.groups] == [
        ("op", "aten.exp.default", None, 1),
        ("line", "train.py:12", None, 1),
    ]
    assert found.sentence.endswith("Their counts differ: ops, launches, pointwise flops, bytes read, bytes written.")


def test_a_line_that_only_moved_has_not_changed() -> None:
    moved = tuple(replace(one, line=(one.line or 0) + 40) for one in SITES)
    found = compared(run(), run(sites=moved))
    assert (found.groups, found.lines) == ((), ())


def test_the_line_that_got_slower_is_named_and_no_other() -> None:
    found = compared(run(windows=[5e-4, 5e-4]), run(1.5e-3, windows=[5e-4, 1e-3]))
    assert found.lines is not None
    (line,) = found.lines
    assert (line.line_a, line.line_b, line.code) == (11, 11, "y = x @ w")
    assert line.change_s == pytest.approx(5e-4, rel=0.01)


@pytest.mark.parametrize("change", ["reconciliation", "lines", "unknown"])
def test_lines_of_watched_steps_unlike_the_bare_ones_are_not_compared(change: str) -> None:
    a, b = run(windows=[5e-4, 5e-4]), run(1.5e-3, windows=[5e-4, 1e-3])
    unlike = {
        "reconciliation": replace(b, reconciliation=interval(0.4)),
        "lines": replace(b, lines=tuple(replace(one, share=0.2 * one.share) for one in b.lines)),
        "unknown": replace(b, reconciliation=None),
    }
    assert compared(a, unlike[change]).lines is None
    assert compared(unlike[change], a).lines is None


def test_counts_that_one_side_does_not_have_are_unknown_and_no_change() -> None:
    report = run()
    with_saved = replace(report, counts=replace(report.counts, saved_bytes=100))
    found = compared(report, with_saved)
    assert found.counts_equal
    assert {one.name: (one.a, one.b) for one in found.counts}["saved_bytes"] == (None, 100)
    nothing = replace(report, counts=type(report.counts)())
    assert "counts are unknown" in compared(nothing, nothing).sentence


def test_lines_are_found_again() -> None:
    a = [Place(path="/old/t.py", line=line, code=code) for line, code in ((1, "x"), (2, "x"), (3, "y"), (4, None))]
    b = [Place(path="/new/t.py", line=line, code=code) for line, code in ((9, " y "), (7, "x"), (8, "x"), (4, None))]
    b.append(Place(path="/new/other.py", line=1, code="x"))
    assert sorted(pair_places(a, b), key=str) == sorted([(0, 1), (1, 2), (2, 0), (3, 3), (None, 4)], key=str)


places = st.lists(
    st.builds(
        Place,
        path=st.sampled_from(["a.py", "b/a.py", None]),
        line=st.one_of(st.none(), st.integers(1, 9)),
        code=st.sampled_from(["x", "y", None, " "]),
    ),
    max_size=12,
)


@given(places, places)
def test_each_line_is_paired_once(a: list[Place], b: list[Place]) -> None:
    pairs = pair_places(a, b)
    assert sorted(one for one, _ in pairs if one is not None) == list(range(len(a)))
    assert sorted(one for _, one in pairs if one is not None) == list(range(len(b)))
    assert sorted(pair_places(a, a), key=str) == sorted(((i, i) for i in range(len(a))), key=str)


def test_a_disturbed_run_is_not_told_apart_by_time_that_nothing_explains() -> None:
    calm, slow = run(), run(2e-3)
    assert compared(calm, slow).time.differs is True
    disturbed = replace(
        slow,
        verdict=replace(slow.verdict, confidence="unsure"),
        split=replace(slow.split, unexplained=interval(0.6, 0.0, 0.8)),
        findings=(*slow.findings, Finding(code="machine-busy", message="other processes were busy")),
    )
    for a, b in ((calm, disturbed), (disturbed, calm)):
        found = compared(a, b)
        assert found.time.differs is False
        assert "disturbed-side" in codes(found)
        assert found.time.noise.told_apart > 1.0
        assert found.sentence.startswith("No comparison: the runs were too disturbed to compare. ")
        assert "%" not in found.sentence
        assert all(one.unclear and not one.differs and one.against is None for one in found.split)
    assert compared(calm, run(40e-3)).time.differs is True


def test_a_difference_to_a_run_beside_other_load_is_told_with_it() -> None:
    calm, slow = run(), run(2e-3)
    assert "disturbed-side" not in codes(compared(calm, slow))
    loaded = replace(
        slow,
        verdict=replace(slow.verdict, confidence="sure"),
        findings=(*slow.findings, Finding(code="preempted", message="interrupted")),
    )
    found = compared(calm, loaded)
    assert found.time.differs is True
    (told,) = (one for one in found.findings if one.code == "disturbed-side")
    assert "(preempted)" in told.message


def test_other_arguments_of_one_script_are_told() -> None:
    def with_command(*words: str) -> Report:
        report = run()
        return replace(report, tool=replace(report.tool, command=("boundby", "run", "-o", "x.json", *words)))

    def settings(*words: str) -> str:
        found = compared(with_command("train.py", "--bs", "64"), with_command(*words))
        return " ".join(one.message for one in found.findings if one.code == "settings-differ")

    assert "arguments --bs 64 and --bs 32" in settings("train.py", "--bs", "32")
    assert "arguments --bs 64 and none" in settings("train.py")
    # boundby's own options are none of the script's.
    assert "arguments" not in settings("-o", "other.json", "train.py", "--bs", "64")
    assert settings("train.py", "--bs", "64") == settings("other.py", "--bs", "32") == ""


def test_shares_far_apart_within_wide_bands_are_not_told_to_be_alike() -> None:
    a, b = run(), run()

    def unexplained(value: Interval) -> ShareChange:
        of_a = replace(a, split=replace(a.split, unexplained=interval(0.03, 0.0, 0.1)))
        found = compared(of_a, replace(b, split=replace(b.split, unexplained=value)))
        return next(one for one in found.split if one.name == "unexplained")

    near, far = unexplained(interval(0.1, 0.0, 0.9)), unexplained(interval(0.78, 0.0, 0.9))
    assert (near.differs, near.unclear) == (False, False)
    assert (far.differs, far.unclear) == (False, True)


def test_shares_nearer_than_they_are_told_to_do_not_differ() -> None:
    """As files of before have them: bands of no width, each its own noise."""
    a, b = run(), run()
    narrow = [replace(one.split, pointwise=interval(value)) for one, value in ((a, 0.00105), (b, 0.0009))]
    found = compared(replace(a, split=narrow[0]), replace(b, split=narrow[1]))
    assert not next(one.differs for one in found.split if one.name == "pointwise")
    far = replace(b, split=replace(b.split, pointwise=interval(0.1)))
    assert next(one.differs for one in compared(replace(a, split=narrow[0]), far).split if one.name == "pointwise")


@pytest.mark.parametrize(
    ("after", "flops", "against"),
    [
        (0.2, 1500, "more-and-shorter"),
        (0.2, 1001, "more-and-shorter"),
        (0.2, 1000, None),
        (0.2, 500, None),
        (0.45, 500, "less-and-longer"),
        (0.45, 999, "less-and-longer"),
        (0.45, 1000, None),
        (0.45, 1500, None),
    ],
)
def test_a_share_that_goes_against_the_counted_work_differs_and_is_told_so(
    after: float, flops: int, against: str | None
) -> None:
    change = pointwise_change(interval(0.3), interval(after), flops)
    assert (change.differs, change.against) == (True, against)


@pytest.mark.parametrize(("longer", "after", "flops"), [(1.3, 0.235, 999), (1 / 1.3, 0.385, 1001)])
def test_a_shift_against_the_work_within_what_two_runs_differ_by_is_none(
    longer: float, after: float, flops: int
) -> None:
    """The rest of the step changed: the share is another, and its seconds are within 2% of what they were."""
    assert not pointwise_change(interval(0.3), interval(after), flops, longer).differs
    assert pointwise_change(interval(0.3), interval(after), 1000, longer).differs


def pointwise_change(before: Interval, after: Interval, flops: int, longer: float = 1.0) -> ShareChange:
    """Of two runs, the first of 1000 pointwise FLOPs, the second so many times as long."""
    a, b = (replace(one, counts=replace(one.counts, pointwise_flops=1000)) for one in (run(), run(1e-3 * longer)))
    a = replace(a, split=replace(a.split, pointwise=before))
    b = replace(b, split=replace(b.split, pointwise=after), counts=replace(b.counts, pointwise_flops=flops))
    return next(one for one in compared(a, b).split if one.name == "pointwise")
