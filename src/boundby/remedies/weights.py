"""Linear layers of inference: their products in a report, weights to probe with, and the moment to convert them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from boundby.remedies.contract import Compared, Effects, Evidence, NotApplicable, Probe
from boundby.remedies.in_step import base_name, seconds_of, tensor_shapes
from boundby.results.report import OpRow

# Where in an op's shapes its rows and its weights stand.
_PRODUCTS = {"mm": (0, 1), "addmm": (1, 2)}
# As many bytes of fp32 weights as are read in a probe: also at a quarter of that they are beyond most last caches.
MOST_BYTES = 192 << 20
# Products of more work than this a call are probed with fewer rows.
MOST_FLOPS = 300_000_000
SMALLEST_WEIGHT = 64 * 64
LEAST_SHARE = 0.05
# With one thread at most this ratio, where it was above 1 with all.
CONTRADICTS = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A linear layer's product: ``rows`` of ``inputs`` numbers times weights of ``inputs`` x ``outputs``."""

    rows: int
    inputs: int
    outputs: int

    @property
    def weight_bytes(self) -> int:
        """Bytes of its weights in fp32."""
        return 4 * self.inputs * self.outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearWork:
    """The linear layers of a forward pass: each call's product, and the seconds that all take of the step."""

    products: tuple[Product, ...]
    seconds: float


def linear_work(evidence: Evidence) -> LinearWork | NotApplicable:
    """What linear layers do in a step of inference; why not where the remedy does not apply.

    Args:
        evidence: the report and the facts.
    """
    report = evidence.report
    trained = report.step.kind == "training" or any(row.phase == "backward" for row in report.ops)
    if trained or evidence.facts.optimizers:
        return NotApplicable("weights that are trained stay as precise as they are")
    found: list[Product] = []
    rows = []
    for row in report.ops:
        product = _product(row)
        if product is not None:
            rows.append(row)
            found += [product] * row.calls
    seconds = seconds_of(report, rows)
    if seconds < LEAST_SHARE * report.step.time_s.median:
        return NotApplicable("linear layers are hardly any of the step")
    return LinearWork(products=tuple(found), seconds=seconds)


def _product(row: OpRow) -> Product | None:
    places = _PRODUCTS.get(base_name(row.op))
    if places is None or row.module is None:
        return None
    shapes = tensor_shapes(row)
    if len(shapes) <= places[1]:
        return None
    left, right = (shapes[place] for place in places)
    if len(left) != 2 or len(right) != 2 or left[1] != right[0] or math.prod(right) < SMALLEST_WEIGHT:
        return None
    return Product(rows=left[0], inputs=right[0], outputs=right[1])


def probed_products(products: Sequence[Product], *, most_bytes: int = MOST_BYTES) -> tuple[Product, ...]:
    """As many of the products as fit, evenly chosen, so that each kind has its part; at least one.

    Args:
        products: one for each call of a step.
        most_bytes: of fp32 weights, all together.
    """
    total = sum(one.weight_bytes for one in products)
    every = max(1, math.ceil(total / most_bytes))
    # Evenly spaced in an order by size: equal products follow one another.
    ordered = sorted(products, key=lambda one: (one.weight_bytes, one.rows))
    chosen = ordered[every // 2 :: every] or ordered[-1:]
    work = sum(2 * one.rows * one.inputs * one.outputs for one in chosen)
    if work <= MOST_FLOPS:
        return tuple(chosen)
    return tuple(
        Product(rows=max(1, one.rows * MOST_FLOPS // work), inputs=one.inputs, outputs=one.outputs) for one in chosen
    )


def probed_passes(probe: Probe, base: Callable[[], object], changed: Callable[[], object]) -> Compared | None:
    """A pass over the weights beside a changed one; None where it looks slower for other load alone.

    On a busy machine a kernel that uses all threads waits at every product for the one that does not get to run, and
    one on a single thread does not. What is slower with all threads and quicker with one may be just that.

    Args:
        probe: times the two.
        base: the pass as it is.
        changed: with the remedy.
    """
    import torch

    done = probe(base, changed)
    threads = torch.get_num_threads()
    if done.ratio.value <= 1.0 or threads == 1:
        return done
    torch.set_num_threads(1)
    try:
        alone = probe(base, changed)
    finally:
        torch.set_num_threads(threads)
    return None if alone.ratio.value < CONTRADICTS else done


def at_first_inference(convert: Callable[[Any, Effects], Callable[..., Any] | None], effects: Effects) -> None:
    """Convert each outermost module just before its first call, unless its weights are trained.

    Args:
        convert: changes the module in place; returns what turns its call's arguments and output, or None where there
            was nothing to change.
        effects: told where they are trained.
    """
    import torch

    plain = torch.nn.Module.__call__
    depth = 0
    trained = False
    converted: dict[int, Callable[..., Any] | None] = {}
    plain_optimizer = torch.optim.Optimizer.__init__

    @functools.wraps(plain_optimizer)
    def optimizer_init(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal trained
        trained = True
        plain_optimizer(self, *args, **kwargs)

    @functools.wraps(plain)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        if depth or torch.compiler.is_compiling():
            return plain(self, *args, **kwargs)
        if trained or (id(self) not in converted and any(one.grad is not None for one in self.parameters())):
            effects.cannot("the weights are trained")
            return plain(self, *args, **kwargs)
        depth += 1
        try:
            if id(self) not in converted:
                converted[id(self)] = None
                with torch.inference_mode(False), torch.no_grad():
                    converted[id(self)] = convert(self, effects)
            turned = converted[id(self)]
            if turned is None:
                return plain(self, *args, **kwargs)
            return turned(functools.partial(plain, self), *args, **kwargs)
        finally:
            depth -= 1

    torch.nn.Module.__call__ = call  # type: ignore[method-assign]  # what applying from outside means
    torch.optim.Optimizer.__init__ = optimizer_init  # type: ignore[method-assign]  # likewise
