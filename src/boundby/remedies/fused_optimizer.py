"""Fused optimizer kernels: one kernel for a list of parameters in place of several small ops for each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.in_step import seconds_of
from boundby.remedies.predicting import replaced_part
from boundby.results.language import tr, trn
from boundby.results.remedy import OptimizerFacts
from boundby.results.report import Report

NAME = "fused-optimizer"
CHANGES_NUMBERS = True
ENVIRONMENT: Mapping[str, str] = {}
TOUCHES = frozenset({"optimizer"})
# The optimizers of torch 2.13 whose constructors take fused=True; others have no such kernel.
FUSED = ("Adam", "AdamW", "SGD", "Adagrad")


def title() -> str:
    """What it does, for people."""
    return tr("fused optimizer kernels")


def _change() -> str:
    return tr("pass {argument} to the optimizer", argument="fused=True")


def predict(evidence: Evidence) -> Prediction:
    """The optimizer's time by a probe on parameters of the script's own shapes, as it is and fused."""
    optimizers = evidence.facts.optimizers
    if not optimizers:
        return NotApplicable(tr("no optimizer stepped"))
    wanted = [one for one in optimizers if one.name in FUSED and not one.fused and not one.sparse]
    if not wanted:
        return NotApplicable(tr("{name} has no fused kernel here, or uses it already", name=optimizers[0].name))
    if not all(one.shapes for one in wanted):
        return CannotTell(tr("the optimizer's gradients were not seen"), change=_change())
    if evidence.probe is None:
        return CannotTell(tr("it takes a probe of the optimizer's kernels"), change=_change())
    parts = [evidence.probe(_stepper(one, fused=False), _stepper(one, fused=True)) for one in wanted]
    count = sum(len(one.shapes) for one in wanted)
    rows_s = seconds_of(evidence.report, (row for row in evidence.report.ops if row.phase == "optimizer"))
    return replaced_part(
        evidence.report,
        parts,
        what=trn("stepping {count} parameter of these shapes", "stepping {count} parameters of these shapes", count),
        change=_change(),
        changes_numbers=CHANGES_NUMBERS,
        # Its ops may take longer inside the step than by themselves: by their page faults, for one.
        least_s=rows_s if len(wanted) == len(optimizers) else 0.0,
        most_s=_most_s(evidence.report),
    )


def _most_s(report: Report) -> float | None:
    """The most that optimizers take of a step: their ops, and all host code; None where their ops were not seen."""
    share = sum(row.share for row in report.ops if row.phase == "optimizer")
    return (share + report.overhead_parts.host) * report.step.time_s.median if share else None


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
            effects.cannot(tr("{name}: complex parameters have no fused kernel", name=name))
            plain(self, params, *args, **kwargs)
            return
        try:
            plain(self, params, *args, **{**kwargs, "fused": True})
        except (RuntimeError, TypeError, ValueError) as error:
            effects.cannot(f"{name}: {str(error).partition(chr(10))[0]}")
            self.__dict__.clear()
            plain(self, params, *args, **kwargs)
            return
        effects.saw(tr("fused {name}", name=name))

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
