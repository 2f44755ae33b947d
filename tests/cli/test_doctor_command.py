"""`boundby doctor` as a command: what it prints where, and the files it writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from boundby.cli.doctor import doctor_command
from boundby.machine import doctor
from boundby.results.doctor import Diagnosis, Examination, decode_examination
from boundby.results.errors import BoundbyError

FOUND = Examination(
    examined_at="2026-01-02T03:04:05+00:00",
    cpu="A processor",
    os="Linux 6.1",
    python="3.11.7",
    torch="2.13.0",
    checks=(
        Diagnosis(
            name="priority", state="problem", seen="It is low.", code="low-priority", effect="Slow.", advice="Stop."
        ),
        Diagnosis(name="swap", state="ok", seen="there is none"),
    ),
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs the command in an empty folder, with an examination that is there at once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "examine", lambda: FOUND)
    return lambda *arguments: CliRunner().invoke(doctor_command, list(arguments))


def test_a_problem_is_printed_and_is_no_error(run: Callable[..., Result]) -> None:
    done = run()
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("1 thing could spoil a measurement here.\n")
    assert "It is low. [low-priority]" in done.stdout
    assert "\x1b" not in done.stdout


def test_json_stands_alone_on_stdout(run: Callable[..., Result]) -> None:
    done = run("--json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert decode_examination(done.stdout.encode()) == FOUND
    assert done.stdout.endswith("}\n")


def test_a_file_is_written_whole_and_not_replaced_unasked(run: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "doctor.json"
    done = run("-o", "doctor.json")
    assert (done.exit_code, done.stderr) == (0, "Wrote doctor.json\n")
    assert decode_examination(path.read_bytes()) == FOUND
    path.write_text("mine")
    refused = run("-o", "doctor.json")
    assert isinstance(refused.exception, BoundbyError)
    assert refused.exception.code == "output-exists"
    assert path.read_text() == "mine"
    assert run("-o", "doctor.json", "--force").exit_code == 0
    assert decode_examination(path.read_bytes()) == FOUND


def test_a_file_that_cannot_be_written_is_told_before_anything_is_read(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda: pytest.fail("it was read all the same"))
    refused = run("-o", "doctor.txt")
    assert isinstance(refused.exception, BoundbyError)
    assert refused.exception.code == "output-format"


def test_the_help_says_that_problems_are_no_error(run: Callable[..., Result]) -> None:
    text = " ".join(run("--help").stdout.split())
    assert "The exit status is 0 whether or not there are problems" in text


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "damaged-file"),
        (b'{"schema": "boundby.doctor", "version": 1}', "damaged-file"),
        (b'{"schema": "boundby.doctor", "version": 2}', "unknown-version"),
        (b'{"schema": "boundby.doctor", "version": true}', "unknown-version"),
        (b'{"schema": "boundby.report", "version": 1}', "unknown-schema"),
    ],
)
def test_files_that_hold_no_examination(data: bytes, code: str) -> None:
    with pytest.raises(BoundbyError) as caught:
        decode_examination(data, name="d.json")
    assert caught.value.code == code
    assert "d.json" in caught.value.message
