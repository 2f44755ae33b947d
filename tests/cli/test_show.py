"""`boundby show`, in real processes."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from boundby.cli.options import detect_display
from boundby.results.files import decode_report
from boundby.results.machine_file import decode_machine, encode_machine

REPORT = Path(__file__).parent.parent / "report" / "files" / "report-version-1-overhead.json"

# Any import of these ends the process, as on a computer that has none of them.
WITHOUT_TORCH = """
import sys
for name in ("torch", "numpy", "scipy", "psutil", "threadpoolctl"):
    sys.modules[name] = None
from boundby.cli.main import main
main(sys.argv[1:])
"""


def show(*args: str, env: dict[str, str] | None = None, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "boundby", "show", *args],
        capture_output=True,
        timeout=60,
        check=False,
        input=data,
        env={"PYTHONUTF8": "1"} | (env or {}),
    )


@pytest.fixture
def machine_file(tmp_path: Path) -> Path:
    machine = decode_report(REPORT.read_bytes(), name="x").machine
    path = tmp_path / "m.json"
    path.write_bytes(encode_machine(machine))
    return path


def test_a_report_is_shown_with_its_sentence_first() -> None:
    done = show(str(REPORT))
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith("This training step is bound by overhead")
    assert lines[-1] == "Next     boundby run -o after.json train.py --epochs 2"
    assert max(map(len, lines)) <= 80
    assert b"\x1b" not in done.stdout


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_neither_torch_nor_numpy_is_needed(form: list[str], machine_file: Path) -> None:
    for path in (REPORT, machine_file):
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_TORCH, "show", *form, str(path)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "AMD EPYC 9R14" in done.stdout


def test_json_is_the_file_alone() -> None:
    done = show("--json", str(REPORT))
    assert (done.returncode, done.stderr) == (0, b"")
    # A file of an earlier boundby lacks what was added since; what it holds stays as it is.
    assert decode_report(done.stdout, name="shown") == decode_report(REPORT.read_bytes(), name="the file")


def test_json_is_utf8_whatever_the_terminal(tmp_path: Path) -> None:
    content = json.loads(REPORT.read_bytes())
    content["step"]["name"] = "训练"
    path = tmp_path / "x.json"
    path.write_text(json.dumps(content))
    done = show("--json", str(path), env={"PYTHONIOENCODING": "ascii"})
    assert json.loads(done.stdout)["step"]["name"] == "训练"
    assert "训练".encode() in done.stdout


def test_standard_input() -> None:
    assert show("-", data=REPORT.read_bytes()).stdout == show(str(REPORT)).stdout
    done = show("-", data=b"{")
    assert done.returncode == 1
    assert b"standard input is damaged" in done.stderr


def test_a_machine_file_is_recognised(machine_file: Path) -> None:
    done = show(str(machine_file))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"AMD EPYC 9R14\n")
    assert b"GFLOP/s" in done.stdout
    assert b"97.3" in done.stdout or b" 97 " in done.stdout
    shown = show("--json", str(machine_file)).stdout
    assert decode_machine(shown, name="shown") == decode_machine(machine_file.read_bytes(), name="the file")


def test_environment_of_the_stream() -> None:
    ascii_only = show(str(REPORT), env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert ascii_only.returncode == 0
    assert ascii_only.stdout.isascii()
    narrow = show(str(REPORT), env={"COLUMNS": "44"}).stdout.decode()
    assert max(map(len, narrow.splitlines())) <= 44
    assert b"\x1b[" in show(str(REPORT), env={"FORCE_COLOR": "1"}).stdout
    assert b"\x1b[" not in show(str(REPORT), env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout


def test_a_character_the_stream_cannot_write_is_escaped(tmp_path: Path) -> None:
    content = json.loads(REPORT.read_bytes())
    content["verdict"]["sentence"] = "Bound by \U0001f600."
    path = tmp_path / "x.json"
    path.write_text(json.dumps(content))
    done = show(str(path), env={"PYTHONIOENCODING": "cp437", "PYTHONUTF8": "0"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"Bound by \\U0001f600.")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "damaged-file"),
        (b'{"schema": "boundby.report"', "damaged-file"),
        (b'{"schema": "boundby.report", "version": 1}', "damaged-file"),
        (b'{"schema": "boundby.machine", "version": 1}', "damaged-file"),
        (b'{"schema": "boundby.report", "version": 99}', "unknown-version"),
        (b'{"schema": "boundby.machine", "version": 99}', "unknown-version"),
        (b'{"schema": "other", "version": 1}', "unknown-schema"),
    ],
)
def test_files_that_cannot_be_shown(content: bytes, code: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    done = show(str(path))
    assert (done.returncode, done.stdout) == (1, b"")
    message, advice = done.stderr.decode().splitlines()
    assert message.endswith(f"[{code}]")
    assert "x.json" in message
    assert advice.startswith("boundby: ")


def test_a_hostile_name_is_one_visible_line() -> None:
    done = show("a\x1b[31m\nb.json")
    assert done.stderr.splitlines()[0] == b"boundby: There is no file a\\x1b[31m b.json. [no-such-file]"


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    assert b"[no-such-file]" in show(str(tmp_path / "no.json")).stderr
    done = show(str(tmp_path))
    assert done.returncode == 1
    assert b"[unreadable-file]" in done.stderr


def test_a_reader_that_goes_away_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "boundby", "show", str(REPORT)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


def test_ctrl_c_ends_in_one_line(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "boundby", "show", str(pipe)]
    # Opening the pipe returns once the command has opened its end, which is inside the command.
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        pipe.open("wb"),
    ):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    said = b"boundby: interrupted before the end; there is no result [interrupted]\n"
    assert (process.returncode, out, err) == (130, b"", said)


class Stream(io.StringIO):
    """A stream of a given encoding that is, or is not, a terminal."""

    def __init__(self, terminal: bool, encoding: str | None) -> None:
        super().__init__()
        self._terminal, self._encoding = terminal, encoding

    @property
    def encoding(self) -> str | None:
        return self._encoding

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("terminal", "encoding", "environment", "color", "unicode"),
    [
        (True, "utf-8", {}, True, True),
        (False, "utf-8", {}, False, True),
        (True, "ascii", {"TERM": "dumb"}, False, False),
        (True, "latin-1", {"NO_COLOR": "1"}, False, False),
        (True, "utf-8", {"NO_COLOR": ""}, True, True),
        (False, None, {"FORCE_COLOR": "1"}, True, False),
        (False, "no-such-encoding", {"COLUMNS": "x"}, False, False),
    ],
)
def test_what_a_stream_can_show(
    terminal: bool, encoding: str | None, environment: dict[str, str], color: bool, unicode: bool
) -> None:
    display = detect_display(Stream(terminal, encoding), environment)
    assert (display.color, display.unicode) == (color, unicode)
    assert display.width == 80


def test_columns_win() -> None:
    assert detect_display(sys.stdout, {"COLUMNS": "123"}).width == 123


def test_nothing_private_is_shown_where_that_is_asked_for() -> None:
    plain, private = (show(*words, str(REPORT)).stdout for words in ([], ["--confidential"]))
    assert b"train.py" in plain
    assert private
    assert b"train.py" not in private
    assert b"net.py" not in private
