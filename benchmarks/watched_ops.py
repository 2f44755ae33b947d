"""A step of a given number of tiny ops, which times itself; watch_cost.py runs it.

python watched_ops.py OPS STEPS SIZES
"""

import json
import sys
import time

import torch
from torch import nn


class Step(nn.Module):
    """Runs OPS ops of four kinds over tensors of SIZES different sizes."""

    def __init__(self, ops: int, sizes: int) -> None:
        super().__init__()
        self.rounds = ops // (4 * sizes)
        self.tensors = [torch.ones(2 + i, 2) for i in range(sizes)]
        self.seconds: list[float] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        begin = time.perf_counter()
        for _ in range(self.rounds):
            for tensor in self.tensors:
                view = tensor.t()
                product = view.mul(0.5)
                product.add_(1.0)
                torch.sigmoid(product)
        self.seconds.append(time.perf_counter() - begin)
        return x


def main() -> None:
    ops, steps, sizes = (int(word) for word in sys.argv[1:])
    step = Step(ops, sizes)
    x = torch.zeros(1)
    with torch.no_grad():
        for _ in range(steps):
            x = step(x)
    print(json.dumps({"seconds": step.seconds, "ops": step.rounds * sizes * 4}))


if __name__ == "__main__":
    main()
