"""Trials on real scripts in real processes: turns, results, effects, failures, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from boundby.capture.script import Target
from boundby.machine.store import machine_key, save
from boundby.remedies.child_process import child_command
from boundby.remedies.trial import LiveRun, try_once
from boundby.results.language import choose_language
from boundby.results.machine_file import decode_machine

CEILINGS = Path(__file__).parent.parent / "machine" / "files" / "machine-version-1.json"
TRAINING = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range({steps}):
    x = torch.randn(16, 32)
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {extra}
"""
GENERATING = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(64, 64)
with torch.inference_mode():
    x = torch.randn(1, 64)
    for _ in range(200000):
        x = torch.tanh(model(x))
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def write(text: str) -> Target:
        (tmp_path / "train.py").write_text(textwrap.dedent(text))
        return Target(name="train.py", is_module=False)

    return write


def trial(target: Target, *remedies: str):
    return try_once(target, remedies, environment={}, budget_s=0.5)


def test_the_script_against_itself_is_equal_to_the_last_bit(script):
    done = trial(script(TRAINING.format(steps=10**6, extra="")))
    assert done.failed is None
    assert done.took_effect is None
    assert done.numerics.of == "loss"
    assert done.numerics.largest == 0.0
    assert done.numerics.steps > 10
    assert done.measured.turns >= 4
    assert 0.5 < done.measured.speedup < 2.0


def test_a_fused_optimizer_is_seen_to_be_fused_and_hardly_changes_the_losses(script):
    done = trial(script(TRAINING.format(steps=10**6, extra="")), "fused-optimizer")
    assert done.took_effect is True
    assert "fused AdamW" in done.effect
    assert done.numerics.largest < 1e-3


def test_outputs_of_a_generation_loop_are_compared(script):
    done = trial(script(GENERATING), "bf16-autocast")
    assert done.took_effect is True
    assert done.numerics.of == "output"
    assert 0 < done.numerics.largest < 0.2


def test_a_remedy_that_finds_nothing_to_change_says_so(script):
    done = trial(script(GENERATING), "fused-optimizer")
    assert done.took_effect is False
    assert done.measured is not None


@pytest.mark.parametrize(
    ("steps", "extra", "says"),
    [
        (2, "", "before there was a result"),
        (10**6, "if step == 30: raise ValueError('no luck')", "ValueError: no luck"),
        (10**6, "if step == 30: raise SystemExit(7)", "status 7"),
        (10**6, "if step == 30: __import__('os')._exit(9)", "status 9"),
    ],
)
def test_a_script_that_ends_too_soon_is_a_result_with_the_reason(script, steps, extra, says):
    done = trial(script(TRAINING.format(steps=steps, extra=extra)))
    assert done.measured is None
    assert says in done.failed


def test_a_script_too_short_for_turns_of_the_usual_length_is_tried_with_shorter_ones(script):
    done = trial(script(TRAINING.format(steps=150, extra="")))
    assert done.failed is None
    assert done.measured.turns >= 4
    assert done.measured.steps_per_turn * done.measured.turns < 150
    assert done.numerics.largest == 0.0


STARTED = """
from boundby.capture.script import Target, run_target


def main():
    outcome = run_target(Target(name="code/train.py", is_module=False))
    return outcome.status
"""


def test_modules_beside_the_script_are_found_and_those_of_the_current_folder_shadow_none(tmp_path):
    """As with `python code/train.py`: it imports what lies beside it, and nothing that lies in the current folder."""
    for folder in ("code", "current", "ours"):
        (tmp_path / folder).mkdir()
    current = tmp_path / "current"
    (current / "code").symlink_to(tmp_path / "code")
    (current / "argparse.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "code" / "train.py").write_text("import argparse, beside_it\nraise SystemExit(beside_it.STATUS)")
    (tmp_path / "code" / "beside_it.py").write_text("STATUS = 42")
    (tmp_path / "ours" / "started.py").write_text(STARTED)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "ours")}
    done = subprocess.run(child_command("started"), cwd=current, env=environment, capture_output=True, text=True)
    assert done.returncode == 42, done.stderr


def test_a_script_without_steps_is_a_result_with_the_reason(script):
    done = trial(script("import torch\nprint('done')\n"))
    assert done.measured is None
    assert "ended by itself" in done.failed


def test_what_remedies_saw_is_told_in_the_language_of_the_command(script, tmp_path_factory):
    target, folder = script(TRAINING.format(steps=10**6, extra="")), tmp_path_factory.mktemp("trial")
    try:
        choose_language("zh")
        run = LiveRun(target, remedies=["fused-optimizer"], environment={}, folder=folder, name="changed")
        try:
            run.start()
        finally:
            run.close()
    finally:
        choose_language("en")
    assert run.seen.effect.startswith("融合的 AdamW")


def test_nothing_is_left_behind(script, tmp_path):
    target = script(TRAINING.format(steps=10**6, extra="torch.save(model.state_dict(), 'model.pt')"))
    done = trial(target)
    assert done.failed is None
    assert [one.name for one in tmp_path.iterdir()] == ["train.py"]
    assert _running(f"--folder {tmp_path}") == 0


def test_an_interrupted_trial_ends_its_processes(script, tmp_path):
    script(TRAINING.format(steps=10**6, extra=""))
    code = (
        "from boundby.capture.script import Target; from boundby.remedies.trial import try_once\n"
        "try_once(Target(name='train.py', is_module=False), [], environment={}, budget_s=600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL, cwd=tmp_path)
    mine = f"--folder {tmp_path}"
    deadline = time.monotonic() + 60
    while _running(mine) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _running(mine) == 2
    os.kill(process.pid, signal.SIGINT)
    process.wait(30)
    assert _running(mine) == 0


def _running(words: str) -> int:
    listed = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return sum(words in line and "boundby.remedies.turns" in line for line in listed.splitlines())


def test_a_script_that_sets_no_seed_has_no_results_to_compare(script):
    done = trial(script(TRAINING.format(steps=10**6, extra="").replace("torch.manual_seed(0)", "")))
    assert done.measured is not None
    assert done.numerics is None


@pytest.fixture
def _kept_ceilings(script, tmp_path_factory, monkeypatch):
    """Ceilings that `boundby try` finds and need not measure."""
    monkeypatch.setenv("BOUNDBY_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    assert save(machine_key(threads=None), decode_machine(CEILINGS.read_bytes())) == ()


@pytest.mark.usefixtures("_kept_ceilings")
def test_a_terminated_try_ends_its_processes_and_leaves_every_file_as_it_was(script, tmp_path):
    text = TRAINING.format(steps=10**6, extra="open('log.txt', 'a').write('x')")
    script(text.replace("import torch", "import torch; open('log.txt', 'w').write('anew')", 1))
    (tmp_path / "log.txt").write_text("kept")
    command = [sys.executable, "-m", "boundby", "try", "--budget", "600", "fused-optimizer", "train.py"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=tmp_path)
    mine = f"--folder {tmp_path}"
    deadline = time.monotonic() + 120
    while _running(mine) < 2 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)
    assert _running(mine) == 2
    process.terminate()
    process.wait(30)
    assert _running(mine) == 0
    assert (tmp_path / "log.txt").read_text() == "kept"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["log.txt", "train.py"]
