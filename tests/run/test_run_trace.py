"""`boundby run --trace`: the watched step as a file, beside the report and never in its place."""

from __future__ import annotations

import json
from pathlib import Path

from black_box import QUICK, Runner

SCRIPT = """
import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))
optimizer = torch.optim.Adam(net.parameters())
for step in range(24):
    optimizer.zero_grad()
    loss = net(torch.randn(16, 32)).square().mean()
    loss.backward()
    optimizer.step()
"""


def test_the_step_is_written_as_a_trace(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = runner.boundby("run", *QUICK, "--json", "--trace", "step.json", "train.py", cwd=tmp_path)
    assert done.status == 0, done.stderr
    assert "Wrote step.json" in done.stderr
    report = json.loads(done.stdout)
    slices = [one for one in json.loads((tmp_path / "step.json").read_text())["traceEvents"] if one["ph"] == "X"]
    ops = [one for one in slices if one["cat"] == "op"]
    assert len(ops) == report["counts"]["ops"]
    assert {one["name"] for one in slices if one["cat"] == "phase"} >= {"forward", "backward", "optimizer"}
    assert {one["name"] for one in slices if one["cat"] == "module"} >= {"0", "1", "2"}
    assert any(one["args"]["line"].startswith("train.py:") for one in ops)


def test_what_cannot_be_is_told_before_the_script_runs(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('ran')")
    for options in (("--trace", "a.json", "--confidential"), ("--trace", "a.json", "-o", "a.json")):
        done = runner.boundby("run", *options, "train.py", cwd=tmp_path)
        assert (done.status, done.text) == (2, "")
    done = runner.boundby("run", "--trace", "a.txt", "train.py", cwd=tmp_path)
    assert (done.status, done.text) == (1, "")
    assert "[output-format]" in done.stderr
