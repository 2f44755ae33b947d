"""`boundby compare`, in real processes and as a user mistypes it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from boundby.results.files import decode_report
from boundby.results.machine_file import encode_machine

FILES = Path(__file__).parent.parent / "report" / "files"
OVERHEAD, MEMORY = FILES / "report-version-1-overhead.json", FILES / "report-version-1-memory.json"

# Any import of torch ends the process, as on a computer that has none.
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from boundby.cli.main import main
main(sys.argv[1:])
"""


def compare(*args: str | Path, data: bytes = b"", **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, "compare", *map(str, args)],
        capture_output=True,
        timeout=60,
        check=False,
        input=data,
        env={"PYTHONUTF8": "1"} | variables,
    )


@pytest.fixture
def machine_file(tmp_path: Path) -> Path:
    path = tmp_path / "m.json"
    path.write_bytes(encode_machine(decode_report(OVERHEAD.read_bytes(), name="x").machine))
    return path


def test_two_reports_of_before_samples_were_kept_are_compared() -> None:
    done = compare(OVERHEAD, MEMORY)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith("report-version-1-memory.json is 171x slower than report-version-1-overhead.json")
    assert max(map(len, lines)) <= 80
    assert b"\x1b" not in done.stdout


def test_json_alone_on_standard_output() -> None:
    done = compare("--json", OVERHEAD, MEMORY)
    found = json.loads(done.stdout)
    assert list(found)[:4] == ["schema", "version", "kind", "sentence"]
    assert (found["schema"], found["version"], found["kind"]) == ("boundby.comparison", 1, "reports")
    assert found["time"]["differs"] is True
    assert found["time"]["ratio"]["low"] > 100
    assert found["counts"][0] == {"name": "ops", "a": 605, "b": 12}


def test_machines_and_standard_input(machine_file: Path) -> None:
    done = compare(machine_file, "-", data=machine_file.read_bytes())
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"No difference between m.json and standard input in any of 5 limits.")
    found = json.loads(compare("--json", machine_file, machine_file).stdout)
    assert (found["kind"], found["same_machine"], found["only_a"]) == ("machines", True, 0)


def test_names_are_as_long_as_they_must_be(tmp_path: Path) -> None:
    for folder in ("before", "after"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "r.json").write_bytes(OVERHEAD.read_bytes())
    done = compare(tmp_path / "before" / "r.json", tmp_path / "after" / "r.json")
    assert "before/r.json" in done.stdout.decode().split("What each says")[0]
    told, _, following = done.stdout.decode().rpartition("Next ")
    assert str(tmp_path) not in told
    assert "".join(following.split()) == f"boundbyshow{tmp_path}/after/r.json"


def test_times_of_two_machines(tmp_path: Path) -> None:
    content = json.loads(OVERHEAD.read_bytes())
    content["machine"]["description"]["cpu"] = "Z80"
    other = tmp_path / "other.json"
    other.write_text(json.dumps(content))
    refused = compare("--json", OVERHEAD, other)
    assert refused.returncode == 0
    assert json.loads(refused.stdout)["time"] is None
    assert json.loads(refused.stdout)["counts_equal"] is True
    told = json.loads(compare("--json", "--across-machines", OVERHEAD, other).stdout)
    assert told["time"]["differs"] is False
    assert [one["code"] for one in told["findings"]] == ["machines-differ"]


def test_mistakes_are_told_in_a_line(machine_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"schema": "some.thing", "version": 3}')
    newer = tmp_path / "newer.json"
    newer.write_text('{"schema": "boundby.report", "version": 9}')
    mistakes = [
        ((OVERHEAD, machine_file), 2, "cannot-compare"),
        ((machine_file, OVERHEAD), 2, "cannot-compare"),
        (("-", "-"), 2, "cannot-compare"),
        ((OVERHEAD, tmp_path / "none.json"), 1, "no-such-file"),
        ((other, OVERHEAD), 1, "unknown-schema"),
        ((machine_file, other), 1, "unknown-schema"),
        ((OVERHEAD, newer), 1, "unknown-version"),
        ((OVERHEAD, tmp_path), 1, "unreadable-file"),
        ((OVERHEAD, "-"), 1, "damaged-file"),
    ]
    for files, status, code in mistakes:
        done = compare(*files)
        assert (done.returncode, done.stdout) == (status, b""), (files, done.stderr)
        assert f"[{code}]" in done.stderr.decode().splitlines()[0]
        assert b"Traceback" not in done.stderr
    assert compare(OVERHEAD).returncode == 2


def test_a_character_the_stream_cannot_write_is_escaped(tmp_path: Path) -> None:
    content = json.loads(OVERHEAD.read_bytes())
    content["verdict"]["sentence"] = "Bound by \U0001f600."
    path = tmp_path / "x.json"
    path.write_text(json.dumps(content))
    done = compare(path, OVERHEAD, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert done.stdout.isascii()
