"""Compiling a script's outermost modules from outside, and hearing of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from boundby.remedies.contract import Effects
from boundby.remedies.outermost_modules import around_outermost_calls
from boundby.results.language import tr

# A script that calls more modules than these from outside has no hot one.
MOST_MODULES = 8


def compile_outermost_modules(effects: Effects, compile_forward: Callable[[Any], Any]) -> None:
    """From now on each outermost module with parameters runs its forward compiled; one that cannot be runs as it was.

    Args:
        effects: told what was left as it is.
        compile_forward: makes the compiled forward of a plain one.
    """
    import torch

    forwards: dict[int, tuple[Any, Any]] = {}
    torch._dynamo.config.suppress_errors = True  # a region that cannot be compiled runs as it was

    def around(module: Any, plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if id(module) not in forwards and len(forwards) < MOST_MODULES:
            # The module is held, so that no other one gets its number.
            forwards[id(module)] = (module, _compiled(module, compile_forward, effects))
        elif id(module) not in forwards:
            effects.cannot(tr("more than {number} modules are called from outside", number=str(MOST_MODULES)))
        _, forward = forwards.get(id(module), (None, None))
        if forward is None:
            return plain(module, *args, **kwargs)
        # The module's own hooks run as ever, outside; and nothing stays in it that a copy of it would take along.
        own = vars(module).get("forward")
        vars(module)["forward"] = forward
        try:
            return plain(module, *args, **kwargs)
        finally:
            if own is None:
                del vars(module)["forward"]
            else:
                vars(module)["forward"] = own

    around_outermost_calls(around)


def telling_backend(effects: Effects) -> Callable[..., Any]:
    """torch's own compiler, with the graphs that it compiled, failed on or broke up told to the effects."""
    import torch
    from torch._dynamo.utils import counters

    inductor: Any = torch._dynamo.lookup_backend("inductor")

    def backend(graph: Any, inputs: Any, **options: Any) -> Any:
        for reason in counters["graph_break"]:
            effects.cannot(tr("one graph: it breaks, {reason}", reason=_first_line(reason)))
        try:
            compiled = inductor(graph, inputs, **options)
        except Exception as error:
            effects.cannot(f"{type(error).__name__}: {_first_line(error)}")
            raise
        effects.saw(tr("graph compiled"))
        return compiled

    return backend


def _compiled(module: Any, compile_forward: Callable[[Any], Any], effects: Effects) -> Any:
    """Its forward, to be compiled when it is first called; None where it is left as it is."""
    import torch

    if isinstance(module, torch._dynamo.eval_frame.OptimizedModule) or module._compiled_call_impl is not None:
        effects.cannot(tr("the script compiles its module itself"))
        return None
    if next(module.parameters(), None) is None:
        return None
    return compile_forward(module.forward)


def _first_line(what: object) -> str:
    return str(what).strip().partition("\n")[0]
