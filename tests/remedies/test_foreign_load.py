"""Waiting for a core, and who has it: on this machine, as it is."""

from __future__ import annotations

import collections
import os
import subprocess
import sys
import time

import psutil
import pytest

from boundby.remedies.foreign_load import CoreTime, core_time, cores_of_others, waiting_s

BUSY = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\ninput()"


def test_two_busy_processes_on_one_core_wait_for_it():
    if waiting_s() is None:
        assert sys.platform != "linux"
        return
    core = sorted(os.sched_getaffinity(0))[0]
    code = (
        f"import os, time; os.sched_setaffinity(0, {{{core}}})\n"
        "from boundby.remedies.foreign_load import waiting_s\n"
        "before, began = waiting_s(), time.monotonic()\n"
        "if not os.fork():\n"
        "    end = time.process_time() + 0.3\n"
        "    while time.process_time() < end: pass\n"
        "    os._exit(0)\n"
        "end = time.process_time() + 0.3\n"
        "while time.process_time() < end: pass\n"
        "print(waiting_s() - before, time.monotonic() - began)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    waited, wall = map(float, done.stdout.split())
    assert 0.05 < waited < wall


def test_a_process_and_its_children_are_its_own():
    process = subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 60
        while core_time(process.pid).own_s < 0.3 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert core_time(process.pid).own_s >= 0.3
        assert core_time(os.getpid()).own_s >= core_time(process.pid).own_s
    finally:
        process.kill()
        process.wait()


def test_others_are_the_machine_less_the_process_itself():
    before, after = CoreTime(machine_s=10.0, own_s=2.0), CoreTime(machine_s=12.0, own_s=3.5)
    assert cores_of_others(before, after, 1.0) == pytest.approx(0.5)
    assert cores_of_others(before, CoreTime(machine_s=11.0, own_s=3.5), 1.0) == 0.0


def test_a_guests_seconds_count_once_and_only_those_of_the_cpus_looked_at(monkeypatch):
    times = collections.namedtuple("times", "user nice system idle iowait guest guest_nice")
    cpus = [times(10.0, 0.0, 1.0, 5.0, 2.0, 10.0, 0.0), times(3.0, 0.0, 0.0, 9.0, 0.0, 0.0, 0.0)]
    whole = times(*map(sum, zip(*cpus, strict=True)))
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu=False: cpus if percpu else whole)
    assert core_time(os.getpid()).machine_s == 14.0
    assert core_time(os.getpid(), [0]).machine_s == 11.0
    assert core_time(os.getpid(), {1, 7}).machine_s == 3.0


def test_a_process_that_has_ended_counts_nothing():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert core_time(process.pid).own_s == 0.0


def test_waiting_only_grows():
    first, second = waiting_s(), waiting_s()
    assert (first is None) == (second is None)
    assert first is None or 0.0 <= first <= second
