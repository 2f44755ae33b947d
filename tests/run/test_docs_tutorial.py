"""The commands of the tutorial, in their order, do to the script in docs/examples what the page says."""

from __future__ import annotations

import difflib
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from black_box import QUICK, Outcome, Runner, checked

from boundby.remedies.registry import MODULES

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS / "examples"
# What the tutorial says of its last command.
LOST = "sed -i 's/, fused=True//' train.py"


def commands() -> list[str]:
    """The lines after a prompt, in the order of the page."""
    return re.findall(r"^\$ (.+)$", (DOCS / "tutorial.md").read_text(encoding="utf-8"), re.MULTILINE)


def execute(runner: Runner, line: str, folder: Path) -> Outcome:
    """What a command of boundby does; `run` with fewer steps than a reader would take."""
    name, command, *words = shlex.split(line)
    assert name == "boundby"
    if command != "run":
        return runner.boundby(command, *words, cwd=folder)
    report = folder / words[words.index("-o") + 1]
    return runner.forked((command, *QUICK, *words), cwd=folder, folder=runner.scratch, report=report)


@pytest.fixture(scope="module")
def followed(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """The outcome of each command of boundby but `try`, whose trials take long and have tests of their own."""
    folder = tmp_path_factory.mktemp("tutorial")
    shutil.copy(EXAMPLES / "train.py", folder)
    outcomes: dict[str, Outcome] = {}
    for line in commands():
        if line.startswith(("export ", "boundby try ")):
            continue
        if line.startswith("sed "):
            subprocess.run(shlex.split(line), cwd=folder, check=True)
            continue
        if "after.json" in line and "boundby run" in line:
            shutil.copy(EXAMPLES / "train_faster.py", folder / "train.py")
        # The same check twice, before and after the change was lost.
        outcomes[line if line not in outcomes else f"{line} #2"] = execute(runner, line, folder)
    return outcomes


def report_of(followed: dict[str, Outcome], name: str) -> dict[str, Any]:
    """The report that a command wrote to the file of that name."""
    (outcome,) = (outcome for line, outcome in followed.items() if f"run --stop -o {name} " in line)
    return checked(outcome.report)


def test_the_change_that_is_shown_is_that_of_the_scripts() -> None:
    before, after = (
        (EXAMPLES / name).read_text(encoding="utf-8").splitlines() for name in ("train.py", "train_faster.py")
    )
    lines = difflib.unified_diff(before, after, "train.py", "train_faster.py", n=0, lineterm="")
    shown = re.findall(
        r"^```diff\n(.*?)\n```$", (DOCS / "tutorial.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert shown == ["\n".join(line.rstrip() for line in lines)]


def test_the_tutorial_measures_tries_compares_and_checks() -> None:
    kinds = [shlex.split(line)[1] for line in commands() if line.startswith("boundby ")]
    assert kinds == ["run", "try", "run", "compare", "check", "check", "check", "report"]
    assert LOST in commands()


def test_every_command_ends_as_the_page_says(followed: dict[str, Outcome]) -> None:
    ended = {name: outcome.status for name, outcome in followed.items()}
    lost = next(name for name in ended if name.endswith("#2"))
    assert ended.pop(lost) == 3, followed[lost].stderr
    assert set(ended.values()) == {0}, {name: followed[name].stderr for name, status in ended.items() if status}


def test_the_faster_script_does_less_in_a_step(followed: dict[str, Outcome]) -> None:
    before, after = (report_of(followed, name)["counts"] for name in ("before.json", "after.json"))
    assert after["ops"] < before["ops"] / 2
    assert after["matmul_flops"] == before["matmul_flops"]


def test_what_is_lost_is_told_with_its_line(followed: dict[str, Outcome]) -> None:
    (lost,) = (outcome for name, outcome in followed.items() if name.endswith("#2"))
    assert "optimizer.step()" in lost.stderr + lost.text


def test_the_remedies_that_are_tried_are_predicted(followed: dict[str, Outcome]) -> None:
    (line,) = (line for line in commands() if line.startswith("boundby try "))
    tried = [word for word in shlex.split(line)[2:] if not word.endswith(".py")]
    assert set(tried) <= set(MODULES)
    assert set(tried) <= {one["name"] for one in report_of(followed, "before.json")["remedies"]}


def test_both_versions_learn_the_same(runner: Runner) -> None:
    both = "import runpy, sys; sys.argv[1:] = ['--steps', '20']; "
    both += "; ".join(f"runpy.run_path({name!r}, run_name='__main__')" for name in ("train.py", "train_faster.py"))
    done = runner.plain("-c", both, cwd=EXAMPLES)
    plain, faster = (float(loss) for loss in re.findall(r"[\d.]+$", done.text, re.MULTILINE))
    # The same rows in the same order; the fused kernel rounds in another one.
    assert plain == pytest.approx(faster, abs=0.01)
