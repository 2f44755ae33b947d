"""Launches saved on a device with a queue: the module's kernels recorded once, and replayed as one graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from boundby.remedies.compiled_modules import compile_outermost_modules
from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.predicting import predicted_from_saving
from boundby.results.language import tr
from boundby.results.machine import Ceiling, Machine
from boundby.results.units import format_time

NAME = "launch"
CHANGES_NUMBERS = True
ENVIRONMENT: Mapping[str, str] = {}
TOUCHES = frozenset({"model"})


def title() -> str:
    """What it does, for people."""
    return tr("kernels replayed as one graph (reduce-overhead)")


def _change() -> str:
    return tr(
        "{code}, or a {graph} around the step",
        code='model = torch.compile(model, mode="reduce-overhead")',
        graph="torch.cuda.CUDAGraph",
    )


def predict(evidence: Evidence) -> Prediction:
    """Launches times what one costs here, less what it costs in a graph, where the host keeps the device waiting."""
    report = evidence.report
    if report.step.device == "cpu":
        return NotApplicable(tr("no device with launches to save"))
    if evidence.facts.compiled:
        return NotApplicable(tr("the script compiles already"))
    each, replayed = _launch(evidence.machine, "back_to_back"), _launch(evidence.machine, "graph_kernel")
    if each is None:
        return CannotTell(tr("what a launch costs here is not known"), change=_change())
    if replayed is None:
        return NotApplicable(tr("the device replays no graphs"))
    launches = report.counts.launches
    if not launches:
        return CannotTell(tr("how many launches a step makes is not known"), change=_change())
    step = report.step.time_s.median
    overhead = report.split.overhead
    # Launches cost time only where the device waits for them: that is what the split says. Host code that the graph
    # no longer runs is saved as well, at most all of it.
    saved = min(launches * (each.value - replayed.value), overhead.value * step, step - launches * replayed.value)
    low = min(launches * (each.low - replayed.high), overhead.low * step, step - launches * replayed.high)
    high = max(saved, min(overhead.high * step, step - launches * replayed.low))
    return predicted_from_saving(
        report,
        saved,
        min(low, saved),
        high,
        reason=tr(
            "{launches} launches a step at {each} each, {replayed} in a graph; overhead is {share} of the step",
            launches=f"{launches:,}",
            each=format_time(each.value, digits=2),
            replayed=format_time(replayed.value, digits=2),
            share=f"{overhead.value:.0%}",
        ),
        change=_change(),
        changes_numbers=CHANGES_NUMBERS,
    )


def _launch(machine: Machine, name: str) -> Ceiling | None:
    return next((one for one in machine.ceilings if one.kind == "launch" and one.name == name), None)


def apply(effects: Effects) -> None:
    """Outermost modules are compiled to graphs that are replayed, on a device that has them."""
    import torch

    mark: Callable[[], None] = torch.compiler.cudagraph_mark_step_begin
    if not torch.cuda.is_available():
        effects.cannot(tr("there is no device with launches to save"))
        return

    def compile_forward(forward: Any) -> Any:
        compiled: Any = torch.compile(forward, mode="reduce-overhead")

        def run(*args: Any, **kwargs: Any) -> Any:
            # Results of a replayed graph are overwritten by the next replay, unless each step is marked.
            mark()
            result = compiled(*args, **kwargs)
            _tell(effects)
            return result

        return run

    compile_outermost_modules(effects, compile_forward)


def _tell(effects: Effects) -> None:
    from torch._dynamo.utils import counters

    if counters["inductor"]["cudagraph_skips"]:
        effects.cannot(tr("some graph cannot be recorded for replay"))
    elif counters["stats"]["unique_graphs"]:
        effects.saw(tr("module called as a replayed graph"))


def wrap(step: Callable[[], Any], effects: Effects) -> Callable[[], Any] | None:
    """The whole step compiled for replay; None without a device."""
    import torch

    if not torch.cuda.is_available():
        return None
    compiled: Callable[[], Any] = torch.compile(step, mode="reduce-overhead")

    def run() -> Any:
        result = compiled()
        _tell(effects)
        return result

    return run
