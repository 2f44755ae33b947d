"""Kernels that are prepared anew for each size they meet: convolutions, LSTMs and bf16 products of oneDNN.

Which of the script's ops meet changing sizes is seen in attributed steps. What preparing takes is measured on tensors
of boundby's own: the first call of a size that was never met, beside the second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from boundby.results.habits import Place, SetUp
from boundby.results.interval import interval
from boundby.timing.clock import monotonic_ns
from boundby.timing.sampling import time_window
from boundby.timing.set_aside import modes_set_aside
from boundby.timing.statistics import median, quantile

# Lines that are probed, and sizes of each.
MOST_LINES, FRESH_SIZES = 3, 5
# Fresh sizes begin this far beyond those that were met.
BEYOND = 37
# Of the largest side and of the batch: preparing does not take longer for more.
LARGEST_SIDE, LARGEST_BATCH = 512, 2

Shape = tuple[int, ...]
_Key = tuple[str, str | None, int | None]


@dataclass(slots=True)
class _Met:
    new_in: dict[Shape, int]  # the step that brought each size
    make: Callable[[int], Callable[[], Any]]


class ShapesMet:
    """The sizes that such ops had at each line. Keeps numbers, no tensors.

    A line may be that of many layers, each with sizes of its own: what counts is sizes that later steps bring.
    """

    def __init__(self) -> None:
        self._met: dict[_Key, _Met] = {}
        self._step = 0

    def begin_step(self) -> None:
        """An attributed step begins."""
        self._step += 1

    def note(self, func: Any, args: Any, path: str | None, line: int | None) -> None:
        """An op with a signature that was not met before."""
        name = func._schema.name
        make = _MAKERS.get(name)
        fresh = make(args) if make is not None else None
        if fresh is None:
            return
        given = args[1] if name == "aten::addmm" else args[0]
        met = self._met.setdefault((name, path, line), _Met(new_in={}, make=fresh))
        met.new_in.setdefault(tuple(given.shape), self._step)

    def found(self) -> tuple[SetUp, ...]:
        """What preparing takes where each step brings new sizes; of the lines with most of them."""
        changing = [
            (key, one)
            for key, one in self._met.items()
            if self._step > 1 and set(one.new_in.values()) >= set(range(1, self._step + 1))
        ]
        changing.sort(key=lambda item: -len(item[1].new_in))
        found = []
        for (name, path, line), one in changing[:MOST_LINES]:
            seconds = _prepare_seconds(one.make)
            found.append(
                SetUp(
                    op=name.removeprefix("aten::"),
                    place=Place(path=path, line=line),
                    sizes=len(one.new_in),
                    # Whatever interrupts a call only adds.
                    time_s=interval(quantile(seconds, 0.25), min(seconds), median(seconds)),
                )
            )
        return tuple(found)


def _prepare_seconds(make: Callable[[int], Callable[[], Any]]) -> list[float]:
    """Seconds that the first call of a size takes beyond the quicker of two later ones, over a few sizes."""
    seconds = []
    with modes_set_aside(grad=True):
        make(BEYOND - 1)()  # what the first call of all prepares
        for size in range(FRESH_SIZES):
            call = make(BEYOND + size)
            first = time_window(call, 1, monotonic_ns)
            later = min(time_window(call, 1, monotonic_ns) for _ in range(2))
            seconds.append(max(0.0, first - later))
    return seconds


def _convolution(args: Any) -> Callable[[int], Callable[[], Any]] | None:
    given, weight = args[0], args[1]
    if not _usual(given) or given.dim() < 3:
        return None
    sides = (min(side, LARGEST_SIDE) for side in given.shape[2:])
    shape = (min(given.shape[0], LARGEST_BATCH), given.shape[1], *sides)
    trains = bool(weight.requires_grad and torch.is_grad_enabled())
    return partial(_fresh_convolution, shape, tuple(weight.shape), given.dtype, tuple(args[3:9]), trains)


def _fresh_convolution(
    shape: Shape, weight: Shape, dtype: torch.dtype, settings: tuple[Any, ...], trains: bool, more: int
) -> Callable[[], Any]:
    x = torch.zeros((*shape[:-1], shape[-1] + more), dtype=dtype)
    w = torch.zeros(weight, dtype=dtype).requires_grad_(trains)
    return partial(_run, lambda: torch.convolution(x, w, None, *settings), [w] if trains else [])


def _lstm(args: Any) -> Callable[[int], Callable[[], Any]] | None:
    given, inner = args[0], args[2]
    if not _usual(given) or given.dim() != 3 or inner.dim() != 2 or inner.shape[0] != 4 * inner.shape[1]:
        return None
    trains = bool(inner.requires_grad and torch.is_grad_enabled())
    return partial(_fresh_lstm, tuple(given.shape), int(inner.shape[1]), given.dtype, trains)


def _fresh_lstm(shape: Shape, hidden: int, dtype: torch.dtype, trains: bool, more: int) -> Callable[[], Any]:
    length, batch, width = min(shape[0], LARGEST_SIDE) + more, min(shape[1], LARGEST_BATCH), shape[2]
    x = torch.zeros(length, batch, width, dtype=dtype)
    sizes = ((4 * hidden, width), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,))
    weights = [torch.zeros(size, dtype=dtype).requires_grad_(trains) for size in sizes]
    state = (torch.zeros(1, batch, hidden, dtype=dtype), torch.zeros(1, batch, hidden, dtype=dtype))
    return partial(
        _run,
        lambda: torch.lstm(x, state, weights, True, 1, 0.0, False, False, False)[0],
        weights if trains else [],
    )


def _product(args: Any) -> Callable[[int], Callable[[], Any]] | None:
    given, weight = args[-2], args[-1]
    # In float32 products are the math library's, which prepares nothing.
    if not _usual(given) or given.dtype is not torch.bfloat16 or given.dim() != 2:
        return None
    return partial(_fresh_product, (min(given.shape[0], LARGEST_SIDE), given.shape[1]), int(weight.shape[1]))


def _fresh_product(shape: Shape, width: int, more: int) -> Callable[[], Any]:
    x = torch.zeros(shape[0] + more, shape[1], dtype=torch.bfloat16)
    w = torch.zeros(shape[1], width, dtype=torch.bfloat16)
    return partial(_run, lambda: x @ w, [])


def _run(forward: Callable[[], Any], weights: list[Any]) -> None:
    out = forward()
    if weights:
        torch.autograd.grad(out.sum(), weights)


def _usual(tensor: Any) -> bool:
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type == "cpu" and tensor.numel() > 0


_MAKERS: dict[str, Callable[[Any], Callable[[int], Callable[[], Any]] | None]] = {
    "aten::convolution": _convolution,
    "aten::mkldnn_rnn_layer": _lstm,
    "aten::addmm": _product,
    "aten::mm": _product,
}
