"""Another number of threads: predicted op by op, set unless the script chooses for itself."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import textwrap

import pytest
import torch
from made_up_rows import report_of, row

from boundby.remedies import all_threads, one_thread
from boundby.remedies.contract import CannotTell, Compared, Effects, Evidence, NotApplicable
from boundby.results.interval import interval
from boundby.results.machine import Ceiling
from boundby.results.remedy import Predicted, ScriptFacts
from boundby.results.report import PageFaults

LONG = "1024x1024 1024x1024"
SHORT = "32x32 32x32"


def pair(kind: str, name: str, one: float, two: float, unit: str, **fields: object) -> tuple[Ceiling, Ceiling]:
    return tuple(
        Ceiling(kind=kind, name=name, value=value, low=value, high=value, unit=unit, threads=threads, **fields)
        for threads, value in ((1, one), (2, two))
    )


CEILINGS = (
    *pair("bandwidth", "triad", 10e9, 15e9, "byte/s", size_bytes=12 << 20),
    *pair("function", "exp", 2e-9, 1e-9, "s", dtype="fp32", size_bytes=1 << 20),
    *pair("matmul", "mm", 100e9, 190e9, "flop/s", dtype="fp32", shape=(1, 512, 512, 512)),
)


@pytest.fixture
def evidence(sample_report):
    def make(*rows, probe=None, threads=2, ceilings=CEILINGS, **fields) -> Evidence:
        report = report_of(sample_report("overhead"), *rows, threads=threads, **fields)
        machine = dataclasses.replace(report.machine, ceilings=ceilings)
        return Evidence(report=report, machine=machine, facts=ScriptFacts(threads=threads), probe=probe)

    return make


def says(ratio, low=None, high=None):
    """A probe that has run both and found this ratio."""

    def probe(base, changed, *, budget_s=None):
        base(), changed()
        return Compared(base_s=1.0, changed_s=ratio, ratio=interval(ratio, low, high))

    return probe


def test_long_ops_slow_down_as_the_ceilings_do_and_the_rest_stays(evidence):
    add = row("add", LONG, 0.4, bytes_read=8 << 20, bytes_written=4 << 20)
    exp = row("exp", LONG, 0.2, bound="pointwise")
    found = one_thread.predict(evidence(add, exp, host=0.4))
    # 0.4 at 1.5 times as long, 0.2 at twice.
    assert found.speedup == pytest.approx(1 / (0.4 + 0.4 * 1.5 + 0.2 * 2.0))
    assert found.low < found.speedup < found.high
    assert found.high / found.low < 1.2
    assert "at 1 thread" in found.reason


def test_dispatch_is_the_same_on_any_number_of_threads(evidence):
    half = row("add", LONG, 0.4, overhead=0.2, bytes_read=8 << 20, bytes_written=4 << 20)
    assert one_thread.predict(evidence(half)).speedup == pytest.approx(1 / (0.8 + 0.2 * 1.5))


def test_ops_too_short_to_share_out_hardly_change(evidence):
    found = one_thread.predict(evidence(row("add", SHORT, 0.9)))
    assert found.speedup == pytest.approx(1.0)
    assert found.low < 1.0


def test_products_are_probed_in_their_own_shapes(evidence):
    product = row("mm", "64x32 32x16", 0.5, bound="matmul", matmul_flops=2 * 64 * 32 * 16)
    faster = one_thread.predict(evidence(product, probe=says(0.5)))
    assert faster.speedup == pytest.approx(1 / 0.75)
    backward = row("mm", "32x64 64x16", 0.2, bound="matmul", matmul_flops=2 * 64 * 32 * 16, phase="backward")
    assert one_thread.predict(evidence(product, backward, probe=says(0.5))).speedup == pytest.approx(1 / 0.65)


def test_without_a_probe_products_slow_down_as_the_ceiling_does(evidence):
    product = row("mm", "64x32 32x16", 0.5, bound="matmul", matmul_flops=2 * 64 * 32 * 16)
    assert one_thread.predict(evidence(product)).speedup == pytest.approx(1 / (0.5 + 0.5 * 1.9))
    assert isinstance(one_thread.predict(evidence(product, ceilings=())), CannotTell)


def test_a_probe_on_a_busy_machine_says_nothing(evidence):
    product = row("mm", "64x32 32x16", 0.5, bound="matmul", matmul_flops=2 * 64 * 32 * 16)
    assert isinstance(one_thread.predict(evidence(product, probe=says(1.0, 0.4, 2.5))), CannotTell)


def test_a_step_of_which_too_little_is_known_is_not_predicted(evidence):
    assert isinstance(one_thread.predict(evidence(row("add", LONG, 0.0))), CannotTell)


def test_one_thread_is_nothing_new_to_one_thread(evidence):
    assert isinstance(one_thread.predict(evidence(row("add", LONG, 0.4), threads=1)), NotApplicable)


def test_probes_leave_the_number_of_threads_as_it_was(evidence):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        product = row("mm", "64x32 32x16", 0.5, bound="matmul", matmul_flops=2 * 64 * 32 * 16)
        one_thread.predict(evidence(product, probe=says(1.0)))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("threads", "ratio", "speedup"), [(1, 0.5, 1 / 0.7), (8, 0.25, 1 / 0.55)])
def test_all_threads_probes_what_it_has_no_ceilings_for(evidence, monkeypatch, threads, ratio, speedup):
    """From fewer threads than cores, and from more."""
    monkeypatch.setattr(all_threads, "CORES", 2)
    before = torch.get_num_threads()
    try:
        long = row("add", LONG, 0.6)
        found = all_threads.predict(evidence(long, probe=says(ratio), threads=threads, ceilings=()))
    finally:
        torch.set_num_threads(before)
    assert isinstance(found, Predicted)
    assert found.speedup == pytest.approx(speedup)


def test_all_threads_knows_ceilings_from_one_thread_to_two(evidence, monkeypatch):
    monkeypatch.setattr(all_threads, "CORES", 2)
    add = row("add", LONG, 0.6, bytes_read=8 << 20, bytes_written=4 << 20)
    assert all_threads.predict(evidence(add, threads=1)).speedup == pytest.approx(1 / (0.4 + 0.6 / 1.5))


def test_as_many_threads_as_cores_is_what_there_should_be(evidence, monkeypatch):
    monkeypatch.setattr(all_threads, "CORES", 2)
    assert isinstance(all_threads.predict(evidence(threads=2)), NotApplicable)
    monkeypatch.setattr(all_threads, "CORES", 1)
    assert isinstance(all_threads.predict(evidence(threads=4)), NotApplicable)


def test_a_callable_runs_at_one_thread_and_the_process_goes_on_as_before():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        effects = Effects()
        step = one_thread.wrap(torch.get_num_threads, effects)
        assert step() == 1
        assert torch.get_num_threads() == 3
        assert "step at 1 thread" in effects.text()
    finally:
        torch.set_num_threads(before)


def test_from_outside_the_script_has_the_last_word():
    code = """
        import torch
        from boundby.remedies import one_thread
        from boundby.remedies.contract import Effects
        effects = Effects()
        one_thread.apply(effects)
        print(torch.get_num_threads(), effects.took_effect)
        torch.set_num_threads(1)
        print(torch.get_num_threads(), effects.took_effect)
        torch.set_num_threads(2)
        print(torch.get_num_threads(), effects.took_effect, effects.text())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["1 True", "1 True", "2 False the script itself chooses 2 threads"]


