"""The console entry: what is imported, what is said, and with which status, in real processes."""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
import time
import types
from pathlib import Path

import click
import pytest

from boundby import __version__
from boundby.cli.main import COMMANDS, LazyCommand, main
from boundby.results.errors import BoundbyError


def boundby(*args: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "boundby", *args], capture_output=True, text=True, timeout=60, check=False, **options
    )


def python(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["--version"], ["nonsense"]])
def test_the_group_imports_no_heavy_library(args: list[str]) -> None:
    code = (
        "import sys, atexit\n"
        "heavy = ('torch', 'numpy', 'scipy', 'rich', 'msgspec', 'boundby.cli.run', 'boundby.cli.machine')\n"
        "atexit.register(lambda: print('LOADED', [name for name in heavy if name in sys.modules]))\n"
        "from boundby.cli.main import main\n"
        "main(sys.argv[1:])\n"
    )
    assert "LOADED []" in python(code, *args).stdout


def test_importing_boundby_loads_neither_torch_nor_numpy() -> None:
    done = python("import boundby, sys; print([name for name in ('torch', 'numpy') if name in sys.modules])")
    assert done.stdout.strip() == "[]"


def test_starting_costs_at_most_three_times_its_libraries() -> None:
    def best_s(*args: str) -> float:
        def once_s() -> float:
            begin = time.perf_counter()
            subprocess.run([sys.executable, *args], capture_output=True, check=True, timeout=60)
            return time.perf_counter() - begin

        return min(once_s() for _ in range(5))

    assert best_s("-m", "boundby", "--help") <= 3 * best_s("-c", "import click, rich")


def test_help_lists_every_command_with_its_own_short_help() -> None:
    done = boundby("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for name, entry in COMMANDS.items():
        assert name in done.stdout
        assert entry.short_help in done.stdout


@pytest.mark.parametrize("name", list(COMMANDS))
def test_each_command_is_there(name: str) -> None:
    entry = COMMANDS[name]
    command = getattr(importlib.import_module(entry.module), entry.attribute)
    assert isinstance(command, click.Command)
    done = boundby(name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: boundby {name}")


def test_version() -> None:
    done = boundby("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"boundby {__version__}\n", "")


def test_no_command_shows_the_help() -> None:
    done = boundby()
    assert done.returncode == 2
    assert "Commands:" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("shwo", "Did you mean show?"),
        ("machin", "Did you mean machine?"),
        ("zzzzzz", f"Commands: {', '.join(COMMANDS)}"),
    ],
)
def test_an_unknown_command_names_near_ones(word: str, hint: str) -> None:
    done = boundby(word)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"There is no command '{word}'." in done.stderr
    assert hint in done.stderr


def test_a_script_in_the_place_of_a_command_is_pointed_to_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    done = boundby("train.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "boundby run train.py" in done.stderr


@pytest.mark.parametrize("args", [["--nonsense"], ["show"], ["show", "--nonsense", "x"], ["show", "a", "b"]])
def test_usage_errors(args: list[str]) -> None:
    done = boundby(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_mistake_is_one_line_and_its_advice() -> None:
    done = boundby("show", "no such.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "boundby: There is no file no such.json. [no-such-file]\nboundby: Check the path.\n"


def test_a_name_that_is_not_utf8_can_be_told() -> None:
    done = subprocess.run(
        [sys.executable.encode(), b"-m", b"boundby", b"show", b"\xff\xfe.json"],
        capture_output=True,
        timeout=60,
        check=False,
        env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
    )
    assert done.returncode == 1
    assert b"no-such-file" in done.stderr
    assert b"Traceback" not in done.stderr


def test_shell_completion_offers_the_commands() -> None:
    done = boundby(env={"_BOUNDBY_COMPLETE": "bash_complete", "COMP_WORDS": "boundby sh", "COMP_CWORD": "1"})
    assert done.returncode == 0
    assert "show" in done.stdout


def run_command_that(error: BaseException | int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs main with a command that raises, or returns a status."""

    @click.command("probe")
    def probe() -> int:
        if isinstance(error, BaseException):
            raise error
        return error

    module = types.ModuleType("probe_module")
    module.__dict__["probe"] = probe
    monkeypatch.setitem(sys.modules, "probe_module", module)
    monkeypatch.setitem(COMMANDS, "probe", LazyCommand(module="probe_module", attribute="probe", short_help=""))
    main(["probe"])


@pytest.mark.parametrize("error", [ValueError("the script's"), EOFError("input"), OSError(5, "io"), MemoryError()])
def test_what_a_script_raises_passes_untouched(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(type(error)) as caught:
        run_command_that(error, monkeypatch)
    assert caught.value is error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SystemExit(7), 7),
        (SystemExit("a message"), "a message"),
        (BoundbyError("no-steps", "No step.", status=1), 1),
        (BoundbyError("over-budget", "Too slow.", "Be faster.", status=3), 3),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 1),
        (click.exceptions.Exit(4), 4),
        (click.BadParameter("x"), 2),
        (0, 0),
        (5, 5),
    ],
)
def test_status(error: BaseException | int, status: object, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as caught:
        run_command_that(error, monkeypatch)
    assert caught.value.code == status


def test_an_interrupt_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_command_that(KeyboardInterrupt(), monkeypatch)
    assert capsys.readouterr().err == "boundby: interrupted before the end; there is no result [interrupted]\n"


def test_no_advice_no_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_command_that(BoundbyError("no-steps", "No step."), monkeypatch)
    assert capsys.readouterr().err == "boundby: No step. [no-steps]\n"


def test_a_script_may_close_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (None, closed := io.StringIO()):
        closed.close()
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(SystemExit) as caught:
            run_command_that(0, monkeypatch)
        assert caught.value.code == 0


@pytest.mark.parametrize(
    ("encoding", "said"),
    [("utf-8", "没有文件 nope.json。"), ("gb18030", "没有文件 nope.json。"), ("ascii", "There is no file nope.json.")],
)
@pytest.mark.parametrize("asked", ["locale", "option"])
def test_a_stream_that_cannot_write_chinese_gets_english(encoding: str, said: str, asked: str, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONIOENCODING": encoding, "LC_ALL": "zh_CN.UTF-8" if asked == "locale" else "C"}
    options = [] if asked == "locale" else ["--lang", "zh"]
    done = subprocess.run(
        [sys.executable, "-m", "boundby", *options, "show", "nope.json"],
        capture_output=True,
        cwd=tmp_path,
        env=environment,
        timeout=60,
        check=False,
    )
    assert done.stderr.decode(encoding).startswith(f"boundby: {said} [no-such-file]")
