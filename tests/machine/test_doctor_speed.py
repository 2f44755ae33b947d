"""The checks of speed, clock and timer, against surroundings made up in a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_up_computer import STEADY, Computer, activity, outcome

from boundby.machine.checks import speed
from boundby.machine.checks.activity import heat_events
from boundby.machine.checks.surroundings import measure_speed


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    return Computer(tmp_path)


def test_events_of_heat_count_once_a_core_and_once_a_package(computer: Computer) -> None:
    for cpu, (package, core) in enumerate([(0, 0), (0, 0), (0, 1), (1, 0)]):
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        computer.write(f"{folder}/topology/physical_package_id", str(package))
        computer.write(f"{folder}/topology/core_id", str(core))
        computer.write(f"{folder}/thermal_throttle/core_throttle_count", "3")
        computer.write(f"{folder}/thermal_throttle/package_throttle_count", "10")
    assert heat_events(computer.root) == 3 * 3 + 2 * 10


@pytest.mark.parametrize(
    ("before", "after", "hours", "expected"),
    [
        (0, 0, 5, "ok"),
        (4, 4, 5, "ok"),
        (6, 6, 5, "slowed-by-heat"),
        (0, 1, 5000, "slowed-by-heat"),
        (None, None, 5, "unknown"),
    ],
)
def test_heat(computer: Computer, before: int | None, after: int | None, hours: int, expected: str) -> None:
    computer.write("proc/uptime", f"{hours * 3600}.25 99.0")
    here = computer.surroundings(before=activity(heat_events=before), after=activity(heat_events=after))
    assert outcome(speed.check_heat(here)) == expected


@pytest.mark.parametrize(
    ("governors", "expected"),
    [
        (("performance", "performance"), "ok"),
        (("powersave", "powersave"), "clock-follows-load"),
        (("performance", "schedutil"), "clock-follows-load"),
    ],
)
def test_governor(computer: Computer, governors: tuple[str, str], expected: str) -> None:
    for cpu, governor in enumerate(governors):
        computer.frequency(cpu, scaling_governor=governor)
    assert outcome(speed.check_governor(computer.surroundings())) == expected


@pytest.mark.parametrize(
    ("now_hz", "limits_khz", "expected"),
    [
        (3.5e9, (3_600_000, 3_600_000), "ok"),
        (2.0e9, (3_600_000, 3_600_000), "clock-low"),
        (None, (3_600_000, 3_600_000), "unknown"),
        (2.0e9, (2_000_000, 3_600_000), "clock-capped"),
    ],
)
def test_clock(computer: Computer, now_hz: float | None, limits_khz: tuple[int, int], expected: str) -> None:
    allowed, most = limits_khz
    computer.frequency(0, scaling_max_freq=allowed, cpuinfo_max_freq=most)
    computer.write("sys/devices/system/cpu/intel_pstate/no_turbo", "0")
    found = speed.check_clock(computer.surroundings(speed=replace(STEADY, clock_hz=now_hz)))
    assert outcome(found) == expected
    assert "turbo on" in found.seen


def test_cores_of_two_kinds_are_each_held_against_their_own_limit(computer: Computer) -> None:
    computer.frequency(0, scaling_max_freq=5_000_000, cpuinfo_max_freq=5_000_000)
    computer.frequency(1, scaling_max_freq=3_000_000, cpuinfo_max_freq=3_000_000)
    here = computer.surroundings(speed=replace(STEADY, cpu=1, clock_hz=2.9e9))
    assert outcome(speed.check_clock(here)) == "ok"


def test_a_battery_counts_where_it_is_the_machines_own(computer: Computer) -> None:
    assert speed.check_battery(computer.surroundings()).state == "unknown"
    for name, text in {"type": "Battery", "scope": "Device", "status": "Discharging"}.items():
        computer.write(f"sys/class/power_supply/mouse/{name}", text)
    assert outcome(speed.check_battery(computer.surroundings())) == "ok"
    for name, text in {"type": "Battery", "capacity": "41", "status": "Discharging"}.items():
        computer.write(f"sys/class/power_supply/BAT0/{name}", text)
    found = speed.check_battery(computer.surroundings())
    assert outcome(found) == "on-battery"
    assert "41%" in found.seen


@pytest.mark.parametrize(
    ("loops_ns", "expected"),
    [
        ((500,) * 95 + (5000,) * 5, "ok"),
        ((500,) * 85 + (700,) * 15, "speed-unsteady"),
        ((500,) * 10, "unknown"),
        ((-5, 0) * 50, "unknown"),
        ((), "unknown"),
    ],
)
def test_steadiness(computer: Computer, loops_ns: tuple[int, ...], expected: str) -> None:
    assert outcome(speed.check_steadiness(computer.surroundings(speed=replace(STEADY, loops_ns=loops_ns)))) == expected


@pytest.mark.parametrize(
    ("source", "read_ns", "step_ns", "expected"),
    [("tsc", 50, 20, "ok"), ("hpet", 900, 70, "timer-coarse"), ("tsc", 50, 15_000_000, "timer-coarse")],
)
def test_timer(computer: Computer, source: str, read_ns: float, step_ns: int, expected: str) -> None:
    computer.write("sys/devices/system/clocksource/clocksource0/current_clocksource", source)
    found = speed.check_clock_source(computer.surroundings(speed=replace(STEADY, read_ns=read_ns, step_ns=step_ns)))
    assert outcome(found) == expected
    assert source in found.seen


def test_the_speed_probe_times_loops_and_its_own_clock(tmp_path: Path) -> None:
    now = 0

    def clock() -> int:
        nonlocal now
        now += 1000
        return now

    probe = measure_speed(tmp_path, clock=clock, spin_s=1e-5)
    assert set(probe.loops_ns) == {1000}
    assert len(probe.loops_ns) == 10
    assert (probe.step_ns, probe.cpu, probe.clock_hz) == (1000, None, None)
    assert probe.read_ns == pytest.approx(1001)


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [("flags : fpu hypervisor avx2", "virtual-machine"), ("flags : fpu avx2", "ok"), ("Features : asimd", "unknown")],
)
def test_virtual_machine(computer: Computer, cpuinfo: str, expected: str) -> None:
    assert outcome(speed.check_virtual(computer.write("proc/cpuinfo", cpuinfo).surroundings())) == expected
