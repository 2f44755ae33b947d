"""Lab `fusion`: exact counts, sentences on made-up times, and machines without a compiler or without bf16."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from boundby.labs import (
    fusion,
    fusion_functions,
    fusion_keeping,
    fusion_precision,
    fusion_recompute,
    fusion_ways,
)
from boundby.labs.fusion_compiling import Compiled, compile_for
from boundby.labs.fusion_sigmoids import Keeping, Recomputing
from boundby.labs.lab import Settings, run_demonstrations
from boundby.machine.bf16 import computes_in_bf16
from boundby.report.demonstration import LabTable, Shown
from boundby.report.lab_text import Paper, render_demonstration
from boundby.results.call_time import CallTime

QUICK = Settings(quick=True)


def tables(shown: Shown) -> list[LabTable]:
    return [block for block in shown.blocks if isinstance(block, LabTable)]


def observed(shown: Shown) -> str:
    return "\n".join(line.text for line in shown.observations)


def made_up_times(*seconds: float) -> Callable[..., tuple[CallTime, ...]]:
    """Times of calls in the order in which they are given; each call is made once."""

    def time_calls(*calls: Callable[[], object], **settings: Any) -> tuple[CallTime, ...]:
        for call in calls:
            call()
        assert len(calls) == len(seconds)
        return tuple(CallTime(fastest_s=s, median_s=1.1 * s, slowest_s=1.2 * s, loops=1) for s in seconds)

    return time_calls


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which nothing takes long."""
    monkeypatch.setattr(fusion_precision, "ELEMENTS", 2**16)
    monkeypatch.setattr(fusion_precision, "QUICK_ELEMENTS", 2**16)
    monkeypatch.setattr(fusion_ways, "ELEMENTS", 2**16)
    monkeypatch.setattr(fusion_ways, "QUICK_ELEMENTS", 2**16)


# ---- 1: low precision ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("seconds", "share", "why"),
    [
        ((0.02, 0.01), "0.50", "About the same rate and half the time"),
        ((0.02, 0.0118), "0.59", "About the same rate and half the time"),
        ((0.02, 0.019), "0.95", "The lecture expects a half"),
        ((0.02, 0.006), "0.30", "Less than half the time"),
    ],
)
def test_the_time_of_half_the_bytes(
    seconds: tuple[float, float], share: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fusion_precision, "time_calls", made_up_times(*seconds))
    told = observed(fusion_precision.show(Settings()))
    assert f"{share} of the 20.0 ms of fp32" in told
    assert why in told


def test_bytes_and_rates_of_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_precision, "time_calls", made_up_times(0.001, 0.0005))
    shown = fusion_precision.show(Settings())
    assert tables(shown)[0].rows == (
        ("fp32", "4 B", "524 kB", "1.00 ms", "524 MB/s", "1.10 ms"),
        ("bf16", "2 B", "262 kB", "500 µs", "524 MB/s", "550 µs"),
    )
    assert [one["moved_bytes"] for one in shown.data["copies"]] == [2 * 4 * 2**16, 2 * 2 * 2**16]


@pytest.mark.parametrize(
    ("computes", "said"),
    [(True, "also computes in bf16"), (False, "has no bf16 arithmetic"), (None, "is not known")],
)
def test_whether_the_device_computes_in_bf16_is_said(
    computes: bool | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fusion_precision, "time_calls", made_up_times(0.02, 0.01))
    monkeypatch.setattr(fusion_precision, "computes_in_bf16", lambda device: computes)
    shown = fusion_precision.show(QUICK)
    (line,) = [one for one in shown.observations if said in one.text]
    assert line.timed
    assert shown.data["computes_in_bf16"] is computes


def test_a_device_that_does_not_hold_bf16_is_named_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def copying(source: torch.Tensor, dtype: torch.dtype) -> Callable[[], object]:
        if dtype is torch.bfloat16:
            raise TypeError("BFloat16 is not supported on this device\nat copy")
        return lambda: None

    monkeypatch.setattr(fusion_precision, "copying", copying)
    monkeypatch.setattr(fusion_precision, "time_calls", made_up_times(0.02))
    shown = fusion_precision.show(QUICK)
    assert "This device does not copy bf16: BFloat16 is not supported on this device" in observed(shown)
    assert tables(shown)[0].rows[1][3:] == ("not possible", "", "")
    assert shown.data["copies"][1]["time_s"] is None


