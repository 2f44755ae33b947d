"""Real scripts with habits: each is told with its line and its cost, and a script without any has none."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from black_box import SCRIPTS, Outcome, Runner

OPTIONS = ("--warmup", "2", "--steps", "16", "--watch", "8")
# The loop in habits.py, a finding of it, and the text of the line that it is told of.
HABITS = [
    ("wasteful", "element-loop", "if row[index] > 0:"),
    ("wasteful", "double-precision", "target = (out.detach() @ weight.to(out)).tanh().double()"),
    ("wasteful", "operand-copied", "mixed = rows[:, None] @ self.mixing"),
    ("wasteful", "padding", "rows = self.embedding(ids)"),
    ("wasteful", "writes-every-step", 'print("step", step, "part", part, "positive", positive, flush=True)'),
    ("growing", "graph-held", "history.append(loss)"),
    ("growing", "tensors-held", "outputs.append(out.detach())"),
    ("growing", "step-time-grows", "mean = torch.cat(outputs).tanh().mean()"),
]
COSTLY = [(loop, code) for loop, code, _ in HABITS if not code.endswith("-held")]


@pytest.fixture(scope="module")
def outcomes(runner: Runner) -> dict[str, Outcome]:
    """The watched run of each loop."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        loops = ("plain", "wasteful", "growing")
        runs = {loop: pool.submit(runner.watched, "habits.py", loop, options=OPTIONS) for loop in loops}
        return {loop: run.result() for loop, run in runs.items()}


def told(outcome: Outcome) -> dict[str, dict[str, Any]]:
    assert outcome.report is not None, outcome.stderr
    return {one["code"]: one for one in outcome.report["findings"] if one.get("about") == "script"}


@pytest.mark.parametrize(("loop", "code", "line"), HABITS)
def test_the_habit_is_told_with_its_line(outcomes: dict[str, Outcome], loop: str, code: str, line: str) -> None:
    found = told(outcomes[loop])
    assert code in found, outcomes[loop].stderr
    lines = (SCRIPTS / "habits.py").read_text().splitlines()
    assert lines[found[code]["line"] - 1].strip() == line
    assert found[code]["message"].startswith(f"habits.py:{found[code]['line']}: ")


@pytest.mark.parametrize(("loop", "code"), COSTLY)
def test_costs_are_given_with_their_interval(outcomes: dict[str, Outcome], loop: str, code: str) -> None:
    cost = told(outcomes[loop])[code]["time_s"]
    assert 0 <= cost["low"] <= cost["value"] <= cost["high"]
    assert cost["value"] > 0


def test_a_plain_script_has_none(outcomes: dict[str, Outcome]) -> None:
    assert told(outcomes["plain"]) == {}
    assert "Found in the script" not in outcomes["plain"].stderr


def test_they_stand_apart_from_what_could_spoil_the_measurement(outcomes: dict[str, Outcome]) -> None:
    text = outcomes["wasteful"].stderr
    assert text.index("Found in the script") < text.index("[double-precision]")
    assert "[double-precision]" not in text.partition("What could spoil the measurement")[2]


def test_output_stays_the_script_s_own(outcomes: dict[str, Outcome]) -> None:
    assert outcomes["wasteful"].text.count("part") == 60 * 400
