"""Count what a callable does: ops, FLOPs, bytes and saved activations, without timing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from boundby.capture.costs import CostCache
from boundby.capture.outside import CompiledRegions, is_leaving_torch
from boundby.capture.saved import SavedTensors, storages_of
from boundby.capture.sites import PhaseTracker, Place, SiteFinder, backward_key, forward_key, is_recomputing
from boundby.capture.watcher import OpWatcher
from boundby.results.counts import Counts, GroupCounts, OpCost, Unmodelled

_detach = torch.ops.aten.detach.default
_node_now: Callable[[], Any] = torch._C._current_autograd_node
_Parameter = torch.nn.Parameter
# Seen by the dispatcher, and no ops: record_function's marks and questions to subclasses.
_NOT_OPS = frozenset({"profiler", "prim"})


class CountingWatcher(OpWatcher):
    """Works out the cost and the place of every op it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.saved = SavedTensors()
        self.parameters: set[int] = set()
        self._costs = CostCache()
        self._finder = SiteFinder()
        self._phases = PhaseTracker()
        self._regions = CompiledRegions()
        self._cells: dict[Any, list[Any]] = {}
        self._forward_places: dict[int, Place] = {}
        self._last_place: Place = (None, None, None)
        self._left = 0

    def close(self) -> None:
        """Stop watching and remove all hooks."""
        self.stop()
        self._phases.close()
        self._regions.close()

    def run_op(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run the op, then note it."""
        if func is _detach and args[0].numel() > 1 and is_leaving_torch():
            self._left += 1
        out = func(*args, **kwargs)
        self._note(func, args, kwargs, out)
        return out

    def missed_op(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Note an op whose inside could not be seen, unless it does nothing."""
        cost, _ = self._costs.lookup(func, args, kwargs, out)
        if cost.launches:
            self._note(func, args, kwargs, out)

    def _note(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        place = self._finder.find(2)
        node = _node_now()
        phase = self._phases.phase_now()
        recomputed = False
        if node is None:
            if phase == "forward" and place[2] is None and not _needs_grad(args):
                phase = "other"
            self._forward_places.setdefault(forward_key(), place)
            for value in args:
                if type(value) is _Parameter:
                    self.parameters.add(value.untyped_storage()._cdata)
        else:
            if self.saved.is_new(node):
                self.saved.visit(node)
            if torch.is_grad_enabled() and is_recomputing():
                recomputed = True
                self._forward_places.setdefault(forward_key(), place)
            else:
                key = backward_key()
                # Gradient accumulation has no number of its own: it belongs to the node that made the gradient.
                place = self._last_place if key is None else self._forward_places.get(key, place)
                self._last_place = place
        cost, _ = self._costs.lookup(func, args, kwargs, out)
        cell_key = (id(func), id(cost), place, phase, recomputed)
        cell = self._cells.get(cell_key)
        if cell is None:
            self._cells[cell_key] = [func, place, phase, recomputed, 1, cost]
        else:
            cell[4] += 1

    def counts(self, inputs: Iterable[Any] = (), result: Any = None) -> Counts:
        """The totals of all that was seen.

        Args:
            inputs: the caller's own tensors, whose kept storages are shown apart.
            result: what the watched code returned; the graphs of its tensors are searched for saved tensors.
        """
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None:
                self.saved.visit(leaf.grad_fn)
        owned = self.parameters | self._module_storages()
        given = {
            storage._cdata
            for leaf in tree_leaves(list(inputs))
            if isinstance(leaf, torch.Tensor)
            for storage in storages_of(leaf)
        }
        rows = [cell for cell in self._cells.values() if _namespace(cell[0]) not in _NOT_OPS]
        if not any(phase in ("backward", "optimizer") for _, _, phase, *_ in rows):
            # Nothing is trained, so what belongs to no module is the forward itself.
            rows = [[func, place, "forward", *rest] for func, place, _, *rest in rows]
        total = _sum_up("all", ((func, cost, calls) for func, _, _, _, calls, cost in rows))
        return Counts(
            ops=total.ops,
            launches=total.launches,
            matmul_flops=total.matmul_flops,
            causal_matmul_flops=sum(cost.causal_matmul_flops * calls for *_, calls, cost in rows),
            pointwise_flops=total.pointwise_flops,
            bytes_read=total.bytes_read,
            bytes_written=total.bytes_written,
            saved_bytes=self.saved.total(without=owned),
            saved_input_bytes=self.saved.part(given, without=owned),
            recomputed_flops=sum(cost.matmul_flops * calls for _, _, _, again, calls, cost in rows if again),
            unmodelled=self._unmodelled(rows),
            by_op=_grouped((_name(func), func, cost, calls) for func, _, _, _, calls, cost in rows),
            by_phase=_grouped((phase, func, cost, calls) for func, _, phase, _, calls, cost in rows),
            by_module=_grouped(
                (place[2], func, cost, calls) for func, place, _, _, calls, cost in rows if place[2] is not None
            ),
            by_line=_grouped(
                (f"{place[0]}:{place[1]}", func, cost, calls)
                for func, place, _, _, calls, cost in rows
                if place[0] is not None
            ),
        )

    def _module_storages(self) -> set[int]:
        modules = [module for ref in self._finder.modules_seen.values() if (module := ref()) is not None]
        owned = [t for module in modules for t in (*module._parameters.values(), *module._buffers.values())]
        return {storage._cdata for tensor in owned if tensor is not None for storage in storages_of(tensor)}

    def _unmodelled(self, rows: Any) -> tuple[Unmodelled, ...]:
        calls: Counter[str] = Counter()
        for func, _, _, _, times, cost in rows:
            if not cost.modelled:
                calls[_name(func)] += times
        if self._left:
            calls["numpy (outside torch)"] += self._left
        if self._regions.calls:
            calls["compiled region (inductor)"] += self._regions.calls
        return tuple(Unmodelled(name=name, calls=times) for name, times in calls.most_common())


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
    """An op's name for people: ``aten::mm``; of a higher-order op its own name."""
    schema = getattr(func, "_schema", None)
    return str(schema.name) if schema is not None else str(func.name() if callable(func.name) else func)


def _sum_up(name: str, rows: Iterable[tuple[Any, OpCost, int]]) -> GroupCounts:
    ops = launches = matmul = pointwise = read = written = 0
    for func, cost, calls in rows:
        ops += calls * (_namespace(func) == "aten")
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


def _grouped(rows: Iterable[tuple[str, Any, OpCost, int]]) -> tuple[GroupCounts, ...]:
    groups: dict[str, list[tuple[Any, OpCost, int]]] = {}
    for name, func, cost, calls in rows:
        groups.setdefault(name, []).append((func, cost, calls))
    return tuple(_sum_up(name, members) for name, members in sorted(groups.items()))


def count_callable(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Counts:
    """Run ``fn(*args, **kwargs)`` once and count what it does.

    Args:
        fn: any callable: a model, a training step, a lambda. Its exceptions come through unchanged.
        args: its arguments. Tensors among them are the caller's inputs in ``saved_input_bytes``, and so are those
            that ``fn`` closes over.
        kwargs: its keyword arguments.

    Returns:
        The counts. Ops in no module that need no gradient are phase ``other`` where there is a backward or an optimizer
        (clipping, metrics); elsewhere all is ``forward``. ``recomputed_flops`` is the part of ``matmul_flops`` that
        backward spends on running forward again.
    """
    inputs = [args, kwargs, [cell.cell_contents for cell in getattr(fn, "__closure__", None) or () if _is_filled(cell)]]
    watcher = CountingWatcher()
    watcher.start()
    try:
        result = fn(*args, **kwargs)
    finally:
        watcher.close()
    return watcher.counts(inputs, result)


def _is_filled(cell: Any) -> bool:
    try:
        return isinstance(cell.cell_contents, (torch.Tensor, list, tuple, dict))
    except ValueError:  # The variable is not assigned yet.
        return False
