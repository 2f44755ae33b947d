"""Lab `launch`: the tables of both laws and of the decode step to the digit, and calls on made-up times."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boundby.api
from boundby.labs import launch, launch_calls, launch_decode, launch_laws, launch_timing
from boundby.labs.lab import Settings, run_demonstrations
from boundby.report.demonstration import LabTable, Shown
from boundby.report.lab_text import Paper, render_demonstration
from boundby.results.call_time import CallTime
from boundby.results.machine_file import decode_machine

MACHINES = Path(__file__).parents[1]
MACHINE_FILE = MACHINES / "report" / "files" / "machine-measured.json"
MACHINE_WITHOUT = MACHINES / "machine" / "files" / "machine-version-1.json"


def tables(shown: Shown) -> list[LabTable]:
    return [block for block in shown.blocks if isinstance(block, LabTable)]


def observed(shown: Shown) -> str:
    return "\n".join(line.text for line in shown.observations)


# ---- 1: the laws --------------------------------------------------------------------------------------------
def test_the_tables_of_both_laws() -> None:
    amdahl, gustafson = tables(launch_laws.show(Settings()))
    assert amdahl.head[1:-1] == ("n = 8", "n = 132", "n = 16,896", "n = 135,168")
    assert amdahl.rows == (
        ("1%", "7.48", "57.1", "99.4", "99.9", "100"),
        ("0.1%", "7.94", "117", "944", "993", "1,000"),
        ("0.01%", "7.99", "130", "6,282", "9,311", "10,000"),
    )
    assert [row[:-1] for row in gustafson.rows] == [
        ("1%", "7.93", "131", "16,727", "133,816"),
        ("0.1%", "7.99", "132", "16,879", "135,033"),
        ("0.01%", "8.00", "132", "16,894", "135,154"),
    ]


def test_what_the_laws_say_is_the_same_everywhere_and_has_their_numbers() -> None:
    shown = launch_laws.show(Settings())
    assert not any(line.timed for line in shown.observations)
    text = observed(shown)
    assert "99.4x and those of eight 99.9x" in text
    assert "6,282x, 37%" in text


def test_the_curves_end_at_the_limit_and_at_the_workers() -> None:
    amdahl, gustafson = (block for block in launch_laws.show(Settings()).blocks if not isinstance(block, LabTable))
    for share, law, grown in zip(launch_laws.SERIAL_SHARES, amdahl.lines, gustafson.lines, strict=True):
        assert law.look == grown.look == "modelled"
        assert max(law.y) < 1 / share
        assert math.isclose(grown.y[-1], grown.x[-1], rel_tol=0.011)


# ---- 2: the decode step -------------------------------------------------------------------------------------
def test_the_decode_tables() -> None:
    large, small = tables(launch_decode.show(Settings()))
    assert [row[1:6] for row in large.rows] == [
        ("387", "2 µs", "5.29 ms", "15%", "4.52 ms"),
        ("387", "4 µs", "6.07 ms", "26%", "4.52 ms"),
        ("387", "8 µs", "7.62 ms", "41%", "4.52 ms"),
        ("259", "2 µs", "5.04 ms", "10%", "4.52 ms"),
        ("259", "4 µs", "5.56 ms", "19%", "4.52 ms"),
        ("259", "8 µs", "6.59 ms", "31%", "4.52 ms"),
        ("1", "", "4.52 ms", "0%", "4.52 ms"),
    ]
    assert [row[1:6] for row in small.rows] == [
        ("195", "2 µs", "1.14 ms", "34%", "0.75 ms"),
        ("195", "4 µs", "1.53 ms", "51%", "0.78 ms"),
        ("195", "8 µs", "2.31 ms", "68%", "1.56 ms"),
        ("131", "2 µs", "1.01 ms", "26%", "0.75 ms"),
        ("131", "4 µs", "1.27 ms", "41%", "0.75 ms"),
        ("131", "8 µs", "1.80 ms", "58%", "1.05 ms"),
        ("1", "", "0.75 ms", "0%", "0.75 ms"),
    ]
    assert "7,504,924,672 parameters" in large.caption
    assert "GPU time 4.52 ms" in large.caption
    assert "1,235,814,400 parameters" in small.caption
    assert "GPU time 748 µs" in small.caption


def test_tokens_lie_between_the_two_ways() -> None:
    _, small = tables(launch_decode.show(Settings()))
    assert [row[6] for row in small.rows] == [
        "879-1,337",
        "655-1,282",
        "433-641",
        "990-1,337",
        "786-1,337",
        "557-954",
        "1,337",
    ]


def test_costs_that_were_given_take_the_place_of_the_assumptions() -> None:
    shown = launch_decode.show(Settings(launch_us=(1.5, 30.0)))
    assert [row[2] for row in tables(shown)[0].rows] == ["1.5 µs", "30 µs", "1.5 µs", "30 µs", ""]
    told = "\n".join(shown.about)
    assert "1.5, 30 µs, as given" in told
    assert "assumption" not in told
    assert shown.data["launch_source"] == "given"


def test_launches_that_are_cheap_enough_are_all_hidden() -> None:
    assert "overlapping hides all of them" in observed(launch_decode.show(Settings(launch_us=(0.1,))))
    assert "195 launches of 8 µs do not" in observed(launch_decode.show(Settings()))


def test_the_overhead_measured_here_stands_beside_the_assumptions(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = decode_machine(MACHINE_FILE.read_bytes())
    monkeypatch.setattr(boundby.api, "measure_machine", lambda **kwargs: machine)
    shown = launch_decode.show(Settings(launch_measured=True))
    *assumed, large, small = tables(shown)
    assert len(assumed) == 2
    assert not any(table.timed for table in assumed)
    for table in (large, small):
        assert [row[1] for row in table.rows] == [
            ("387" if table is large else "195"),
            "259" if table is large else "131",
        ]
        assert all(any(row[index] for index in table.timed) for row in table.rows)
    assert shown.data["measured_launch_s"] == min(
        one.value for one in machine.ceilings if one.kind == "overhead" and one.name == "pointwise"
    )
    assert [line.timed for line in shown.observations] == [False] * 5 + [True]


def test_a_machine_whose_overhead_is_not_known_is_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = decode_machine(MACHINE_WITHOUT.read_bytes())
    monkeypatch.setattr(boundby.api, "measure_machine", lambda **kwargs: machine)
    shown = launch_decode.show(Settings(launch_measured=True))
    assert len(tables(shown)) == 2
    assert "not among what was measured" in shown.observations[-1].text
    assert shown.data["measured_launch_s"] is None


# ---- 3: calls -----------------------------------------------------------------------------------------------
def made_up_times(seconds: Callable[[int], float]) -> Callable[..., tuple[CallTime, ...]]:
    """Times of calls by the sizes of their first argument; of the call without one, as of 128 calls on 2,048."""

    def time_calls(*calls: Any, **settings: Any) -> tuple[CallTime, ...]:
        found = []
        for call in calls:
            call()
            sizes = [2048] * 128 if not hasattr(call, "args") else [call.args[0].size]
            time_s = sum(seconds(size) for size in sizes)
            found.append(CallTime(fastest_s=time_s, median_s=1.1 * time_s, slowest_s=1.2 * time_s, loops=1))
        return tuple(found)

    return time_calls


def linear(n: int) -> float:
    return 5e-7 + n / 8e9


def test_a_fixed_cost_and_a_rate_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_timing, "time_calls", made_up_times(linear))
    shown = launch_calls.show(Settings())
    fit = shown.data["fit"]
    assert fit["fixed_s"]["value"] == pytest.approx(5e-7)
    assert fit["elements_per_s"]["value"] == pytest.approx(8e9)
    assert fit["half_performance_elements"]["value"] == pytest.approx(4000)
    sizes, split = tables(shown)
    assert sizes.rows[0][:4] == ("1", "500 ns", "500", "100%")
    assert sizes.rows[2][:4] == ("4,096", "1.01 µs", "0.247", "49%")
    assert "A call on 1 element takes 500 ns and one on 64 takes 510 ns" in observed(shown)
    assert sizes.rows[4][:4] == ("4,194,304", "525 µs", "0.125", "0.1%")
    assert [row[:4] for row in split.rows] == [
        ("128", "2,048", "96.8 µs", "2.9x"),
        ("1", "262,144", "33.3 µs", "1.0x"),
    ]
    told = observed(shown)
    assert "each of the 127 calls more cost 500 ns, beside 500 ns for the smallest call" in told
    assert "n_1/2 = t0 r = 4,000" in told
    assert "added at the rate of smaller ones" in told


def test_a_size_beyond_the_caches_is_told_apart_from_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_timing, "time_calls", made_up_times(lambda n: linear(n) * (3 if n > 1_000_000 else 1)))
    told = observed(launch_calls.show(Settings()))
    assert "At n = 4,194,304 a call took 3.0 times the 520 µs of the fit" in told


def test_a_fit_that_is_far_off_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_timing, "time_calls", made_up_times(lambda n: linear(n) * (2 if n == 4096 else 1)))
    assert "is no account of the times" in observed(launch_calls.show(Settings()))
    monkeypatch.setattr(launch_timing, "time_calls", made_up_times(linear))
    assert "is no account of the times" not in observed(launch_calls.show(Settings()))


def test_times_that_do_not_grow_have_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_timing, "time_calls", made_up_times(lambda n: 5e-7))
    shown = launch_calls.show(Settings())
    assert "No rate can be fitted" in observed(shown)
    assert shown.data["fit"]["half_performance_elements"] is None


def test_times_that_nearly_double_are_not_said_to_hardly_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    times_s = {1: 1e-6, 262_144: 1.9e-6}
    monkeypatch.setattr(launch_timing, "time_calls", made_up_times(lambda n: times_s.get(n, 5e-6)))
    shown = launch_calls.show(Settings())
    assert shown.data["fit"]["elements_per_s"] is None
    assert "grows 1.9-fold, but too unsteadily" in observed(shown)


def test_times_that_grow_too_unsteadily_for_a_rate_are_not_said_to_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    times_s = {1: 1e-6, 262_144: 93e-6}
    monkeypatch.setattr(launch_timing, "time_calls", made_up_times(lambda n: times_s.get(n, 200e-6)))
    shown = launch_calls.show(Settings())
    assert shown.data["fit"]["elements_per_s"] is None
    told = observed(shown)
    assert "grows 93-fold, but too unsteadily" in told
    assert "hardly grows" not in told


def test_many_calls_that_take_no_longer_are_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_timing, "time_calls", made_up_times(lambda n: n**1.2 * 1e-10))
    assert "128 calls took no longer than one here" in observed(launch_calls.show(Settings()))


def test_many_calls_add_what_one_call_adds() -> None:
    draw = np.random.default_rng(0)
    a, b, c = launch_timing.arrays(draw, 1024)
    launch_timing.in_many_calls(a, b, c, 8)()
    np.testing.assert_array_equal(c, a + b)


# ---- the lab ------------------------------------------------------------------------------------------------
def untimed(texts: Sequence[str]) -> list[str]:
    return [line for text in texts for line in text.splitlines() if not line.startswith("⏱")]


def test_two_runs_differ_in_timed_lines_alone() -> None:
    paper = Paper(width=80, color=False, unicode=True)
    first, second = (
        [render_demonstration(one, paper) for one in run_demonstrations(launch.LAB, Settings(quick=True))]
        for _ in range(2)
    )
    assert untimed(first) == untimed(second)
    assert len(untimed(first)) < sum(len(text.splitlines()) for text in first)


def test_the_lab_needs_no_torch() -> None:
    code = (
        "import sys\n"
        "from boundby.labs.lab import Settings, run_demonstrations\n"
        "from boundby.labs.launch import LAB\n"
        "print(len(list(run_demonstrations(LAB, Settings(quick=True)))), 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["3", "False"]
