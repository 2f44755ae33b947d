"""Inference with linear layers' weights in int8: a quarter of the bytes to read, and products in int8."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from boundby.remedies.contract import Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.weights import SMALLEST_WEIGHT, Product, at_first_inference, linear_work, predicted_products
from boundby.results.language import tr

NAME = "int8-weights"
CHANGES_NUMBERS = True
GROUP = "precision"
ENVIRONMENT: Mapping[str, str] = {}
TOUCHES = frozenset({"model"})


def title() -> str:
    """What it does, for people."""
    return tr("inference with linear layers in int8 (dynamic quantisation)")


def _change() -> str:
    code = (
        "torch.ao.quantization.quantize_dynamic(model, "
        "{torch.nn.Linear: torch.ao.quantization.per_channel_dynamic_qconfig})"
    )
    return tr("{code}; check that its results serve", code=code)


def predict(evidence: Evidence) -> Prediction:
    """The linear layers by a probe on weights of the script's own shapes, in fp32 and in int8."""
    import torch

    work = linear_work(evidence)
    if isinstance(work, NotApplicable):
        return work
    if torch.backends.quantized.engine in ("none", "qnnpack"):
        return NotApplicable(tr("this torch has no int8 kernels for this processor"))
    return predicted_products(evidence, work, _passes, dtype="int8", change=_change())


def _passes(products: Sequence[Product]) -> tuple[Callable[[], object], Callable[[], object]]:
    """A pass over the layers with fp32 weights, and one with int8 weights."""
    import torch

    linear = torch.nn.functional.linear
    inputs = [torch.full((one.rows, one.inputs), 0.5) for one in products]
    weights = [torch.full((one.outputs, one.inputs), 0.01) for one in products]
    small = [
        _packed(torch.ones(weight.shape, dtype=torch.int8), torch.full((len(weight),), 0.01)) for weight in weights
    ]

    def base() -> None:
        with torch.no_grad():
            for one, weight in zip(inputs, weights, strict=True):
                linear(one, weight)

    def changed() -> None:
        with torch.no_grad():
            for one, weight in zip(inputs, small, strict=True):
                torch.ops.quantized.linear_dynamic(one, weight, True)

    return base, changed


def _packed(whole: Any, scales: Any, bias: Any = None) -> Any:
    """int8 weights with a scale for each output, laid out as the kernels read them."""
    import torch

    with warnings.catch_warnings():
        # torch.ao is to move to a package of its own; its kernels stay.
        warnings.simplefilter("ignore")
        zeros = torch.zeros(len(scales), dtype=torch.long)
        weight = torch._make_per_channel_quantized_tensor(whole, scales.double(), zeros, 0)
        return torch.ops.quantized.linear_prepack(weight, bias)


def apply(effects: Effects) -> None:
    """Linear layers compute in int8 from their outermost module's first inference on."""
    at_first_inference(_converted, effects)


def _converted(module: Any, effects: Effects) -> None:
    import torch

    found = 0
    for layer in module.modules():
        # Subclasses may do something else with their weights.
        if type(layer) is not torch.nn.Linear or layer.weight.dtype is not torch.float32:
            continue
        if math.prod(layer.weight.shape) < SMALLEST_WEIGHT or "forward" in vars(layer):
            continue
        try:
            _quantise(layer, effects)
        except RuntimeError as error:
            effects.cannot(tr("int8 weights: {error}", error=str(error).partition("\n")[0]))
            return
        found += 1
    if not found:
        effects.cannot(
            tr(
                "{module} has no linear layer with {count} fp32 weights or more",
                module=type(module).__name__,
                count=f"{SMALLEST_WEIGHT:,}",
            )
        )


def _quantise(layer: Any, effects: Effects) -> None:
    import torch

    weight = layer.weight.detach()
    scales = weight.abs().amax(1).clamp_min(1e-12) / 127.0
    whole = (weight / scales[:, None]).round().to(torch.int8)
    packed = _packed(whole, scales, None if layer.bias is None else layer.bias.detach())
    plain = layer.forward
    linear_dynamic = torch.ops.quantized.linear_dynamic

    def forward(inputs: Any) -> Any:
        if inputs.dtype is not torch.float32 or not inputs.numel() or inputs.requires_grad:
            return plain(inputs)
        output = linear_dynamic(inputs.contiguous(), packed, True)
        effects.saw(tr("linear layer in int8"))
        return output

    # The layer keeps its weight, which other code may read.
    layer.forward = forward


def wrap(step: Callable[[], Any], effects: Effects) -> None:
    """The modules inside a callable are not known, and they are the user's own."""
