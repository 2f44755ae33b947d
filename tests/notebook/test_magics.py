"""The magics in an IPython of this process: the user's variables, exceptions and files; and what they are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell

import boundby
from boundby.notebook import MagicLine, read_magic_line

QUICK = "--warmup 1 --steps 3 --watch 2"
TRAINING = """
import torch
model = torch.nn.Linear(6, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(5, 6)
"""
STEP = """loss = model(x).square().mean()
optimizer.zero_grad()
loss.backward()
optimizer.step()
"""


def ran(shell: InteractiveShell, cell: str) -> Any:
    """What a cell gives; its exception is raised."""
    result = shell.run_cell(cell, store_history=True)
    result.raise_error()
    return result.result


def test_a_cell_is_a_step_in_the_users_own_variables(shell: InteractiveShell) -> None:
    ran(shell, TRAINING + "count = 0\nbefore = model.weight.detach().clone()")
    report = ran(shell, f"%%boundby {QUICK}\ncount += 1\n{STEP}")
    assert isinstance(report, boundby.Report)
    assert report.counts.matmul_flops == 2 * 2 * 5 * 6 * 4  # forward and the weight's gradient
    assert {"forward", "backward", "optimizer"} <= {row.name for row in report.counts.by_phase}
    assert ran(shell, "count") >= report.step.steps_timed + report.step.steps_watched
    assert ran(shell, "bool((model.weight != before).any())")
    assert ran(shell, "loss.requires_grad")


def test_lines_are_those_of_the_cell(shell: InteractiveShell) -> None:
    ran(shell, TRAINING)
    report = ran(shell, f"%%boundby {QUICK}\n\n\n{STEP}")
    codes = {one.line: one.code for one in report.lines}
    assert (codes[4], codes[6]) == ("loss = model(x).square().mean()", "loss.backward()")
    assert "In[2]:4" in str(report)


def test_a_statement_is_a_step_and_the_report_a_value(shell: InteractiveShell) -> None:
    ran(shell, TRAINING)
    ran(shell, f"report = %boundby {QUICK} model(x); y = x @ x.T")
    assert ran(shell, "report.counts.matmul_flops") == 2 * 5 * 6 * 4 + 2 * 5 * 6 * 5


def test_what_can_be_done_next_names_what_is_there(shell: InteractiveShell) -> None:
    ran(shell, TRAINING)
    report = ran(shell, f"%boundby {QUICK} model(x);")
    assert report.step.name == "model(x)"
    assert "boundby.try_remedies(lambda: model(x))" in str(report)
    report = ran(shell, f"%%boundby {QUICK}\n{STEP}")
    assert "boundby.try_remedies(step), where step is a function that runs this code" in " ".join(str(report).split())


def test_a_report_that_is_not_to_be_shown_is_a_value_all_the_same(shell: InteractiveShell) -> None:
    ran(shell, TRAINING)
    assert ran(shell, f"report = %boundby {QUICK} -q model(x)") is None
    assert ran(shell, "report.counts.matmul_flops") == 2 * 5 * 6 * 4
    assert ran(shell, f"%boundby {QUICK} -q model(x)") is None
    assert ran(shell, f"%%boundby {QUICK} -q\nmodel(x)") is None
    assert ran(shell, f"%boundby {QUICK} -q model(x)\n1 + 1") == 2


def test_setup_runs_once(shell: InteractiveShell) -> None:
    ran(shell, "import torch\ncalls = []")
    ran(shell, f"%%boundby {QUICK} calls.append('setup'); z = torch.ones(3)\nz + 1\n")
    assert ran(shell, "calls") == ["setup"]


def test_the_report_goes_to_a_variable_and_a_file(
    shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran(shell, "import torch\nz = torch.ones(3)")
    assert ran(shell, f"%boundby {QUICK} -q -o kept -o 'my report.json' z + 1") is None
    assert ran(shell, "kept.counts.ops") == 1
    written = json.loads((tmp_path / "my report.json").read_text())
    assert written["lines"][0]["path"].startswith("In[")
    with pytest.raises(Exception, match="output-exists"):
        ran(shell, f"%boundby {QUICK} -o 'my report.json' z + 1")
    ran(shell, f"%boundby {QUICK} --force -o 'my report.json' z + 1")


def test_the_users_exception_is_told_as_their_own(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    ran(shell, "import torch\nturns = iter(range(3))")
    with pytest.raises(StopIteration):
        ran(shell, f"%%boundby {QUICK}\nx = torch.ones(2)\nnext(turns)\n")
    told = capsys.readouterr().out
    assert "next(turns)" in told
    assert "api.py" not in told
    assert "session.py" not in told


def test_a_mistake_is_one_line(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("%boundby", "%boundby --nonsense 1", "%boundby -o report.xls 1", "%boundby --watch 1 2 + 2"):
        capsys.readouterr()
        assert not shell.run_cell(line).success
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1), out
        assert err.startswith("UsageError: ")


def test_a_syntax_error_is_the_users(shell: InteractiveShell) -> None:
    with pytest.raises(SyntaxError):
        ran(shell, "%%boundby\nif :\n")


def test_nothing_watches_afterwards(shell: InteractiveShell) -> None:
    import torch

    from boundby.capture import marks

    ran(shell, "import torch")
    shell.run_cell(f"%%boundby {QUICK}\ntorch.ones(3) + 1\n1 / 0\n")
    assert not marks.is_listened_to()
    assert torch._C._len_torch_dispatch_stack() == 0


def test_the_magic_has_its_help(shell: InteractiveShell) -> None:
    told = shell.find_line_magic("boundby").__doc__ or ""
    assert "--steps N" in told


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("", MagicLine()),
        ("f(x, 'a  b')", MagicLine(code="f(x, 'a  b')")),
        ("--steps 5 --watch=4 --warmup 0 f(-x)", MagicLine(steps=5, watch=4, warmup=0, code="f(-x)")),
        ("-o kept f()", MagicLine(variable="kept", code="f()")),
        ("-o a.html --force -o kept f()", MagicLine(file=Path("a.html"), force=True, variable="kept", code="f()")),
        ("-o 'my file.md' -q", MagicLine(file=Path("my file.md"), quiet=True)),
        ("-q -- -x - y", MagicLine(quiet=True, code="-x - y")),
        ("-o lambda.json x", MagicLine(file=Path("lambda.json"), code="x")),
        ("  x -o y", MagicLine(code="x -o y")),
    ],
)
def test_options_come_first_and_the_rest_is_code(line: str, read: MagicLine) -> None:
    assert read_magic_line(line) == read


@pytest.mark.parametrize("line", ["--steps", "--steps x", "--steps -3 f()", "-o", "-x", "--quiet=1", "-o ''"])
def test_options_that_are_none_are_refused(line: str) -> None:
    with pytest.raises(boundby.BoundbyError) as caught:
        read_magic_line(line)
    assert caught.value.code == "magic-option"


@given(st.text(max_size=30))
def test_any_line_is_read_or_refused(text: str) -> None:
    try:
        read = read_magic_line(f"-q -- {text}")
    except boundby.BoundbyError:
        pytest.fail("code after -- was taken for an option")
    assert read == MagicLine(quiet=True, code=text.strip())


def test_steps_marked_within_a_cell_are_the_steps(shell: InteractiveShell) -> None:
    ran(shell, TRAINING + "import boundby")
    report = ran(shell, f"%%boundby {QUICK}\nfor turn in boundby.step(range(20)):\n    y = model(x)\n")
    assert report.counts.matmul_flops == 2 * 5 * 6 * 4


def test_a_training_that_a_cell_leaves_by_an_exception_is_watched_no_longer(shell: InteractiveShell) -> None:
    from boundby.capture import marks

    begin = "watch.training_begins()\nwatch.step_begins()\n"
    ran(
        shell,
        f"from boundby.integrations.training_watch import TrainingWatch\nwatch = TrainingWatch(show=False)\n{begin}",
    )
    assert not marks.is_listened_to()
    with pytest.raises(ZeroDivisionError):
        ran(shell, f"{begin}1 / 0")
    assert not marks.is_listened_to()
    assert ran(shell, "watch.report") is None


def test_a_training_in_a_cell_shows_its_report_below(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    ran(shell, TRAINING + "from boundby.integrations.training_watch import TrainingWatch")
    step = "".join(f"    {line}\n" for line in STEP.splitlines())
    training = f"""
watch = TrainingWatch(warmup=1, steps=3, watch=2)
watch.training_begins()
watch.step_begins()
for turn in range(30):
{step}
    if not watch.step_ends():
        watch.step_begins()
watch.training_ends()
"""
    ran(shell, training)
    assert "a training step on 1 thread" in capsys.readouterr().out
    assert ran(shell, "watch.report.step.kind") == "training"
