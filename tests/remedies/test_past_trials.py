"""Past trials: kept by machine, bounded, shared by processes, and never believed where a line is damaged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.remedies import past_trials as kept
from boundby.results.remedy import Measured, PastTrials, Predicted, Remedy

ON: dict[str, str] = {}


def tried(name: str = "compile", *, predicted: float = 1.2, measured: float = 1.25, took: bool = True) -> Remedy:
    band = Predicted(speedup=predicted, low=predicted - 0.1, high=predicted + 0.1, reason="")
    result = Measured(
        speedup=measured,
        low=measured - 0.02,
        high=measured + 0.02,
        floor=0.02,
        turns=5,
        steps_per_turn=9,
        base_step_s=1.0,
        step_s=1.0,
        base_start_s=1.0,
        start_s=1.0,
    )
    held = band.low <= measured <= band.high if took else None
    return Remedy(name=name, predicted=band, measured=result, held=held, took_effect=took)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "trials.jsonl"


def test_what_was_kept_is_counted(path):
    assert kept.past_trials(path=path, environ=ON) is None
    assert kept.keep_trials([tried(), tried(measured=2.0)], path=path, environ=ON) == ()
    assert kept.keep_trials([tried()], path=path, environ=ON) == ()
    assert kept.past_trials(path=path, environ=ON) == PastTrials(trials=3, held=2)


def test_only_predictions_put_to_the_test_are_kept(path):
    unpredicted = Remedy(name="compile", measured=tried().measured)
    failed = Remedy(name="compile", predicted=tried().predicted, failed="no compiler")
    assert kept.keep_trials([unpredicted, failed, tried(took=False)], path=path, environ=ON) == ()
    assert not path.exists()


def test_neither_the_script_nor_its_folder_is_kept(path):
    kept.keep_trials([tried()], path=path, environ=ON)
    (line,) = [json.loads(one) for one in path.read_text().splitlines() if one]
    assert set(line) == {"version", "at", "remedy", "predicted", "measured", "boundby", "torch"}


def test_nothing_is_kept_or_told_where_the_user_said_so(path):
    off = {"BOUNDBY_KEEP_TRIALS": "0"}
    assert kept.keep_trials([tried()], path=path, environ=off) == ()
    assert not path.exists()
    kept.keep_trials([tried()], path=path, environ=ON)
    assert kept.past_trials(path=path, environ=off) is None


@given(st.binary(max_size=200).filter(lambda data: b'"version"' not in data))
def test_lines_that_are_no_good_are_passed_over(tmp_path_factory, damage):
    path = tmp_path_factory.mktemp("damaged") / "trials.jsonl"
    kept.keep_trials([tried()], path=path, environ=ON)
    path.write_bytes(damage + b"\n" + path.read_bytes() + damage)
    kept.keep_trials([tried(measured=3.0)], path=path, environ=ON)
    found = kept.past_trials(path=path, environ=ON)
    # A line may be cut off within itself; the next one is whole.
    assert found in (PastTrials(trials=2, held=1), PastTrials(trials=1, held=0))


@pytest.mark.parametrize("line", [b'{"version": 1}', b'{"version": 99}', b"null", b"\xff\xfe", b'{"version": 1, "at'])
def test_a_file_of_damage_alone_says_nothing(path, line):
    path.parent.mkdir()
    path.write_bytes(line + b"\n")
    assert kept.past_trials(path=path, environ=ON) is None


def test_lines_of_another_version_are_not_counted(path):
    kept.keep_trials([tried(), tried()], path=path, environ=ON)
    first, second = path.read_text().split()
    path.write_text(first.replace('"version":1', '"version":2') + "\n" + second)
    assert kept.past_trials(path=path, environ=ON) == PastTrials(trials=1, held=1)


def test_the_file_stays_bounded_and_the_newest_stay(path, monkeypatch):
    monkeypatch.setattr(kept, "MOST_BYTES", 4000)
    for number in range(60):
        kept.keep_trials([tried(f"remedy-{number}")], path=path, environ=ON)
        assert path.stat().st_size <= 4000
    names = [json.loads(line)["remedy"] for line in path.read_text().splitlines() if line]
    assert names[-1] == "remedy-59"
    assert names == [f"remedy-{number}" for number in range(60 - len(names), 60)]
    assert [one.name for one in path.parent.iterdir()] == [path.name]


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_past_trials import kept, tried
kept.MOST_BYTES = {most}
for number in range(25):
    assert kept.keep_trials([tried(sys.argv[1])], path=Path({path!r}), environ={{}}) == ()
"""


@pytest.mark.parametrize("most", [10**9, 3000])
def test_processes_that_write_at_once_lose_no_line(path, most):
    """Also where each of them now and then puts a shorter file in the place of the old one."""
    code = WRITER.format(tests=str(Path(__file__).parent), path=str(path), most=most)
    writers = [subprocess.Popen([sys.executable, "-c", code, f"writer-{number}"]) for number in range(3)]
    assert [one.wait(60) for one in writers] == [0, 0, 0]
    lines = [json.loads(line) for line in path.read_text().splitlines() if line]
    if most == 10**9:
        assert len(lines) == 75
    assert kept.past_trials(path=path, environ=ON).trials == len(lines)
    assert all(line["remedy"].startswith("writer-") for line in lines)


def test_a_folder_that_cannot_be_written_is_a_finding(tmp_path):
    (tmp_path / "file").write_text("")
    (finding,) = kept.keep_trials([tried()], path=tmp_path / "file" / "trials.jsonl", environ=ON)
    assert finding.code == "trials-not-kept"
    assert str(tmp_path / "file") in finding.message


def test_the_file_lies_where_the_user_said(tmp_path):
    chosen = kept.trials_path({"BOUNDBY_CACHE_DIR": str(tmp_path)})
    assert chosen.parent == tmp_path / "trials"
    assert kept.trials_path({}).parent.name == "trials"
    assert kept.trials_path({}).name == chosen.name
