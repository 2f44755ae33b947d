"""Steps whose split is known: parts that each have one possible bound, in proportions measured without boundby.

A workload is a module whose forward pass runs its parts one after the other. After the steps, the parts run again in
the same order with a clock read between them; those times are the truth, printed as one JSON line:
``{"truth": {"overhead": 0.51, "matmul": 0.49}, "step_s": 0.081}``.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import nn

STEPS = int(os.environ.get("KNOWN_TRUTH_STEPS", "40"))
TRUTH_ROUNDS = 15
STEP_S = 0.1
LARGE = 1 << 26
"""Elements of an array far larger than any last-level cache: 256 MiB of fp32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Work with one bound; ``run`` does the smallest amount of it."""

    share: str
    run: Callable[[], object]


def tiny_ops() -> Part:
    """One hundred ops on one element: nothing but the cost of an op."""
    x = torch.ones(1)

    def run() -> None:
        for _ in range(50):
            x.add_(1.0)
            x.sub_(1.0)

    return Part(share="overhead", run=run)


def large_matmul(dtype: torch.dtype = torch.float32, n: int = 768) -> Part:
    """A square product large enough to reach the rate of the largest, into a tensor that is there already."""
    a, b, out = torch.randn(n, n, dtype=dtype), torch.randn(n, n, dtype=dtype), torch.empty(n, n, dtype=dtype)
    return Part(share="matmul", run=lambda: torch.mm(a, b, out=out))


def streaming() -> Part:
    """An in-place multiply over an array far larger than the last-level cache."""
    x = torch.randn(LARGE)
    return Part(share="memory", run=lambda: x.mul_(-1.0))


def streaming_in_chunks() -> Part:
    """In-place multiplies over chunks that fit a cache, each cold again by the time its turn comes.

    Few enough that starting them is nothing: chunks of 4 MiB took 8 us each beyond one pass over the whole array.
    """
    chunks = torch.randn(LARGE).chunk(16)

    def run() -> None:
        for chunk in chunks:
            chunk.mul_(-1.0)

    return Part(share="memory", run=run)


def cosine_in_cache() -> Part:
    """The cosine of an array that stays in cache: the function, not its bytes nor its start, is what takes the time."""
    x = torch.randn(1 << 19)
    y = torch.empty_like(x)
    return Part(share="pointwise", run=lambda: torch.cos(x, out=y))


def cosine_of_large() -> Part:
    """The cosine of the large array, where it costs more than the bytes do."""
    x = torch.randn(LARGE)
    y = torch.zeros_like(x)
    return Part(share="pointwise", run=lambda: torch.cos(x, out=y))


class Steps(nn.Module):
    """Runs each part as often as its wanted share of the step asks for."""

    def __init__(self, parts: list[tuple[Part, float]]) -> None:
        super().__init__()
        self.parts = [(part, _repeats(part, wanted * STEP_S)) for part, wanted in parts]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part, repeats in self.parts:
            for _ in range(repeats):
                part.run()
        return x

    def part_times(self) -> list[float]:
        """One step's seconds by part, read from the clock between the parts."""
        marks = [time.perf_counter()]
        for part, repeats in self.parts:
            for _ in range(repeats):
                part.run()
            marks.append(time.perf_counter())
        return [end - begin for begin, end in itertools.pairwise(marks)]


def _repeats(part: Part, seconds: float) -> int:
    for _ in range(3):
        part.run()
    samples = []
    for _ in range(5):
        begin = time.perf_counter()
        part.run()
        samples.append(time.perf_counter() - begin)
    return max(1, round(seconds / statistics.median(samples)))


def run(parts: Iterable[tuple[Part, float]]) -> None:
    """Run the steps of a workload, then measure and print the truth.

    Args:
        parts: each part with its wanted share of the step; the share it really has is measured.
    """
    torch.manual_seed(0)
    with torch.no_grad():
        steps = Steps(list(parts))
        x = torch.zeros(1)
        for _ in range(STEPS):
            x = steps(x)
        rounds = [steps.part_times() for _ in range(TRUTH_ROUNDS)]
    totals = {part.share: 0.0 for part, _ in steps.parts}
    for (part, _), column in zip(steps.parts, zip(*rounds, strict=True), strict=True):
        totals[part.share] += statistics.median(column)
    tell(totals)


def tell(totals: dict[str, float]) -> None:
    """Print the truth: the shares of the step by kind of bound, from seconds by kind."""
    whole = sum(totals.values())
    print(json.dumps({"truth": {name: value / whole for name, value in totals.items()}, "step_s": whole}))
