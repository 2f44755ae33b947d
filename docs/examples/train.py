"""Learns to tell which of ten noisy waves a row of samples was drawn from."""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

WAVES, SAMPLES, WIDTH = 10, 64, 128


class Block(nn.Module):
    """A residual layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.wide = nn.Linear(WIDTH, 2 * WIDTH)
        self.narrow = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm(x))))


def make_rows(rows: int) -> TensorDataset:
    """Sines of ten frequencies, each with a phase of its own and noise."""
    labels = torch.randint(WAVES, (rows,))
    time = torch.linspace(0, 6.283, SAMPLES)
    phase = 6.283 * torch.rand(rows, 1)
    return TensorDataset(torch.sin((1 + labels[:, None]) * time + phase) + 2 * torch.randn(rows, SAMPLES), labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=128)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    loader = DataLoader(make_rows(20_000), batch_size=arguments.batch, shuffle=True)
    model = nn.Sequential(nn.Linear(SAMPLES, WIDTH), *(Block() for _ in range(4)), nn.Linear(WIDTH, WAVES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    step, mean_loss = 0, 2.3
    while step < arguments.steps:
        for rows, labels in loader:
            loss = nn.functional.cross_entropy(model(rows), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mean_loss += 0.05 * (loss.item() - mean_loss)
            step += 1
            if step == arguments.steps:
                break
    print(f"loss after {step} steps: {mean_loss:.3f}")


if __name__ == "__main__":
    main()
