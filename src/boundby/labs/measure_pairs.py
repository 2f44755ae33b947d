"""The functions of demonstration 3 of lab `measure`, each as several ops and as one.

All results go into tensors that exist already: a fresh one of this size would have its pages faulted in by the first
op that writes to it, which costs more than a pass and is a subject of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from boundby.results.language import tr

_Call = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One function as several ops and as one: both write what they found to a tensor of their own.

    ``by_hand`` are the passes over memory that each of the several ops makes, in order; what is a row's maximum or sum
    is too small to count. ``fused_by_hand`` are those of the one op. ``same``: both are the same function, so that
    their results may be compared; ``fused_name`` is what the one op computes where they are not.
    """

    name: str
    unfused: _Call
    fused: _Call
    by_hand: tuple[int, ...]
    fused_by_hand: int
    results: tuple[torch.Tensor, torch.Tensor]
    same: bool = True
    fused_name: str = ""

    @property
    def marked(self) -> str:
        """The name of its row, with a mark where the one op is another function."""
        return f"{self.name}*" if self.fused_name else self.name

    @property
    def label(self) -> str:
        """The name of the function, and of what the one op is where that is another function."""
        return tr("{name}; one op: {op}", name=self.name, op=self.fused_name) if self.fused_name else self.name

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensor that passes are counted of."""
        return self.results[0].nbytes


def multiply_add(elements: int) -> Pair:
    """a * b + c, and ``torch.addcmul``."""
    a, b, c = (_numbers(elements, seed=seed) for seed in range(3))
    out, fused_out = torch.zeros(elements), torch.zeros(elements)

    def unfused() -> None:
        torch.mul(a, b, out=out)
        torch.add(out, c, out=out)

    def fused() -> None:
        torch.addcmul(c, a, b, out=fused_out)

    return Pair(name="a*b + c", unfused=unfused, fused=fused, by_hand=(3, 3), fused_by_hand=4, results=(out, fused_out))


def softmax(shape: tuple[int, int]) -> Pair:
    """Softmax over the last dimension from five ops, and as one."""
    x = 4 * _numbers(*shape, seed=3)
    out, fused_out = torch.zeros(shape), torch.zeros(shape)
    largest, total = torch.zeros(shape[0], 1), torch.zeros(shape[0], 1)

    def unfused() -> None:
        torch.amax(x, dim=1, keepdim=True, out=largest)
        torch.sub(x, largest, out=out)
        torch.exp(out, out=out)
        torch.sum(out, dim=1, keepdim=True, out=total)
        torch.div(out, total, out=out)

    def fused() -> None:
        torch.softmax(x, dim=1, out=fused_out)

    return Pair(
        name="softmax",
        unfused=unfused,
        fused=fused,
        by_hand=(1, 2, 2, 1, 2),
        fused_by_hand=2,
        results=(out, fused_out),
    )


def gelu(elements: int) -> Pair:
    """GELU by its tanh formula from seven ops, and as one.

    Source: Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), section 2.
    """
    x = 3 * _numbers(elements, seed=4)
    out, fused_out = torch.zeros(elements), torch.zeros(elements)

    def unfused() -> None:
        torch.pow(x, 3, out=out)
        torch.add(x, out, alpha=0.044715, out=out)
        torch.mul(out, math.sqrt(2 / math.pi), out=out)
        torch.tanh(out, out=out)
        torch.add(out, 1, out=out)
        torch.mul(out, x, out=out)
        torch.mul(out, 0.5, out=out)

    def fused() -> None:
        torch.ops.aten.gelu.out(x, approximate="tanh", out=fused_out)

    return Pair(
        name="tanh-GELU",
        unfused=unfused,
        fused=fused,
        by_hand=(2, 3, 2, 2, 2, 3, 2),
        fused_by_hand=2,
        results=(out, fused_out),
    )


def cosines(elements: int) -> Pair:
    """cos(cos(x)), and cos(x) beside it: twice the passes, and not the same function."""
    x = 3 * _numbers(elements, seed=5)
    out, fused_out = torch.zeros(elements), torch.zeros(elements)

    def unfused() -> None:
        torch.cos(x, out=out)
        torch.cos(out, out=out)

    def fused() -> None:
        torch.cos(x, out=fused_out)

    return Pair(
        name="cos(cos(x))",
        unfused=unfused,
        fused=fused,
        by_hand=(2, 2),
        fused_by_hand=2,
        results=(out, fused_out),
        same=False,
        fused_name="cos(x)",
    )


def _numbers(*shape: int, seed: int) -> torch.Tensor:
    """Random numbers between -1 and 1."""
    return 2 * torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) - 1
