"""How a watched script's process ends where boundby itself fails: the script's status stands, without a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and fork are POSIX's")

DRIVER = """
import sys, types
import boundby.cli.run as run
import boundby.bound.explain as explain
from boundby.capture import recorder
def fail(*args, **kwargs):
    raise RuntimeError("a bug of boundby's")
description = types.SimpleNamespace(threads=1)
run._machine = lambda threads: types.SimpleNamespace(description=description, findings=())
if sys.argv[1] == "explain":
    explain.explain_trace = fail
else:
    recorder.Recorder.discard = fail
sys.argv[1:] = ["run", *sys.argv[2:]]
from boundby.cli.main import main
main()
"""

TRAINING = """
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(4, 4)
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(40):
    model(torch.ones(2, 4)).sum().backward()
    sgd.step()
"""


def ended(folder: Path, broken: str, script: str, **env: str) -> subprocess.CompletedProcess[str]:
    (folder / "driver.py").write_text(DRIVER)
    (folder / "script.py").write_text(script)
    command = [sys.executable, str(folder / "driver.py"), broken, "--steps", "3", str(folder / "script.py")]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **env})


@pytest.mark.parametrize(("broken", "code"), [("explain", "internal-error"), ("discard", "capture-failed")])
@pytest.mark.parametrize("status", [0, 7])
def test_a_fault_of_boundbys_own_is_one_line_and_the_scripts_status_stands(tmp_path, broken, code, status):
    done = ended(tmp_path, broken, TRAINING + f"raise SystemExit({status})")
    assert done.returncode == (status or 1)
    assert f"[{code}]" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_traceback_is_shown_to_who_asks_for_it(tmp_path):
    done = ended(tmp_path, "explain", TRAINING, BOUNDBY_DEBUG="1")
    assert "Traceback" in done.stderr
    assert "a bug of boundby's" in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_an_interrupted_child_ends_by_the_signal_as_under_python(tmp_path):
    child = TRAINING + (
        "import os, sys\nif (pid := os.fork()) == 0:\n    raise KeyboardInterrupt\n"
        "print('child', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)\n"
    )
    done = ended(tmp_path, "explain", child)
    assert f"child {-signal.SIGINT}" in done.stdout
