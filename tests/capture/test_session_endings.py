"""How a watched script's process ends where boundby itself fails: the script's status stands, without a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and fork are POSIX's")

# Is `boundby run` in a child process for each folder named, whose name says what is broken. Children find imported what
# takes long to import; what each wrote, and its status, is left in its folder.
DRIVER = """
import os, sys, types
import torch, torch._dynamo
import boundby.cli.run as run
import boundby.bound.explain as explain
from boundby.capture import recorder
from boundby.cli.main import main
def fail(*args, **kwargs):
    raise RuntimeError("a bug of boundby's")
description = types.SimpleNamespace(threads=1)
run._machine = lambda threads: types.SimpleNamespace(description=description, findings=())
def end(folder):
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT), descriptor)
    if "debug" in folder:
        os.environ["BOUNDBY_DEBUG"] = "1"
    if "explain" in folder:
        explain.explain_trace = fail
    else:
        recorder.Recorder.discard = fail
    sys.argv[1:] = ["run", "--steps", "3", os.path.join(folder, "script.py")]
    main()
for folder in sys.argv[1:]:
    if (child := os.fork()) == 0:
        end(folder)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with open(os.path.join(folder, "status"), "w") as file:
        file.write(str(status))
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


INTERRUPTED_CHILD = """
import os, sys
if (pid := os.fork()) == 0:
    raise KeyboardInterrupt
print('child', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
# By what is broken, whether its traceback is asked for, and how the script ends.
CASES = {
    "explain 0": "raise SystemExit(0)",
    "explain 7": "raise SystemExit(7)",
    "discard 0": "raise SystemExit(0)",
    "discard 7": "raise SystemExit(7)",
    "explain debug": "",
    "explain child": INTERRUPTED_CHILD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a case ended and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    base = tmp_path_factory.mktemp("endings")
    for name, ending in CASES.items():
        (base / name).mkdir()
        (base / name / "script.py").write_text(TRAINING + ending)
    (base / "driver.py").write_text(DRIVER)
    command = [sys.executable, str(base / "driver.py"), *CASES]
    subprocess.run(command, cwd=base, timeout=240, check=True)
    return {
        name: Ended(
            returncode=int((base / name / "status").read_text()),
            stdout=(base / name / "stdout").read_text(),
            stderr=(base / name / "stderr").read_text(),
        )
        for name in CASES
    }


@pytest.mark.parametrize(("broken", "code"), [("explain", "internal-error"), ("discard", "capture-failed")])
@pytest.mark.parametrize("status", [0, 7])
def test_a_fault_of_boundbys_own_is_one_line_and_the_scripts_status_stands(ended, broken, code, status):
    done = ended[f"{broken} {status}"]
    assert done.returncode == (status or 1)
    assert f"[{code}]" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_traceback_is_shown_to_who_asks_for_it(ended):
    done = ended["explain debug"]
    assert "Traceback" in done.stderr
    assert "a bug of boundby's" in done.stderr


def test_an_interrupted_child_ends_by_the_signal_as_under_python(ended):
    assert f"child {-signal.SIGINT}" in ended["explain child"].stdout
