import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from boundby.api import measure_machine
from boundby.cli.machine import AT_MOST_S, machine_command
from boundby.cli.show import show_command
from boundby.machine import ensure
from boundby.machine.store import machine_key, save
from boundby.results.errors import BoundbyError
from boundby.results.machine_file import decode_machine

MACHINE = decode_machine((Path(__file__).parent / "files" / "machine-version-1.json").read_bytes())


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the command where ceilings are kept for one thread, and measuring gives a machine of two threads at once."""
    monkeypatch.setenv("BOUNDBY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    save(machine_key(threads=1), MACHINE)
    asked: list[dict[str, object]] = []

    def measure(*, progress, **options):
        asked.append(options)
        progress(0.5, "measuring")
        return MACHINE

    monkeypatch.setattr(ensure, "_measure_apart", measure)

    def run_command(*arguments: str):
        result = CliRunner().invoke(machine_command, list(arguments))
        result.asked = asked
        return result

    return run_command


def test_kept_ceilings_are_shown(run):
    result = run("--threads", "1")
    assert result.exit_code == 0
    assert "AMD EPYC" in result.stdout
    assert "at most 100 fp32 GFLOP/s" in result.stdout
    assert result.stdout.endswith("Next     boundby run SCRIPT\n")
    assert result.stderr == ""
    assert result.asked == []


def test_show_prints_the_same(run, tmp_path):
    printed = run("--threads", "1", "-o", str(tmp_path / "m.json"))
    shown = CliRunner().invoke(show_command, [str(tmp_path / "m.json")])
    assert shown.stdout == printed.stdout
    assert shown.exit_code == 0


def test_json_stands_alone_on_stdout(run):
    result = run("--threads", "1", "--json")
    assert decode_machine(result.stdout.encode()) == MACHINE
    assert result.stdout.endswith("}\n")
    result = run("--threads", "1", "--json", "--again")
    assert json.loads(result.stdout)["schema"] == "boundby.machine"
    assert "measuring" in result.stderr


def test_again_measures_and_quick_asks_for_less_time(run):
    for options, threads, mode in (
        (("--threads", "1"), 1, "default"),
        (("--quick",), None, "quick"),
        (("--full",), None, "full"),
    ):
        asked = run("--again", *options).asked[-1]
        assert asked == {"threads": threads, "mode": mode, "device": "cpu", "budget_s": ensure.BUDGETS_S[mode]}


def test_budgets_leave_room_for_the_start_of_the_process():
    assert {mode: seconds < AT_MOST_S[mode] for mode, seconds in ensure.BUDGETS_S.items()} == {
        "quick": True,
        "default": True,
        "full": True,
    }


def test_quick_and_full_exclude_each_other(run):
    result = run("--quick", "--full")
    assert result.exit_code == 2
    assert "not both" in result.stderr
    with pytest.raises(BoundbyError) as caught:
        measure_machine(quick=True, full=True)
    assert caught.value.code == "quick-and-full"


def test_the_picture_is_written_by_its_extension_from_here_and_from_a_file(run, tmp_path):
    assert run("--threads", "1", "-o", str(tmp_path / "m.svg")).exit_code == 0
    picture = (tmp_path / "m.svg").read_text()
    assert picture.startswith("<svg")
    assert run("--threads", "1", "-o", str(tmp_path / "m.json")).exit_code == 0
    again = CliRunner().invoke(show_command, [str(tmp_path / "m.json"), "-o", str(tmp_path / "again.SVG")])
    assert again.exit_code == 0
    assert (tmp_path / "again.SVG").read_text() == picture


def test_a_page_is_written_by_its_extension(run, tmp_path):
    assert run("--threads", "1", "-o", str(tmp_path / "m.html")).exit_code == 0
    assert "Matrix products reach fp32 100 GFLOP/s" in (tmp_path / "m.html").read_text(encoding="utf-8")
    assert run("--threads", "1", "-o", str(tmp_path / "m.MD")).exit_code == 0
    assert (tmp_path / "m.MD").read_text(encoding="utf-8").startswith("# AMD EPYC")


@pytest.mark.parametrize("name", ["m.png", "m", "m.htm"])
def test_another_extension_is_refused_before_measuring(run, tmp_path, name):
    result = run("--again", "-o", str(tmp_path / name))
    assert isinstance(result.exception, BoundbyError)
    assert result.exception.code == "output-format"
    assert ".json, .html, .md, .svg" in result.exception.message
    assert result.asked == []


def test_a_file_is_written_and_never_overwritten_unasked(run, tmp_path):
    target = tmp_path / "m.json"
    assert run("--threads", "1", "-o", str(target)).exit_code == 0
    assert decode_machine(target.read_bytes()) == MACHINE
    target.write_text("precious")
    result = run("--threads", "1", "-o", str(target))
    assert isinstance(result.exception, BoundbyError)
    assert result.exception.code == "output-exists"
    assert target.read_text() == "precious"
    assert run("--threads", "1", "-o", str(target), "--force").exit_code == 0
    assert decode_machine(target.read_bytes()) == MACHINE


def test_a_place_that_cannot_be_written_is_said_before_measuring(run, tmp_path):
    result = run("--again", "-o", str(tmp_path / "nowhere" / "m.json"))
    assert isinstance(result.exception, BoundbyError)
    assert result.exception.code == "output-unwritable"
    assert result.asked == []


@pytest.mark.parametrize("threads", ["0", "-1", "two"])
def test_a_thread_count_that_is_none_is_a_usage_error(run, threads):
    assert run("--threads", threads).exit_code == 2
