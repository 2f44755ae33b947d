"""The Hugging Face callback on a Trainer with a tiny BERT."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

import boundby
from boundby.capture.session import Session
from boundby.integrations.transformers import BoundbyCallback

QUICK = {"warmup": 2, "steps": 5, "watch": 4, "show": False}


class Rows(Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 4 * 30

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        ids = torch.arange(6)  # the same for all, as an embedding's cost is by distinct rows
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor(i % 2)}


class Losses(TrainerCallback):
    def __init__(self) -> None:
        self.steps = 0
        self.losses: list[str] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.steps += 1

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        self.losses += [float(logs["loss"]).hex()] if "loss" in logs else []


def train(folder: Path, *callbacks: TrainerCallback, **arguments: Any) -> tuple[Losses, str]:
    """What was logged, and a sum over the weights that training left."""
    set_seed(0)
    config = BertConfig(
        vocab_size=64,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=8,
    )
    model = BertForSequenceClassification(config)
    given: dict[str, Any] = {
        "per_device_train_batch_size": 4,
        "max_steps": 30,
        "logging_steps": 5,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
    }
    losses = Losses()
    Trainer(
        model,
        TrainingArguments(str(folder), **(given | arguments)),
        train_dataset=Rows(),
        eval_dataset=Rows(),
        callbacks=[losses, *callbacks],
    ).train()
    return losses, sum(float(weights.detach().double().sum()) for weights in model.parameters()).hex()


@pytest.mark.usefixtures("predictions")
def test_a_training_is_explained_and_goes_on_as_without_it(tmp_path: Path) -> None:
    page, trace = tmp_path / "report.json", tmp_path / "step.json"
    callback = BoundbyCallback(**QUICK, output=page, trace=trace)
    plain, weights = train(tmp_path)
    watched, weights_watched = train(tmp_path, callback)
    assert (plain.losses, weights) == (watched.losses, weights_watched)
    assert watched.steps == 30
    report = callback.report
    assert isinstance(report, boundby.Report)
    assert report.step.kind == "training"
    assert report.step.warmup_steps == 2
    assert 2 <= report.step.steps_watched <= 4
    assert 1 <= report.step.steps_timed <= 5
    phases = {row.name for row in report.counts.by_phase}
    assert {"forward", "backward", "optimizer"} <= phases
    assert json.loads(page.read_text())["counts"]["ops"] == report.counts.ops
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(event.get("cat") == "op" for event in events) == report.counts.ops


def test_an_accumulated_step_is_one_step(tmp_path: Path) -> None:
    callback, accumulating = BoundbyCallback(**QUICK), BoundbyCallback(**QUICK)
    train(tmp_path, callback)
    train(tmp_path, accumulating, gradient_accumulation_steps=2, per_device_train_batch_size=2)
    assert callback.report is not None
    assert accumulating.report is not None
    # Twice the forwards, each with half the rows.
    ratio = accumulating.report.counts.matmul_flops / callback.report.counts.matmul_flops
    assert ratio == pytest.approx(1.0, rel=0.02)
    assert accumulating.report.counts.ops > 1.4 * callback.report.counts.ops


def test_evaluation_belongs_to_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[bool] = []
    sessions: list[Session] = []
    arm = Session.arm

    def remembered(self: Session, **kwargs: Any) -> None:
        sessions.append(self)
        arm(self, **kwargs)

    class Evaluating(TrainerCallback):
        def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            recorder = sessions[0]._recorder
            inside.append(recorder is not None and recorder._active)

    monkeypatch.setattr(Session, "arm", remembered)
    callback = BoundbyCallback(**QUICK)
    train(tmp_path, callback, Evaluating(), eval_strategy="steps", eval_steps=4, max_steps=30, logging_steps=500)
    assert inside
    assert not any(inside)
    assert callback.report is not None
    assert "steps-vary" not in {one.code for one in callback.report.findings}


def test_stop_ends_the_training_once_enough_was_seen(tmp_path: Path) -> None:
    callback = BoundbyCallback(**QUICK, stop=True)
    losses, _ = train(tmp_path, callback)
    assert callback.report is not None
    assert losses.steps < 30


def test_too_few_steps_are_told_and_end_no_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    callback = BoundbyCallback()
    losses, _ = train(tmp_path, callback, max_steps=1)
    assert losses.steps == 1
    assert callback.report is None
    assert "boundby: too few steps" in capsys.readouterr().err


def test_a_training_that_raises_is_let_go_by_the_next(tmp_path: Path) -> None:
    class Failing(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 5:
                raise RuntimeError("out of luck")

    first, second = BoundbyCallback(**QUICK), BoundbyCallback(**QUICK)
    with pytest.raises(RuntimeError, match="out of luck"):
        train(tmp_path, first, Failing())
    train(tmp_path, second)
    assert first.report is None
    assert second.report is not None


def test_where_boundby_watches_already_the_callback_stands_aside(tmp_path: Path) -> None:
    from boundby.capture.schedule import Limits

    session = Session(limits=Limits(warmup=2, timed=3, watched=2))
    session.arm()
    callback = BoundbyCallback(**QUICK)
    try:
        train(tmp_path, callback)
    finally:
        session.disarm()
    trace = session.trace()
    assert trace is not None
    assert trace.kind == "training"
    assert callback.report is None


def test_a_file_that_cannot_be_written_is_told_before_the_training(tmp_path: Path) -> None:
    with pytest.raises(boundby.BoundbyError) as caught:
        BoundbyCallback(output=tmp_path / "report.xls")
    assert caught.value.code == "output-format"
