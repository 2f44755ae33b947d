"""Three sigmoids stacked, as two autograd functions: one keeps its three results, one its input and computes again.

The plain functions are what each of the four passes would do as one kernel; the autograd functions call them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def three_sigmoids(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The results of the first, the second and the third sigmoid; any shape."""
    first = x.sigmoid()
    second = first.sigmoid()
    return first, second, second.sigmoid()


def last_sigmoid(x: Tensor) -> Tensor:
    """The result of the third alone."""
    return three_sigmoids(x)[2]


def gradient_from_results(grad: Tensor, first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    """The input's gradient; the derivative of a sigmoid of value s is s (1 - s).

    Args:
        grad: gradient of the third result.
        first: what the first sigmoid gave; all of one shape.
        second: what the second gave.
        third: what the third gave.
    """
    for result in (third, second, first):
        grad = grad * result * (1.0 - result)
    return grad


def gradient_from_input(grad: Tensor, x: Tensor) -> Tensor:
    """The same from the input: the three results are computed again."""
    return gradient_from_results(grad, *three_sigmoids(x))


class Keeping(torch.autograd.Function):
    """Keeps the three results for backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """The third sigmoid of ``x``."""
        results = three_sigmoids(x)
        ctx.save_for_backward(*results)
        return results[2]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        """The gradient of ``x`` from the results kept."""
        return gradient_from_results(grads[0], *ctx.saved_tensors)


class Recomputing(torch.autograd.Function):
    """Keeps its input for backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """The third sigmoid of ``x``."""
        ctx.save_for_backward(x)
        return last_sigmoid(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        """The gradient of ``x`` from the input kept."""
        (x,) = ctx.saved_tensors
        return gradient_from_input(grads[0], x)
