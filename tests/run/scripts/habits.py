"""Training loops with habits that cost time; the first argument names one."""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
WIDTH = 64
STEPS = 60
history: list[torch.Tensor] = []


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, WIDTH, padding_idx=0)
        self.mixing = nn.Parameter(torch.randn(8, WIDTH, WIDTH) * 0.1)
        self.out = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        rows = self.embedding(ids)
        mixed = rows[:, None] @ self.mixing
        return self.out(mixed.mean(1))


def stepping(model: nn.Module, optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def plain() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        stepping(model, optimizer, model(torch.randn(128, WIDTH)).square().mean())


def wasteful() -> None:
    weight = torch.from_numpy(np.random.default_rng(0).random((WIDTH, WIDTH)))
    model = Tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(STEPS):
        ids = torch.randint(1, 100, (32, 64))
        ids[:, 32:] = 0
        out = model(ids)
        target = (out.detach() @ weight.to(out)).tanh().double()
        target = (target @ weight).tanh()
        positive = 0
        row = out[0, :8].detach().flatten()
        for index in range(len(row)):
            if row[index] > 0:
                positive += 1
        for part in range(400):
            print("step", step, "part", part, "positive", positive, flush=True)
        stepping(model, optimizer, (out - target).square().mean())


def growing() -> None:
    model = nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    outputs = []
    for _ in range(STEPS):
        out = model(torch.randn(1024, WIDTH))
        outputs.append(out.detach())
        mean = torch.cat(outputs).tanh().mean()
        loss = (out - mean).square().mean()
        history.append(loss)
        stepping(model, optimizer, loss)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
