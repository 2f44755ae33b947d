"""The examples on the API page run as they stand, and print the numbers that they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from boundby.machine.ensure import ensure_machine

API_PAGE = Path(__file__).parents[2] / "docs" / "api.md"
# A number that an example names at the end of a comment: "# 2 * 4 * 8 = 64".
PROMISE = re.compile(r"print\(.*\)  # .*= (\d+)$", re.MULTILINE)


def examples() -> dict[str, str]:
    """Each example by the heading it stands under."""
    page = API_PAGE.read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading = section.splitlines()[0]
        for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)):
            found[f"{heading} {number + 1}" if number else heading] = code
    return found


def test_each_function_has_an_example() -> None:
    code = "\n".join(examples().values())
    functions = ("explain", "count", "sweep", "measure_machine", "step", "cost_rule")
    assert [name for name in functions if f"boundby.{name}(" not in code] == []


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the examples find ceilings: measured once, in little time, and apart from the user's own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BOUNDBY_CACHE_DIR", str(folder))
        patch.setenv("OMP_NUM_THREADS", "1")
        assert ensure_machine(budget_s=4.0).ceilings
    return folder


@pytest.mark.parametrize("code", examples().values(), ids=examples())
def test_an_example_runs(code: str, tmp_path: Path, cache: Path) -> None:
    example = tmp_path / "example.py"
    example.write_text(code, encoding="utf-8")
    # One thread, as other tests run beside them: two that wait for each other there take many times as long.
    environment = {**os.environ, "BOUNDBY_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(example)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert [number for number in PROMISE.findall(code) if number not in done.stdout.split()] == []
