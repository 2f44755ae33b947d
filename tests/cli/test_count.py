"""`boundby count`: what it prints, writes and refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from boundby.cli.main import main
from boundby.results.count_file import decode_counts

MODELS = """
import torch
from torch import nn

VALUE = 3
net = nn.Linear(2, 2)


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4)

    def forward(self, x, twice=False):
        out = self.second(self.first(x).relu())
        return out + out if twice else out


def make():
    print("building")
    return Pair(), torch.zeros(3, 8)


def keywords():
    return Pair(), {"x": torch.zeros(3, 8), "twice": True}


def both():
    return Pair(), (torch.zeros(3, 8),), {"twice": True}


def training():
    model = Pair()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        model(torch.zeros(3, 8)).sum().backward()
        optimizer.step()

    return step


def with_loss():
    model = Pair()
    return (lambda x: {"logits": model(x), "loss": model(x).mean()}), torch.zeros(3, 8)


def meta():
    with torch.device("meta"):
        return nn.LSTM(8, 16), torch.zeros(5, 3, 8)


def huge():
    return nn.Linear(10**6, 10**6), torch.zeros(1, 10**6)


def frozen():
    return Pair().requires_grad_(False), torch.zeros(3, 8)


def only_module():
    return Pair()


def nothing():
    pass


def a_number():
    return 3, 4


def needs(x, y=1):
    return x


def asks():
    with torch.device("meta"):
        model, x = Pair(), torch.zeros(3, 8)
    return lambda: model(x).sum().item()


def wrong_sizes():
    return Pair(), torch.zeros(3, 9)


class Home:
    @staticmethod
    def build():
        return make()
"""


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with the models in it; what loading them leaves in this process is taken back."""
    (tmp_path / "counted_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(("counted_models", "_counted_")):
            del sys.modules[name]


@pytest.fixture
def count(folder: Path, capsys: pytest.CaptureFixture[str]) -> object:
    def run(*args: str) -> Done:
        with pytest.raises(SystemExit) as ended:
            main(["count", *args])
        out, err = capsys.readouterr()
        return Done(int(ended.value.code or 0), out, err)

    return run


def test_totals_and_tree(count) -> None:
    done = count("counted_models.py")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        "building",
        "counted_models.py:make, one call: 1.15 kFLOP of matrix products, 1.72 KiB moved,",
        "288 B saved for backward.",
        "",
        "Products   1.15 kFLOP",
        "Pointwise  48 FLOP",
        "Bytes      1.30 KiB read, 432 B written",
        "Saved      288 B for backward, of it 96 B inputs",
        "Ops        6 ops, 3 launches (ops that do work)",
        "Params     212 in the modules that were called, each once",
        "",
        "                 calls  params  matmul     bytes  saved",
        "Modules                           FLOP     moved  bytes",
        "Pair                 1     212  1.15 k  1.72 KiB  288 B",
        "├ first Linear       1     144     768     864 B   96 B",
        "├ second Linear      1      68     384     512 B    0 B",
        "└ (its own ops)      -       -       0     384 B  192 B",
        "",
        "Next     boundby count --backward counted_models.py:make",
    ]


@pytest.mark.parametrize(
    "named",
    [
        ["counted_models.py:make"],
        ["counted_models.py:"],
        ["-m", "counted_models:make"],
        ["-m", "counted_models"],
        ["-m", "counted_models:Home.build"],
        ["counted_models.py:keywords"],
        ["counted_models.py:both"],
    ],
    ids=" ".join,
)
def test_ways_to_name_and_to_return_a_model(count, named: list[str]) -> None:
    done = count("--json", *named)
    assert done.status == 0
    assert json.loads(done.out)["counts"]["matmul_flops"] == 2 * 3 * (8 * 16 + 16 * 4)


def test_backward(count) -> None:
    done = count("--json", "--backward", "counted_models.py:make")
    counts = decode_counts(done.out.encode()).counts
    forward = 2 * 3 * (8 * 16 + 16 * 4)
    # The input needs no gradient.
    assert counts.matmul_flops == 3 * forward - 2 * 3 * 8 * 16
    assert {one.name: one.matmul_flops for one in counts.by_phase}["forward"] == forward
    assert counts.saved_input_bytes == 3 * 8 * 4


def test_a_whole_training_step(count) -> None:
    done = count("--json", "counted_models.py:training")
    phases = {one["name"] for one in json.loads(done.out)["counts"]["by_phase"]}
    assert phases == {"forward", "backward", "optimizer", "other"}  # the inputs are made outside of modules


def test_the_loss_of_the_result_is_taken(count) -> None:
    done = count("--json", "--backward", "counted_models.py:with_loss")
    ops = {one["name"]: one["ops"] for one in json.loads(done.out)["counts"]["by_op"]}
    assert ops["aten::mean"] == 1
    assert ops["aten::sum"] == 2  # the gradients of the two biases, and no sum of the logits


