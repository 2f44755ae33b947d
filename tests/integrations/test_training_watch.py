"""What goes wrong in boundby ends no training."""

from __future__ import annotations

import pytest
import torch

from boundby.capture.session import Session
from boundby.integrations.training_watch import TrainingWatch


@pytest.mark.parametrize("ends_early", [False, True])
def test_a_trace_that_cannot_be_made_is_told_and_ends_no_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ends_early: bool
) -> None:
    def broken(self: Session) -> None:
        raise AttributeError("a defect of boundby's")

    monkeypatch.delenv("BOUNDBY_DEBUG", raising=False)
    monkeypatch.setattr(Session, "trace", broken)
    watch = TrainingWatch(warmup=2, steps=3, watch=2, show=False)
    model = torch.nn.Linear(8, 8)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    watch.training_begins()
    steps = 0
    for _ in range(8 if ends_early else 60):
        watch.step_begins()
        sgd.zero_grad()
        model(torch.ones(2, 8)).sum().backward()
        sgd.step()
        watch.step_ends()
        steps += 1
    watch.training_ends()
    assert steps == (8 if ends_early else 60)
    assert watch.report is None
    assert capsys.readouterr().err.count("AttributeError: a defect of boundby's") == 1
