"""Budgets and baselines: exact on counts, doubtful on what is measured, never kept by what is not known."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_up import product, round_machine

import boundby
from boundby.bound.budget_limits import NAMES, budgets_for, read_budgets
from boundby.bound.budgets import Before, check_step, grown_lines, measured_ratios, pair_lines
from boundby.bound.counted import counted_call, counted_step, project_path
from boundby.results.budgets import (
    COUNTS,
    RATIOS,
    Baseline,
    Check,
    Counted,
    CountedLine,
    decode_baseline,
    encode_baseline,
)
from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.interval import interval

TRAINING = """\
import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(16, 32)
        self.two = nn.Linear(32, 16)

    def forward(self, x):
        x = F.gelu(self.one(x))
        return self.two(x)


def make():
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    x = torch.randn(8, 16)

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
"""

# What is done to the script, the line that it shows at, and counts that have to grow.
REGRESSIONS = {
    "an extra item": (
        ("        optimizer.step()\n", "        seen = loss.item()\n        optimizer.step()\n"),
        "seen = loss.item()",
        {"ops", "launches"},
    ),
    "a lost foreach": (("foreach=True", "foreach=False"), "optimizer.step()", {"ops", "launches"}),
    "a doubled activation": (
        ("F.gelu(self.one(x))", "F.gelu(F.gelu(self.one(x)))"),
        "x = F.gelu(F.gelu(self.one(x)))",
        {"ops", "launches", "pointwise_flops", "bytes_written", "saved_bytes"},
    ),
    "a dropped autocast": (
        ('with torch.autocast("cpu", dtype=torch.bfloat16):', "if True:"),
        "return self.two(x)",
        {"fp32_matmul_flops"},
    ),
}


def loaded(text: str, folder: Path) -> ModuleType:
    """The text as a module of a file ``train.py`` in the folder."""
    folder.mkdir(exist_ok=True)
    path = folder / "train.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("train_checked", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def counted(text: str, folder: Path) -> Counted:
    report = boundby.explain(loaded(text, folder).make(), machine=round_machine(), warmup=1, steps=3, watch=2)
    return counted_step(report, roots=(str(folder),))


def baseline_of(step: Counted) -> Baseline:
    return Baseline(target="train.py", torch="2.13.0", device="cpu", counted=step)


def over(check: Check) -> set[str]:
    return {one.of for one in check.judgements if one.state == "over"}


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Counted:
    return counted(TRAINING, tmp_path_factory.mktemp("before"))


@pytest.mark.parametrize("name", REGRESSIONS)
def test_a_regression_is_caught_and_its_line_is_named(name: str, before: Counted, tmp_path: Path) -> None:
    (old, new), code, grown = REGRESSIONS[name]
    assert old in TRAINING
    now = counted(TRAINING.replace(old, new), tmp_path)
    check = check_step(now, (), target="train.py", baseline=baseline_of(before))
    assert not check.passed
    assert over(check) >= grown
    for one in check.judgements:
        if one.of in grown:
            assert one.lines[0].code == code
            assert one.lines[0].path == "train.py"


def test_what_is_not_changed_or_only_moved_raises_nothing(before: Counted, tmp_path: Path) -> None:
    now = counted("# moved\n\n" + TRAINING.replace("Net(", "Network("), tmp_path)
    assert check_step(now, (), target="train.py", baseline=baseline_of(before)).passed
    assert now.totals == before.totals
    assert {one.line for one in now.lines} == {one.line + 2 for one in before.lines if one.line is not None}


def test_fifty_steps_without_a_change_raise_nothing(tmp_path: Path) -> None:
    from boundby.capture.call_watch import CallWatch

    step = loaded(TRAINING, tmp_path).make()
    step()
    seen = []
    for _ in range(51):
        watch = CallWatch()
        watch.start()
        try:
            step()
        finally:
            watch.stop()
        counts = watch.counts()
        seen.append(counted_call(counts, roots=(str(tmp_path),), seen=watch.lines()))
    first, *rest = seen
    for now in rest:
        assert check_step(now, (), target="train.py", baseline=baseline_of(first)).passed
    assert all(now == first for now in rest)


def test_a_watched_call_and_a_watched_step_count_alike(before: Counted, tmp_path: Path) -> None:
    from boundby.capture.call_watch import CallWatch

    step = loaded(TRAINING, tmp_path).make()
    step()
    watch = CallWatch()
    watch.start()
    step()
    watch.stop()
    now = counted_call(watch.counts(), roots=(str(tmp_path),), seen=watch.lines())
    for name in ("launches", "matmul_flops", "fp32_matmul_flops", "pointwise_flops", "saved_bytes"):
        assert now.totals[name] == before.totals[name], name
    saved = [{one.line: one.counts.get("saved_bytes") for one in side.lines} for side in (before, now)]
    assert saved[0] == saved[1]


def test_a_baseline_file_holds_what_was_counted(before: Counted) -> None:
    data = encode_baseline(baseline_of(before))
    assert decode_baseline(data, name="b.json") == baseline_of(before)
    assert encode_baseline(decode_baseline(data, name="b.json")) == data
    with pytest.raises(BoundbyError) as error:
        decode_baseline(data.replace(b'"version": 1', b'"version": 2'), name="b.json")
    assert error.value.code == "unknown-version"


# Made up steps.


def line(number: int, code: str | None, ops: dict[str, int], path: str | None = "a.py", **counts: int) -> CountedLine:
    return CountedLine(path=path, line=number, code=code, counts={"ops": sum(ops.values())} | counts, ops=ops)


def step_of(*lines: CountedLine, **totals: int | None) -> Counted:
    sums: dict[str, int | None] = {
        name: sum(one.counts.get(name, 0) for one in lines) for name in ("ops", "bytes_written")
    }
    return Counted(totals=dict.fromkeys(COUNTS) | sums | totals, lines=lines, by_line=("ops", "bytes_written"))


def test_budgets_of_counts_are_exact() -> None:
    step = step_of(line(1, "x = a + b", {"add": 3}), launches=3)
    kept, broken = (
        check_step(step, read_budgets({"max_launches": limit}, source="here"), target="t") for limit in (3, 2)
    )
    assert kept.passed
    assert [one.state for one in kept.judgements] == ["kept"]
    assert not broken.passed
    assert (broken.judgements[0].value, broken.judgements[0].limit, broken.judgements[0].source) == (3, 2, "here")


def test_without_a_baseline_the_largest_lines_are_named() -> None:
    step = step_of(line(1, "few()", {"add": 1}), line(2, "many()", {"view": 2, "mul": 4}))
    (judged,) = check_step(step, read_budgets({"max_ops": 2}, source=""), target="t").judgements
    assert [one.code for one in judged.lines] == ["many()", "few()"]
    assert [(one.op, one.old, one.new) for one in judged.lines[0].ops] == [("mul", None, 4), ("view", None, 2)]
    assert not judged.grown


@pytest.mark.parametrize("name", ["max_saved_bytes", "max_overhead", "min_peak"])
def test_what_is_not_known_is_not_kept(name: str) -> None:
    check = check_step(step_of(line(1, "a", {"add": 1})), read_budgets({name: 1}, source=""), target="t")
    assert not check.passed
    assert check.judgements[0].state == "unknown"


def test_what_was_counted_before_and_is_not_now_is_not_kept() -> None:
    old, new = (step_of(line(1, "a", {"add": 1}), saved_bytes=size) for size in (8, None))
    check = check_step(new, (), target="t", baseline=baseline_of(old))
    assert [(one.of, one.state) for one in check.judgements if one.failed] == [("saved_bytes", "unknown")]
    assert check_step(old, (), target="t", baseline=baseline_of(new)).passed


@pytest.mark.parametrize(
    ("name", "limit", "state"),
    [
        ("max_overhead", 0.5, "kept"),
        ("max_overhead", 0.4, "kept"),
        ("max_overhead", 0.35, "unsure"),
        ("max_overhead", 0.25, "over"),
        ("min_peak", 0.1, "kept"),
        ("min_peak", 0.25, "unsure"),
        ("min_peak", 0.5, "over"),
    ],
)
def test_what_is_measured_is_over_only_where_its_better_end_is(name: str, limit: float, state: str) -> None:
    ratios = {"overhead": interval(0.4, 0.3, 0.45), "peak": interval(0.2, 0.15, 0.3)}
    check = check_step(step_of(), read_budgets({name: limit}, source=""), target="t", ratios=ratios)
    assert check.judgements[0].state == state
    assert check.passed == (state != "over")


def test_a_line_is_found_again_by_its_text_then_by_one_much_like_it() -> None:
    old = (line(1, "x = act(h)", {"act": 1}), line(2, "y = mm(x)", {"mm": 1}), line(3, "gone()", {"z": 1}))
    new = (line(9, "y = mm(x)", {"mm": 2}), line(10, "x = act(act(h))", {"act": 2}), line(11, "loss.item()", {"i": 1}))
    pairs = {(a and a.line, b and b.line) for a, b in pair_lines(old, new)}
    assert pairs == {(2, 9), (1, 10), (3, None), (None, 11)}
    before = Before(counted=step_of(*old), pairs=tuple(pair_lines(old, new)))
    by, grown = grown_lines(step_of(*new), before, "ops")
    assert by == "ops"
    assert {(one.old_code, one.code, one.old, one.new) for one in grown} == {
        (None, "y = mm(x)", 1, 2),
        ("x = act(h)", "x = act(act(h))", 1, 2),
        (None, "loss.item()", None, 1),
    }
    (item,) = (one for one in grown if one.code == "loss.item()")
    assert [(one.op, one.old, one.new) for one in item.ops] == [("i", 0, 1)]


def test_a_count_not_known_by_line_is_told_by_one_that_goes_with_it() -> None:
    old = step_of(line(1, "a", {"add": 1}, bytes_written=8), saved_bytes=8)
    new = step_of(line(1, "a", {"add": 1}, bytes_written=24), saved_bytes=24)
    check = check_step(new, (), target="t", baseline=baseline_of(old))
    (judged,) = (one for one in check.judgements if one.of == "saved_bytes")
    assert (judged.lines_by, judged.lines[0].old, judged.lines[0].new) == ("bytes_written", 8, 24)


def test_what_shrank_and_what_is_unlike_is_told() -> None:
    old, new = step_of(line(1, "a", {"add": 2})), step_of(line(1, "a", {"add": 1}))
    check = check_step(new, (), target="b.py", baseline=baseline_of(old), torch="2.14.0", device="cuda")
    assert check.passed
    assert check.shrunk == (("ops", 2, 1),)
    assert len(check.notes) == 3


lines_st = st.lists(
    st.builds(
        line,
        st.integers(1, 30),
        st.one_of(st.none(), st.sampled_from(["a", "b = a", "c = b + a", "c = b + a + 1"])),
        st.dictionaries(st.sampled_from(["add", "mm", "t"]), st.integers(1, 5), min_size=1),
        st.one_of(st.none(), st.sampled_from(["a.py", "b.py"])),
    ),
    max_size=6,
)


@given(lines_st, lines_st)
def test_every_line_is_on_one_pair_of_each_side(old: list[CountedLine], new: list[CountedLine]) -> None:
    pairs = list(pair_lines(old, new))
    for side, lines in ((0, old), (1, new)):
        assert sorted(map(repr, (pair[side] for pair in pairs if pair[side] is not None))) == sorted(map(repr, lines))


@given(lines_st, lines_st)
def test_a_check_passes_where_and_only_where_nothing_grew(old: list[CountedLine], new: list[CountedLine]) -> None:
    before, now = step_of(*old), step_of(*new)
    check = check_step(now, (), target="t", baseline=baseline_of(before))
    more = now.totals["ops"] > before.totals["ops"]  # type: ignore[operator]
    assert check.passed == (not more)
    assert (over(check) == {"ops"}) == more
    (ops,) = (one for one in check.judgements if one.of == "ops")
    assert bool(ops.lines) == more


# Budgets as written.


@pytest.mark.parametrize(
    ("name", "text", "limit"),
    [
        ("max_saved_bytes", "200 MiB", 200 * 2**20),
        ("max_saved_bytes", "1.5KiB", 1536),
        ("max_bytes_read", "2 GB", 2 * 10**9),
        ("max_bytes_read", 12, 12),
        ("max_matmul_flops", "1.5 GFLOP", 15 * 10**8),
        ("max_matmul_flops", 1e9, 10**9),
        ("max_pointwise_flops", "3 MFLOPs", 3 * 10**6),
        ("max_launches", "1_000", 1000),
        ("max_graph_breaks", 0, 0),
        ("max_overhead", "40%", 0.4),
        ("max_overhead", 0.4, 0.4),
        ("min_peak", 1, 1.0),
    ],
)
def test_limits_are_read_with_their_units(name: str, text: Any, limit: float) -> None:
    (budget,) = read_budgets({name: text}, source="")
    assert budget.limit == pytest.approx(limit)
    assert budget.least == name.startswith("min_")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_launches", -1),
        ("max_launches", 1.5),
        ("max_launches", True),
        ("max_launches", "40 MiB"),
        ("max_launches", None),
        ("max_launches", [3]),
        ("max_saved_bytes", "much"),
        ("max_saved_bytes", "3 parsecs"),
        ("max_overhead", 40),
        ("max_overhead", "140%"),
        ("max_overhead", "0.4 s"),
        ("max_launches", float("nan")),
    ],
)
def test_a_limit_that_is_none_is_refused(name: str, value: Any) -> None:
    with pytest.raises(BoundbyError) as error:
        read_budgets({name: value}, source="pyproject.toml")
    assert (error.value.code, error.value.status) == ("bad-budget", EXIT_USAGE)
    assert error.value.message.startswith(f"pyproject.toml: {name} is ")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("max_lanches", "Did you mean max_launches"),
        ("launches", "Did you mean max_launches"),
        ("saved_bytes", "Did you mean max_saved_bytes"),
        ("max_step_time", "Times differ from machine to machine"),
        ("banana", "Budgets are: max_ops"),
    ],
)
def test_an_unknown_budget_names_what_is_near(name: str, advice: str) -> None:
    with pytest.raises(BoundbyError) as error:
        read_budgets({name: 3}, source="")
    assert error.value.code == "unknown-budget"
    assert error.value.advice.startswith(advice)


def test_shares_are_refused_where_nothing_is_measured() -> None:
    with pytest.raises(BoundbyError) as error:
        read_budgets({"max_overhead": 0.4}, source="", counts_only=True)
    assert error.value.code == "unknown-budget"
    assert read_budgets({"max_ops": 4}, source="", counts_only=True)


def test_tables_for_scripts_go_before_the_outer_one() -> None:
    table = {"max_ops": 9, "max_launches": 5, "train.py": {"max_ops": 3}, "tools/*.py": {"max_ops": 4}, "pkg.eval": {}}

    def limits(target: str | None) -> dict[str, float]:
        return {one.name: one.limit for one in budgets_for(table, target=target, source="")}

    assert limits("src/train.py") == limits("train.py") == {"max_ops": 3, "max_launches": 5}
    assert limits("tools/x.py") == {"max_ops": 4, "max_launches": 5}
    assert limits("pkg.eval") == limits(None) == {"max_ops": 9, "max_launches": 5}
    with pytest.raises(BoundbyError):
        budgets_for({"other.py": {"max_opps": 3}}, target="train.py", source="")


def test_every_count_and_ratio_can_have_a_budget() -> None:
    assert {name.split("_", 1)[1] for name in NAMES} == {*COUNTS, *RATIOS}


def test_paths_are_those_of_any_checkout() -> None:
    assert project_path("/home/ann/p/src/a.py", ("/tmp/x", "/home/ann/p")) == "src/a.py"
    assert project_path("/usr/lib/python3/site-packages/torchvision/ops.py", ()) == "torchvision/ops.py"
    assert project_path("/elsewhere/a.py", ("/home/ann/p",)) == "a.py"
    assert project_path("a/b.py", ()) == "a/b.py"


# Ratios of a report.


def test_the_part_of_the_peak_is_that_of_each_dtype() -> None:
    x = torch.randn(64, 64)
    best = replace(product((1, 512, 512, 512), 1e12), threads=torch.get_num_threads(), low=0.5e12, high=2e12)
    report = boundby.explain(lambda: x @ x, machine=round_machine(best), warmup=1, steps=3, watch=2)
    told = replace(report, verdict=replace(report.verdict, bound="compute"))
    peak = measured_ratios(told)["peak"]
    assert peak is not None
    least_s = 2 * 64**3 / 1e12
    time = report.step.time_s
    assert peak == interval(least_s / time.median, least_s / 2 / time.high, least_s * 2 / time.low)
    assert set(measured_ratios(told)) == set(RATIOS)
    assert measured_ratios(replace(told, machine=replace(told.machine, ceilings=())))["peak"] is None
    assert set(measured_ratios(replace(told, verdict=replace(told.verdict, bound="unknown"))).values()) == {None}


def test_a_tolerance_is_advised_for_a_baseline_and_not_for_a_limit_that_was_written_down() -> None:
    now, old = (
        Counted(totals={"bytes_read": read}, lines=(), by_line=(), indexed={"bytes_read": read // 2})
        for read in (200, 100)
    )
    budgets = budgets_for({"max_bytes_read": 100}, target=None, source="pyproject.toml")
    by_budget = check_step(now, budgets, target="train.py")
    assert over(by_budget) == {"bytes_read"}
    assert by_budget.notes == ()
    (note,) = check_step(now, (), target="train.py", baseline=baseline_of(old)).notes[-1:]
    assert note.startswith("At least 50% of the bytes read depends on")
    assert "--bytes-tolerance" in note
    within = check_step(now, budgets, target="train.py", baseline=baseline_of(old), bytes_tolerance=1.0)
    assert over(within) == {"bytes_read"}
    assert not any("--bytes-tolerance" in one for one in within.notes)
