"""Trains a network of two units a layer on single rows: every op is tiny, in all three phases."""

import time

import torch
from torch import nn
from workload import STEPS, tell


def main() -> None:
    torch.manual_seed(0)
    layers = [layer for _ in range(10) for layer in (nn.Linear(2, 2), nn.Tanh())]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
    begin = time.perf_counter()
    for _ in range(5 * STEPS):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    tell({"overhead": (time.perf_counter() - begin) / (5 * STEPS)})


if __name__ == "__main__":
    main()
