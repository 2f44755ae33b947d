"""Options, output files and bad input of `boundby run` and `boundby show`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from black_box import QUICK, Outcome, Runner, checked, words

PLACE_OF_CEILINGS = (
    "from boundby.machine.store import machine_key, machine_path;print(machine_path(machine_key(threads=None)))"
)


@pytest.fixture(scope="module")
def good(runner: Runner) -> Outcome:
    return runner.watched("prints_below.py", fresh=True)


def refused(outcome: Outcome, code: str, status: int) -> None:
    """Assert a message with its code, the status, no traceback of boundby's own, nothing on standard output."""
    assert outcome.status == status, outcome.stderr
    assert code in words(outcome.stderr)
    assert "Traceback" not in outcome.stderr
    assert outcome.stdout == b""


def without_torch(runner: Runner, folder: Path) -> dict[str, str]:
    """An environment in which importing torch or numpy fails."""
    (folder / "sitecustomize.py").write_text(
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('torch', 'numpy'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
    )
    return runner.environment(PYTHONPATH=str(folder))


def test_json_alone_on_standard_output(runner: Runner) -> None:
    done = runner.boundby("run", "--json", *QUICK, "prints_below.py")
    assert done.status == 0, done.stderr
    checked(json.loads(done.text))
    for text in ("by print", "by descriptor", "by a child", "done"):
        assert text in done.stderr


def test_stop_ends_after_the_watched_steps(runner: Runner) -> None:
    plain = runner.plain("loops.py", "mlp_sgd", "adam", "loader_with_workers")
    done = runner.watched("loops.py", "mlp_sgd", "adam", "loader_with_workers", options=("--stop", *QUICK), fresh=True)
    assert done.status == 0, done.stderr
    assert plain.text.startswith(done.text)
    assert "adam" not in done.text
    checked(done.report)
    workers = runner.watched("loops.py", "loader_with_workers", options=("--stop", *QUICK))
    assert (workers.status, workers.stdout) == (0, b"")
    checked(workers.report)


def test_numbers_of_steps_are_as_asked(good: Outcome) -> None:
    report = checked(good.report)
    # What another process interrupted is left out, and told: "1 of 5 timed steps".
    told = [one["message"].split()[0] for one in report["findings"] if one["code"] == "preempted"]
    assert report["step"]["steps_timed"] + sum(map(int, told)) == 5
    assert report["step"]["steps_watched"] == 4


def test_report_is_readable_at_80_columns_and_piped(good: Outcome) -> None:
    assert "\x1b" not in good.stderr
    assert "\r" not in good.stderr
    assert max(len(line) for line in good.stderr.splitlines()) <= 80
    assert words(checked(good.report)["verdict"]["sentence"]) in words(good.stderr)
    assert "reconcil" in good.stderr.lower()


def test_show_renders_again_without_torch(runner: Runner, good: Outcome, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text(json.dumps(good.report))
    shown = runner.boundby("show", str(file), environment=without_torch(runner, tmp_path))
    assert shown.status == 0, shown.stderr
    body = [line for line in shown.text.partition("\nNext ")[0].splitlines() if line.strip()]
    assert body
    assert [line for line in body if line not in good.stderr.splitlines()] == [], (
        "the same text as at the end of the run"
    )
    again = runner.boundby("show", "--json", str(file), environment=without_torch(runner, tmp_path))
    assert json.loads(again.text) == good.report


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"schema": "boundby.report", "version": 999}', "[unknown-version]"),
        ('{"schema": "somebody.else", "version": 1}', "[unknown-schema]"),
        ('{"schema": "boundby.report", "version": 1, "tool": {}}', "[damaged-file]"),
        ('{"schema": "boundby.report", "vers', "[damaged-file]"),
        ("[1, 2]", "[damaged-file]"),
        ("", "[damaged-file]"),
        ("\x00\x01", "[damaged-file]"),
    ],
)
def test_show_refuses_what_it_cannot_read(runner: Runner, tmp_path: Path, text: str, code: str) -> None:
    file = tmp_path / "report.json"
    file.write_text(text)
    refused(runner.boundby("show", str(file)), code, 1)


def test_show_of_no_file(runner: Runner, tmp_path: Path) -> None:
    refused(runner.boundby("show", str(tmp_path / "none.json")), "[no-such-file]", 1)


@pytest.mark.parametrize(
    "options",
    [
        ("--steps", "0"),
        ("--steps", "-3"),
        ("--steps", "many"),
        ("--warmup", "-1"),
        ("--watch", "-1"),
        ("--no-such-option",),
    ],
)
def test_options_refused_before_the_script_runs(runner: Runner, options: tuple[str, ...]) -> None:
    refused(runner.boundby("run", *options, "no_torch.py"), options[0], 2)


