"""The attributing watcher: what each op is, where it comes from and which memory it touches.

Its own times are used only where no leanly watched step had the same sequence of ops.
"""

from __future__ import annotations

import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from boundby.capture.compiled.costs import RegionCosts
from boundby.capture.compiled.equivalent import is_training
from boundby.capture.costs import CacheInfo, CostCache, Known
from boundby.capture.costs.cache import covered_bytes
from boundby.capture.costs.traffic import tensors_in
from boundby.capture.habits import HabitsSeen
from boundby.capture.module_tree import OwnedSavedTensors
from boundby.capture.regions import REGION, CompiledCalls
from boundby.capture.saved import storages_of
from boundby.capture.sites import Place, SiteFinder, backward_key, forward_key, is_recomputing
from boundby.capture.usage import minor_faults
from boundby.capture.watcher import OpWatcher
from boundby.results.counts import OpCost, Phase

# Of a site: op, cost, shapes, source path, line, module, phase, recomputed, tensors in its longest list.
SiteKey = tuple[Any, OpCost, str, str | None, int | None, str | None, Phase, bool, int]

PAGE_BYTES = 4096

_Tensor = torch.Tensor
_clock = time.perf_counter_ns
_node_now: Callable[[], Any] = torch._C._current_autograd_node


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributedStep:
    """One attributed step in columns: an entry an op, touches one after the other (``offsets`` says whose).

    ``saved_bytes`` are the unique storages that autograd kept for the step's backward, without parameters and buffers;
    None where there was no backward. ``saved_by_line`` is what of it the ops of each source line keep.
    """

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
    saved_bytes: int | None = None
    saved_by_line: dict[tuple[str | None, int | None], int] = field(default_factory=dict)