@pytest.mark.parametrize(
    ("text", "computes"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16 amx_tile\n", True),
        ("flags\t: fpu avx2 avx512f avx512bw\n", False),
        ("Features\t: fp asimd bf16 i8mm\n", True),
        ("Features\t: fp asimd\n", False),
        ("model name : something\n", None),
        (None, None),
    ],
)
def test_bf16_by_what_the_processor_says(text: str | None, computes: bool | None, tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    if text is not None:
        cpuinfo.write_text(text)
    assert computes_in_bf16("cpu", cpuinfo=cpuinfo) is computes


# ---- 2: fusion ----------------------------------------------------------------------------------------------
def test_the_passes_of_both_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_ways, "time_calls", made_up_times(0.01, 0.01, 0.1, 0.1, 0.01))
    counted, _ = tables(fusion_functions.show(QUICK))
    assert counted.rows == (
        ("sin²(x) + cos²(x)", "5", "6n", "5n", "11n", "2n", "5.5x"),
        ("tanh-GELU", "7", "9n", "7n", "16n", "2n", "8.0x"),
    )
    assert counted.timed == ()


def as_compiled(function: Callable[..., Any], *args: torch.Tensor) -> Compiled:
    return Compiled(call=function, first_s=6.0)


def test_a_kernel_like_a_copy_is_bound_by_memory_and_another_by_its_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_ways, "compile_for", as_compiled)
    # Copies, then op by op, the library's, and as one kernel.
    monkeypatch.setattr(fusion_ways, "time_calls", made_up_times(0.01, 0.02, 0.1, 0.02, 0.16, 0.055, 0.06))
    shown = fusion_functions.show(Settings())
    told = [line.text for line in shown.observations]
    assert "one kernel took 20.0 ms, op by op 100 ms: 5.0 times as fast, where the passes alone allow 5.5" in told[0]
    assert "memory binds" in told[0]
    assert "2.7 times as fast, where the passes alone allow 8.0" in told[1]
    assert "computing the function binds it" in told[1]
    assert "torch.compile made from 7 ops took 1.1 times as long" in told[2]
    assert "A copy into a new tensor took 20.0 ms, into one that is there 10.0 ms" in told[3]
    assert "took 6.0 s; that is paid back after 75 calls" in told[4]
    assert all(line.timed for line in shown.observations[:-1])


def test_a_kernel_like_a_copy_into_costly_new_memory_is_bound_by_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_ways, "compile_for", as_compiled)
    monkeypatch.setattr(fusion_ways, "time_calls", made_up_times(0.01, 0.05, 0.2, 0.05, 0.3, 0.05, 0.06))
    told = fusion_functions.show(Settings()).observations[0].text
    assert "most of that is the new memory: the same 2 passes with a tensor that is there take 10.0 ms" in told


def test_a_gain_above_the_ratio_of_passes_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_ways, "compile_for", as_compiled)
    monkeypatch.setattr(fusion_ways, "time_calls", made_up_times(0.01, 0.02, 0.2, 0.02, 0.16, 0.02, 0.02))
    told = fusion_functions.show(Settings()).observations[0].text
    assert "10 times as fast" in told
    assert "More than the passes allow" in told


def test_what_is_no_faster_for_being_compiled_is_not_paid_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_ways, "compile_for", as_compiled)
    monkeypatch.setattr(fusion_ways, "time_calls", made_up_times(0.01, 0.01, 0.1, 0.2, 0.1, 0.05, 0.2))
    told = observed(fusion_functions.show(Settings()))
    assert told.count("later calls are no faster for it") == 2


