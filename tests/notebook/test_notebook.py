"""A notebook run by a kernel, as Jupyter runs it: what its cells show, as text and as HTML."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

# Ceilings are made up in the kernel, so that no test measures the machine.
PREPARE = """
import torch
from dataclasses import replace
from boundby.machine import ensure
from boundby.remedies import ranking
from boundby.results.machine import Machine, MachineDescription

machine = Machine(
    description=MachineDescription(
        cpu="made up", usable_cores=1, logical_cores=1, memory_bytes=None, memory_limit_bytes=None,
        os="Linux", python="3", torch=None, threads=1, affinity=None,
    ),
    ceilings=(),
)
ensure.ensure_machine = lambda **_: machine
ranking.with_predictions = lambda report, facts: report
torch.set_num_threads(1)
model = torch.nn.Linear(6, 4)
x = torch.randn(5, 6)
"""
CELLS = {
    "prepare": PREPARE,
    "load": "%load_ext boundby",
    "cell": "%%boundby --warmup 1 --steps 3 --watch 2 -o kept\nloss = model(x).square().mean()\nloss.backward()",
    "explained": "import boundby\nboundby.explain(lambda: model(x), warmup=1, steps=3, watch=2, machine=machine)",
    "printed": "print(kept)",
    "machine": "machine",
    "left": "1 / 0",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What each cell showed."""
    folder: Path = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS.values()])
    client = NotebookClient(notebook, timeout=120, allow_errors=True, resources={"metadata": {"path": str(folder)}})
    client.execute()
    return dict(zip(CELLS, (cell.outputs for cell in notebook.cells), strict=True))


def data_of(outputs: list[Any]) -> dict[str, str]:
    (shown,) = (one for one in outputs if one.output_type == "execute_result")
    return dict(shown.data)


@pytest.mark.parametrize("cell", ["cell", "explained", "machine"])
def test_results_show_a_frame_with_a_twin_in_plain_text(outputs: dict[str, list[Any]], cell: str) -> None:
    data = data_of(outputs[cell])
    assert sorted(data) == ["text/html", "text/plain"]
    assert data["text/html"].startswith("<iframe srcdoc=")
    assert "<script" not in data["text/html"]
    assert "<" not in re.sub(r"^<iframe [^<>]*>|</iframe>\s*$", "", data["text/html"])


def test_lines_are_named_by_their_cells(outputs: dict[str, list[Any]]) -> None:
    for kind, text in data_of(outputs["cell"]).items():
        assert "In[3]:2" in text, kind
        assert "ipykernel" not in text
    assert "In[4]:2" in data_of(outputs["explained"])["text/plain"]


def test_print_shows_the_same_words(outputs: dict[str, list[Any]]) -> None:
    (printed,) = outputs["printed"]
    assert printed.text.rstrip("\n") == data_of(outputs["cell"])["text/plain"]


def test_only_the_last_cell_failed(outputs: dict[str, list[Any]]) -> None:
    failed = [name for name, shown in outputs.items() if any(one.output_type == "error" for one in shown)]
    assert failed == ["left"]
