"""Fusion as predicted and as measured, on the functions of the labs: compiled, and by the library's one op.

python benchmarks/fusion.py [--log2 24] [--threads 1] [--processor-time]

The prediction is that of the remedies ``fusion`` and ``compile``: from the passes over memory and the functions in the
chain, and this machine's ceilings. It is made from the report of the function as it is, before anything is fused. The
measured gain is the median of turns, function and fused one after the other.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from processes import table

import boundby
from boundby.remedies.fused_times import fused_time
from boundby.remedies.pointwise_chains import pointwise_chains
from boundby.remedies.probing import TurnsProbe
from boundby.results.interval import Interval
from boundby.timing.clock import monotonic_ns

LIMIT = 0.15
ROW = 96
ROOT = math.sqrt(2.0 / math.pi)

Run = Callable[[], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Function:
    """A function as a learner writes it, its arguments bound, and the library's op for it with its ceiling's name."""

    name: str
    plain: Callable[..., torch.Tensor]
    arguments: tuple[torch.Tensor, ...]
    library: Callable[..., torch.Tensor] | None = None
    ceiling: str | None = None


def multiply_add(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """Two ops."""
    return a * b + c


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Five ops."""
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def gelu(x: torch.Tensor) -> torch.Tensor:
    """The tanh form of GELU from basic ops."""
    return 0.5 * x * (1.0 + torch.tanh(ROOT * (x + 0.044715 * x**3)))


def squares(x: torch.Tensor) -> torch.Tensor:
    """Five ops that make ones."""
    return torch.sin(x) ** 2 + torch.cos(x) ** 2


def cosines(x: torch.Tensor) -> torch.Tensor:
    """Two ops that a fused kernel does not make one."""
    return torch.cos(torch.cos(x))


def sigmoids(x: torch.Tensor) -> torch.Tensor:
    """Three ops."""
    return torch.sigmoid(torch.sigmoid(torch.sigmoid(x)))


def functions(elements: int) -> Iterator[Function]:
    """The six functions on tensors of so many elements."""
    generator = torch.Generator().manual_seed(1)
    a, b, c = (torch.randn(elements, generator=generator) for _ in range(3))
    rows = a[: elements // ROW * ROW].view(-1, ROW)
    yield Function("a * b + c", multiply_add, (a, b, c), lambda x, y, z: torch.addcmul(z, x, y), "addcmul")
    yield Function("softmax, 5 ops", softmax, (rows,), lambda x: F.softmax(x, -1), "softmax")
    yield Function("GELU, 8 ops", gelu, (a,), lambda x: F.gelu(x, approximate="tanh"), "gelu_tanh")
    yield Function("sin^2 + cos^2", squares, (a,))
    yield Function("cos(cos(x))", cosines, (a,))
    yield Function("3 sigmoids", sigmoids, (a,))


def predicted(function: Function, ceiling: str | None) -> tuple[Interval, float, float, str]:
    """The gain of one kernel in place of the chain, its passes before and after, and what would bind it."""
    report = boundby.explain(function.plain, *function.arguments, warmup=2, steps=6, watch=3)
    (chain,) = pointwise_chains(report)
    fused = fused_time(chain, report, function=ceiling)
    now, after = fused.now_s, fused.fused_s
    gain = Interval(value=now / after.value, low=now / after.high, high=now / after.low)
    return gain, chain.passes_before, chain.passes_after.value, fused.bound


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log2", type=int, default=24, help="how many elements, as a power of two")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--processor-time", action="store_true", help="for a machine that is not idle; one thread only")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    clock = time.process_time_ns if args.processor_time else monotonic_ns
    probe = TurnsProbe(budget_s=2.0, clock=clock)
    rows, off = [], 0
    with torch.no_grad():
        for function in functions(1 << args.log2):
            base = lambda function=function: function.plain(*function.arguments)  # noqa: E731  # bound at once
            compiled = torch.compile(function.plain)
            ways = [("compiled", compiled, None)]
            if function.library is not None:
                ways.append(("library", function.library, function.ceiling))
            for way, fused, ceiling in ways:
                gain, before, after, bound = predicted(function, ceiling)
                compared = probe(base, lambda fused=fused, function=function: fused(*function.arguments))
                real = 1.0 / compared.ratio.value
                error = gain.value / real - 1.0
                off += abs(error) > LIMIT
                same = torch.allclose(fused(*function.arguments), base(), atol=1e-5)
                rows.append(
                    [
                        function.name, way, f"{before:.1f} -> {after:.1f}", f"{gain.value:.2f}",
                        f"{gain.low:.2f}-{gain.high:.2f}", f"{real:.2f}", f"{error:+.0%}",
                        bound, "yes" if same else "NO",
                    ]
                )  # fmt: skip
                print(f"{function.name}, {way}: predicted {gain.value:.2f}, measured {real:.2f}", file=sys.stderr)
    titles = ["function", "fused", "passes", "predicted", "interval", "measured", "error", "then bound by", "equal"]
    print(table(titles, rows))
    print(f"\n{len(rows) - off} of {len(rows)} within {LIMIT:.0%}.")
    sys.exit(0 if not off else 1)


if __name__ == "__main__":
    main()