def test_meta_says_what_the_device_runs(count) -> None:
    done = count("counted_models.py:meta")
    assert "Device     meta" in done.out
    assert "[meta-differs]" in done.out
    assert "mkldnn_rnn_layer" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_fake_takes_no_memory(count) -> None:
    done = count("--fake", "--backward", "counted_models.py:huge")
    assert done.status == 0
    assert "1,000,001,000,000 in the modules" in done.out
    assert "Device     fake cpu" in done.out
    assert done.out.splitlines()[-1] == "Next     boundby count --fake --backward -o counts.json counted_models.py:huge"


def test_depth(count) -> None:
    done = count("--depth", "1", "counted_models.py")
    assert [line.split()[0] for line in done.out.splitlines() if "Pair" in line or "Linear" in line] == ["Pair"]


def test_json_is_alone_on_standard_output(count) -> None:
    done = count("--json", "counted_models.py")
    assert json.loads(done.out)["schema"] == "boundby.counts"
    assert done.err == "building\n"


def test_a_file_is_written_once(count, folder: Path) -> None:
    done = count("-o", "c.json", "counted_models.py")
    assert "Wrote" in done.err
    assert "boundby count --backward counted_models.py:make" in done.out
    assert "Next     boundby show c2.json" in count("--backward", "-o", "c2.json", "counted_models.py").out
    kept = decode_counts((folder / "c.json").read_bytes())
    assert (kept.target, kept.backward, kept.fake) == ("counted_models.py:make", False, False)
    assert kept.counts.tree.children[0].children[0].path == "first"
    again = count("-o", "c.json", "counted_models.py")
    assert (again.status, again.out, "[output-exists]" in again.err) == (1, "", True)
    assert count("-o", "c.json", "--force", "counted_models.py").status == 0


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        ([], 2, "Name one function"),
        (["-m", "counted_models:make", "counted_models.py"], 2, "Name one function"),
        (["nofile.py:make"], 2, "there is no file 'nofile.py' [no-such-target]"),
        (["counted_models:make"], 2, "boundby count -m counted_models:make"),
        (["-m", "counted_models.py:make"], 2, "A file is given without -m"),
        (["-m", "no_such_package.models:make"], 2, "there is no module 'no_such_package' [no-such-target]"),
        (["counted_models.py:mak"], 2, "It has: make"),
        (["-m", "counted_models:Home.biuld"], 2, "It has: build"),
        (["counted_models.py:VALUE"], 2, "an object of type int, not a function [bad-target]"),
        (["counted_models.py:net"], 2, "its inputs are not known [bad-target]"),
        (["counted_models.py:only_module"], 2, "returned a module without inputs [bad-target]"),
        (["counted_models.py:nothing"], 2, "returned nothing [bad-target]"),
        (["counted_models.py:a_number"], 2, "returned a tuple of 2 that begins with int [bad-target]"),
        (["counted_models.py:needs"], 2, "needs arguments: x [bad-target]"),
        (["--backward", "counted_models.py:frozen"], 1, "[no-gradient]"),
        (["counted_models.py:asks"], 1, "[values-needed]"),
        (["-o", "c.txt", "counted_models.py"], 1, "[output-format]"),
        (["--depth", "0", "counted_models.py"], 2, "--depth"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else None,
)
def test_mistakes_are_told(count, args: list[str], status: int, said: str) -> None:
    done = count(*args)
    assert done.status == status
    assert said in done.err
    assert ("Traceback" in done.err) == (said == "[values-needed]")


def test_the_users_own_error_comes_through_with_its_own_frames(count) -> None:
    done = count("counted_models.py:wrong_sizes")
    assert done.status == 1
    shown, _, told = done.err.partition("\nboundby: ")
    assert told == "the named code raised RuntimeError [target-failed]\n"
    assert shown.splitlines()[-1].startswith("RuntimeError: mat1 and mat2 shapes cannot be multiplied")
    assert "counted_models.py" in shown
    assert "boundby" not in shown


def test_an_import_that_fails_inside_the_module_is_its_own(count, folder: Path) -> None:
    (folder / "counted_models_broken.py").write_text("import no_such_library\n")
    done = count("-m", "counted_models_broken:make")
    told = done.err.partition("\nboundby: ")[0].splitlines()[-1]
    assert (done.status, told) == (1, "ModuleNotFoundError: No module named 'no_such_library'")


def test_in_a_real_process_without_unicode(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "boundby", "count", "-m", "counted_models:make"],
        capture_output=True,
        timeout=120,
        check=False,
        env=os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "40"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode("ascii").splitlines()
    assert max(map(len, lines)) <= 40
    assert "|- first Linear" in done.stdout.decode()


def test_the_users_file_sees_its_own_arguments_alone(count, tmp_path) -> None:
    file = tmp_path / "parses.py"
    file.write_text(
        "import argparse, sys, torch\n"
        "loaded = list(sys.argv)\n"
        "argparse.ArgumentParser().parse_args()\n"
        "def make():\n"
        "    assert sys.argv[1:] == [], sys.argv\n"
        "    assert loaded == [__file__], loaded\n"
        "    return torch.nn.Linear(4, 4), torch.zeros(2, 4)\n"
    )
    done = count(f"{file}:make", "--backward")
    assert done.status == 0, done.err
