"""Runs scripts plain and under `boundby run` for the benchmarks, and loads the other core where that is asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A finished process: exit status, output, wall time in seconds, and boundby's report where there is one."""

    status: int
    stdout: str
    stderr: str
    wall_s: float
    report: dict[str, Any] | None = None


def execute(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    environment: dict[str, str] | None = None,
    report: Path | None = None,
) -> Done:
    """Run ``python command...`` to its end, with ``environment`` on top of this process's."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    wall_s = time.perf_counter() - begin
    found = json.loads(report.read_text()) if report is not None and report.exists() else None
    return Done(status=done.returncode, stdout=done.stdout, stderr=done.stderr, wall_s=wall_s, report=found)


def watched(
    command: Sequence[str],
    *,
    options: Sequence[str] = (),
    cwd: Path | None = None,
    environment: dict[str, str] | None = None,
) -> Done:
    """Run ``boundby run options... command...`` and read its report."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        return execute(
            ("-m", "boundby", "run", *options, "-o", str(report), *command),
            cwd=cwd,
            environment=environment,
            report=report,
        )


_LOAD = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])}) if hasattr(os, "sched_setaffinity") else None
import numpy as np
a = np.random.rand(384, 384)
x = np.random.rand(1 << 22)
print("loaded", flush=True)
while os.getppid() == int(sys.argv[2]):
    for _ in range(10):
        a @ a
    x *= -1.0
    sum(range(200000))
"""


@contextmanager
def other_core_loaded(wanted: bool) -> Iterator[None]:
    """Keep a second process busy on the last usable core (products, streaming and plain Python in turn) meanwhile."""
    if not wanted:
        yield
        return
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", _LOAD, str(cores[-1]), str(os.getpid())], env=environment, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
