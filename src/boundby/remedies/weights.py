"""Linear layers of inference: their products in a report, weights to probe with, and the moment to convert them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from boundby.remedies.contract import CannotTell, Compared, Effects, Evidence, NotApplicable, Prediction, Probe
from boundby.remedies.in_step import base_name, in_fp32, replaced_rows, seconds_of, tensor_shapes
from boundby.remedies.outermost_modules import around_outermost_calls
from boundby.results.language import tr, trn
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
        return NotApplicable(tr("weights that are trained stay as precise as they are"))
    found: list[Product] = []
    rows = []
    linear = evidence.facts.linear_shapes
    for row in report.ops:
        product = _product(row)
        if product is None or not in_fp32(row):
            continue
        # Other layers, recurrent ones above all, multiply by weights as well.
        if linear is None or (product.outputs, product.inputs) in linear:
            rows.append(row)
            found += [product] * row.calls
    seconds = seconds_of(report, rows)
    if seconds < LEAST_SHARE * report.step.time_s.median:
        return NotApplicable(tr("linear layers are hardly any of the step"))
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


def predicted_products(
    evidence: Evidence,
    work: LinearWork,
    passes: Callable[[Sequence[Product]], tuple[Callable[[], object], Callable[[], object]]],
    *,
    dtype: str,
    change: str,
    most_bytes: int = MOST_BYTES,
) -> Prediction:
    """The step with its linear layers' products in another dtype, by a probe on weights of the script's own shapes.

    Args:
        evidence: the report, and the probe.
        work: what the linear layers do.
        passes: makes a pass over such products as they are, and one in the other dtype.
        dtype: what to call that.
        change: what the user would change.
        most_bytes: of fp32 weights to probe with.
    """
    if evidence.probe is None:
        return CannotTell(tr("it takes a probe of products in {dtype}", dtype=dtype), change=change)
    done = probed_passes(evidence.probe, *passes(probed_products(work.products, most_bytes=most_bytes)))
    if done is None:
        return CannotTell(tr("the machine was not quiet enough for its probe"), change=change)
    return replaced_rows(
        evidence.report,
        work.seconds,
        done.ratio,
        what=trn(
            "multiplying by the weights of {count} linear layer",
            "multiplying by the weights of {count} linear layers",
            len(work.products),
        ),
        change=change,
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

    from boundby.timing.one_thread import in_one_thread

    done = probe(base, changed)
    if done.ratio.value <= 1.0 or torch.get_num_threads() == 1:
        return done
    with in_one_thread():
        alone = probe(base, changed)
    return None if alone.ratio.value < CONTRADICTS else done


def at_first_inference(convert: Callable[[Any, Effects], Callable[..., Any] | None], effects: Effects) -> None:
    """Convert each outermost module just before its first call, unless its weights are trained.

    Args:
        convert: changes the module in place; returns what turns its call's arguments and output, or None where there
            was nothing to change.
        effects: told where they are trained.
    """
    import torch

    trained = False
    converted: dict[int, Callable[..., Any] | None] = {}
    plain_optimizer = torch.optim.Optimizer.__init__

    @functools.wraps(plain_optimizer)
    def optimizer_init(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal trained
        trained = True
        plain_optimizer(self, *args, **kwargs)

    def around(module: Any, plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if trained or (id(module) not in converted and any(one.grad is not None for one in module.parameters())):
            effects.cannot(tr("the weights are trained"))
            return plain(module, *args, **kwargs)
        if id(module) not in converted:
            converted[id(module)] = None
            with torch.inference_mode(False), torch.no_grad():
                converted[id(module)] = convert(module, effects)
        turned = converted[id(module)]
        if turned is None:
            return plain(module, *args, **kwargs)
        return turned(functools.partial(plain, module), *args, **kwargs)

    around_outermost_calls(around)
    torch.optim.Optimizer.__init__ = optimizer_init  # type: ignore[method-assign]  # what applying from outside means
