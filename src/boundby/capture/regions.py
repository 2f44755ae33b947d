"""Calls of regions that torch.compile compiled: their kernels do not go through the dispatcher."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from boundby.results.counts import REGION_NAME


class _Region:
    """Stands in a step's sequence for a compiled region, as ops do."""

    def __str__(self) -> str:
        return REGION_NAME


REGION = _Region()


class CompiledCalls:
    """While open, every outermost call of a compiled region goes through ``around(call)``, which must make it.

    The class of compiled graphs is patched, not the graphs or their callers, so nothing recompiles. ``inside`` tells
    whether a region is running; ``graph`` and ``inputs`` are those of the call that ``around`` is about to make.

    Args:
        around: gets a call to make; returns its result.
        also_new: whether to begin with the first compilation while open, where nothing was compiled before.
    """

    def __init__(self, around: Callable[[Callable[[], Any]], Any], *, also_new: bool = False) -> None:
        self.inside = False
        self.graph: Any = None
        self.inputs: Any = ()
        self._around = around
        self._also_new = also_new
        self._handler: Any = None
        self._patched: Any = None
        self._original: Any = None

    def open(self) -> None:
        """Begin."""
        if self._patched is None and self._also_new and self._handler is None and "torch._dynamo" in sys.modules:
            from torch._dynamo.callback import callback_handler

            self._handler = callback_handler
            callback_handler.register_end_callback(self._compiled)
        self._patch()

    def _compiled(self, *args: Any) -> None:
        self._patch()

    def _patch(self) -> None:
        module = sys.modules.get("torch._inductor.output_code")
        if module is None or self._patched is not None:
            return
        graph = self._patched = module.CompiledFxGraph
        original = self._original = graph.__call__

        def call(this: Any, inputs: Any) -> Any:
            if self.inside:
                return original(this, inputs)
            self.inside, self.graph, self.inputs = True, this, inputs
            try:
                return self._around(lambda: original(this, inputs))
            finally:
                self.inside, self.graph, self.inputs = False, None, ()

        graph.__call__ = call

    def close(self) -> None:
        """Put everything back."""
        handler, self._handler = self._handler, None
        if handler is not None:
            handler.remove_end_callback(self._compiled)
        graph, self._patched = self._patched, None
        if graph is not None:
            graph.__call__ = self._original
