"""`boundby doctor` in real surroundings: in processes of their own, with torch, without it, and with others at work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from boundby.machine.checks.activity import Activity, read_activity
from boundby.machine.checks.load import check_load
from boundby.machine.checks.stack_facts import StackFacts, read_stack
from boundby.machine.checks.surroundings import Surroundings
from boundby.machine.describe import process_affinity, torch_version
from boundby.results.doctor import finding_of
from boundby.results.machine import Finding

# Any import of these ends the process: the command itself needs none of them.
LIGHT = """
import sys
for name in ("torch", "numpy", "scipy", "psutil", "threadpoolctl"):
    sys.modules[name] = None
from boundby.cli.main import main
main(sys.argv[1:])
"""
WITHOUT_TORCH = "raise ImportError('no torch for this test')\n"


def doctor(environ: dict[str, str], *, cpus: set[int] | None = None) -> dict[str, dict[str, Any]]:
    """The checks of `boundby doctor --json` by name, in a process that may run on ``cpus``."""
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, "doctor", "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **environ},
        preexec_fn=None if cpus is None else lambda: os.sched_setaffinity(0, cpus),
    )
    assert (done.returncode, done.stderr) == (0, "")
    written = json.loads(done.stdout)
    assert (written["schema"], written["version"]) == ("boundby.doctor", 1)
    return {check["name"]: check for check in written["checks"]}


@pytest.fixture(scope="module")
def confined() -> dict[str, dict[str, Any]]:
    """On one CPU, with two threads, and with what a search for a fault leaves behind."""
    one = min(os.sched_getaffinity(0))
    environ = {"OMP_NUM_THREADS": "2", "CUDA_LAUNCH_BLOCKING": "1", "PATH": "/nowhere", "OMP_PROC_BIND": "false"}
    return doctor(environ, cpus={one})


def test_two_threads_on_one_core_are_diagnosed(confined: dict[str, dict[str, Any]]) -> None:
    assert confined["threads"]["code"] == "threads-over-cores"
    assert "torch uses 2 threads and this process can keep 1 core busy" in confined["threads"]["seen"]
    assert "OMP_NUM_THREADS=1" in confined["threads"]["advice"]


def test_what_the_environment_holds_is_seen(confined: dict[str, dict[str, Any]]) -> None:
    assert confined["debug variables"]["code"] == "debug-variables"
    assert confined["compiler"]["code"] == "no-compiler"
    assert confined["binding"]["state"] == "ok"


def test_torch_is_asked_and_not_guessed(confined: dict[str, dict[str, Any]]) -> None:
    assert confined["torch"]["seen"].startswith(f"{torch_version()}, ")
    assert confined["accelerator"]["state"] in ("ok", "unknown")
    assert confined["denormals"]["state"] == "ok"


def test_without_torch_the_other_checks_are_made(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(WITHOUT_TORCH)
    checks = doctor({"PYTHONPATH": str(tmp_path)})
    assert checks["torch"]["state"] == "unknown"
    assert "no torch for this test" in checks["torch"]["seen"]
    for name in ("threads", "OpenMP", "thread pools", "denormals", "instructions"):
        assert (checks[name]["state"], checks[name]["seen"]) == ("unknown", "needs torch, which did not load")
    assert checks["timer"]["state"] != "unknown"
    assert checks["Python"]["state"] != "unknown"


@pytest.fixture
def busy() -> Iterator[int]:
    """A process that is never idle, by its number."""
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        yield other.pid
        other.kill()


def load_finding(before: Activity, after: Activity) -> Finding | None:
    return finding_of(check_load(Surroundings(affinity=process_affinity(), before=before, after=after)))


def test_a_process_that_is_never_idle_is_load(busy: int) -> None:
    before = read_activity()
    deadline = time.monotonic() + 30
    after = read_activity()
    while after.processes[busy].used < before.processes[busy].used + 20 and time.monotonic() < deadline:
        time.sleep(0.05)
        after = read_activity()
    # A child of this process is no load; and where the machine is busy anyway, others may use more than this one.
    own = load_finding(before, after)
    strangers = [replace(one, processes={busy: replace(one.processes[busy], parent=1)}) for one in (before, after)]
    other = load_finding(*strangers)
    assert own is None or f"(pid {busy})" not in own.message
    assert other is not None
    assert other.code == "other-load"
    assert f"(pid {busy})" in other.message


def test_flushing_of_denormals_that_a_library_brings_is_seen(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import torch\ntorch.set_flush_denormal(True)\n")
    facts = read_stack({**os.environ, "PYTHONPATH": str(tmp_path)})
    assert isinstance(facts, StackFacts)
    assert not facts.denormals_kept


@pytest.mark.parametrize(
    ("torch", "expected"),
    [
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
        ("import os; os._exit(3)", "status 3"),
        ("import os; print('nonsense', flush=True); os._exit(0)", "no proper answer"),
        ("import time; time.sleep(60)", "took over 1 s"),
        (WITHOUT_TORCH, "ImportError: no torch for this test"),
    ],
)
def test_why_torch_could_not_be_asked(torch: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(torch)
    found = read_stack({**os.environ, "PYTHONPATH": str(tmp_path)}, patience_s=1.0 if "sleep" in torch else 60.0)
    assert isinstance(found, str)
    assert expected in found
