"""Trains from a Dataset whose items are slow to make, in the main process.

    python input.py [ITERATIONS]

The truth is read from the clock around each fetch. What the step does besides is one matrix product and its gradient.
"""

import statistics
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from workload import STEPS, tell

WIDTH, BATCH = 768, 768


class Slow(Dataset):
    """Each batch of rows is one item, made by a loop in Python."""

    def __init__(self, iterations: int) -> None:
        self.iterations = iterations
        self.rows = torch.randn(BATCH, WIDTH)

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, i: int) -> torch.Tensor:
        total = 0.0
        for k in range(self.iterations):
            total += (k % 7) * 0.5
        return self.rows + 0.0 * total


def main() -> None:
    torch.manual_seed(0)
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 1_500_000
    model = nn.Linear(WIDTH, WIDTH, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    waits, works = [], []
    begin = time.perf_counter()
    for x in DataLoader(Slow(iterations), batch_size=None):
        fetched = time.perf_counter()
        optimizer.zero_grad(set_to_none=False)
        model(x).backward(x)
        optimizer.step()
        end = time.perf_counter()
        waits.append(fetched - begin)
        works.append(end - fetched)
        begin = end
    # Of the work, the two products are the known part; the rest is small and told apart by the clock as well.
    grad = torch.empty(WIDTH, WIDTH)
    products = []
    for _ in range(15):
        begin = time.perf_counter()
        torch.mm(x, model.weight.detach().T, out=grad)
        torch.mm(x.T, x, out=grad)
        products.append(time.perf_counter() - begin)
    work, matmul = statistics.median(works[5:]), statistics.median(products)
    tell({"input": statistics.median(waits[5:]), "matmul": min(work, matmul), "rest": max(0.0, work - matmul)})


if __name__ == "__main__":
    main()
