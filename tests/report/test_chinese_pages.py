"""Pages in Chinese: no English sentence is left on them, their lines fit, and the choice reaches other processes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from boundby.llm.decode import estimate_decode
from boundby.llm.hardware import find_hardware
from boundby.llm.models import find_model
from boundby.llm.rows import shipped_rows
from boundby.llm.validate import compare_rows, used_rows
from boundby.machine.checks.surroundings import Surroundings
from boundby.machine.doctor import examine
from boundby.report.decode_document import decode_document
from boundby.report.decode_page import render_decode
from boundby.report.doctor_page import render_examination
from boundby.report.machine_document import machine_document
from boundby.report.machine_table import render_machine
from boundby.report.markdown import render_markdown
from boundby.report.roofline_picture import render_picture
from boundby.report.scaling_document import scaling_document
from boundby.report.scaling_page import render_scaling
from boundby.report.validate_page import render_validation
from boundby.results.errors import BoundbyError
from boundby.results.language import choose_language
from boundby.results.machine import Machine
from boundby.results.machine_file import decode_machine
from boundby.results.scaling import Scaling
from boundby.scaling.given import given_points, read_pairs
from boundby.scaling.summary import scaling_of

MACHINE_FILE = Path(__file__).parents[1] / "machine" / "files" / "machine-version-1.json"
# Four English words in a row, not in a command, a name or a list of names.
ENGLISH = re.compile(r"\b[A-Za-z]{2,}(?: [a-z']{2,}){3,}")
COMMANDS = re.compile(r"boundby [a-z ]+")
TERMINAL = {"width": 80, "color": False, "unicode": True}


@pytest.fixture(autouse=True)
def chinese() -> Iterator[None]:
    choose_language("zh")
    try:
        yield
    finally:
        choose_language("en")


@pytest.fixture
def machine() -> Machine:
    return decode_machine(MACHINE_FILE.read_bytes(), name="machine.json")


def scaling() -> Scaling:
    return scaling_of(given_points(read_pairs("1:1.0,2:1.8,4:2.2")), origin="given", more=(8, 64))


def english(text: str) -> list[str]:
    """What reads as an English sentence in a text."""
    return ENGLISH.findall(COMMANDS.sub("", text))


def check_page(text: str) -> None:
    assert english(text) == []
    assert max(map(cell_len, text.splitlines())) <= 80
    assert re.search("[\u4e00-\u9fff]", text)


def test_an_english_sentence_is_found() -> None:
    assert english("限制因素: bound by what is known") == ["bound by what is known"]
    assert english("下一步   boundby machine, 然后 run") == []


def test_a_machine(machine: Machine) -> None:
    text = render_machine(machine, **TERMINAL)
    # Findings are in the language of the run that wrote the file.
    check_page(text.partition("可能影响这些数字的因素")[0])
    assert "脊点" in text


def test_a_machine_as_documents(machine: Machine) -> None:
    text = render_markdown(machine_document(machine))
    assert english(text.partition("可能影响这些数字的因素")[0]) == []
    assert english(re.sub("<style>.*?</style>", "", render_picture(machine), flags=re.DOTALL)) == []


def test_decoding_on_paper() -> None:
    estimate = estimate_decode(find_model("gpt-oss-120b"), find_hardware("H100-SXM5"), devices=2, batch=4)
    check_page(render_decode(estimate, **TERMINAL, default_hardware=True))
    assert english(render_markdown(decode_document(estimate))) == []
    assert {kernel.bound for kernel in estimate.kernels} <= {"memory", "compute", "launch"}


def test_scaling() -> None:
    result = scaling()
    check_page(render_scaling(result, **TERMINAL, next_command="boundby scaling SCRIPT"))
    assert english(render_markdown(scaling_document(result))) == []
    assert result.unit == "workers"


def test_estimates_beside_measurements() -> None:
    compared, skipped = compare_rows(shipped_rows(), used_rows())
    choose_language("en")
    # What counts as which kind, and which rows can be compared, hangs on no language.
    assert [one.kind for one in compare_rows(shipped_rows(), used_rows())[0]] == [one.kind for one in compared]
    choose_language("zh")
    # Names of hardware, and remarks of the sources, are as published.
    check_page(render_validation(compared, skipped, each=False, **TERMINAL).partition("模型的欠缺")[0])


def test_what_a_doctor_says(tmp_path: Path) -> None:
    found = examine(Surroundings(root=tmp_path, environ={"TORCH_LOGS": "+dynamo", "CXX": "nothing"}, affinity=(0,)))
    text = render_examination(found, **TERMINAL)
    check_page(text)
    assert "torch.compile 写日志" in text
    assert {one.code for one in found.checks if one.code} >= {"debug-variables", "no-compiler"}


def test_errors() -> None:
    with pytest.raises(BoundbyError) as caught:
        find_hardware("H10")
    assert caught.value.code == "unknown-hardware"
    assert english(caught.value.message) == english(caught.value.advice) == []
    with pytest.raises(BoundbyError, match="没有多于一个工作单元的加速比"):
        given_points(read_pairs("1:1"))


def test_the_measuring_process_is_told_the_language() -> None:
    code = (
        "import sys, boundby.machine.worker as worker, boundby.results.language as language\n"
        "worker._report_accelerator = lambda *rest: print(language.language()) or 0\n"
        "sys.exit(worker.main(sys.argv[1:]))"
    )
    arguments = ["--output", "1", "--budget", "1", "--started", "0", "--device", "cuda", "--language", "zh"]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert "zh" in done.stdout.splitlines()
