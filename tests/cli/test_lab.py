"""`boundby lab` and `--lang`: what is listed, run, written and refused, and in which language."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import boundby.labs.lab as frame
from boundby.cli.lab import parse_launch_costs
from boundby.cli.main import COMMANDS, main
from boundby.labs import measure_matmul
from boundby.report.demonstration import Shown
from boundby.results.lab import decode_lab
from boundby.results.language import choose_language, language

MARK = "⏱ "


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(variable, raising=False)
    yield
    choose_language("en")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_matmul, "SIZES", (8, 16, 32))


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any demonstration that is run is a failure."""

    def show(self: object, settings: object) -> Shown:
        raise AssertionError("a demonstration was run")

    monkeypatch.setattr(frame.Entry, "show", show)


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


def test_without_a_name_the_labs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lab") == 0
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines() if line[:1].isalpha()][1:4] == [
        "measure",
        "fusion",
        "launch",
    ]
    assert "4. One training step of a small GPT, by batch" in printed
    assert "boundby lab measure --quick" in printed


@pytest.mark.usefixtures("small")
def test_a_demonstration_says_what_it_does_and_then_what_was_seen(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lab", "measure", "--demo", "1", "--quick") == 0
    printed, said = capsys.readouterr()
    assert said == ""
    assert printed.index("1. Matrix products") < printed.index("2n^3 FLOP") < printed.index("What to observe")
    rows = [line.split()[1:4] for line in printed.splitlines() if line.startswith(MARK)]
    assert ["8", "1,024", "1.33"] in rows
    assert "boundby lab measure -o lab.html" in printed


@pytest.mark.usefixtures("small")
def test_files_have_numbers_medians_and_charts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("lab.json", "lab.md", "lab.html"):
        assert run("lab", "measure", "--demo", "1", "--quick", "-o", str(tmp_path / name)) == 0
        assert f"Wrote {tmp_path / name}" in capsys.readouterr().err
    result = decode_lab((tmp_path / "lab.json").read_bytes())
    assert (result.lab, result.quick, result.device, result.threads) == ("measure", True, "cpu", 1)
    (one,) = result.demonstrations
    assert [row["n"] for row in one.data["rows"]] == [8, 16, 32]
    assert all(row["time_s"] <= row["median_s"] <= row["slowest_s"] for row in one.data["rows"])
    assert result.machine is not None
    assert result.tool is not None
    assert "median" in (tmp_path / "lab.md").read_text(encoding="utf-8")
    page = (tmp_path / "lab.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert "Rate of a matrix product against its size" in page


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (("lab", "compute"), 2, "unknown-lab"),
        (("lab", "measure", "--demo", "6"), 2, "no-demonstration"),
        (("lab", "measure", "--device", "cuda"), 2, "lab-device"),
        (("lab", "fusion", "--device", "gpu"), 2, "no-device"),
        (("lab", "measure", "-o", "there.json"), 1, "output-exists"),
        (("lab", "measure", "-o", "lab.pdf"), 1, "output-format"),
        (("lab", "measure", "-o", "no/folder/lab.md"), 1, "output-unwritable"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(
    words: tuple[str, ...],
    status: int,
    code: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.json").write_text("old")
    assert run(*words) == status
    printed, said = capsys.readouterr()
    assert printed == ""
    assert f"[{code}]" in said
    assert "Traceback" not in said
    assert (tmp_path / "there.json").read_text() == "old"


@pytest.mark.usefixtures("untouched")
def test_the_cost_of_a_launch_is_an_option_of_one_lab(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lab", "measure", "--launch-us", "2") == 2
    assert "option of lab launch" in capsys.readouterr().err
    for numbers in (["--demo", "1"], ["--demo", "1", "--demo", "3"]):
        assert run("lab", "launch", *numbers, "--launch-us", "2") == 2
        printed, said = capsys.readouterr()
        assert printed == ""
        assert "--launch-us is for demonstration 2 of lab launch" in said


@pytest.mark.parametrize(
    "words", [["--quick"], ["--demo", "1"], ["--device", "cpu"], ["--launch-us", "2"], ["-o", "x.json"], ["--force"]]
)
def test_options_of_a_lab_are_refused_where_none_is_named(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lab", *words) == 2
    printed, said = capsys.readouterr()
    assert printed == ""
    assert f"{words[0]} is an option of a lab that runs" in said


def test_launch_costs_are_numbers_or_the_word_measured() -> None:
    assert parse_launch_costs(None) == ((), False)
    assert parse_launch_costs("2, 4,8.5") == ((2.0, 4.0, 8.5), False)
    assert parse_launch_costs("measured") == ((), True)
    assert parse_launch_costs("3,measured") == ((3.0,), True)
    for text in ("", "2,,4", "-1", "0", "nan", "inf", "fast"):
        with pytest.raises(click.BadParameter):
            parse_launch_costs(text)


def without_next(printed: str) -> str:
    return printed.partition("\nNext ")[0]


@pytest.mark.usefixtures("small")
def test_a_saved_lab_is_shown_as_it_was_when_it_ran(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lab.json"
    assert run("lab", "measure", "--demo", "1", "--quick", "-o", str(file)) == 0
    ran = without_next(capsys.readouterr().out)
    assert run("show", str(file)) == 0
    assert capsys.readouterr().out == ran
    assert run("report", str(file)) == 0
    page = (tmp_path / "lab.html").read_text(encoding="utf-8")
    assert "Rate of a matrix product against its size" in page
    assert 'class="plot"' in page
    assert run("show", str(file), "-o", str(tmp_path / "again.json")) == 0
    assert (tmp_path / "again.json").read_bytes() == file.read_bytes()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("ran_in", "shown_in"), [("zh", "en"), ("en", "zh")])
def test_a_saved_lab_keeps_its_language(
    ran_in: str, shown_in: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, page = tmp_path / "lab.json", tmp_path / "lab.html"
    lab = ["lab", "measure", "--demo", "1", "--quick"]
    assert run(*lab, "--lang", ran_in, "-o", str(file)) == 0
    ran = capsys.readouterr().out
    assert run("show", "--lang", shown_in, str(file)) == 0
    shown = capsys.readouterr().out
    assert ran.startswith(shown)
    assert run("report", "--lang", shown_in, str(file)) == 0
    assert f'<html lang="{ran_in}"' in page.read_text(encoding="utf-8")
    written = page.read_text(encoding="utf-8")
    assert run("report", "--lang", ran_in, str(file), "--force") == 0
    assert page.read_text(encoding="utf-8") == written
    assert language() == ran_in


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "part",
    [
        {},
        {"chart": {"name": "x"}},
        {"table": {"caption": "", "head": ["a"], "rows": [[]]}},
        {"table": {"caption": "", "head": ["a"], "rows": [["1"]], "timed": [9]}},
        {"table": {"caption": "", "head": ["a"], "rows": [["1"]], "files_only": [-1]}},
        {"table": {"caption": "", "head": ["a"], "rows": [["1"]], "left": [1]}},
    ],
)
def test_a_part_that_is_nothing_to_show_is_a_damaged_file(
    part: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lab.json"
    assert run("lab", "measure", "--demo", "1", "--quick", "-o", str(file)) == 0
    content = json.loads(file.read_bytes())
    content["demonstrations"][0]["parts"] = [part]
    file.write_text(json.dumps(content))
    capsys.readouterr()
    for command in ("show", "report"):
        assert run(command, str(file)) == 1
        printed, said = capsys.readouterr()
        assert printed == ""
        assert "[damaged-file]" in said
        assert "boundby lab NAME" in said


@pytest.mark.usefixtures("small")
def test_a_lab_of_an_earlier_boundby_is_shown_with_what_it_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lab.json"
    assert run("lab", "measure", "--demo", "1", "--quick", "-o", str(file)) == 0
    content = json.loads(file.read_bytes())
    for name in ("title", "timed_on", "smaller"):
        del content[name]
    for name in ("about", "parts"):
        del content["demonstrations"][0][name]
    file.write_text(json.dumps(content))
    capsys.readouterr()
    assert run("show", str(file)) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Lab measure\n")
    assert "1. Matrix products" in printed
    assert "What to observe" in printed


# The language


@pytest.mark.parametrize(
    ("words", "environment", "expected"),
    [
        (("lab",), {}, "en"),
        (("lab",), {"LC_ALL": "zh_CN.UTF-8"}, "zh"),
        (("lab",), {"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, "en"),
        (("lab",), {"LANG": "zh_TW"}, "zh"),
        (("lab",), {"LANG": "de_DE.UTF-8"}, "en"),
        (("--lang", "zh", "lab"), {}, "zh"),
        (("lab", "--lang", "zh"), {}, "zh"),
        (("lab", "--lang", "en"), {"LC_ALL": "zh_CN.UTF-8"}, "en"),
    ],
)
def test_the_option_picks_the_language_and_else_the_locale(
    words: tuple[str, ...],
    environment: dict[str, str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    assert run(*words) == 0
    assert language() == expected
    assert ("从小到大的矩阵乘法" in capsys.readouterr().out) == (expected == "zh")


def test_errors_are_told_in_the_language_and_their_codes_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lab", "--lang", "zh", "compute") == 2
    said = capsys.readouterr().err
    assert "没有名为" in said
    assert "[unknown-lab]" in said


def test_a_language_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lab", "--lang", "fr") == 2
    assert "'en', 'zh'" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_the_language_once(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert run(name, "--help") == 0
        assert capsys.readouterr().out.count("--lang [") == 1


@pytest.mark.usefixtures("small")
def test_the_keys_of_json_are_not_translated(tmp_path: Path) -> None:
    keys = []
    for name in ("en", "zh"):
        path = tmp_path / f"{name}.json"
        assert run("lab", "measure", "--demo", "1", "--quick", "--lang", name, "-o", str(path)) == 0
        content = json.loads(path.read_text(encoding="utf-8"))
        assert content["language"] == name
        keys.append([*content, *content["demonstrations"][0], *content["demonstrations"][0]["data"]["rows"][0]])
    assert keys[0] == keys[1]


def test_a_stream_that_cannot_show_chinese_gets_escapes_and_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "boundby", "lab", "--lang", "zh"],
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert done.stderr == b""


def test_two_files_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first, second = tmp_path / "a.html", tmp_path / "b.json"
    assert run("lab", "launch", "--demo", "1", "-o", str(first), "-o", str(second)) == 2
    assert "-o takes one FILE, and 2 were given" in capsys.readouterr().err
    assert not first.exists()
    assert not second.exists()


def test_a_launch_that_cannot_cost_so_much_is_refused_before_anything_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("lab", "launch", "--launch-us", "1e9") == 2
    assert capsys.readouterr().out == ""


def test_demonstrations_that_time_nothing_name_no_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lab", "launch", "--demo", "1", "--quick") == 0
    said = capsys.readouterr().out
    assert "Timed on" not in said
    assert "left out" not in said