def test_a_difference_over_the_tolerance_is_not_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(function: Callable[..., Any], *args: torch.Tensor) -> Compiled:
        return Compiled(call=lambda x: function(x) + 1e-3, first_s=1.0)

    monkeypatch.setattr(fusion_ways, "compile_for", off)
    monkeypatch.setattr(fusion_ways, "time_calls", made_up_times(0.01, 0.02, 0.1, 0.02, 0.16, 0.055, 0.06))
    rows = {(row[0], row[1]): row for row in tables(fusion_functions.show(Settings()))[1].rows}
    assert rows["tanh-GELU", "torch.compile"][5] == "no"
    assert rows["tanh-GELU", "F.gelu"][5] == "yes"


def test_torch_compile_fuses_the_ops_into_one_kernel() -> None:
    found = compile_for(fusion_ways.gelu_from_basic_ops, torch.randn(4096))
    assert found.failure == ""
    assert found.found is not None
    assert (found.found.launches, found.found.total) == (1, 2)


def test_torch_compile_that_is_switched_off_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    # As torch.compile does where it is switched off. Switching it off here would outlast the test.
    monkeypatch.setattr(torch, "compile", lambda function, **settings: function)
    found = compile_for(fusion_ways.sine_and_cosine, torch.randn(4096))
    assert found.call is None
    assert "fused nothing here" in found.failure


def test_a_failure_of_the_compiler_is_told_in_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no such backend here\nmore lines") from None

    monkeypatch.setattr(torch, "compile", broken)
    found = compile_for(fusion_ways.sine_and_cosine, torch.randn(64))
    assert found.failure == "torch.compile failed here (compile-failed): no such backend here"


def test_without_a_compiler_the_lab_says_so_and_goes_on(tmp_path: Path) -> None:
    code = (
        "from boundby.labs import fusion_ways\n"
        "from boundby.labs.fusion import LAB\n"
        "from boundby.labs.lab import Settings, run_demonstrations\n"
        "from boundby.report.lab_text import Paper, render_demonstration\n"
        "fusion_ways.ELEMENTS = 2**16\n"
        "for one in run_demonstrations(LAB, Settings(), (2, 3)):\n"
        "    print(render_demonstration(one, Paper(width=80, color=False, unicode=True)))\n"
    )
    environment = {
        **os.environ,
        "CXX": "/nonexistent",
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("torch.compile cannot work here: it finds no C++ compiler") == 2
    assert "F.gelu, one kernel written by hand" in done.stdout
    assert "9n" in done.stdout
    assert "Traceback" not in done.stderr


# ---- 3: recomputation ---------------------------------------------------------------------------------------
def test_what_is_kept_and_the_passes_of_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_keeping, "time_calls", made_up_times(0.02, 0.024))
    shown = fusion_recompute.show(QUICK)
    kept, counted, timed = tables(shown)
    assert kept.rows == (
        ("keeps the results", "12.6 MB", "3n", "0", "passed"),
        ("computes again", "4.2 MB", "1n", "0", "passed"),
    )
    assert [row[1:4] for row in counted.rows] == [("1 + 3", "4 + 1", "9n"), ("1 + 1", "2 + 1", "5n")]
    assert [row[1:3] for row in timed.rows] == [("22.0 ms", "left out"), ("26.4 ms", "left out")]
    assert kept.timed == counted.timed == ()
    assert [one["saved_bytes"] for one in shown.data["functions"]] == [3 * 4 * 2**20, 4 * 2**20]
    told = observed(shown)
    assert "the same to the last bit" in told
    assert "5n instead of 9n" in told
    assert (
        "computing again took 26.4 ms where keeping took 22.0 ms (medians of the rounds): 1.2 times as long turn by "
        "turn, where the passes alone say 1.2" in told
    )