def test_no_such_script(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "a folder").mkdir()
    refused(runner.boundby("run", "nowhere.py", cwd=tmp_path), "[no-such-script]", 2)
    refused(runner.boundby("run", "a folder", cwd=tmp_path), "[script-unreadable]", 2)
    assert [path.name for path in tmp_path.rglob("*")] == ["a folder"]


def test_no_such_module(runner: Runner) -> None:
    refused(runner.boundby("run", "-m", "nosuch.module"), "no module named 'nosuch.module' [no-such-module]", 2)
    pair = runner.pair("-m", "torch.no_such_module")  # its package is there, so that python alone can tell
    refused(pair.watched, "torch.no_such_module", pair.plain.status)
    assert pair.plain.stderr in pair.watched.stderr


def test_script_that_is_no_python(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("x = = 1\n")
    pair = runner.pair("bad.py", cwd=tmp_path)
    assert pair.plain.status == pair.watched.status == 1
    assert pair.plain.stderr in pair.watched.stderr


@pytest.mark.parametrize(
    ("script", "code"),
    [("no_torch.py", "[no-torch-work]"), ("no_steps.py", "[no-steps]"), ("one_step.py", "[one-step]")],
)
def test_nothing_to_explain(runner: Runner, script: str, code: str) -> None:
    pair = runner.pair(script, fresh=script == "no_torch.py")
    assert (pair.plain.stdout, pair.plain.status) == (pair.watched.stdout, 0)
    assert code in words(pair.watched.stderr)
    assert "Traceback" not in pair.watched.stderr
    assert pair.watched.status == 1
    assert pair.watched.report is None


def test_a_step_inside_a_compiled_call_is_said_not_to_be_seen(runner: Runner) -> None:
    pair = runner.pair("compiled_steps.py")
    assert (pair.plain.stdout, pair.plain.status) == (pair.watched.stdout, 0)
    told = words(pair.watched.stderr)
    assert "answer (compiled_steps.py:8) was compiled, and what happens inside compiled code cannot be seen" in told
    assert "[no-steps]" in told
    assert pair.watched.report is None


def test_an_interrupt_while_torch_is_imported_is_called_one(tmp_path: Path) -> None:
    script = tmp_path / "early.py"
    script.write_text("import signal\nsignal.raise_signal(signal.SIGINT)\nimport torch\n")
    done = subprocess.run(
        [sys.executable, "-m", "boundby", "run", str(script)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == -signal.SIGINT
    told = f"boundby: {script} did not import torch before the script was interrupted [no-torch-work]"
    assert done.stderr.splitlines()[-1] == told


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("missing/report.json", "output-unwritable"),
        ("folder.json", "output-unwritable"),
        ("report.xyz", "output-format"),
    ],
)
def test_output_that_cannot_be_written_is_refused_before_the_script_runs(
    runner: Runner, tmp_path: Path, target: str, code: str
) -> None:
    (tmp_path / "folder.json").mkdir()
    outcome = runner.boundby("run", *QUICK, "-o", str(tmp_path / target), "prints_below.py")
    refused(outcome, f"[{code}]", 1)
    assert Path(target).name in words(outcome.stderr)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder.json"]


def test_output_that_exists_is_kept_unless_forced(runner: Runner, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text("mine")
    refused(runner.boundby("run", *QUICK, "-o", str(file), "prints_below.py"), "[output-exists]", 1)
    assert file.read_text() == "mine"
    assert runner.boundby("run", *QUICK, "--force", "-o", str(file), "prints_below.py").status == 0
    checked(json.loads(file.read_text()))
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_ceilings_file_that_is_damaged_is_measured_again_and_said_so(runner: Runner, tmp_path: Path) -> None:
    anew = replace(runner, cache=tmp_path / "ceilings")
    place = Path(anew.execute(("-c", PLACE_OF_CEILINGS)).text.strip())
    place.parent.mkdir(parents=True)
    place.write_text('{"schema": "boundby.mach')
    first = anew.watched("loops.py", "mlp_sgd", fresh=True)
    assert "damaged" in words(first.stderr)
    kept = list(anew.cache.rglob("*.json"))
    assert place in kept, "ceilings are kept as JSON in BOUNDBY_CACHE_DIR"
    assert all(json.loads(path.read_bytes())["ceilings"] for path in kept), "measured again and kept"
