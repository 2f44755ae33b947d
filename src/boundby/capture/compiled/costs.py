"""What a call of a compiled region costs: its kernels and library calls, and beside it what it would be op by op."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from boundby.capture.compiled.equivalent import EagerEquivalents
from boundby.capture.compiled.indices import UnreadableError
from boundby.capture.compiled.kernels import KernelCost, KernelText
from boundby.capture.compiled.launches import listening, module_of, read_kernels
from boundby.capture.costs import CostCache
from boundby.results.counts import EagerEquivalent, OpCost

# Sizes that are known only when the region runs: u0, u1...
_DECIDED_BY_DATA = re.compile(r"\bu\d+\b")


class RegionCall:
    """One call of a region while it runs; ``cost`` is there once it has ended."""

    def __init__(self) -> None:
        self.library: list[OpCost] = []
        self.cost = OpCost(kind="other", modelled=False)


class RegionCosts:
    """Costs of compiled regions, worked out at the first call with each signature and then kept.

    Args:
        costs: costs of the library ops that regions call, by signature.
    """

    def __init__(self, costs: CostCache) -> None:
        self._costs = costs
        self._equivalents = EagerEquivalents(costs)
        self._kernels: dict[int, dict[str, KernelText] | None] = {}
        self._kept: dict[Any, OpCost] = {}
        # Keeps ids of compiled graphs from being used again.
        self._known: list[Any] = []
        self._running: RegionCall | None = None

    @contextmanager
    def watching(self, graph: Any, inputs: Any) -> Iterator[RegionCall]:
        """Watch the call of a compiled graph that is made inside.

        Args:
            graph: the compiled graph.
            inputs: what it is called with. Not kept: a region may free its inputs as it goes.
        """
        key = _signature(graph, inputs)
        call = RegionCall()
        known = self._kept.get(key)
        if known is not None:
            yield call
            call.cost = known
            self._equivalents.of(graph, sys._getframe(2), key)
            return
        kernels = self._kernels_of(graph)
        self._running = call
        try:
            if kernels is None:
                yield call
                fused = None
            else:
                with listening(module_of(graph), kernels) as launches:
                    yield call
                fused = _fused(kernels, launches)
        finally:
            self._running = None
        eager = self._equivalents.of(graph, sys._getframe(2), key)
        call.cost = _region_cost(fused, call.library, eager)
        if not _DECIDED_BY_DATA.search(getattr(graph, "source_code", None) or ""):
            self._kept[key] = call.cost

    def note(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Note an op that the running region hands to its usual kernel."""
        if self._running is not None:
            self._running.library.append(self._costs.lookup(func, args, kwargs, out)[0])

    def _kernels_of(self, graph: Any) -> dict[str, KernelText] | None:
        """The kernels of a graph; None where they cannot be read."""
        if id(graph) not in self._kernels:
            self._known.append(graph)
            try:
                module_of(graph)
                self._kernels[id(graph)] = read_kernels(graph.source_code)
            except (UnreadableError, AttributeError):  # Another torch, another device, or a template.
                self._kernels[id(graph)] = None
        return self._kernels[id(graph)]


def _signature(graph: Any, inputs: Any) -> Any:
    return (
        id(graph),
        *(
            (one.shape, one.stride(), one.dtype)
            if isinstance(one, torch.Tensor) and one.layout is torch.strided
            else one
            if isinstance(one, int)
            else type(one)
            for one in inputs
        ),
    )


def _fused(kernels: dict[str, KernelText], launches: list[Any]) -> list[KernelCost] | None:
    """The costs of the kernels launched; None where one cannot be told, or none was seen of those there are."""
    if kernels and not launches:
        return None
    try:
        return [kernels[name].cost(arguments) for name, arguments in launches]
    except UnreadableError:
        return None


def _region_cost(fused: list[KernelCost] | None, library: list[OpCost], eager: EagerEquivalent | None) -> OpCost:
    """The sums. Where kernels cannot be read, products handed to the usual kernels are counted all the same."""
    kernels = fused or []
    heaviest = max(library, key=lambda one: one.matmul_flops, default=None)
    return OpCost(
        kind="other",
        launches=max(1, len(kernels) + sum(one.launches for one in library)),
        matmul_flops=sum(one.matmul_flops for one in library),
        causal_matmul_flops=sum(one.causal_matmul_flops for one in library),
        pointwise_flops=sum(one.pointwise_flops for one in kernels) + sum(one.pointwise_flops for one in library),
        bytes_read=sum(one.bytes_read for one in kernels) + sum(one.bytes_read for one in library),
        bytes_written=sum(one.bytes_written for one in kernels) + sum(one.bytes_written for one in library),
        dtype=heaviest.dtype if heaviest is not None else "fp32",
        modelled=fused is not None and all(one.modelled for one in library),
        eager=eager,
    )
