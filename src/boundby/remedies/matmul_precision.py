"""Products of fp32 matrices at less precision inside, where the processor is quicker at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.in_step import replaced_rows, slow_dtype
from boundby.remedies.outermost_modules import around_outermost_calls
from boundby.remedies.replayed import PRODUCTS, kinds_of, products_part
from boundby.results.units import plural

NAME = "matmul-precision"
TITLE = "fp32 products in bf16 inside (float32_matmul_precision)"
CHANGES_NUMBERS = True
ENVIRONMENT: Mapping[str, str] = {}
PRECISION = "medium"
CHANGE = f'torch.set_float32_matmul_precision("{PRECISION}")'
# Convolutions have a setting of their own, which this one leaves alone.
MATMULS = tuple(name for name in PRODUCTS if name != "convolution")
# Fewer seconds of the step than this share cannot make it as much faster as is worth a change.
LEAST_SHARE = 0.1


def predict(evidence: Evidence) -> Prediction:
    """The script's own products by probes, as they are and with the precision set."""
    report, facts = evidence.report, evidence.facts
    if facts.autocast:
        return NotApplicable("the products are in bf16 already, by autocast")
    if facts.matmul_precision == PRECISION:
        return NotApplicable("the script sets it already")
    if slow_dtype(report, "bf16"):
        return NotApplicable("this machine is slow at products in bf16")
    products = kinds_of(report.ops, MATMULS)
    if not products or sum(kind.share for kind in products) < LEAST_SHARE:
        return NotApplicable("products are hardly any of the step")
    if evidence.probe is None:
        return CannotTell("it takes a probe of the products", change=CHANGE)
    part = products_part(evidence, products, around=_less_precise)
    if part is None:
        return CannotTell("it has products of a sort that is not probed", change=CHANGE)
    count = sum(kind.calls for kind in products)
    return replaced_rows(
        report, part.seconds, part.ratio, what=f"{plural(count, 'product')} with their gradients", change=CHANGE
    )


@contextmanager
def _less_precise() -> Iterator[None]:
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(PRECISION)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def apply(effects: Effects) -> None:
    """Set before the script runs, which may set it otherwise."""
    import torch

    torch.set_float32_matmul_precision(PRECISION)

    def around(module: Any, plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if torch.get_float32_matmul_precision() == PRECISION:
            effects.saw(f"module called with products at {PRECISION} precision")
        else:
            effects.cannot("the script sets the precision itself")
        return plain(module, *args, **kwargs)

    around_outermost_calls(around)


def wrap(step: Callable[[], Any], effects: Effects) -> Callable[[], Any]:
    """The step with the precision set, and set back after it."""

    def run() -> Any:
        with _less_precise():
            result = step()
        effects.saw(f"step with products at {PRECISION} precision")
        return result

    return run
