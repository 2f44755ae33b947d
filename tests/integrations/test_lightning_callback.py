"""The Lightning callback on a tiny module."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import lightning
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from boundby.integrations.lightning import BoundbyCallback

QUICK = {"warmup": 2, "steps": 5, "watch": 4, "show": False}


class Regression(lightning.LightningModule):
    fails_at = -1

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))
        self.losses: list[str] = []

    def training_step(self, batch: Any, batch_index: int) -> torch.Tensor:
        if len(self.losses) == self.fails_at:
            raise RuntimeError("out of luck")
        loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.losses.append(loss.item().hex())
        return loss

    def validation_step(self, batch: Any, batch_index: int) -> torch.Tensor:
        return nn.functional.mse_loss(self.net(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-2)


class TwoOptimizers(Regression):
    """Steps two optimizers a batch by hand, as GANs do."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_index: int) -> None:  # type: ignore[override]
        for optimizer in self.optimizers():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
            self.manual_backward(loss)
            optimizer.step()
        self.losses.append(loss.item().hex())

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(layer.parameters(), lr=1e-2) for layer in (self.net[0], self.net[3])]


def fit(module: Regression, *callbacks: Any, **options: Any) -> Regression:
    torch.manual_seed(0)
    for weights in module.parameters():
        nn.init.normal_(weights)
    x = torch.randn(160, 10)
    rows = TensorDataset(x, x.sum(1, keepdim=True))
    given: dict[str, Any] = {
        "max_epochs": 3,
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "callbacks": list(callbacks),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
        trainer = lightning.Trainer(**(given | options))
        trainer.fit(module, DataLoader(rows, batch_size=8, shuffle=True), DataLoader(rows, batch_size=40))
    return module


def test_a_training_is_explained_and_goes_on_as_without_it() -> None:
    callback = BoundbyCallback(**QUICK)
    assert fit(Regression()).losses == fit(Regression(), callback).losses
    report = callback.report
    assert report is not None
    assert report.step.kind == "training"
    assert 2 <= report.step.steps_watched <= 4
    assert {"forward", "backward", "optimizer"} <= {row.name for row in report.counts.by_phase}
    forward = 2 * 8 * (10 * 16 + 16)
    assert report.counts.matmul_flops == 2 * forward + 2 * 8 * 16  # the first layer's input needs no gradient


def test_an_accumulated_step_is_one_step() -> None:
    callback, accumulating = BoundbyCallback(**QUICK), BoundbyCallback(**QUICK)
    fit(Regression(), callback)
    fit(Regression(), accumulating, accumulate_grad_batches=4, max_epochs=10)
    assert callback.report is not None
    assert accumulating.report is not None
    assert accumulating.report.counts.matmul_flops == 4 * callback.report.counts.matmul_flops


def test_two_optimizers_a_batch_are_one_step() -> None:
    callback = BoundbyCallback(**QUICK)
    fit(TwoOptimizers(), callback)
    assert callback.report is not None
    assert {row.name: row.ops for row in callback.report.counts.by_phase}["optimizer"] > 0
    assert "steps-vary" not in {one.code for one in callback.report.findings}


def test_validation_belongs_to_no_step() -> None:
    callback = BoundbyCallback(**QUICK)
    fit(Regression(), callback, val_check_interval=3)
    assert callback.report is not None
    assert "steps-vary" not in {one.code for one in callback.report.findings}


def test_stop_ends_the_training_once_enough_was_seen() -> None:
    callback = BoundbyCallback(**QUICK, stop=True)
    assert len(fit(Regression(), callback).losses) < 60
    assert callback.report is not None


def test_a_training_that_raises_leaves_nothing_behind() -> None:
    module, callback = Regression(), BoundbyCallback(**QUICK)
    module.fails_at = 6
    with pytest.raises(RuntimeError, match="out of luck"):
        fit(module, callback)
    assert callback.report is None


def test_the_report_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    callback = BoundbyCallback(**(QUICK | {"show": True}))
    fit(Regression(), callback)
    assert callback.report is not None
    assert "a training step on 1 thread" in capsys.readouterr().err
