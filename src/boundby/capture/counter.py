"""Count what a callable does: ops, FLOPs, bytes and saved activations, without timing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from boundby.capture.compiled.costs import RegionCosts
from boundby.capture.compiled.equivalent import is_training
from boundby.capture.costs import CostCache
from boundby.capture.costs.registry import is_data_dependent
from boundby.capture.meta import device_names, valueless_findings, watching_meta
from boundby.capture.module_tree import CalledModule, ModuleCalls, OwnedSavedTensors, build_tree
from boundby.capture.outside import is_leaving_torch
from boundby.capture.regions import REGION, CompiledCalls
from boundby.capture.saved import storages_of
from boundby.capture.sites import PhaseTracker, Place, SiteFinder, backward_key, forward_key, is_recomputing
from boundby.capture.watcher import OpWatcher
from boundby.results.counts import GroupCounts, OpCost, Phase, Unmodelled, eager_equivalent
from boundby.results.machine import Finding
from boundby.results.module_tree import CallCounts, ModuleNode

_detach = torch.ops.aten.detach.default
_node_now: Callable[[], Any] = torch._C._current_autograd_node
_Parameter = torch.nn.Parameter
# Seen by the dispatcher, and no ops: record_function's marks and questions to subclasses.
_NOT_OPS = frozenset({"profiler", "prim"})
_NUMPY = "numpy (outside torch)"


@dataclass(slots=True)
class _Row:
    """Calls of one op with one cost at one place."""

    func: Any
    cost: OpCost
    place: Place
    module: CalledModule
    phase: Phase
    recomputed: bool
    devices: list[str]
    calls: int = 1


class CountingWatcher(OpWatcher):
    """Works out the cost and the place of every op it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.saved = OwnedSavedTensors()
        self.modules = ModuleCalls()
        self.parameters: set[int] = set()
        self._costs = CostCache()
        self._finder = SiteFinder()
        self._phases = PhaseTracker()
        self._regions = CompiledCalls(self._run_region, also_new=True)
        self._region_costs = RegionCosts(self._costs)
        self._rows: dict[Any, _Row] = {}
        self._forward_places: dict[int, tuple[Place, CalledModule]] = {}
        self._last_place: tuple[Place, CalledModule] = ((None, None, None), self.modules.root)
        self._left: Counter[CalledModule] = Counter()

    def start(self) -> None:
        """Begin to watch this thread."""
        self._regions.open()
        super().start()

    def close(self) -> None:
        """Stop watching and remove all hooks."""
        self.stop()
        self._phases.close()
        self._regions.close()

    def run_op(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run the op, then note it."""
        if self._regions.inside:
            out = func(*args, **kwargs)
            self._region_costs.note(func, args, kwargs, out)
            return out
        if func is _detach and args[0].numel() > 1 and is_leaving_torch():
            self._left[self.modules.now()] += 1
        out = func(*args, **kwargs)
        self._note(func, args, kwargs, out)
        return out

    def missed_op(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Note an op whose inside could not be seen, unless it does nothing."""
        cost, _ = self._costs.lookup(func, args, kwargs, out)
        if cost.launches:
            self._note(func, args, kwargs, out)

    def _run_region(self, call: Callable[[], Any]) -> Any:
        graph, inputs = self._regions.graph, self._regions.inputs
        place, module, phase, recomputed = self._whence(inputs)
        if phase == "other" and is_training(graph):
            phase = "forward"
        with self._region_costs.watching(graph, inputs) as region:
            out = call()
        self._add(REGION, region.cost, place, module, phase, recomputed, out)
        return out

    def _note(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        place, module, phase, recomputed = self._whence(args)
        cost, _ = self._costs.lookup(func, args, kwargs, out)
        self._add(func, cost, place, module, phase, recomputed, (out, args, kwargs))

    def _whence(self, args: Any) -> tuple[Place, CalledModule, Phase, bool]:
        """The place, the module and the phase of the op now being dispatched, and whether it is recomputation."""
        node = _node_now()
        phase = self._phases.phase_now()
        if node is None:
            place = self._finder.find(3)
            if phase == "forward" and place[2] is None and not _needs_grad(args):
                phase = "other"
            module = self.modules.now()
            self._forward_places.setdefault(forward_key(), (place, module))
            for value in args:
                if type(value) is _Parameter:
                    self.parameters.add(value.untyped_storage()._cdata)
            return place, module, phase, False
        if self.saved.is_new(node):
            self.saved.visit(node)
        if torch.is_grad_enabled() and is_recomputing():
            place = self._finder.find(3)
            module = self.modules.now(again=True)
            self._forward_places.setdefault(forward_key(), (place, module))
            return place, module, phase, True
        key = backward_key()
        # Gradient accumulation has no number of its own: it belongs to the node that made the gradient.
        if key is not None:
            self._last_place = self._place_of(key) or (self._finder.find(3), self.modules.root)
        if torch.is_grad_enabled():
            # With create_graph, backward ops make nodes of their own: those belong to the same forward line.
            self._forward_places.setdefault(forward_key(), self._last_place)
        return *self._last_place, phase, False

    def _add(
        self, func: Any, cost: OpCost, place: Place, module: CalledModule, phase: Phase, recomputed: bool, values: Any
    ) -> None:
        key = (id(func), id(cost), place, id(module), phase, recomputed)
        row = self._rows.get(key)
        if row is None:
            self._rows[key] = _Row(func, cost, place, module, phase, recomputed, device_names(values))
        else:
            row.calls += 1

    def counts(self, inputs: Iterable[Any] = (), result: Any = None, findings: Iterable[Finding] = ()) -> CallCounts:
        """The totals of all that was seen.

        Args:
            inputs: the caller's own tensors, whose kept storages are shown apart.
            result: what the watched code returned; the graphs of its tensors are searched for saved tensors.
            findings: what else is to be said of the counts.
        """
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None:
                self.saved.visit(leaf.grad_fn)
        owned = self._owned()
        given = {
            storage._cdata
            for leaf in tree_leaves(list(inputs))
            if isinstance(leaf, torch.Tensor)
            for storage in storages_of(leaf)
        }
        rows = _given_back([row for row in self._rows.values() if _namespace(row.func) not in _NOT_OPS])
        if not any(row.phase in ("backward", "optimizer") for row in rows):
            # Nothing is trained, so what belongs to no module is the forward itself.
            for row in rows:
                row.phase = "forward"
        total = _sum_up("all", rows)
        return CallCounts(
            ops=total.ops,
            launches=total.launches,
            matmul_flops=total.matmul_flops,
            causal_matmul_flops=sum(row.cost.causal_matmul_flops * row.calls for row in rows),
            pointwise_flops=total.pointwise_flops,
            bytes_read=total.bytes_read,
            bytes_written=total.bytes_written,
            saved_bytes=self.saved.total(without=owned),
            saved_input_bytes=self.saved.part(given, without=owned),
            recomputed_flops=sum(row.cost.matmul_flops * row.calls for row in rows if row.recomputed),
            unmodelled=self._unmodelled(rows),
            by_op=_grouped(rows, lambda row: _name(row.func)),
            by_phase=_grouped(rows, lambda row: row.phase),
            by_module=_grouped(rows, lambda row: row.module.path() or None),
            by_line=_grouped(rows, lambda row: None if row.place[0] is None else f"{row.place[0]}:{row.place[1]}"),
            eager=eager_equivalent(
                ((row.cost, row.calls) for row in rows), sum(row.calls for row in rows if row.func is REGION)
            ),
            tree=self._tree(rows, owned),
            indexed_bytes_read=sum(row.cost.indexed_bytes_read * row.calls for row in rows),
            indexed_bytes_written=sum(row.cost.indexed_bytes_written * row.calls for row in rows),
            devices=tuple(sorted({name for row in rows if row.cost.launches for name in row.devices})),
            findings=tuple(findings),
        )

    def calls_by_place(self) -> Iterator[tuple[str, GroupCounts, OpCost, Place]]:
        """Of each op that ran, by its cost and its place: the name, the totals of all its calls, its cost and place."""
        for row in self._rows.values():
            if _namespace(row.func) not in _NOT_OPS:
                yield _name(row.func), _sum_up(_name(row.func), [row]), row.cost, row.place

    def saved_by_place(self) -> Counter[Place]:
        """Bytes kept for backward by the place of the op that keeps them; call it after ``counts``."""
        owned = self._owned()
        found: Counter[Place] = Counter()
        for key, size in self.saved.sizes().items():
            if key not in owned:
                place, _ = self._place_of(self.saved.owners[key]) or ((None, None, None), None)
                found[place] += size
        return found

    def valueless_ops(self) -> list[tuple[str, bool]]:
        """Of each op that ran on meta or fake tensors its name and whether its cost depends on tensors' values."""
        return [
            (_name(row.func), is_data_dependent(row.func))
            for row in self._rows.values()
            if row.func is not REGION and any(name == "meta" or name.startswith("fake") for name in row.devices)
        ]

    def saw_backward(self) -> bool:
        """Whether an op of a backward pass ran."""
        return any(row.phase == "backward" for row in self._rows.values())

    def on_meta(self) -> bool:
        """Whether an op ran on meta tensors."""
        return any("meta" in row.devices for row in self._rows.values())

    def _place_of(self, number: int) -> tuple[Place, CalledModule] | None:
        """Where the autograd node of that number was made.

        An op that changes a view in place makes several nodes before it is dispatched; those beside a known one are
        of the same op.
        """
        for near in (number, number + 1, number - 1, number + 2):
            found = self._forward_places.get(near)
            if found is not None:
                return found
        return None

    def _tree(self, rows: list[_Row], owned: set[int]) -> ModuleNode:
        mine: dict[CalledModule, list[_Row]] = {}
        unknown: dict[CalledModule, Counter[str]] = {}
        for row in rows:
            mine.setdefault(row.module, []).append(row)
            if not row.cost.modelled:
                unknown.setdefault(row.module, Counter())[_name(row.func)] += row.calls
        for module, times in self._left.items():
            unknown.setdefault(module, Counter())[_NUMPY] += times
        saved: Counter[CalledModule] = Counter()
        nowhere = ((None, None, None), self.modules.root)
        for key, size in self.saved.sizes().items():
            if key not in owned:
                _, module = self._place_of(self.saved.owners[key]) or nowhere
                saved[module] += size
        self.modules.finish()
        own = {module: _sum_up(module.path(), group) for module, group in mine.items()}
        return build_tree(self.modules.root, own=own, saved=saved, unmodelled=unknown)

    def _owned(self) -> set[int]:
        """The storages of parameters and buffers."""
        return self.parameters | self.saved.parameters | self._module_storages()

    def _module_storages(self) -> set[int]:
        modules = [module for ref in self._finder.modules_seen.values() if (module := ref()) is not None]
        owned = [t for module in modules for t in (*module._parameters.values(), *module._buffers.values())]
        return {storage._cdata for tensor in owned if tensor is not None for storage in storages_of(tensor)}

    def _unmodelled(self, rows: list[_Row]) -> tuple[Unmodelled, ...]:
        calls: Counter[str] = Counter()
        for row in rows:
            if not row.cost.modelled:
                calls[_name(row.func)] += row.calls
        if self._left:
            calls[_NUMPY] += self._left.total()
        return tuple(Unmodelled(name=name, calls=times) for name, times in calls.most_common())


def _given_back(rows: list[_Row]) -> list[_Row]:
    """The rows, with recomputation that stood in no module given to the modules whose forward had the same ops.

    Where a checkpoint calls the ``forward`` of a module and not the module, no call of it is on the stack in backward.
    """
    found = []
    for row in rows:
        twins = []
        if row.recomputed and row.module.parent is None:
            twins = [
                one
                for one in rows
                if not one.recomputed
                and one.func is row.func
                and one.place[:2] == row.place[:2]
                and one.cost == row.cost
            ]
        if twins and sum(one.calls for one in twins) == row.calls:
            found += [replace(row, module=one.module, calls=one.calls) for one in twins]
        else:
            found.append(row)
    return found


def _needs_grad(values: Any) -> bool:
    if not torch.is_grad_enabled():
        return False
    return any(
        value.requires_grad if isinstance(value, torch.Tensor) else isinstance(value, list) and _needs_grad(value)
        for value in values
    )


def _namespace(func: Any) -> str:
    return str(getattr(func, "namespace", ""))


def _name(func: Any) -> str:
    """An op's name for people: ``aten::mm``; of a higher-order op, or a compiled region, its own name."""
    schema = getattr(func, "_schema", None)
    if schema is not None:
        return str(schema.name)
    return str(func.name() if callable(getattr(func, "name", None)) else func)


def _sum_up(name: str, rows: Iterable[_Row]) -> GroupCounts:
    ops = launches = matmul = pointwise = read = written = 0
    for row in rows:
        cost, calls = row.cost, row.calls
        ops += calls * (row.func is REGION or _namespace(row.func) == "aten")
        launches += calls * cost.launches
        matmul += calls * cost.matmul_flops
        pointwise += calls * cost.pointwise_flops
        read += calls * cost.bytes_read
        written += calls * cost.bytes_written
    return GroupCounts(
        name=name,
        ops=ops,
        launches=launches,
        matmul_flops=matmul,
        pointwise_flops=pointwise,
        bytes_read=read,
        bytes_written=written,
    )


def _grouped(rows: Iterable[_Row], name_of: Callable[[_Row], str | None]) -> tuple[GroupCounts, ...]:
    groups: dict[str, list[_Row]] = {}
    for row in rows:
        name = name_of(row)
        if name is not None:
            groups.setdefault(name, []).append(row)
    return tuple(_sum_up(name, members) for name, members in sorted(groups.items()))


def count_callable(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> CallCounts:
    """Run ``fn(*args, **kwargs)`` once and count what it does.

    Args:
        fn: any callable: a model, a training step, a lambda. Its exceptions come through unchanged.
        args: its arguments. Tensors among them are the caller's inputs in ``saved_input_bytes``, and so are those
            that ``fn`` closes over.
        kwargs: its keyword arguments.

    Returns:
        The counts. Ops in no module that need no gradient are phase ``other`` where there is a backward or an optimizer
        (clipping, metrics); elsewhere all is ``forward``. ``recomputed_flops`` is the part of ``matmul_flops`` that
        backward spends on running forward again. ``findings`` say what counts on meta or fake tensors cannot hold.
    """
    inputs = [args, kwargs, [cell.cell_contents for cell in getattr(fn, "__closure__", None) or () if _is_filled(cell)]]
    watcher = CountingWatcher()
    comparison = watching_meta(watcher.modules, [fn, args, kwargs])
    with comparison or nullcontext():
        watcher.start()
        try:
            result = fn(*args, **kwargs)
        finally:
            watcher.close()
    findings = valueless_findings(watcher.valueless_ops(), on_meta=watcher.on_meta(), compared=comparison is not None)
    if comparison is not None:
        findings = (*comparison.findings(backward=watcher.saw_backward()), *findings)
    return watcher.counts(inputs, result, findings)


def _is_filled(cell: Any) -> bool:
    try:
        return isinstance(cell.cell_contents, (torch.Tensor, list, tuple, dict))
    except ValueError:  # The variable is not assigned yet.
        return False
