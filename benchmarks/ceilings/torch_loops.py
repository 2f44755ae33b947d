"""What plain loops over torch ops take: written without boundby, by the clock alone.

    python torch_loops.py THREADS MEMORY_FILE

Reads one JSON list a line, ``[kind, name, dtype, size or shape, milliseconds]``, and answers with bytes/s (bandwidth),
FLOP/s (matmul), seconds an element (function) or seconds a call (overhead). Of windows of at least 0.3 ms, the answer
takes the time that 15% stay below. Where the cost of the call would count, the same op on next to nothing is timed in
turns with it, and taken off.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from itertools import cycle
from timeit import Timer

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

Call = Callable[[], object]
TYPES = {"fp32": torch.float32, "fp64": torch.float64, "bf16": torch.bfloat16}
PIECE = 16 << 20
WINDOW_S = 3e-4


def window(call: Call, count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count


def low(times: list[float]) -> float:
    return sorted(times)[int(0.15 * (len(times) - 1))]


def seconds(call: Call, tiny: Call | None, milliseconds: float) -> float:
    calls = [call] if tiny is None else [call, tiny]
    counts = []
    for one in calls:
        one()
        count = 1
        while window(one, count) * count < WINDOW_S:
            count *= 2
        counts.append(count)
    times: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + 1e-3 * milliseconds
    while time.perf_counter() < end or len(times[0]) < 4:
        for one, count, taken in zip(calls, counts, times, strict=True):
            one()
            taken.append(window(one, count))
    return low(times[0]) - (low(times[1]) if tiny is not None else 0.0)


def stream_call(name: str, tensors: tuple[torch.Tensor, ...]) -> Call:
    x, y, z = tensors
    if name == "read":
        return lambda: torch.sum(x)
    if name == "write":
        return lambda: x.fill_(1.0)
    if name == "copy":
        return lambda: y.copy_(x)
    if name == "inplace":
        return lambda: x.mul_(1.0)
    return lambda: torch.add(x, y, out=z)


MEMORY: list[torch.Tensor] = []


@cache
def tensors_of(elements: int) -> tuple[torch.Tensor, ...]:
    """Three vectors, as far as there is memory for them, each on cache sets of its own."""
    return tuple(MEMORY[0][start : start + elements] for start in range(0, 3 * (elements + 528), elements + 528))


def bandwidth(name: str, size: int, milliseconds: float) -> float:
    shared_by = {"copy": 2, "triad": 3}.get(name, 1)
    counted = {"copy": 2, "inplace": 2, "triad": 3}.get(name, 1)
    elements = size // 4 // shared_by
    pieces = max(1, size // (PIECE * max(1, torch.get_num_threads() // 2)))
    whole = tensors_of(elements)
    parts = list(zip(*(tensor.tensor_split(pieces) for tensor in whole), strict=True))
    tiny = stream_call(name, tensors_of(4))
    if pieces == 1:
        return 4 * counted * elements / seconds(stream_call(name, parts[0]), tiny, milliseconds)
    # One pass after another, so that each piece comes long after its last time.
    turns = cycle([stream_call(name, part) for part in parts])
    for _ in range(pieces):
        next(turns)()
    return 4 * counted * elements / pieces / seconds(lambda: next(turns)(), None, milliseconds)


@cache
def factors(name: str, dtype: str, shape: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    batch, m, n, k = shape
    left = torch.randn(batch, m, k).to(TYPES[dtype])
    right = torch.randn(batch, n, k).to(TYPES[dtype]).mT
    if name == "mm":
        right = right.contiguous()
    return (left[0], right[0]) if batch == 1 else (left, right)


def matmul(name: str, dtype: str, shape: tuple[int, ...], milliseconds: float) -> float:
    batch, m, n, k = shape
    left, right = factors(name, dtype, shape)
    small_left, small_right = factors(name, dtype, (batch if batch == 1 else 2, 2, 2, 2))
    product = torch.mm if batch == 1 else torch.bmm
    # Into a result that is there: fresh memory for one of megabytes costs page faults, which are no part of a product.
    out, small_out = product(left, right), product(small_left, small_right)
    taken = seconds(
        lambda: product(left, right, out=out), lambda: product(small_left, small_right, out=small_out), milliseconds
    )
    return 2.0 * batch * m * n * k / taken


def rows(x: torch.Tensor) -> torch.Tensor:
    return x.view(-1, min(128, x.numel()))


FUNCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], Call]] = {
    "exp": lambda x, out: lambda: torch.exp(x, out=out),
    "tanh": lambda x, out: lambda: torch.tanh(x, out=out),
    "sigmoid": lambda x, out: lambda: torch.sigmoid(x, out=out),
    "erf": lambda x, out: lambda: torch.erf(x, out=out),
    "gelu": lambda x, out: lambda: torch.ops.aten.gelu.out(x, out=out),
    "silu": lambda x, out: lambda: torch.ops.aten.silu.out(x, out=out),
    "softmax": lambda x, out: lambda: torch.softmax(rows(x), 1, out=rows(out)),
}


@cache
def arguments(elements: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What a function reads and where it writes; not closely one behind the other within a page, which costs time."""
    both = torch.randn(2 * (elements + 528))
    return both[:elements], both[elements + 528 :][:elements]


