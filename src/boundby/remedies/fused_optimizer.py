"""Fused optimizer kernels: one kernel for a list of parameters in place of several small ops for each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.predicting import replaced_part
from boundby.results.remedy import OptimizerFacts
from boundby.results.units import plural

NAME = "fused-optimizer"
TITLE = "fused optimizer kernels"
CHANGES_NUMBERS = True
ENVIRONMENT: Mapping[str, str] = {}
# The optimizers of torch 2.13 whose constructors take fused=True; others have no such kernel.
FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
CHANGE = "pass fused=True to the optimizer"


def predict(evidence: Evidence) -> Prediction:
    """The optimizer's time by a probe on parameters of the script's own shapes, as it is and fused."""
    optimizers = evidence.facts.optimizers
    if not optimizers:
        return NotApplicable("no optimizer stepped")
    wanted = [one for one in optimizers if one.name in FUSED and not one.fused and not one.sparse]
    if not wanted:
        return NotApplicable(f"{optimizers[0].name} has no fused kernel here, or uses it already")
    if evidence.probe is None:
        return CannotTell("it takes a probe of the optimizer's kernels", change=CHANGE)
    parts = [evidence.probe(_stepper(one, fused=False), _stepper(one, fused=True)) for one in wanted]
    count = sum(len(one.shapes) for one in wanted)
    return replaced_part(
        evidence.report,
        parts,
        what=f"stepping {plural(count, 'parameter')} of these shapes",
        change=CHANGE,
        changes_numbers=CHANGES_NUMBERS,
    )


def _stepper(facts: OptimizerFacts, *, fused: bool) -> Callable[[], object]:
    import torch

    generator = torch.Generator().manual_seed(1)
    parameters = []
    for shape, dtype in zip(facts.shapes, facts.dtypes, strict=True):
        parameter = torch.zeros(shape, dtype=getattr(torch, dtype)).requires_grad_()
        parameter.grad = torch.randn(shape, generator=generator).to(parameter.dtype)
        parameters.append(parameter)
    kind: Any = getattr(torch.optim, facts.name)
    # Defaults hold more than the constructor takes.
    taken = inspect.signature(kind).parameters.keys() - {"fused", "foreach"}
    options = {name: value for name, value in facts.options.items() if name in taken}
    choice = {"fused": True} if fused else {"fused": facts.fused, "foreach": facts.foreach}
    optimizer = kind(parameters, **options, **choice)
    return optimizer.step  # type: ignore[no-any-return]  # torch's own, untyped by way of getattr


def apply(effects: Effects) -> None:
    """Optimizers made from now on are fused, where the script leaves that to torch and the parameters allow it."""
    import torch

    for name in FUSED:
        kind: Any = getattr(torch.optim, name, None)
        if kind is not None:
            _make_fused(kind, name, effects)


def _make_fused(kind: Any, name: str, effects: Effects) -> None:
    plain = kind.__init__

    def init(self: Any, params: Any, *args: Any, **kwargs: Any) -> None:
        params, tensors = _unrolled(params)
        if type(self) is not kind or kwargs.get("fused") is not None or kwargs.get("foreach"):
            plain(self, params, *args, **kwargs)
            return
        if any(one.is_complex() for one in tensors):
            effects.cannot(f"{name}: complex parameters have no fused kernel")
            plain(self, params, *args, **kwargs)
            return
        try:
            plain(self, params, *args, **{**kwargs, "fused": True})
        except (RuntimeError, TypeError, ValueError) as error:
            effects.cannot(f"{name}: {str(error).partition(chr(10))[0]}")
            self.__dict__.clear()
            plain(self, params, *args, **kwargs)
            return
        effects.saw(f"fused {name}")

    kind.__init__ = init


def _unrolled(params: Any) -> tuple[Any, list[Any]]:
    """What an optimizer is given, its generators made lists, and the tensors in it."""
    import torch

    if torch.is_tensor(params):
        return params, []  # the optimizer's own error is to come
    groups = [
        {**one, "params": one["params"] if torch.is_tensor(one["params"]) else list(one["params"])}
        if isinstance(one, dict) and "params" in one
        else one
        for one in params
    ]
    flat = [one for group in groups for one in (group["params"] if isinstance(group, dict) else [group])]
    named = (one[1] if isinstance(one, tuple) else one for one in flat)
    return groups, [one for one in named if torch.is_tensor(one)]


def wrap(step: Callable[[], Any], effects: Effects) -> None:
    """An optimizer that exists already keeps its kernels: a callable cannot be changed from outside."""
