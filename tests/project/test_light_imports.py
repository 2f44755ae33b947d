"""`import boundby` and the help texts load neither PyTorch nor NumPy, and start quickly."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from boundby.cli.main import COMMANDS

HEAVY = ("torch", "numpy", "scipy", "sklearn", "transformers")

RUN_AND_LIST = """
import runpy, sys
sys.argv = ["boundby", *sys.argv[1:]]
try:
    runpy.run_module("boundby", run_name="__main__", alter_sys=True)
except SystemExit as ended:
    status = ended.code or 0
print("\\nloaded:", *sorted(name for name in sys.modules if "." not in name))
sys.exit(status)
"""


def run_python(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, check=False, timeout=120)


def heavy_modules(done: subprocess.CompletedProcess[str]) -> set[str]:
    assert done.returncode == 0, done.stderr
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith("loaded:")
    return set(last.split()) & set(HEAVY)


def test_the_check_itself_sees_numpy() -> None:
    code = "import numpy, sys; print('loaded:', *sorted(name for name in sys.modules if '.' not in name))"
    assert heavy_modules(run_python("-c", code)) == {"numpy"}


def test_import_boundby_is_light() -> None:
    code = "import boundby, sys; print('loaded:', *sorted(name for name in sys.modules if '.' not in name))"
    assert heavy_modules(run_python("-c", code)) == set()


@pytest.mark.parametrize(
    "args",
    [("--help",), ("--version",), *((name, "--help") for name in COMMANDS)],
    ids=" ".join,
)
def test_help_is_light(args: tuple[str, ...]) -> None:
    assert heavy_modules(run_python("-c", RUN_AND_LIST, *args)) == set()


def cpu_seconds(*args: str) -> float:
    """Processor time of a child (s), which other load on the machine moves less than its wall time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run_python(*args)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_starts_within_three_times_its_own_libraries() -> None:
    plain, helped = [], []
    for _ in range(5):
        plain.append(cpu_seconds("-c", "import click, rich"))
        helped.append(cpu_seconds("-m", "boundby", "--help"))
    assert min(helped) <= 3 * min(plain)
