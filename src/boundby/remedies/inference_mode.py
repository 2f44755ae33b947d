"""Inference mode for forward loops that build graphs which nobody goes back through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from boundby.remedies.compiled_calls import overhead_s
from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.outermost_modules import around_outermost_calls
from boundby.remedies.predicting import predicted_from_saving
from boundby.results.units import plural

NAME = "inference-mode"
TITLE = "inference mode for forward passes without gradients"
CHANGES_NUMBERS = False
ENVIRONMENT: Mapping[str, str] = {}
CHANGE = "run the loop under torch.inference_mode()"
# A node costs this much beside that of the ceiling's addition: some keep two tensors, views keep none.
LEAST, MOST = 0.5, 2.0


def predict(evidence: Evidence) -> Prediction:
    """The graph's nodes, one for each op after the first parameter, at what a node costs here."""
    facts, report = evidence.facts, evidence.report
    if facts.grad_in_inference is False:
        return NotApplicable("no graph is built: gradients are off already")
    if report.step.kind == "training" or any(row.phase == "backward" for row in report.ops):
        return NotApplicable("the step goes back through its graph")
    if facts.grad_in_inference is None:
        return NotApplicable("no module with parameters is called as a step")
    node = overhead_s(report.machine, "autograd_node")
    if node is None:
        return CannotTell("what a node of the graph costs here is not known", change=CHANGE)
    nodes = sum(row.calls for row in report.ops if row.module is not None)
    # What the graph kept is freed at once instead: fewer pages are touched anew, at most all of them.
    faults = report.overhead_parts.allocation * report.step.time_s.median
    return predicted_from_saving(
        report,
        nodes * node,
        LEAST * nodes * node,
        MOST * nodes * node + faults,
        reason=f"{plural(nodes, 'op')} of modules note how to go back, at {node * 1e6:.2g} us each, and nobody does",
        change=CHANGE,
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
            effects.cannot(f"the script trains with {trains[0]}" if trains else "gradients are off already")
            return plain(module, *args, **kwargs)
        with torch.inference_mode():
            result = plain(module, *args, **kwargs)
        effects.saw("module called in inference mode")
        return result

    around_outermost_calls(around)


def wrap(step: Callable[[], Any], effects: Effects) -> Callable[[], Any]:
    """The step in inference mode; a step that goes backward fails there, which its trial says."""
    import torch

    def run() -> Any:
        with torch.inference_mode():
            result = step()
        effects.saw("step in inference mode")
        return result

    return run
