"""Trains a small vision model in a framework of its own: callbacks, accumulation, validation, checkpoints."""

from __future__ import annotations

import dataclasses
import io
import sys
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclasses.dataclass
class State:
    epoch: int = 0
    updates: int = 0
    loss: float = 0.0
    best: float = float("inf")


class Callback:
    def on_update(self, trainer: Trainer) -> None: ...

    def on_epoch_end(self, trainer: Trainer) -> None: ...


class Progress(Callback):
    def on_update(self, trainer: Trainer) -> None:
        if trainer.state.updates % 15 == 0:
            rate = trainer.schedule.get_last_lr()[0]
            print(f"update {trainer.state.updates}: loss {trainer.state.loss:.4f}, rate {rate:.2e}")


class KeepBest(Callback):
    def on_epoch_end(self, trainer: Trainer) -> None:
        loss = trainer.validate()
        print(f"epoch {trainer.state.epoch}: validation {loss:.4f}")
        if loss < trainer.state.best:
            trainer.state.best = loss
            torch.save(trainer.model.state_dict(), io.BytesIO())


class Average(Callback):
    """Keeps a moving average of the weights."""

    def __init__(self, model: nn.Module) -> None:
        self.shadow = [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def on_update(self, trainer: Trainer) -> None:
        torch._foreach_lerp_(self.shadow, [p.detach() for p in trainer.model.parameters()], 0.1)


class Trainer:
    def __init__(self, model: nn.Module, train: DataLoader, valid: DataLoader, epochs: int, accumulate: int) -> None:
        self.model, self.train_loader, self.valid_loader = model, train, valid
        self.epochs, self.accumulate = epochs, accumulate
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
        updates = epochs * len(train) // accumulate
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, 2e-3, total_steps=updates + 1)
        self.callbacks: list[Callback] = [Progress(), KeepBest(), Average(model)]
        self.state = State()
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.05)

    def call(self, name: str) -> None:
        for callback in self.callbacks:
            getattr(callback, name)(self)

    def fit(self) -> None:
        for epoch in range(1, self.epochs + 1):
            self.state.epoch = epoch
            self.model.train()
            for index, (x, y) in enumerate(self.train_loader):
                loss = self.criterion(self.model(x), y)
                (loss / self.accumulate).backward()
                if (index + 1) % self.accumulate == 0:
                    nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                    self.optimizer.step()
                    self.schedule.step()
                    self.optimizer.zero_grad(set_to_none=True)
                    self.state.updates += 1
                    self.state.loss = loss.item()
                    self.call("on_update")
            self.call("on_epoch_end")

    @torch.no_grad()
    def validate(self) -> float:
        self.model.eval()
        losses = [self.criterion(self.model(x), y).item() for x, y in self.valid_loader]
        return sum(losses) / len(losses)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.GroupNorm(4, width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.body(x))


def images(n: int) -> Iterator[torch.Tensor]:
    x = torch.randn(n, 3, 16, 16)
    yield x
    yield (x.mean((2, 3)).argmax(1) + 3 * (x.std((1, 2, 3)) > 1)).long()


def main() -> None:
    torch.manual_seed(11)
    model = nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1),
        Block(24),
        nn.MaxPool2d(2),
        Block(24),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 6),
    )
    train = DataLoader(TensorDataset(*images(960)), batch_size=16, shuffle=True, drop_last=True)
    valid = DataLoader(TensorDataset(*images(128)), batch_size=64)
    # Its one argument is a number of updates, in place of three epochs.
    epochs = int(sys.argv[1]) * 3 // len(train) if len(sys.argv) > 1 else 3
    trainer = Trainer(model, train, valid, epochs=epochs, accumulate=3)
    trainer.fit()
    print("updates", trainer.state.updates)
    print("final loss", trainer.state.loss.hex())


if __name__ == "__main__":
    main()
