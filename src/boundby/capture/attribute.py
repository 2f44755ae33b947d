"""The attributing watcher: what each op is, where it comes from and which memory it touches.

Its own times are used only where no leanly watched step had the same sequence of ops.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from boundby.capture.costs import CostCache
from boundby.capture.regions import REGION, CompiledCalls
from boundby.capture.sites import Place, SiteFinder, backward_key, forward_key, is_recomputing
from boundby.capture.usage import minor_faults
from boundby.capture.watcher import OpWatcher
from boundby.results.counts import OpCost, Phase

# Of a site: op, cost, shapes, source path, line, module, phase, recomputed, tensors in its longest list.
SiteKey = tuple[Any, OpCost, str, str | None, int | None, str | None, Phase, bool, int]

_node_now = torch._C._current_autograd_node


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributedStep:
    """One attributed step in columns: an entry an op, touches one after the other (``offsets`` says whose)."""

    ops: list[Any]
    stamps: array[int]
    site: array[int]
    works: array[int]
    faults: array[int]
    keys: array[int]
    sizes: array[int]
    offsets: array[int]
    inputs: array[int]
    device: str


class AttributingWatcher(OpWatcher):
    """Notes each op's site, page faults and touched memory; interns sites, so that a long step stays small."""

    def __init__(self, in_optimizer: Callable[[], bool]) -> None:
        super().__init__()
        self.sites: dict[SiteKey, int] = {}
        self._finder = SiteFinder()
        self._costs = CostCache()
        self._in_optimizer = in_optimizer
        self._forward_places: dict[int, Place] = {}
        self._regions = CompiledCalls(self._run_region)
        self._region_costs: list[OpCost] = []
        self.reset()

    def start(self) -> None:
        """Watch from now on."""
        self._regions.open()
        super().start()

    def stop(self) -> None:
        """Watch no more."""
        super().stop()
        self._regions.close()

    def reset(self) -> None:
        """Begin a step."""
        self._ops: list[Any] = []
        self._stamps = array("q")
        self._site = array("I")
        self._works = array("B")
        self._faults = array("I")
        self._keys = array("Q")
        self._sizes = array("Q")
        self._offsets = array("Q", [0])
        self._inputs = array("B")
        self._device = "cpu"
        self._forward_places.clear()
        self._backward_place: Place | None = None

    def take(self) -> AttributedStep:
        """What was seen since the reset."""
        return AttributedStep(
            ops=self._ops,
            stamps=self._stamps,
            site=self._site,
            works=self._works,
            faults=self._faults,
            keys=self._keys,
            sizes=self._sizes,
            offsets=self._offsets,
            inputs=self._inputs,
            device=self._device,
        )

    def run_op(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run the op and note all about it."""
        if self._regions.inside:
            out = func(*args, **kwargs)
            self._region_costs.append(self._costs.lookup(func, args, kwargs, out)[0])
            return out
        place, phase, recomputed = self._whence(args)
        before = minor_faults()
        begin = time.perf_counter_ns()
        out = func(*args, **kwargs)
        end = time.perf_counter_ns()
        after = minor_faults()
        cost, shapes = self._costs.lookup(func, args, kwargs, out)
        key: SiteKey = (func, cost, shapes, *place, phase, recomputed, _longest_list(args))
        self._record(func, key, begin, end, after - before)
        read = 0
        if cost.launches:  # a view touches no memory
            read = self._touch(args)
            if kwargs:
                read += self._touch(kwargs.values())
            self._touch((out,))
        self._inputs.append(min(read, 255))
        self._offsets.append(len(self._keys))
        return out

    def missed_op(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """An op none of whose inner ops could be seen: it is there, and not modelled."""
        place, phase, recomputed = self._whence(args)
        now = time.perf_counter_ns()
        cost = OpCost(kind="other", launches=0, modelled=False)
        self._record(func, (func, cost, "", *place, phase, recomputed, 0), now, now, 0)
        self._inputs.append(0)
        self._offsets.append(len(self._keys))

    def _run_region(self, call: Callable[[], Any]) -> Any:
        place, phase, recomputed = self._whence(())
        self._region_costs = []
        before = minor_faults()
        begin = time.perf_counter_ns()
        out = call()
        end = time.perf_counter_ns()
        faults = minor_faults() - before
        # Products that a region hands to the usual kernels are counted; what it fused is not seen.
        cost = OpCost(
            kind="other",
            matmul_flops=sum(one.matmul_flops for one in self._region_costs),
            causal_matmul_flops=sum(one.causal_matmul_flops for one in self._region_costs),
            modelled=False,
        )
        self._record(REGION, (REGION, cost, "", *place, phase, recomputed, 0), begin, end, faults)
        self._inputs.append(0)
        self._offsets.append(len(self._keys))
        return out

    def _record(self, op: Any, key: SiteKey, begin: int, end: int, faults: int) -> None:
        index = self.sites.get(key)
        if index is None:
            index = self.sites[key] = len(self.sites)
        self._ops.append(op)
        self._stamps.append(begin)
        self._stamps.append(end)
        self._site.append(index)
        self._works.append(key[1].launches > 0)
        self._faults.append(faults)

    def _whence(self, args: Any) -> tuple[Place, Phase, bool]:
        """The place, the phase and whether it is recomputation, of the op now being dispatched."""
        place = self._finder.find(3)
        recomputed = False
        phase: Phase
        if _node_now() is not None:
            phase, recomputed = "backward", is_recomputing()
            if not recomputed:
                number = backward_key()
                # Adding a gradient up has no number of its own: it belongs to what made the gradient.
                if number is not None:
                    self._backward_place = self._forward_places.get(number, place)
                place = self._backward_place or place
        elif self._in_optimizer() and not torch.is_grad_enabled():
            phase = "optimizer"
        else:
            phase = "forward" if place[2] is not None or _grows_graph(args) else "other"
            # An op that makes no autograd node reads the number of the one before, whose place must stay.
            self._forward_places.setdefault(forward_key(), place)
        return place, phase, recomputed

    def _touch(self, values: Any) -> int:
        """Note the memory of the tensors in ``values``; returns how many blocks."""
        count = 0
        for value in values:
            if isinstance(value, torch.Tensor):
                try:
                    key = value.data_ptr()
                    size = value.numel() * value.element_size()
                except RuntimeError:  # sparse, fake and other tensors without one block of memory
                    continue
                if key and size:
                    self._keys.append(key)
                    self._sizes.append(min(size, value.untyped_storage().nbytes()))
                    count += 1
                    if self._device == "cpu" and value.device.type not in ("cpu", "meta"):
                        self._device = value.device.type
            elif isinstance(value, (list, tuple)):
                count += self._touch(value)
        return count


def _grows_graph(args: Any) -> bool:
    return torch.is_grad_enabled() and any(isinstance(one, torch.Tensor) and one.requires_grad for one in args)


def _longest_list(args: Any) -> int:
    lengths = [len(one) for one in args if isinstance(one, (list, tuple)) and one and isinstance(one[0], torch.Tensor)]
    return max(lengths, default=0)
