"""A tiny training loop for scripts whose interest lies elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


def train(steps: int, before_step: Callable[[int], None] | None = None, width: int = 8) -> float:
    """Train for ``steps`` steps and return the final loss; ``before_step(i)`` is called inside step i, from 1."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = torch.zeros(())
    for step in range(1, steps + 1):
        x = torch.randn(4, width)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        if before_step is not None:
            before_step(step)
        loss.backward()
        optimizer.step()
    return loss.item()
