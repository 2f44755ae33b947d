"""Calls of regions that torch.compile compiled: their kernels do not go through the dispatcher."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

REGION_NAME = "torch.compile region"


class _Region:
    """Stands in a step's sequence for a compiled region, as ops do."""

    def __str__(self) -> str:
        return REGION_NAME


REGION = _Region()


class CompiledCalls:
    """While open, every outermost call of a compiled region goes through ``around(call)``, which must make it.

    The class of compiled graphs is patched, not the graphs or their callers, so nothing recompiles. ``inside`` tells
    whether a region is running.
    """

    def __init__(self, around: Callable[[Callable[[], Any]], Any]) -> None:
        self.inside = False
        self._around = around
        self._graph: Any = None
        self._original: Any = None

    def open(self) -> None:
        """Begin; does nothing where nothing was compiled yet."""
        module = sys.modules.get("torch._inductor.output_code")
        if module is None or self._graph is not None:
            return
        graph = self._graph = module.CompiledFxGraph
        original = self._original = graph.__call__

        def call(this: Any, inputs: Any) -> Any:
            if self.inside:
                return original(this, inputs)
            self.inside = True
            try:
                return self._around(lambda: original(this, inputs))
            finally:
                self.inside = False

        graph.__call__ = call

    def close(self) -> None:
        """Put everything back."""
        graph, self._graph = self._graph, None
        if graph is not None:
            graph.__call__ = self._original