def test_no_thread_does_more_than_its_part_whatever_its_cache_adds(evidence):
    cached = pair("bandwidth", "triad", 10e9, 50e9, "byte/s", size_bytes=12 << 20)
    add = row("add", LONG, 0.8, bytes_read=8 << 20, bytes_written=4 << 20)
    found = one_thread.predict(evidence(add, host=0.2, ceilings=cached))
    assert found.speedup == pytest.approx(1 / (0.2 + 0.8 * 2.0))
    assert found.low < 1 / (0.2 + 0.8 * 5.0) * 1.01


def test_page_faults_gain_less_from_threads_than_the_work_around_them(evidence):
    add = row("add", LONG, 0.8, bytes_read=8 << 20, bytes_written=4 << 20, faults=50_000)
    seen = evidence(add, host=0.2)
    faults = PageFaults(per_step=50_000, seconds_each=1e-6, time_s=0.05)
    seen = dataclasses.replace(seen, report=dataclasses.replace(seen.report, page_faults=faults))
    found = one_thread.predict(seen)
    # 50 of the 80 ms are faults; the rest takes 1.5 times as long.
    assert found.speedup == pytest.approx(1 / (0.2 + 0.3 * 1.5 + 0.5 * 2**0.5))
    assert found.low < 1 / (0.2 + 0.3 * 1.5 + 0.5 * 2.0)


def test_what_no_ceiling_explains_of_an_op_that_faults_need_not_be_shared_out(evidence):
    add = row("add", LONG, 0.8, bytes_read=8 << 20, bytes_written=4 << 20, faults=10_000)
    add = dataclasses.replace(add, floors=dataclasses.replace(add.floors, memory_s=0.01))
    seen = evidence(add, host=0.2)
    faults = PageFaults(per_step=10_000, seconds_each=1e-6, time_s=0.01)
    seen = dataclasses.replace(seen, report=dataclasses.replace(seen.report, page_faults=faults))
    # Of 80 ms, faults and as much as they may have waited for one another may gain anything from threads.
    assert one_thread.predict(seen).speedup == pytest.approx(1 / (0.2 + 0.4 * 1.5 + 0.4 * 2**0.5))
