"""Products of fp32 matrices at less precision inside, where the processor is quicker at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.in_step import in_fp32, replaced_rows, slow_dtype
from boundby.remedies.outermost_modules import around_outermost_calls
from boundby.remedies.replayed import PRODUCTS, kinds_of, products_part
from boundby.results.language import tr, trn

NAME = "matmul-precision"
CHANGES_NUMBERS = True
GROUP = "precision"
ENVIRONMENT: Mapping[str, str] = {}
TOUCHES = frozenset({"model"})
PRECISION = "medium"
CHANGE = f'torch.set_float32_matmul_precision("{PRECISION}")'
# Convolutions have a setting of their own, which this one leaves alone.
MATMULS = tuple(name for name in PRODUCTS if name != "convolution")
# Fewer seconds of the step than this share cannot make it as much faster as is worth a change.
LEAST_SHARE = 0.1


def title() -> str:
    """What it does, for people."""
    return tr("fp32 products in bf16 inside (float32_matmul_precision)")


def predict(evidence: Evidence) -> Prediction:
    """The script's own products by probes, as they are and with the precision set."""
    report, facts = evidence.report, evidence.facts
    if facts.autocast:
        return NotApplicable(tr("the products are in bf16 already, by autocast"))
    if facts.matmul_precision == PRECISION:
        return NotApplicable(tr("the script sets it already"))
    if slow_dtype(report, "bf16"):
        return NotApplicable(tr("this machine is slow at products in bf16"))
    single = replace(report, ops=tuple(row for row in report.ops if in_fp32(row)))
    products = kinds_of(single.ops, MATMULS)
    if not products or sum(kind.share for kind in products) < LEAST_SHARE:
        return NotApplicable(tr("products are hardly any of the step"))
    if evidence.probe is None:
        return CannotTell(tr("it takes a probe of the products"), change=CHANGE)
    part = products_part(replace(evidence, report=single), products, around=_less_precise)
    if part is None:
        return CannotTell(tr("it has products of a sort that is not probed"), change=CHANGE)
    count = sum(kind.calls for kind in products)
    return replaced_rows(
        report,
        part.seconds,
        part.ratio,
        what=trn("{count} product with their gradients", "{count} products with their gradients", count),
        change=CHANGE,
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
            effects.saw(tr("module called with products at {precision} precision", precision=PRECISION))
        else:
            effects.cannot(tr("the script sets the precision itself"))
        return plain(module, *args, **kwargs)

    around_outermost_calls(around)


def wrap(step: Callable[[], Any], effects: Effects) -> Callable[[], Any]:
    """The step with the precision set, and set back after it."""

    def run() -> Any:
        with _less_precise():
            result = step()
        effects.saw(tr("step with products at {precision} precision", precision=PRECISION))
        return result

    return run
