"""A script runs as ``python`` would run it."""

from __future__ import annotations

import os
import sys
import zipfile

import pytest

from boundby.capture.script import Outcome, Target, check_target, run_target, split_command
from boundby.results.errors import EXIT_USAGE, BoundbyError


@pytest.fixture(autouse=True)
def _interpreter_state():
    argv, path, main = list(sys.argv), list(sys.path), sys.modules["__main__"]
    yield
    sys.argv[:], sys.path[:], sys.modules["__main__"] = argv, path, main


@pytest.fixture
def run(tmp_path):
    def start(source: str, *args: str) -> tuple[Outcome, dict]:
        path = tmp_path / "script.py"
        path.write_text(source)
        outcome = run_target(Target(name=str(path), is_module=False, args=args))
        return outcome, vars(sys.modules["__main__"])

    return start


def test_a_script_is_main_with_its_own_arguments_and_folder(run, tmp_path):
    outcome, seen = run(
        "import sys\nname, argv, first, where = __name__, sys.argv, sys.path[0], __file__\n"
        "itself = sys.modules['__main__'].__dict__ is globals()\nspec = __spec__",
        "--steps",
        "3",
    )
    assert outcome == Outcome(status=0)
    assert seen["name"] == "__main__"
    assert seen["argv"] == [str(tmp_path / "script.py"), "--steps", "3"]
    assert seen["first"] == os.path.realpath(tmp_path)
    assert seen["where"] == str(tmp_path / "script.py")
    assert seen["itself"]
    assert seen["spec"] is None
    assert "run_target" not in seen


def test_the_futures_of_boundby_are_not_the_scripts(run):
    _, seen = run("def f(x: 1 + 1): pass\nannotation = f.__annotations__['x']")
    assert seen["annotation"] == 2


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit(7)", 7),
        ("import sys; sys.exit(256 + 3)", 3),
        ("import sys; sys.exit(-1)", 255),
        ("raise SystemExit(None)", 0),
        ("import sys; sys.exit(True)", 1),
    ],
)
def test_exit_statuses_are_pythons(run, source, status):
    assert run(source)[0] == Outcome(status=status)


def test_a_worded_exit_is_written_to_standard_error(run, capsys):
    assert run("import sys; sys.exit('no data')")[0].status == 1
    assert capsys.readouterr().err == "no data\n"


def test_an_uncaught_error_is_shown_with_the_scripts_frames_only(run, capsys):
    outcome, _ = run("def f():\n    return 1 / 0\nf()")
    assert outcome.status == 1
    assert isinstance(outcome.error, ZeroDivisionError)
    shown = capsys.readouterr().err
    assert "boundby" not in shown.replace(os.path.dirname(__file__), "")
    assert shown.startswith("Traceback (most recent call last):\n  File")
    assert shown.count("  File") == 2


def test_an_interrupt_ends_as_by_its_signal(run):
    outcome, _ = run("raise KeyboardInterrupt")
    assert outcome.status == -2


def test_a_syntax_error_is_shown_as_one(run, capsys):
    assert run("def f(:\n")[0].status == 1
    assert "SyntaxError" in capsys.readouterr().err


def test_a_scripts_own_excepthook_is_called(run):
    _, seen = run("import sys\nseen = []\nsys.excepthook = lambda *error: seen.append(error[0])\nraise KeyError")
    sys.excepthook = sys.__excepthook__
    assert seen["seen"] == [KeyError]


def test_a_module_runs_as_with_dash_m(tmp_path, monkeypatch):
    (tmp_path / "boundby_probe_script.py").write_text("import sys\nseen = (__name__, sys.argv[1:], __spec__.name)")
    monkeypatch.chdir(tmp_path)
    assert run_target(Target(name="boundby_probe_script", is_module=True, args=("a",))).status == 0
    assert vars(sys.modules["__main__"])["seen"] == ("__main__", ["a"], "boundby_probe_script")


def test_a_folder_and_an_archive_with_a_main_run(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "__main__.py").write_text("seen = 1")
    assert run_target(Target(name=str(folder), is_module=False)).status == 0
    assert vars(sys.modules["__main__"])["seen"] == 1
    with zipfile.ZipFile(tmp_path / "app.pyz", "w") as archive:
        archive.writestr("__main__.py", "seen = 2")
    assert run_target(Target(name=str(tmp_path / "app.pyz"), is_module=False)).status == 0
    assert vars(sys.modules["__main__"])["seen"] == 2


def test_targets_that_cannot_be_run_are_refused_before_anything_else(tmp_path):
    def refused(name) -> str:
        with pytest.raises(BoundbyError) as caught:
            check_target(Target(name=str(name), is_module=False))
        assert caught.value.status == EXIT_USAGE
        return caught.value.code

    assert refused(tmp_path / "nowhere.py") == "no-such-script"
    assert refused(tmp_path) == "script-unreadable"
    check_target(Target(name="json.any_module", is_module=True))  # only running it tells whether it is there
    with pytest.raises(BoundbyError) as nowhere:
        check_target(Target(name="nowhere_at_all.module", is_module=True))
    assert nowhere.value.code == "no-such-module"


def test_words_after_the_script_are_its_own():
    assert split_command(["a.py", "--json", "-o"], None) == Target(name="a.py", is_module=False, args=("--json", "-o"))
    assert split_command(["--x"], "pkg.mod") == Target(name="pkg.mod", is_module=True, args=("--x",))
