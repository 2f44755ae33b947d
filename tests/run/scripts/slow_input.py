"""Trains from input of the named kind, and prints what share of each step went into waiting for it."""

import sys
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH, STEPS, WIDTH = 4, 50, 512


class Sleeping(Dataset):
    def __len__(self):
        return BATCH * STEPS

    def __getitem__(self, i):
        time.sleep(0.003)
        return torch.zeros(WIDTH)


class Computing(Sleeping):
    def __getitem__(self, i):
        row = np.zeros(WIDTH, dtype=np.float32)
        for k in range(300):
            row[k % WIDTH] += float(np.sin(row[:16]).sum()) + k
        return torch.from_numpy(row)


class Ready(Sleeping):
    def __getitem__(self, i):
        return torch.zeros(WIDTH)


def host_code():
    """No DataLoader: plain Python that makes each batch."""
    for _ in range(STEPS):
        total = 0.0
        for k in range(60_000):
            total += k * 0.5
        yield torch.full((BATCH, WIDTH), total % 3)


SOURCES = {
    "sleeping": lambda: DataLoader(Sleeping(), batch_size=BATCH),
    "computing": lambda: DataLoader(Computing(), batch_size=BATCH),
    "host_code": host_code,
    "ready": lambda: DataLoader(Ready(), batch_size=BATCH),
}


def main():
    torch.manual_seed(0)
    heavy = 60 if sys.argv[1] == "ready" else 2
    model = nn.Sequential(*[layer for _ in range(heavy) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    shares = []
    last = time.perf_counter()
    for x in SOURCES[sys.argv[1]]():
        waited = time.perf_counter() - last
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        now = time.perf_counter()
        shares.append(waited / (now - last))
        last = now
    print(*shares)


if __name__ == "__main__":
    main()
