"""The page of a real run, the same made of its data, and what leaves out the script's own text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from black_box import QUICK, Outcome, Runner, checked, words

SECRET = "zebra"
SCRIPT = """
import torch


class ZebraNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.zebra_hidden = torch.nn.Linear(32, 64)
        self.zebra_head = torch.nn.Linear(64, 8)

    def forward(self, zebra_batch):
        return self.zebra_head(torch.tanh(self.zebra_hidden(zebra_batch)))


torch.manual_seed(0)
net = ZebraNet()
optimizer = torch.optim.Adam(net.parameters())
for step in range(24):
    optimizer.zero_grad()
    loss = net(torch.randn(16, 32)).square().mean()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where runs are started. Beside the script lie files called as the libraries that write pages."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "zebra_train.py").write_text(SCRIPT)
    for name in ("bokeh", "jinja2", "rich"):
        (folder / "scripts" / f"{name}.py").write_text("raise SystemExit('not the library')\n")
    return folder


@pytest.fixture(scope="module")
def done(runner: Runner, folder: Path) -> Outcome:
    return runner.boundby("run", *QUICK, "--json", "-o", "page.html", "scripts/zebra_train.py", cwd=folder)


def test_a_run_writes_a_page_of_its_own(done: Outcome, folder: Path) -> None:
    assert done.status == 0, done.stderr
    assert "Wrote page.html" in done.stderr
    report = checked(json.loads(done.text))
    page = (folder / "page.html").read_text()
    assert len(page) < 1_500_000
    costliest = max(report["lines"], key=lambda line: line["time_s"])
    place = f"scripts/zebra_train.py:{costliest['line']}"
    for part in (report["verdict"]["sentence"], place, "zebra_hidden", "One step along time"):
        assert part in page
    assert "def forward(self, zebra_batch):" in page, "a line beside a costly one"
    assert str(folder) not in page, "paths below the working folder are relative to it"
    timeline = report["timeline"]
    assert sum(one["ops"] for one in timeline) == report["counts"]["ops"]
    assert {"forward", "backward", "optimizer"} <= {one["phase"] for one in timeline}


def test_what_is_confidential_holds_nothing_of_the_script(runner: Runner, done: Outcome, folder: Path) -> None:
    assert SECRET in done.text.lower()
    shown = runner.boundby("show", "-", "--json", "--confidential", "-o", "p.html", cwd=folder, stdin=done.stdout)
    assert shown.status == 0, shown.stderr
    made = runner.boundby("report", "-", "--confidential", "-o", "p.md", cwd=folder, stdin=done.stdout)
    assert made.status == 0, made.stderr
    private = checked(json.loads(shown.text))
    assert private["split"] == json.loads(done.text)["split"]
    for text in (shown.text, (folder / "p.html").read_text(), (folder / "p.md").read_text()):
        assert SECRET not in text.lower()
        assert str(folder) not in text
        assert "file 1" in text


def test_what_cannot_be_written_is_told_before_the_script_runs(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "marks.py").write_text("open('ran', 'w')\n")
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util\n"
        "found = util.find_spec\n"
        "util.find_spec = lambda name, package=None: None if name == 'bokeh' else found(name, package)\n"
    )
    without_plots = runner.environment(PYTHONPATH=str(tmp_path))
    for command in ("run", "try"):
        picture = runner.boundby(command, "-o", "page.pdf", "marks.py", cwd=tmp_path)
        assert (picture.status, picture.stdout) == (1, b"")
        assert "supported: .json, .html, .md. [output-format]" in words(picture.stderr)
        page = runner.boundby(command, "-o", "page.html", "marks.py", cwd=tmp_path, environment=without_plots)
        assert (page.status, page.stdout) == (1, b"")
        assert "[no-plots]" in page.stderr
        assert "pip install" in words(page.stderr)
    assert not (tmp_path / "ran").exists()


def test_confidential_is_refused_for_what_is_no_report(runner: Runner, tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    file.write_text('{"schema": "boundby.machine", "version": 1}')
    done = runner.boundby("show", str(file), "--confidential")
    assert done.status == 2
    assert "--confidential is for reports" in words(done.stderr)