class AttributingWatcher(OpWatcher):
    """Notes each op's site, page faults and touched memory; interns sites, so that a long step stays small."""

    def __init__(self, in_optimizer: Callable[[], bool], *, habits: HabitsSeen | None = None) -> None:
        super().__init__()
        self._habits = habits
        self._tells_padding: set[int] = set()  # sites whose arguments say what is padding
        self.sites: dict[SiteKey, int] = {}
        self._finder = SiteFinder()
        self._costs = CostCache()
        self._in_optimizer = in_optimizer
        self._forward_places: dict[int, Place] = {}
        self._regions = CompiledCalls(self._run_region)
        self._region_costs = RegionCosts(self._costs)
        self._interned: dict[tuple[Known, Place, Phase, bool], int] = {}
        self.reset()

    @property
    def cache_info(self) -> CacheInfo:
        """How often the cost of an op was known from one like it."""
        return self._costs.info

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
        self._saved = OwnedSavedTensors()
        self._has_backward = False

    def take(self) -> AttributedStep:
        """What was seen since the reset."""
        saved = self._saved_sizes()
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
            saved_bytes=None if saved is None else sum(saved.values()),
            saved_by_line=self._by_line(saved or {}),
        )

    def _saved_sizes(self) -> dict[int, int] | None:
        """Bytes of each storage kept for backward, by its address; None where there was no backward."""
        if not self._has_backward:
            return None
        owned = set(self._saved.parameters)
        for reference in self._finder.modules_seen.values():
            module = reference()
            if module is not None:
                tensors = (*module._parameters.values(), *module._buffers.values())
                owned.update(one._cdata for tensor in tensors if tensor is not None for one in storages_of(tensor))
        return {key: size for key, size in self._saved.sizes().items() if key not in owned}

    def _by_line(self, sizes: Mapping[int, int]) -> dict[tuple[str | None, int | None], int]:
        found: dict[tuple[str | None, int | None], int] = defaultdict(int)
        for key, size in sizes.items():
            number = self._saved.owners[key]
            # A change of a view in place makes several nodes before its op is dispatched; near ones are of one op.
            nearby = (number, number + 1, number - 1, number + 2)
            place = next((self._forward_places[one] for one in nearby if one in self._forward_places), (None, None))
            found[place[0], place[1]] += size
        return dict(found)

    def run_op(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run the op and note all about it."""
        if self._regions.inside:
            out = func(*args, **kwargs)
            self._region_costs.note(func, args, kwargs, out)
            return out
        place, phase, recomputed = self._whence(args)
        tensors: list[Any] = []
        key, known = self._costs.find(func, args, kwargs, tensors)
        if known is not None and known.cost.bytes_read + known.cost.bytes_written < PAGE_BYTES:
            begin = _clock()  # Views and ops on less than a page are not asked for the pages they fault in.
            out = func(*args, **kwargs)
            end = _clock()
            faults = 0
        else:
            before = minor_faults()
            begin = _clock()
            out = func(*args, **kwargs)
            end = _clock()
            faults = minor_faults() - before
        if known is None:
            known = self._costs.learn(key, func, args, kwargs, out, tensors)
        index = self._interned.get((known, place, phase, recomputed))
        if index is None:
            index = self._intern(func, known, place, phase, recomputed, args, kwargs)
        if index in self._tells_padding and self._habits is not None:
            self._habits.padding.look(func, args, kwargs, place[0], place[1])
        works = known.cost.launches > 0
        read = 0
        if works:  # a view touches no memory
            read = self._touch(tensors, known.read_sizes)
            if type(out) is _Tensor and out.is_cpu:
                self._touch((out,), (out.numel() * out.element_size(),))
            else:
                self._touch_all(out)
        self._record(func, index, works, begin, end, faults, read)
        return out

    def missed_op(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """An op none of whose inner ops could be seen: it is there, and not modelled."""
        place, phase, recomputed = self._whence(args)
        now = _clock()
        cost = OpCost(kind="other", launches=0, modelled=False)
        self._record(func, self._site_of((func, cost, "", *place, phase, recomputed, 0)), False, now, now, 0, 0)

    def _run_region(self, call: Callable[[], Any]) -> Any:
        place, phase, recomputed = self._whence(())
        graph, inputs = self._regions.graph, self._regions.inputs
        if phase == "other" and is_training(graph):
            phase = "forward"
        read = self._touch_all(inputs)
        with self._region_costs.watching(graph, inputs) as region:
            before = minor_faults()
            begin = _clock()
            out = call()
            end = _clock()
            faults = minor_faults() - before
        cost = region.cost
        self._touch_all(out)
        site = self._site_of((REGION, cost, "", *place, phase, recomputed, 0))
        self._record(REGION, site, True, begin, end, faults, read)
        return out

    def _intern(
        self, func: Any, known: Known, place: Place, phase: Phase, recomputed: bool, args: Any, kwargs: Any
    ) -> int:
        """The index of an op's site, and the short way to it for ops like it."""
        key = (func, known.cost, known.text, *place, phase, recomputed, _longest_list(args))
        if self._habits is not None and key not in self.sites:
            self._habits.op_seen()
            self._habits.shapes.note(func, args, place[0], place[1])
            if not recomputed and self._habits.padding.looks_at(func, args, kwargs):
                self._tells_padding.add(len(self.sites))
        index = self._site_of(key)
        if known.kept:
            self._interned[known, place, phase, recomputed] = index
        return index

    def _site_of(self, key: SiteKey) -> int:
        index = self.sites.get(key)
        if index is None:
            index = self.sites[key] = len(self.sites)
        return index

    def _record(self, op: Any, index: int, works: bool, begin: int, end: int, faults: int, read: int) -> None:
        """Note an op whose memory has been noted; ``read`` of its blocks are those it reads."""
        self._ops.append(op)
        self._stamps.append(begin)
        self._stamps.append(end)
        self._site.append(index)
        self._works.append(works)
        self._faults.append(faults)
        self._inputs.append(read if read < 255 else 255)
        self._offsets.append(len(self._keys))

    def _whence(self, args: Any) -> tuple[Place, Phase, bool]:
        """The place, the phase and whether it is recomputation, of the op now being dispatched."""
        node = _node_now()
        if node is not None:
            if self._saved.is_new(node):  # before it runs, when nothing that it leads to has been freed
                self._has_backward = True
                self._saved.visit(node)
            if is_recomputing():
                place = self._finder.find(3)
                self._forward_places.setdefault(forward_key(), place)
                return place, "backward", True
            number = backward_key()
            # Adding a gradient up has no number of its own: it belongs to what made the gradient.
            known = self._backward_place if number is None else self._forward_places.get(number)
            place = self._finder.find(3) if known is None else known
            if number is not None:
                self._backward_place = place
            if torch.is_grad_enabled():
                # With create_graph, backward ops make nodes of their own: those belong to the same forward line.
                self._forward_places.setdefault(forward_key(), place)
            return place, "backward", False
        place = self._finder.find(3)
        if self._in_optimizer() and not torch.is_grad_enabled():
            return place, "optimizer", False
        # An op that makes no autograd node reads the number of the one before, whose place must stay.
        self._forward_places.setdefault(forward_key(), place)
        return place, "forward" if place[2] is not None or _grows_graph(args) else "other", False

    def _touch(self, tensors: Iterable[Any], sizes: Iterable[int]) -> int:
        """Note the memory of tensors, of so many bytes each; returns how many blocks."""
        count = 0
        try:
            for tensor, size in zip(tensors, sizes, strict=True):
                key = tensor.data_ptr() if size else 0
                if key:
                    self._keys.append(key)
                    self._sizes.append(size)
                    count += 1
        except RuntimeError:  # fake and other tensors without a block of memory
            pass
        return count

    def _touch_all(self, values: Any) -> int:
        """Note the memory of all tensors in ``values``; returns how many blocks."""
        tensors = tensors_in(values)
        for tensor in tensors:
            if not tensor.is_cpu and not tensor.is_meta:
                self._device = tensor.device.type
        return self._touch(tensors, [covered_bytes(tensor) for tensor in tensors])


def _grows_graph(args: Any) -> bool:
    return torch.is_grad_enabled() and any(isinstance(one, torch.Tensor) and one.requires_grad for one in args)


def _longest_list(args: Any) -> int:
    lengths = [len(one) for one in args if isinstance(one, (list, tuple)) and one and isinstance(one[0], torch.Tensor)]
    return max(lengths, default=0)
