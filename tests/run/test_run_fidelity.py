"""A script under `boundby run` sees what it sees under plain Python."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from black_box import LIMIT_S, QUICK, SCRIPTS, Outcome, Pair, Runner, checked, same_behaviour, words

AT = (1, 3, 4, 7, 8, 9, 11, 13, 15)
"""Steps at which a script fails: the first warm-up step, the first after warm-up, and then both sides of each change
between timed, watched and unwatched steps."""

WAYS = ("none", "zero", "three", "text", "object", "_exit", "hooked", "interrupt", "terminated")
CASES = (
    *(("chained", at) for at in AT),
    *((way, 25) for way in WAYS),
    ("raise", 0),
    ("three", 0),
)


@pytest.fixture(scope="module")
def endings(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Pair]:
    """Every way of ending at its step, under plain Python (which forks for each of them) and under boundby."""
    folder = tmp_path_factory.mktemp("plain")
    lists = [",".join(str(case[place]) for case in CASES) for place in (0, 1)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        plain = pool.submit(runner.plain, "endings.py", *lists, str(folder))
        watched = {case: pool.submit(runner.watched, "endings.py", case[0], str(case[1])) for case in CASES}
        assert plain.result().status == 0, plain.result().stderr
        return {case: Pair(plain=ended(folder, *case), watched=watched[case].result()) for case in CASES}


def ended(folder: Path, way: str, at: int) -> Outcome:
    """What a case of ``endings.py`` left in its files."""
    place = folder / f"{way}.{at}"
    return Outcome(
        status=int(place.with_suffix(f".{at}.status").read_text()),
        stdout=place.with_suffix(f".{at}.stdout").read_bytes(),
        stderr=place.with_suffix(f".{at}.stderr").read_text(),
    )


@pytest.mark.parametrize("place", ["relative", "absolute with spaces and 中文"])
def test_script_sees_what_it_sees_under_plain_python(runner: Runner, tmp_path: Path, place: str) -> None:
    folder = tmp_path / place
    folder.mkdir()
    for name in ("fidelity.py", "training.py"):
        shutil.copy(SCRIPTS / name, folder)
    script = "fidelity.py" if place == "relative" else str(folder / "fidelity.py")
    pair = runner.pair(
        script,
        "--steps",
        "3",
        "-o",
        "x.json",
        "--",
        "-x",
        "é",
        cwd=folder if place == "relative" else tmp_path,
        stdin=b"in\nput",
        fresh=True,
    )
    same_behaviour(pair)
    assert "loss 0x" in pair.plain.text
    rest = iter(pair.watched.stderr.splitlines())
    assert all(line in rest for line in pair.plain.stderr.splitlines()), "warnings and messages of the script's own"
    assert not (folder / "x.json").exists()
    checked(pair.watched.report)


@pytest.mark.parametrize("packed", [False, True])
def test_folder_or_archive_with_a_main_module(runner: Runner, tmp_path: Path, packed: bool) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    shutil.copy(SCRIPTS / "training.py", folder)
    (folder / "__main__.py").write_text(
        "import sys\nfrom training import train\n"
        "print(sys.argv, __name__, __file__, repr(__package__), sys.path[0], train(30).hex())\n"
    )
    if packed:
        shutil.make_archive(str(folder), "zip", folder)
    pair = runner.pair("app.zip" if packed else "app", "--steps", cwd=tmp_path)
    same_behaviour(pair)
    assert "0x" in pair.plain.text
    checked(pair.watched.report)


@pytest.mark.parametrize("module", ["pkg.train", "pkg"])
def test_module_by_name(runner: Runner, module: str) -> None:
    pair = runner.pair("-m", module, "-o", "own", "--steps")
    same_behaviour(pair)
    assert "0x" in pair.plain.text
    checked(pair.watched.report)


def test_children_are_left_alone(runner: Runner) -> None:
    pair = runner.pair("children.py", fresh=True)
    same_behaviour(pair)
    report = checked(pair.watched.report)
    assert words(pair.watched.stderr).count(words(report["verdict"]["sentence"])) == 1


def test_forked_children_end_as_under_python(runner: Runner) -> None:
    pair = runner.pair("forked_exits.py", fresh=True)
    same_behaviour(pair)
    assert [line for line in pair.watched.text.splitlines() if line.split()[0] in ("three", "raise", "signal")] == [
        "three 3",
        "raise 1",
        "signal -15",
    ]
    assert "a reason" in pair.watched.stderr
    assert "ValueError: in the child" in pair.watched.stderr
    checked(pair.watched.report)


@pytest.mark.parametrize("way", WAYS)
def test_ending_in_a_step(endings: dict[tuple[str, int], Pair], way: str) -> None:
    pair = endings[way, 25]
    same_behaviour(pair)
    assert pair.plain.stderr in pair.watched.stderr
    if way != "terminated":
        checked(pair.watched.report)


@pytest.mark.parametrize(("way", "status"), [("raise", 1), ("three", 3)])
def test_ending_before_the_first_step(endings: dict[tuple[str, int], Pair], way: str, status: int) -> None:
    pair = endings[way, 0]
    same_behaviour(pair)
    assert pair.watched.status == status
    assert pair.plain.stderr in pair.watched.stderr
    assert pair.watched.report is None


@pytest.mark.parametrize("at", AT)
def test_traceback_of_a_step_is_whole(endings: dict[tuple[str, int], Pair], at: int) -> None:
    pair = endings["chained", at]
    assert pair.plain.stderr.count("Traceback") == 2
    assert pair.plain.stderr in pair.watched.stderr
    same_behaviour(pair)


def test_report_of_what_was_seen_before_the_failure(endings: dict[tuple[str, int], Pair]) -> None:
    report = checked(endings["chained", AT[-1]].watched.report)
    assert report["verdict"]["sentence"].startswith("The script ended early, with status 1 after ")
    assert report["step"]["steps_timed"] >= 1
    assert report["step"]["steps_watched"] >= 1
    amid = endings["chained", 9]
    assert words(amid.watched.stderr) != words(amid.plain.stderr), (
        "what was seen up to a failure in a later step is reported"
    )


def interrupted_at(runner: Runner, command: list[str], step: int) -> Outcome:
    """Start the command, send SIGINT once it says that it is in ``step``, and wait for its end."""
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=SCRIPTS,
        env=runner.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    watchdog = threading.Timer(LIMIT_S, process.kill)
    watchdog.start()
    assert process.stdout is not None
    seen = b""
    for line in process.stdout:
        seen += line
        if line == b"step %d\n" % step:
            process.send_signal(signal.SIGINT)
            break
    stdout, stderr = process.communicate()
    watchdog.cancel()
    return Outcome(status=process.returncode, stdout=seen + stdout, stderr=stderr.decode())


@pytest.fixture(scope="module")
def interrupted(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, dict[str, Outcome], Path]:
    """A plain run and two watched ones (after and amid the steps asked for), interrupted; the file of the first."""
    file = tmp_path_factory.mktemp("interrupted") / "r.json"
    ways = {"after": (*QUICK, "-o", str(file)), "amid": ("--warmup", "2", "--steps", "300")}
    with ThreadPoolExecutor(2) as pool:
        plain = pool.submit(interrupted_at, runner, ["interrupted.py"], 20)
        runs = {
            way: pool.submit(interrupted_at, runner, ["-m", "boundby", "run", *options, "interrupted.py"], 20)
            for way, options in ways.items()
        }
        return plain.result(), {way: run.result() for way, run in runs.items()}, file


@pytest.mark.parametrize("way", ["after", "amid"])
def test_interrupt_reports_what_was_seen(interrupted: tuple[Outcome, dict[str, Outcome], Path], way: str) -> None:
    plain, runs, file = interrupted
    watched = runs[way]
    assert plain.status == -signal.SIGINT
    assert watched.status in (-signal.SIGINT, 128 + signal.SIGINT)
    assert watched.stdout.startswith(plain.stdout)
    assert b"not interrupted" not in watched.stdout
    assert "KeyboardInterrupt" in watched.stderr
    begin = watched.stderr.index("Traceback")
    shown = words(watched.stderr[:begin] + watched.stderr[watched.stderr.index("KeyboardInterrupt", begin) :])
    assert "step" in shown, "a report of the steps seen stands beside the traceback"
    assert file.exists()


def test_a_closed_standard_error_loses_the_report_and_nothing_else(runner: Runner, tmp_path: Path) -> None:
    script = tmp_path / "small.py"
    script.write_text("import torch\nprint((torch.ones(2) * 2).sum().item())\nraise SystemExit(4)\n")
    command = [sys.executable, "-m", "boundby", "run", str(script)]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *command], stdout=subprocess.PIPE, env=runner.environment(), check=False
    )
    assert (done.returncode, done.stdout) == (4, b"4.0\n")
