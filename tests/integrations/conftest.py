"""For tests of callbacks: no network, one thread, made-up ceilings, and predictions only where they are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator

# Before transformers is imported by a test.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch

from boundby.capture import marks
from boundby.machine import ensure
from boundby.remedies import ranking
from boundby.results.machine import Machine, MachineDescription

MACHINE = Machine(
    description=MachineDescription(
        cpu="made up",
        usable_cores=2,
        logical_cores=2,
        memory_bytes=None,
        memory_limit_bytes=None,
        os="Linux",
        python="3.11",
        torch=str(torch.__version__),
        threads=1,
        affinity=None,
    ),
    ceilings=(),
)


@pytest.fixture(autouse=True)
def _made_up(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ensure, "ensure_machine", lambda **_: MACHINE)
    if "predictions" not in request.fixturenames:  # their probes take a second or two
        monkeypatch.setattr(ranking, "with_predictions", lambda report, facts: report)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def predictions() -> None:
    """Asked for by a test that is to predict remedies, too."""


@pytest.fixture(autouse=True)
def _nobody_listens_after() -> Iterator[None]:
    yield
    left = marks.is_listened_to()
    marks.listen(None)
    assert not left
    assert torch._C._len_torch_dispatch_stack() == 0
