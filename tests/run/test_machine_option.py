"""`boundby run --machine FILE`: what would bind elsewhere, from a run here; in real processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from black_box import QUICK, Runner, checked, words


@pytest.fixture(scope="module")
def machine_file(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kept ceilings of this machine, as `boundby machine -o` writes them."""
    path = tmp_path_factory.mktemp("machines") / "here.json"
    done = runner.boundby("machine", "-o", str(path))
    assert done.status == 0, done.stderr
    return path


def changed(file: Path, name: str, *, slower: dict[str, float], **description: Any) -> Path:
    """A copy of a machine file with ceilings of some kinds so many times as slow."""
    content = json.loads(file.read_text())
    content["description"] |= description
    for one in content["ceilings"]:
        factor = slower.get(one["kind"], 1.0)
        by = factor if one["unit"] == "s" else 1 / factor
        for key in ("value", "low", "high"):
            one[key] *= by
        one["samples"] = []
    path = file.parent / name
    path.write_text(json.dumps(content))
    return path


def test_a_slower_machine_takes_longer_and_is_marked_modelled(runner: Runner, machine_file: Path) -> None:
    other = changed(machine_file, "slow.json", slower={"overhead": 20.0}, cpu="Slow CPU")
    done = runner.watched("loops.py", "mlp_sgd", options=(*QUICK, "--machine", str(other)))
    assert done.status == 0, done.stderr
    assert words(done.stderr).startswith("On Slow CPU (modelled from its machine file): this training step would take")
    assert "[modelled-elsewhere]" in done.stderr
    report = checked(done.report)
    modelled = report["modelled_for"]
    assert (modelled["machine"], modelled["source"]) == ("Slow CPU", "modelled")
    assert report["step"]["time_s"]["median"] > 3 * modelled["measured_time_s"]["median"]
    assert report["step"]["time_s"]["samples_s"] == []
    assert report["verdict"]["confidence"] != "sure"
    assert {one["source"] for one in report["machine"]["ceilings"]} == {"modelled"}
    assert report["machine"]["description"]["cpu"] == "Slow CPU"


def test_this_machine_is_as_it_is(runner: Runner, machine_file: Path) -> None:
    done = runner.watched("loops.py", "mlp_sgd", options=(*QUICK, "--machine", str(machine_file)))
    report = checked(done.report)
    here = report["modelled_for"]
    assert report["step"]["time_s"]["median"] == pytest.approx(here["measured_time_s"]["median"], rel=1e-3)
    assert report["verdict"]["bound"] == here["measured_bound"]


def test_a_plain_report_is_not_modelled_and_keeps_its_steps(runner: Runner) -> None:
    report = checked(runner.watched("loops.py", "mlp_sgd").report)
    assert report["modelled_for"] is None
    assert len(report["step"]["time_s"]["samples_s"]) == report["step"]["steps_timed"]
    assert set(report["step"]["anchors_s"]) == {"matmul", "cache", "memory", "dispatch"}


def test_wrong_files_are_refused_before_the_script_runs(runner: Runner, machine_file: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text('{"schema": "boundby.report", "version": 1}')
    damaged = tmp_path / "damaged.json"
    damaged.write_text('{"schema": "boundby.mach')
    threads = changed(machine_file, "threads.json", slower={}, threads=7)
    empty = json.loads(machine_file.read_text()) | {"ceilings": []}
    (tmp_path / "empty.json").write_text(json.dumps(empty))
    expected = {
        tmp_path / "none.json": "no-such-file",
        tmp_path: "unreadable-file",
        report: "unknown-schema",
        damaged: "damaged-file",
        threads: "no-ceilings-there",
        tmp_path / "empty.json": "no-ceilings-there",
    }
    for file, code in expected.items():
        done = runner.boundby("run", "--machine", str(file), "loops.py", "mlp_sgd")
        assert (done.status, done.text) == (1, ""), file
        assert f"[{code}]" in done.stderr.splitlines()[0], done.stderr
        assert "Traceback" not in done.stderr