def test_the_gradients_are_those_of_autograd_itself() -> None:
    x = torch.randn(100, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(x.sigmoid().sigmoid().sigmoid().sum(), x)
    for function in (Keeping, Recomputing):
        (found,) = torch.autograd.grad(function.apply(x).sum(), x)
        torch.testing.assert_close(found, expected)


def test_one_kernel_each_is_compared_with_the_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_keeping, "compile_for", as_compiled)
    monkeypatch.setattr(fusion_keeping, "time_calls", made_up_times(0.02, 0.024, 0.009, 0.005))
    told = observed(fusion_recompute.show(Settings()))
    assert (
        "computing again took 5.50 ms where keeping took 9.90 ms (medians of the rounds): 0.56 times as long turn by "
        "turn, where the passes alone say 0.56" in told
    )
    assert "computed twice" not in told
    monkeypatch.setattr(fusion_keeping, "time_calls", made_up_times(0.02, 0.024, 0.009, 0.009))
    assert "computed twice" in observed(fusion_recompute.show(Settings()))
    monkeypatch.setattr(fusion_keeping, "time_calls", made_up_times(0.02, 0.024, 0.009, 0.099))
    told = observed(fusion_recompute.show(Settings()))
    assert "11 times as long" in told
    assert "can at most double the time" in told
    assert "computed twice" not in told


def in_rounds(*rounds_s: tuple[float, ...]) -> Callable[..., tuple[CallTime, ...]]:
    """Times of calls by their rounds."""
    times = tuple(
        CallTime(
            fastest_s=min(rounds), median_s=statistics.median(rounds), slowest_s=max(rounds), loops=1, rounds_s=rounds
        )
        for rounds in rounds_s
    )
    return lambda *calls, **settings: times


def test_one_lucky_round_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    keeping, again = (0.0032, 0.0076, 0.0076, 0.0075, 0.0077), (0.008, 0.0082, 0.0082, 0.0081, 0.0083)
    monkeypatch.setattr(fusion_keeping, "time_calls", in_rounds(keeping, again))
    told = observed(fusion_recompute.show(QUICK))
    assert "computing again took 8.20 ms where keeping took 7.60 ms (medians of the rounds), 1.1 to 2.5 times" in told
    assert "too unsteady to hold against the 1.2 of the passes alone" in told
    monkeypatch.setattr(fusion_keeping, "time_calls", in_rounds((0.0074, *keeping[1:]), again))
    assert "1.1 times as long turn by turn, where the passes alone say 1.2" in observed(fusion_recompute.show(QUICK))


def test_gains_that_turns_do_not_confirm_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    steady, lucky = (0.01,) * 5, (0.004, 0.01, 0.01, 0.01, 0.01)
    monkeypatch.setattr(fusion_ways, "time_calls", in_rounds(steady, steady, steady, steady, lucky))
    told = observed(fusion_functions.show(QUICK))
    assert "F.gelu, one kernel written by hand, was 2.5 times as fast as op by op by the fastest rounds, 1.0 to" in told
    assert "too unsteady to say what it gains" in told
    monkeypatch.setattr(fusion_precision, "time_calls", in_rounds(steady, lucky))
    assert "differs too much from turn to turn" in observed(fusion_precision.show(QUICK))


# ---- disturbed times ----------------------------------------------------------------------------------------
def test_times_that_spread_are_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def spread(*calls: Callable[[], object], **settings: Any) -> tuple[CallTime, ...]:
        return tuple(CallTime(fastest_s=0.01, median_s=0.02, slowest_s=0.03, loops=1) for _ in calls)

    for module, show, calls in (
        (fusion_precision, fusion_precision.show, 2),
        (fusion_ways, fusion_functions.show, 5),
        (fusion_keeping, fusion_recompute.show, 2),
    ):
        monkeypatch.setattr(module, "time_calls", spread)
        assert f"The machine was disturbed: for {calls} of {calls} calls" in show(QUICK).observations[-1].text


# ---- the lab ------------------------------------------------------------------------------------------------
def test_two_runs_differ_in_timed_lines_alone_and_so_do_thread_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_keeping, "ELEMENTS", 2**14)
    paper = Paper(width=80, color=False, unicode=True)
    before, runs = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            texts = [render_demonstration(one, paper) for one in run_demonstrations(fusion.LAB, QUICK)]
            runs.append([line for text in texts for line in text.splitlines() if not line.startswith("⏱")])
    finally:
        torch.set_num_threads(before)
    assert runs[0] == runs[1]
