"""Inference with weights in bf16: half as many bytes to read for each product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from boundby.remedies.contract import Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.in_step import slow_dtype
from boundby.remedies.weights import MOST_BYTES, Product, at_first_inference, linear_work, predicted_products
from boundby.results.language import tr

NAME = "bf16-weights"
CHANGES_NUMBERS = True
GROUP = "precision"
ENVIRONMENT: Mapping[str, str] = {}
TOUCHES = frozenset({"model"})
# A slow dtype is probed with little, so that the probe ends soon.
FEW_BYTES = 8 << 20


def title() -> str:
    """What it does, for people."""
    return tr("inference with weights in bf16")


def _change() -> str:
    return tr("{code}, and give it bf16 inputs", code="model = model.to(torch.bfloat16)")


def predict(evidence: Evidence) -> Prediction:
    """The linear layers by a probe on weights of the script's own shapes, in fp32 and in bf16."""
    work = linear_work(evidence)
    if isinstance(work, NotApplicable):
        return work
    if evidence.facts.autocast:
        return NotApplicable(tr("the script runs under autocast already"))
    most_bytes = FEW_BYTES if slow_dtype(evidence.report, "bf16") else MOST_BYTES
    return predicted_products(evidence, work, _passes, dtype="bf16", change=_change(), most_bytes=most_bytes)


def _passes(products: Sequence[Product]) -> tuple[Callable[[], object], Callable[[], object]]:
    """A pass over the layers with fp32 weights, and one with bf16 weights."""
    import torch

    linear = torch.nn.functional.linear

    def made(dtype: torch.dtype) -> Callable[[], object]:
        layers = [
            (
                torch.full((one.rows, one.inputs), 0.5, dtype=dtype),
                torch.full((one.outputs, one.inputs), 0.01, dtype=dtype),
            )
            for one in products
        ]

        def run() -> None:
            with torch.no_grad():
                for inputs, weight in layers:
                    linear(inputs, weight)

        return run

    return made(torch.float32), made(torch.bfloat16)


def apply(effects: Effects) -> None:
    """Outermost modules get bf16 weights before their first inference; their outputs are fp32 as before."""
    at_first_inference(_converted, effects)


def _converted(module: Any, effects: Effects) -> Callable[..., Any] | None:
    import torch
    from torch.utils._pytree import tree_map_only

    tensors = [one for one in (*module.parameters(), *module.buffers()) if one.dtype is torch.float32]
    if not tensors:
        effects.cannot(tr("{module} has no fp32 weights", module=type(module).__name__))
        return None
    if any(one.is_inference() for one in tensors):
        effects.cannot(
            tr("{module} was made in inference mode, where weights may not be replaced", module=type(module).__name__)
        )
        return None
    plain = [(one, one.data) for one in tensors]
    module.to(torch.bfloat16)
    first, undone = True, False

    def down(one: torch.Tensor) -> torch.Tensor:
        return one.to(torch.bfloat16) if one.dtype is torch.float32 else one

    def up(one: torch.Tensor) -> torch.Tensor:
        return one.float() if one.dtype is torch.bfloat16 else one

    def call(plain_call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        nonlocal first, undone
        if undone:
            return plain_call(*args, **kwargs)
        try:
            bf16_args, bf16_kwargs = tree_map_only(torch.Tensor, down, (args, kwargs))
            output = tree_map_only(torch.Tensor, up, plain_call(*bf16_args, **bf16_kwargs))
        except (RuntimeError, TypeError) as error:
            if not first:
                raise
            # Code that makes fp32 tensors of its own does not go with bf16 weights: as it was.
            effects.cannot(
                tr("{module} in bf16: {error}", module=type(module).__name__, error=str(error).partition("\n")[0])
            )
            with torch.inference_mode(False), torch.no_grad():
                for tensor, data in plain:
                    tensor.data = data
            undone = True
            return plain_call(*args, **kwargs)
        first = False
        effects.saw(tr("forward pass with bf16 weights"))
        return output

    return call


def wrap(step: Callable[[], Any], effects: Effects) -> None:
    """The modules inside a callable are not known, and they are the user's own."""
