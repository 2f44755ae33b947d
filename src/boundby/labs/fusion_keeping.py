"""Keeping results for backward against computing them again: the counting, the checking and the timing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from boundby.api import count, passes, time_calls
from boundby.labs.fusion_compiling import Compiled, compile_for
from boundby.labs.fusion_sigmoids import (
    Keeping,
    Recomputing,
    gradient_from_input,
    gradient_from_results,
    last_sigmoid,
    three_sigmoids,
)
from boundby.labs.lab import Settings
from boundby.results.call_time import CallTime
from boundby.results.language import tr
from boundby.results.passes import Passes

ELEMENTS = 2**20
_CHECKED_ELEMENTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One of the two functions, counted and timed.

    ``forward`` and ``backward`` are its passes over memory. ``eager`` is the time of forward and backward op by op,
    ``fused`` with each of the two as one kernel (None: left out, or not possible).
    """

    name: str
    label: str
    saved_bytes: int
    checked: bool
    forward: Passes
    backward: Passes
    eager: CallTime
    fused: CallTime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Both ways; the largest difference of their gradients; what torch.compile could not do (empty: nothing)."""

    keeping: Way
    recomputing: Way
    difference: float
    failure: str = ""

    @property
    def ways(self) -> tuple[Way, Way]:
        """The one that keeps results, then the one that computes again."""
        return self.keeping, self.recomputing


def measure(settings: Settings) -> Found:
    """Counts by one call each, checks the gradients, compiles unless it is to be quick, and times in turns."""
    device = settings.device
    draw = torch.Generator().manual_seed(0)
    # Drawn one by one: what shares a storage would be kept together.
    x, grad = (torch.randn(ELEMENTS, generator=draw).to(device) for _ in range(2))
    x.requires_grad_()
    functions: tuple[Any, Any] = (Keeping, Recomputing)
    gradients = [_gradient(one, x, grad)() for one in functions]
    settings.progress(0.1)
    compiled = _compiled(x.detach(), grad, settings) if not settings.quick else ()
    failure = next((one.failure for one in compiled if one.failure), "")
    calls: list[Callable[[], object]] = [_gradient(one, x, grad) for one in functions]
    calls += _fused_calls(compiled, x.detach(), grad)
    settings.progress(0.7)
    timed = time_calls(*calls, round_s=settings.round_s, device=device)
    small = torch.linspace(-3.0, 3.0, ELEMENTS // 256)
    results = three_sigmoids(small)
    counted = (
        (passes(three_sigmoids, small), passes(gradient_from_results, torch.ones_like(small), *results)),
        (passes(last_sigmoid, small), passes(gradient_from_input, torch.ones_like(small), small)),
    )
    labels = ("keeping", tr("keeps the results")), ("recomputing", tr("computes again"))
    ways = tuple(
        Way(
            name=name,
            label=label,
            saved_bytes=count(function.apply, x).saved_bytes or 0,
            checked=_checked(function),
            forward=forward,
            backward=backward,
            eager=timed[index],
            fused=timed[2 + index] if len(timed) > 2 else None,
        )
        for index, ((name, label), function, (forward, backward)) in enumerate(
            zip(labels, functions, counted, strict=True)
        )
    )
    settings.progress(1.0)
    difference = float((gradients[0] - gradients[1]).abs().max())
    return Found(keeping=ways[0], recomputing=ways[1], difference=difference, failure=failure)


def _gradient(function: Any, x: Tensor, grad: Tensor) -> Callable[[], Tensor]:
    def forward_and_backward() -> Tensor:
        return torch.autograd.grad(function.apply(x), x, grad)[0]

    return forward_and_backward


def _checked(function: Any) -> bool:
    """Whether the gradient equals that by differences, in fp64; on the CPU, since not every device has fp64."""
    x = torch.linspace(-3.0, 3.0, _CHECKED_ELEMENTS, dtype=torch.float64, requires_grad=True)
    return bool(torch.autograd.gradcheck(function.apply, (x,), raise_exception=False))


def _compiled(x: Tensor, grad: Tensor, settings: Settings) -> tuple[Compiled, ...]:
    """The four passes as kernels of their own; ends with the first that cannot be made."""
    made: list[Compiled] = []
    pieces: tuple[tuple[Callable[..., Any], tuple[Tensor, ...]], ...] = (
        (three_sigmoids, (x,)),
        (gradient_from_results, (grad, *three_sigmoids(x))),
        (last_sigmoid, (x,)),
        (gradient_from_input, (grad, x)),
    )
    for function, args in pieces:
        made.append(compile_for(function, *args))
        settings.progress(0.1 + 0.15 * len(made))
        if made[-1].failure:
            break
    return tuple(made)


def _fused_calls(compiled: tuple[Compiled, ...], x: Tensor, grad: Tensor) -> list[Callable[[], object]]:
    """Forward and backward of both ways; none where a piece could not be made."""
    calls = [one.call for one in compiled if one.call is not None]
    if len(calls) < len(compiled) or not calls:
        return []
    keep, from_results, last, from_input = calls
    return [lambda: from_results(grad, *keep(x)), lambda: (last(x), from_input(grad, x))]


def fused_passes(way: Way) -> float:
    """Passes over memory of forward and backward, each as one kernel."""
    return way.forward.fused_total + way.backward.fused_total


def eager_passes(way: Way) -> float:
    """The same op by op."""
    return way.forward.total + way.backward.total
