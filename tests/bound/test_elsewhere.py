"""What would bind a step on another machine, of machines and steps whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import (
    MIB,
    matmul_cost,
    overhead,
    pointwise_cost,
    product,
    reading,
    round_machine,
    site,
    trace,
    traces,
    watched,
)

from boundby.bound.elsewhere import check_ceilings
from boundby.bound.explain import explain_trace
from boundby.results.errors import BoundbyError
from boundby.results.files import decode_report
from boundby.results.machine import Ceiling, Machine
from boundby.results.report import SHARES, Report
from boundby.results.trace import Trace

MACHINE = round_machine()


def there(machine: Machine = MACHINE, *, threads: int = 1, **factors: float) -> Machine:
    """The machine with ceilings of each kind ``factor`` times as fast, on another processor."""

    def changed(one: Ceiling) -> Ceiling:
        factor = factors.get(one.name, factors.get(one.kind, factors.get("all", 1.0)))
        by = 1 / factor if one.unit == "s" else factor
        return replace(one, value=one.value * by, low=one.low * by, high=one.high * by, threads=threads)

    return Machine(
        description=replace(machine.description, cpu="elsewhere", threads=threads),
        ceilings=tuple(changed(one) for one in machine.ceilings),
    )


def step(*ops: tuple[object, float], gap_s: float = 0.0, **fields: object) -> Trace:
    """A step that takes as long as its ops (cost, seconds) and ``gap_s`` between them."""
    seconds = [one for _, one in ops]
    total = sum(seconds) + gap_s * len(ops)
    known = {
        "step_s": (total,) * 6,
        "watched": (watched(total, total),) * 3,
        "anchors": (reading(), reading()),
        "gaps": [gap_s] * len(ops),
    }
    sites = [site(cost, f"aten.op{index}") for index, (cost, _) in enumerate(ops)]
    return trace(sites=sites, windows=seconds, **{**known, **fields})


def shares(report: Report) -> dict[str, float]:
    return {name: getattr(report.split, name).value for name in SHARES}


@settings(max_examples=100, deadline=None)
@given(traces())
def test_this_machine_itself_gives_the_verdict_of_a_plain_run(any_trace: Trace) -> None:
    plain = explain_trace(any_trace, MACHINE)
    modelled = explain_trace(any_trace, MACHINE, elsewhere=MACHINE)
    assert modelled.verdict.bound == plain.verdict.bound
    assert modelled.step.time_s.median == pytest.approx(plain.step.time_s.median, rel=1e-6)
    assert shares(modelled) == pytest.approx(shares(plain), abs=1e-6)
    assert modelled.counts.ops == plain.counts.ops
    assert (plain.modelled_for, plain.step.time_s.samples_s != ()) == (None, True)


@settings(max_examples=100, deadline=None)
@given(traces(), st.floats(0.1, 10))
def test_a_machine_as_fast_in_all_is_as_fast_in_all_but_input(any_trace: Trace, factor: float) -> None:
    calm = replace(any_trace, input_s=(), host_input_s=0.0)
    plain, modelled = explain_trace(calm, MACHINE), explain_trace(calm, MACHINE, elsewhere=there(all=factor))
    assert modelled.step.time_s.median == pytest.approx(plain.step.time_s.median / factor, rel=1e-6)
    assert modelled.step.time_s.low <= modelled.step.time_s.median <= modelled.step.time_s.high


@settings(max_examples=100, deadline=None)
@given(traces(), st.floats(0.1, 10), st.floats(0.1, 10), st.floats(0.1, 10))
def test_any_model_is_whole_and_within_its_band(any_trace: Trace, a: float, b: float, c: float) -> None:
    report = explain_trace(any_trace, MACHINE, elsewhere=there(matmul=a, bandwidth=b, overhead=c))
    assert sum(shares(report).values()) == pytest.approx(1, abs=1e-6)
    assert report.step.time_s.low <= report.step.time_s.median <= report.step.time_s.high
    assert report.verdict.confidence != "sure"
    assert decode_report(report.to_json().encode(), name="x") == report


def test_what_memory_binds_here_arithmetic_may_bind_there() -> None:
    # 1024^3 at 100 GFLOP/s is 21 ms here; exp of 16 Mi elements is 34 ms of arithmetic or 13 ms of memory.
    big = pointwise_cost(16 * MIB, "add")
    here = step((big, 13.5e-3), (matmul_cost(512, 512, 512), 2.7e-3), distances=[1e9, 0.0])
    plain = explain_trace(here, MACHINE)
    assert plain.verdict.bound == "memory"
    modelled = explain_trace(here, MACHINE, elsewhere=there(bandwidth=10.0))
    assert modelled.step.time_s.median == pytest.approx(1.35e-3 + 2.7e-3, rel=0.02)
    assert modelled.verdict.bound == "compute"
    assert modelled.verdict.sentence.startswith(
        "On elsewhere (modelled from its machine file): this training step would take about 4.0"
    )
    assert "would be bound by compute" in modelled.verdict.sentence
    assert "that machine's measured ceilings" in modelled.verdict.sentence
    assert modelled.verdict.evidence[0].startswith("measured where it ran, on made up, the step takes 16.2 ms and is")


def test_an_op_that_another_floor_binds_there_takes_that_floor() -> None:
    # exp of 1 Mi elements: 2.1 ms of arithmetic; 8 MiB at 10 GB/s: 0.84 ms, which fast arithmetic leaves.
    here = step((pointwise_cost(MIB, "exp"), 2.1e-3), distances=[1e9])
    modelled = explain_trace(here, MACHINE, elsewhere=there(exp=100.0))
    assert modelled.step.time_s.median == pytest.approx(8 * MIB / 10e9, rel=0.02)
    assert modelled.verdict.bound == "memory"


def test_host_code_goes_with_the_overhead_of_ops_and_input_stays() -> None:
    here = step((pointwise_cost(1), 1e-6), (pointwise_cost(1), 1e-6), gap_s=4e-6, input_s=(10e-6,) * 6)
    here = replace(here, step_s=(20e-6,) * 6)
    plain = explain_trace(here, MACHINE)
    assert plain.step.time_s.median * plain.split.input.value == pytest.approx(10e-6)
    modelled = explain_trace(here, MACHINE, elsewhere=there(overhead=2.0))
    assert modelled.step.time_s.median == pytest.approx(15e-6, rel=1e-3)
    assert modelled.step.time_s.median * modelled.split.input.value == pytest.approx(10e-6, rel=1e-3)


def test_a_modelled_report_never_looks_like_a_measured_one() -> None:
    report = explain_trace(step((pointwise_cost(1), 1e-6)), MACHINE, elsewhere=there(all=2.0))
    assert report.modelled_for is not None
    assert report.modelled_for.source == "modelled"
    assert report.modelled_for.measured_on == MACHINE.description
    assert report.machine.description.cpu == "elsewhere"
    assert {one.source for one in report.machine.ceilings} == {"modelled"}
    assert (report.step.time_s.samples_s, report.step.anchors_s) == ((), {})
    assert report.findings[0].code == "modelled-elsewhere"
    assert "(modelled from its machine file)" in report.verdict.sentence


def test_what_has_no_ceiling_there_is_kept_and_told_of() -> None:
    here = step((matmul_cost(512, 512, 512, "bf16"), 3e-3), (pointwise_cost(1), 1e-6))
    with_bf16 = round_machine(product((1, 512, 512, 512), 100e9, dtype="bf16"))
    modelled = explain_trace(here, with_bf16, elsewhere=there(all=4.0))
    assert modelled.step.time_s.median == pytest.approx(3e-3, rel=0.01)
    (told,) = [one for one in modelled.findings if one.code == "kept-as-here"]
    assert told.message.endswith("aten.op0")


def test_a_file_for_other_threads_is_refused_with_what_to_do() -> None:
    other = there(threads=4)
    with pytest.raises(BoundbyError) as caught:
        explain_trace(step((pointwise_cost(1), 1e-6)), MACHINE, elsewhere=other, elsewhere_name="m.json")
    assert caught.value.code == "no-ceilings-there"
    assert caught.value.message == "m.json has ceilings for 4 threads, and the script uses 1 here."
    assert "OMP_NUM_THREADS=4" in caught.value.advice
    check_ceilings(other, name="m.json", threads=4)
    for empty in (replace(MACHINE, ceilings=()), Machine(description=MACHINE.description, ceilings=())):
        with pytest.raises(BoundbyError, match="holds no ceilings"):
            check_ceilings(empty, name="m.json", threads=1)


def test_a_few_limits_at_other_threads_are_no_basis() -> None:
    scaling = replace(MACHINE, ceilings=(*MACHINE.ceilings, overhead("view", 1e-6, threads=2)))
    with pytest.raises(BoundbyError, match="has ceilings for 1 thread"):
        check_ceilings(scaling, name="m.json", threads=2)


@pytest.mark.parametrize(("change", "reason"), [({"device": "cuda"}, "ran on cuda"), ({"ops": None}, "not be timed")])
def test_what_was_not_timed_cannot_be_modelled(change: dict[str, object], reason: str) -> None:
    here = replace(step((pointwise_cost(1), 1e-6)), **change)
    with pytest.raises(BoundbyError, match=reason) as caught:
        explain_trace(here, MACHINE, elsewhere=there())
    assert caught.value.code == "not-modelled"
