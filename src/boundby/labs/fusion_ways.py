"""Functions made of several ops, run op by op, as one kernel by torch.compile, and from the library: the measuring."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from boundby.api import passes, time_calls
from boundby.labs.fusion_compiling import Compiled, compile_for
from boundby.labs.lab import Settings
from boundby.results.call_time import CallTime
from boundby.results.language import tr
from boundby.results.passes import Passes

ELEMENTS, QUICK_ELEMENTS = 2**24, 2**22
# Passes hardly depend on the size; counting them runs the function.
_COUNTED_ELEMENTS = 4096


def sine_and_cosine(x: Tensor) -> Tensor:
    """sin^2(x) + cos^2(x) in five ops, any shape; 1 but for rounding."""
    return x.sin().square() + x.cos().square()


def gelu_from_basic_ops(x: Tensor) -> Tensor:
    """GELU by its tanh formula in seven ops, any shape.

    Source: D. Hendrycks and K. Gimpel, "Gaussian error linear units (GELUs)", arXiv:1606.08415 (2016), section 2.
    """
    inner = math.sqrt(2 / math.pi) * torch.add(x, x.pow(3), alpha=0.044715)
    return 0.5 * (x * (1.0 + inner.tanh()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A function of several ops, and a function of the library's that gives the same, if there is one."""

    name: str
    label: str
    function: Callable[[Tensor], Tensor]
    library: Callable[[Tensor], Tensor] | None = None
    library_label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of a function: its time, and its largest difference from op by op (None: it is op by op)."""

    label: str
    time: CallTime
    difference: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A function with its passes over memory as counted, and its ways as timed.

    ``compiled`` is None where torch.compile was left out; ``fused`` where there is nothing that it made.
    """

    case: Case
    counted: Passes
    eager: Way
    compiled: Compiled | None = None
    fused: Way | None = None
    library: Way | None = None

    @property
    def ways(self) -> Iterator[Way]:
        """Those that were timed, op by op first."""
        return (way for way in (self.eager, self.fused, self.library) if way is not None)

    def gain(self, way: Way) -> float:
        """How many times as fast as op by op a way is."""
        return self.eager.time.fastest_s / way.time.fastest_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All that was measured; ``there`` and ``fresh`` are copies into a tensor that is there and into a new one."""

    elements: int
    size_bytes: int
    measured: tuple[Measured, ...]
    there: CallTime
    fresh: CallTime


def cases() -> tuple[Case, ...]:
    """The functions of the demonstration."""
    return (
        Case(name="sine-and-cosine", label="sin²(x) + cos²(x)", function=sine_and_cosine),
        Case(
            name="gelu",
            label="tanh-GELU",
            function=gelu_from_basic_ops,
            library=partial(functional.gelu, approximate="tanh"),
            library_label="F.gelu",
        ),
    )


def measure(settings: Settings) -> Found:
    """Compiles unless it is to be quick, then times everything in turns."""
    elements = QUICK_ELEMENTS if settings.quick else ELEMENTS
    x = torch.randn(elements, generator=torch.Generator().manual_seed(0)).to(settings.device)
    calls: dict[str, Callable[[], Any]] = {"there": partial(torch.zeros_like(x).copy_, x), "fresh": x.clone}
    differences: dict[str, float] = {}
    compiled: dict[str, Compiled] = {}
    shown = cases()
    for index, case in enumerate(shown):
        calls[f"{case.name} eager"] = partial(case.function, x)
        others = {} if case.library is None else {"library": case.library}
        if not settings.quick:
            compiled[case.name] = compile_for(case.function, x)
            if (call := compiled[case.name].call) is not None:
                others["fused"] = call
        expected = case.function(x)
        for way, function in others.items():
            calls[f"{case.name} {way}"] = partial(function, x)
            differences[f"{case.name} {way}"] = float((function(x) - expected).abs().max())
        settings.progress(0.7 * (index + 1) / len(shown))
    timed = time_calls(*calls.values(), round_s=settings.round_s, device=settings.device)
    times = dict(zip(calls, timed, strict=True))
    settings.progress(1.0)

    def way_of(label: str, key: str) -> Way | None:
        return Way(label=label, time=times[key], difference=differences[key]) if key in times else None

    return Found(
        elements=elements,
        size_bytes=x.nbytes,
        measured=tuple(
            Measured(
                case=case,
                counted=passes(case.function, torch.ones(_COUNTED_ELEMENTS)),
                eager=Way(label=tr("op by op"), time=times[f"{case.name} eager"]),
                compiled=compiled.get(case.name),
                fused=way_of("torch.compile", f"{case.name} fused"),
                library=way_of(case.library_label, f"{case.name} library"),
            )
            for case in shown
        ),
        there=times["there"],
        fresh=times["fresh"],
    )