def function(name: str, elements: int, milliseconds: float) -> float:
    make = FUNCTIONS[name]
    return seconds(make(*arguments(elements)), make(*arguments(2)), milliseconds) / elements


class Nothing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def timers() -> dict[str, Timer]:
    """The loops that ``timeit`` makes of one call each, its operands at hand."""
    rows, x, y, out = torch.randn(4, 8), torch.randn(8), torch.randn(8), torch.zeros(8)
    # A tensor that has another view already: the first view of memory that no other tensor shares costs a quarter more.
    KEPT.append(rows.view(32))
    square, table, picks = torch.randn(4, 4), torch.randn(16, 8), torch.randint(0, 8, (4,))
    a, b = np.random.rand(8).astype(np.float32), np.random.rand(8).astype(np.float32)

    def timer(call: str, f: Callable[..., object], *operands: object) -> Timer:
        names = ("x", "y", "z")[: len(operands)]
        given = {"F": f, **dict(zip(map(str.upper, names), operands, strict=True))}
        setup = "; ".join(f"{name} = {name.upper()}" for name in ("f", *names))
        return Timer(call, setup, globals=given)

    return {
        "view/transpose": timer("f(0, 1)", rows.transpose),
        "pointwise/add": timer("f(x, y)", torch.add, x, y),
        "pointwise/gelu": timer("f(x)", F.gelu, x),
        "pointwise_out/exp": timer("f(x, out=y)", torch.exp, x, out),
        "reduction/sum": timer("f(x)", torch.sum, x),
        "matmul/mm": timer("f(x, y)", torch.mm, square, square),
        "index/index_select": timer("f(x, 0, y)", torch.index_select, table, picks),
        "module_call": timer("f(x)", Nothing(), x),
        "ufunc/add": timer("f(x, y)", np.add, a, b),
    }


KEPT: list[torch.Tensor] = []
TIMERS: dict[str, Timer] = {}


def overhead(name: str, milliseconds: float) -> float:
    timer, count = TIMERS[name], 1
    while timer.timeit(count) < WINDOW_S:
        count *= 2
    times: list[float] = []
    end = time.perf_counter() + 1e-3 * milliseconds
    while time.perf_counter() < end or len(times) < 4:
        times.append(timer.timeit(count) / count)
    return low(times)


def answer(kind: str, name: str, dtype: str, what: int | list[int], milliseconds: float) -> float:
    if kind == "overhead":
        return overhead(name, milliseconds)
    if isinstance(what, list):
        return matmul(name, dtype, tuple(what), milliseconds)
    if kind == "bandwidth":
        return bandwidth(name, what, milliseconds)
    return function(name, what // 4, milliseconds)


def main() -> None:
    torch.set_num_threads(int(sys.argv[1]))
    torch.manual_seed(1)
    MEMORY.append(torch.from_file(sys.argv[2], shared=True, size=os.path.getsize(sys.argv[2]) // 4))
    TIMERS.update(timers())
    print("ready", flush=True)
    with torch.no_grad():
        for line in sys.stdin:
            print(answer(*json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
