"""Inference mode for forward loops that build graphs which nobody goes back through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from boundby.remedies.compiled_calls import overhead_s
from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.in_step import at_line
from boundby.remedies.outermost_modules import around_outermost_calls
from boundby.remedies.predicting import predicted_from_saving
from boundby.results.language import tr, trn
from boundby.results.remedy import ScriptFacts
from boundby.results.units import format_time

NAME = "inference-mode"
CHANGES_NUMBERS = False
ENVIRONMENT: Mapping[str, str] = {}
TOUCHES = frozenset({"model"})
CALL = "torch.inference_mode()"
# A node costs this much beside that of the ceiling's addition: some keep two tensors, views keep none.
LEAST, MOST = 0.5, 2.0


def title() -> str:
    """What it does, for people."""
    return tr("inference mode for forward passes without gradients")


def _change(facts: ScriptFacts) -> str:
    where = at_line(facts.forward_path, facts.forward_line)
    if where:
        return tr("run the loop under {call}, which is that of {where}", call=CALL, where=where)
    return tr("run the loop under {call}", call=CALL)


def predict(evidence: Evidence) -> Prediction:
    """The graph's nodes, one for each op after the first parameter, at what a node costs here."""
    facts, report = evidence.facts, evidence.report
    if facts.grad_in_inference is False:
        return NotApplicable(tr("no graph is built: gradients are off already"))
    if report.step.kind == "training" or any(row.phase == "backward" for row in report.ops):
        return NotApplicable(tr("the step goes back through its graph"))
    if facts.grad_in_inference is None:
        return NotApplicable(tr("no module with parameters is called as a step"))
    node = overhead_s(report.machine, "autograd_node")
    if node is None:
        return CannotTell(tr("what a node of the graph costs here is not known"), change=_change(facts))
    nodes = sum(row.calls for row in report.ops if row.module is not None)
    # What the graph kept is freed at once instead: fewer pages are touched anew, at most all of them.
    faults = report.overhead_parts.allocation * report.step.time_s.median
    return predicted_from_saving(
        report,
        nodes * node,
        LEAST * nodes * node,
        MOST * nodes * node + faults,
        reason=trn(
            "{count} op of modules note how to go back, at {time} each, and nobody does",
            "{count} ops of modules note how to go back, at {time} each, and nobody does",
            nodes,
            time=format_time(node, digits=2),
        ),
        change=_change(facts),
        changes_numbers=CHANGES_NUMBERS,
    )


def apply(effects: Effects) -> None:
    """Outermost modules are called in inference mode, unless the script has an optimizer."""
    import torch

    trains: list[str] = []
    kind: Any = torch.optim.Optimizer
    plain_init = kind.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        trains.append(type(self).__name__)
        plain_init(self, *args, **kwargs)

    kind.__init__ = init

    def around(module: Any, plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if trains or not torch.is_grad_enabled():
            effects.cannot(
                tr("the script trains with {optimizer}", optimizer=trains[0])
                if trains
                else tr("gradients are off already")
            )
            return plain(module, *args, **kwargs)
        with torch.inference_mode():
            result = plain(module, *args, **kwargs)
        effects.saw(tr("module called in inference mode"))
        return result

    around_outermost_calls(around)


def wrap(step: Callable[[], Any], effects: Effects) -> Callable[[], Any]:
    """The step in inference mode; a step that goes backward fails there, which its trial says."""
    import torch

    def run() -> Any:
        with torch.inference_mode():
            result = step()
        effects.saw(tr("step in inference mode"))
        return result

    return run
