"""What is said to bind, from shares that are given."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import matmul_cost, overhead, product, round_machine, site, trace, traces, watched

from boundby.bound.ceilings import Ceilings, Speed
from boundby.bound.explain import explain_trace
from boundby.bound.split import Division
from boundby.bound.verdict import judge, shares
from boundby.results.counts import Counts
from boundby.results.interval import Interval, interval
from boundby.results.language import choose_language
from boundby.results.machine import Finding
from boundby.results.report import MedianTime, OverheadParts, PageFaults, Split

MACHINE = round_machine()
CEILINGS = Ceilings(MACHINE, Speed.unknown(), threads=1)
SPREAD = 0.02


def division_of(*, reconciliation: float | None = 1.0, spread: float = SPREAD, **given_shares: float) -> Division:
    values = dict.fromkeys(("overhead", "memory", "matmul", "pointwise", "input"), 0.0) | given_shares
    values["unexplained"] = given_shares.get("unexplained", 1.0 - sum(values.values()))
    split = Split(**{name: interval(one, max(0, one - spread), min(1, one + spread)) for name, one in values.items()})
    return Division(
        time_s=MedianTime(median=0.01, low=0.01, high=0.01),
        split=split,
        parts=OverheadParts(dispatch=values["overhead"], host=0.0, allocation=0.0),
        reconciliation=None if reconciliation is None else interval(reconciliation),
        faults=None,
        times=None,
        scale=1.0,
    )


def judged(division: Division, **fields: object):
    return judge(trace(**{"step_s": [0.01] * 3} | fields), division, Counts(ops=10, launches=8), CEILINGS)


@pytest.mark.parametrize(
    ("given_shares", "bound"),
    [
        ({"overhead": 0.9}, "overhead"),
        ({"memory": 0.55, "overhead": 0.4}, "memory"),
        ({"input": 0.6, "matmul": 0.4}, "input"),
        ({"matmul": 0.3, "pointwise": 0.3, "memory": 0.35}, "compute"),  # both are compute
        ({"overhead": 0.45, "memory": 0.25}, "overhead"),  # clearly ahead
        ({"overhead": 0.45, "memory": 0.44}, "mixed"),
        ({"overhead": 0.35, "memory": 0.1, "matmul": 0.1}, "mixed"),
        ({"overhead": 0.4}, "unknown"),  # 60% unexplained
        ({"overhead": 0.5, "unexplained": 0.5}, "overhead"),
    ],
)
def test_what_binds(given_shares, bound):
    assert judged(division_of(**given_shares)).bound == bound


@given(
    st.lists(st.floats(0, 1), min_size=6, max_size=6).filter(lambda parts: sum(parts) > 0.1),
    st.none() | st.floats(0.1, 2.0),
)
def test_a_verdict_keeps_to_its_thresholds(parts, reconciliation):
    names = ("overhead", "memory", "matmul", "pointwise", "input", "unexplained")
    division = division_of(
        reconciliation=reconciliation, **{name: part / sum(parts) for name, part in zip(names, parts, strict=True)}
    )
    verdict = judged(division)
    ranked = sorted((one.value for one in shares(division.split).values()), reverse=True)
    adds_up = reconciliation is None or 0.5 <= reconciliation <= 1.5
    if verdict.bound == "unknown":
        assert division.split.unexplained.value > 0.5 or not adds_up
    elif verdict.bound == "mixed":
        assert ranked[0] < 0.5
        assert ranked[0] < 0.4 or ranked[0] < 1.5 * ranked[1]
    else:
        assert adds_up
        assert shares(division.split)[verdict.bound].value == ranked[0] >= 0.4
    if verdict.bound in ("mixed", "unknown") or reconciliation is None:
        assert verdict.confidence == "unsure"
    if verdict.confidence == "sure":
        others = [one.high for name, one in shares(division.split).items() if name != verdict.bound]
        assert shares(division.split)[verdict.bound].low > max(others)


def test_a_verdict_is_sure_only_where_the_step_is_reconciled():
    assert judged(division_of(overhead=0.9)).confidence == "sure"
    assert judged(division_of(overhead=0.9, reconciliation=0.7)).confidence == "unsure"
    assert judged(division_of(overhead=0.9, reconciliation=1.2)).confidence == "unsure"
    assert judged(division_of(overhead=0.5, memory=0.45, spread=0.1)).confidence == "likely"
    assert judged(division_of(overhead=0.5, memory=0.45, reconciliation=0.7)).confidence == "unsure"


def test_no_verdict_on_one_timed_step_is_sure():
    """Its spread is unknown."""
    assert judged(division_of(overhead=0.9), step_s=[0.01]).confidence == "unsure"
    assert judged(division_of(overhead=0.9), step_s=[0.01] * 2).confidence == "sure"


def test_the_sentence_names_the_step_its_bound_its_share_and_its_time():
    sentence = judged(division_of(memory=0.8), kind="inference").sentence
    assert sentence.startswith("This inference step is bound by memory bandwidth: 80% of its 10.0 ms")
    assert sentence.endswith(".")


def test_an_unknown_bound_says_why():
    slow = trace(step_s=[1.0], sites=[site(matmul_cost(64, 64, 64))], windows=[0.99], gaps=[0.01])
    verdict = explain_trace(slow, MACHINE).verdict
    assert verdict.bound == "unknown"
    assert "99% of it is explained by no limit measured here" in verdict.sentence
    unseen = explain_trace(trace(step_s=[1.0]), MACHINE).verdict
    assert "its ops could not be timed" in unseen.sentence


def test_compute_is_matmul_and_pointwise_together():
    split = division_of(matmul=0.5, pointwise=0.4).split
    both = shares(split)["compute"]
    assert (both.low, both.value, both.high) == pytest.approx((0.86, 0.9, 0.94))


@given(traces())
@settings(max_examples=50, deadline=None)
def test_compute_of_any_split_is_an_interval_of_a_share(made):
    both = shares(explain_trace(made, MACHINE).split)["compute"]
    assert isinstance(both, Interval)
    assert 0 <= both.low <= both.value <= both.high <= 1 + 1e-9


def test_the_evidence_tells_the_rate_of_products_against_the_peak():
    made = trace(step_s=[0.01], sites=[site(matmul_cost(512, 512, 512))], windows=[0.01])
    verdict = judge(made, division_of(matmul=0.9), Counts(ops=1, launches=1, matmul_flops=5 * 10**8), CEILINGS)
    assert any("50.0 GFLOP/s" in line and "50%" in line and "100 GFLOP/s" in line for line in verdict.evidence)


@pytest.mark.parametrize(
    ("times", "says"),
    [(0.9, "90% of the 120"), (1.04, "104% of the 120"), (1.5, "more than the 120")],
)
def test_a_rate_above_the_peak_is_told_as_it_is(times, says):
    machine = round_machine(dataclasses.replace(product((1, 128, 128, 128), 120e9), low=110e9, high=125e9))
    counts = Counts(ops=1, launches=1, matmul_flops=round(0.01 * times * 120e9))
    made = trace(step_s=[0.01], sites=[site(matmul_cost(512, 512, 512))], windows=[0.01])
    evidence = judge(made, division_of(matmul=0.9), counts, Ceilings(machine, Speed.unknown(), threads=1)).evidence
    (line,) = [line for line in evidence if "matrix products" in line]
    assert says in line
    assert ("within its band" in line) == (1.0 < times < 1.1)


def test_the_evidence_says_where_a_ceiling_is_not_known():
    made = trace(step_s=[0.01], sites=[site(matmul_cost(64, 64, 64, "int8"))], windows=[0.01])
    verdict = judge(made, division_of(matmul=0.9), Counts(ops=1), CEILINGS)
    assert "no matmul ceiling is known for int8 on this machine" in verdict.evidence


def test_page_faults_are_evidence_where_they_cost_something():
    def lines(each: float) -> str:
        faults = PageFaults(per_step=1000.0, seconds_each=each, time_s=1000 * each)
        return " ".join(judged(dataclasses.replace(division_of(overhead=0.9), faults=faults)).evidence)

    assert "page faults" in lines(1e-6)
    assert "page faults" not in lines(1e-9)


# Findings of the whole explanation.


def codes(made, machine=MACHINE) -> set[str]:
    return {finding.code for finding in explain_trace(made, machine).findings}


def test_a_thread_count_without_ceilings_is_found():
    made = trace(step_s=[0.01], sites=[site(matmul_cost(8, 8, 8))], windows=[0.01])
    assert "ceilings-missing" not in codes(made)
    assert "ceilings-missing" in codes(dataclasses.replace(made, threads=3))
    # One ceiling at three threads does not make a set; a machine that was measured at three has one.
    machine = round_machine(overhead("view", 1e-6, threads=3))
    assert "ceilings-missing" in codes(dataclasses.replace(made, threads=3), machine)
    machine = dataclasses.replace(machine, description=dataclasses.replace(machine.description, threads=3))
    assert "ceilings-missing" not in codes(dataclasses.replace(made, threads=3), machine)


def test_steps_that_spread_are_found():
    made = trace(step_s=[0.01] * 6, sites=[site(matmul_cost(8, 8, 8))], windows=[0.01])
    assert "steps-spread" not in codes(made)
    assert "steps-spread" in codes(dataclasses.replace(made, step_s=(0.01, 0.01, 0.01, 0.02, 0.02, 0.02)))


def test_a_step_that_does_not_add_up_is_found():
    made = trace(
        step_s=[0.01] * 3, watched=(watched(0.01, 0.01),) * 3, sites=[site(matmul_cost(8, 8, 8))], windows=[0.01]
    )
    assert "reconciliation-off" not in codes(made)
    assert "reconciliation-off" in codes(dataclasses.replace(made, watched=(watched(0.01, 0.02),) * 3))
    assert "reconciliation-off" in codes(dataclasses.replace(made, watched=(watched(0.011, 0.01),) * 3))
    # Without a watched step nothing says that it does not add up.
    assert "reconciliation-off" not in codes(dataclasses.replace(made, watched=()))


def test_another_device_is_found():
    made = trace(step_s=[0.01], sites=[site(matmul_cost(8, 8, 8))], windows=[0.01], device="cuda")
    assert "device-not-modelled" in codes(made)


@pytest.mark.parametrize(
    ("given_shares", "reconciliation", "sentence"),
    [
        (
            {"overhead": 0.9},
            1.0,
            r"^这个训练步受算子开销限制.+在 10.0 ms 中.+90% 是开销.+分发 10 个算子.+约需 1\.0 ms。$",
        ),
        ({"memory": 0.55, "overhead": 0.4}, 1.0, r"^这个训练步受内存带宽限制"),
        ({"overhead": 0.45, "memory": 0.44}, 1.0, r"不受单一因素限制.+算子开销占 45%.+内存带宽占 44%"),
        ({"overhead": 0.3}, 1.0, r"^这个训练步用时 10.0 ms.+限制因素未知.+无法计时。$"),
    ],
)
def test_the_sentence_in_chinese(given_shares, reconciliation, sentence):
    in_english = judged(division_of(**given_shares, reconciliation=reconciliation))
    choose_language("zh")
    try:
        verdict = judged(division_of(**given_shares, reconciliation=reconciliation))
    finally:
        choose_language("en")
    assert re.search(sentence, verdict.sentence)
    assert (verdict.bound, verdict.confidence) == (in_english.bound, in_english.confidence)


@pytest.mark.parametrize(("dtype", "told"), [("fp32", True), ("fp64", False)])
@pytest.mark.parametrize("message", ["{dtype} products are slow beside fp16", "这里无法做{dtype}矩阵乘法"])
def test_findings_on_dtypes_are_told_where_the_step_uses_them_in_any_language(message, dtype, told):
    found = Finding(code="dtype-slow", message=message.format(dtype=dtype), advice="")
    machine = dataclasses.replace(MACHINE, findings=(found,))
    report = explain_trace(trace(sites=[site(matmul_cost(64, 64, 64))], windows=[0.01], step_s=[0.01]), machine)
    assert (found in report.findings) == told


def evidence_of(speed: float = 1.0, *, counts: Counts | None = None, **fields: object) -> str:
    division = dataclasses.replace(division_of(matmul=0.9), **fields)
    made = trace(step_s=[0.01] * 3, sites=[site(matmul_cost(64, 64, 64, "fp32"))], windows=[0.009])
    ceilings = Ceilings(MACHINE, dataclasses.replace(Speed.unknown(), matmul=interval(speed)), threads=1)
    return " ".join(judge(made, division, counts or Counts(ops=10, launches=8), ceilings).evidence)


def test_a_peak_at_another_speed_is_not_called_measured():
    counts = Counts(ops=1, launches=1, matmul_flops=10**8)
    same, slower = evidence_of(counts=counts), evidence_of(0.5, counts=counts)
    assert re.search(r"10% of the 100 GFLOP/s measured here for fp32", same)
    assert re.search(r"20% of the 50.0 GFLOP/s that fp32 reaches here at the run's speed \(100 GFLOP/s when", slower)
    assert "more than the 5.00 GFLOP/s that fp32 is to reach here" in evidence_of(0.05, counts=counts)


@pytest.mark.parametrize(
    ("allocation", "reconciliation", "said"),
    [
        (0.3, 1.0, "about 3.0 ms"),
        (0.1, 1.0, "at most 3.0 ms"),
        (0.0, 1.0, "at most 3.0 ms"),
        (0.0, 3.0, "about 3.0 ms"),
    ],
)
def test_page_faults_cost_what_the_split_has_room_for(allocation, reconciliation, said):
    told = evidence_of(
        faults=PageFaults(per_step=3000, seconds_each=1e-6, time_s=3e-3),
        parts=OverheadParts(dispatch=0.0, host=0.0, allocation=allocation),
        reconciliation=interval(reconciliation),
        times=object(),  # all that is asked of them is whether they are there
    )
    assert f"3,000 page faults a step cost {said}" in told


def test_silence_between_steps_is_not_called_waiting_for_a_loader():
    division = division_of(input=0.9)
    silent, waiting = (judged(division, host_input_s=seconds).sentence for seconds in (0.009, 0.001))
    assert "no op running: the script makes its next batch there, or waits for something" in silent
    assert "is spent waiting for the next batch" in waiting
