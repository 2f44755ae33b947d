"""Gathers and scatters: only the touched elements move, so the indices' values decide the cost."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from boundby.capture.costs.registry import Call, op_cost, rule
from boundby.capture.costs.traffic import distinct_bytes
from boundby.results.counts import OpCost


def _values_known(index: torch.Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    if index.device.type == "meta" or isinstance(index, FakeTensor):
        return False
    return index.device.type != "cuda" or not torch.cuda.is_current_stream_capturing()


def distinct_values(index: torch.Tensor, limit: int) -> int:
    """How many different values an integer tensor holds; the most it can be where its values are not known."""
    count = index.numel()
    if count <= 1 or not _values_known(index):
        return min(count, limit)
    flat = index.detach().reshape(-1)
    if limit <= 16 * count:
        seen = torch.zeros(limit, dtype=torch.bool, device=index.device)
        seen[flat] = True
        return int(seen.sum())
    return int(torch.unique(flat).numel())


def _selected(call: Call, table: torch.Tensor, index: torch.Tensor, rows: int) -> OpCost:
    """Reads the distinct rows of ``table`` that ``index`` picks, and the index."""
    row_bytes = distinct_bytes([table]) // rows if rows else 0
    touched = distinct_values(index, rows) * row_bytes
    rest = [one for one in call.inputs() if one is not table]
    return op_cost(call, "index", read_bytes=touched + distinct_bytes(rest), indexed_read=touched)


@rule("aten::embedding", "aten::_embedding_bag", "aten::_embedding_bag_forward_only", data_dependent=True)
def _embedding(call: Call) -> OpCost:
    table, index = call.args[0], call.args[1]
    return _selected(call, table, index, table.shape[0])


@rule("aten::index_select", data_dependent=True)
def _index_select(call: Call) -> OpCost:
    table, dim, index = call.args[0], call.args[1], call.args[2]
    if table.layout is not torch.strided:
        return op_cost(call, "index")
    return _selected(call, table, index, table.shape[dim] if table.dim() else 1)


def _along(table: torch.Tensor, dim: int, index: torch.Tensor) -> int:
    """Distinct elements of ``table`` at ``index`` along ``dim``, as gather and scatter address them."""
    if table.dim() == 0 or index.numel() <= 1 or not _values_known(index):
        return min(index.numel(), table.numel())
    if table.numel() <= 16 * index.numel():
        seen = torch.zeros(table.shape, dtype=torch.bool, device=index.device)
        seen.scatter_(dim, index, True)
        return int(seen.sum())
    place = torch.zeros(index.shape, dtype=torch.int64, device=index.device)
    step = 1
    for axis in range(table.dim() - 1, -1, -1):
        if axis == dim % table.dim():
            place += index * step
        else:
            view = [1] * table.dim()
            view[axis] = -1
            place += torch.arange(index.shape[axis], device=index.device).view(view) * step
        step *= table.shape[axis]
    return int(torch.unique(place).numel())


@rule("aten::gather", data_dependent=True)
def _gather(call: Call) -> OpCost:
    table, dim, index = call.args[0], call.args[1], call.args[2]
    touched = _along(table, dim, index) * table.element_size()
    return op_cost(call, "index", read_bytes=touched + distinct_bytes([index]), indexed_read=touched)


@rule("aten::take", data_dependent=True)
def _take(call: Call) -> OpCost:
    table, index = call.args[0], call.args[1]
    touched = distinct_values(index, table.numel()) * table.element_size()
    return op_cost(call, "index", read_bytes=touched + distinct_bytes([index]), indexed_read=touched)


def _indexed(table: torch.Tensor, indices: Any) -> int:
    """Distinct elements of ``table`` that advanced indexing touches (``table[indices]``)."""
    places: list[torch.Tensor] = []
    sizes: list[int] = []
    axis = 0
    for index in indices:
        if index is None:
            axis += 1
            continue
        if index.dtype in (torch.bool, torch.uint8):
            if not _values_known(index):
                return table.numel()
            places += index.nonzero(as_tuple=True)
            sizes += table.shape[axis : axis + index.dim()]
            axis += index.dim()
        else:
            if not _values_known(index):
                return min(table.numel(), int(index.numel()) * (table.numel() // max(1, table.shape[axis])))
            places.append(index)
            sizes.append(table.shape[axis])
            axis += 1
    if not places:
        return table.numel()
    covered = prod(sizes)
    if not covered:
        return 0
    # Negative indices count from the end.
    flat = torch.zeros((), dtype=torch.int64, device=places[0].device)
    for place, size in zip(places, sizes, strict=True):
        flat = flat * size + torch.where(place < 0, place + size, place)
    return distinct_values(flat, covered) * (table.numel() // covered)


def _given(indices: Any) -> list[torch.Tensor]:
    return [index for index in indices if index is not None]


@rule("aten::index", "aten::_unsafe_index", data_dependent=True)
def _index(call: Call) -> OpCost:
    table, indices = call.args[0], call.args[1]
    touched = _indexed(table, indices) * table.element_size()
    given = _given(indices)
    masked = any(one.dtype in (torch.bool, torch.uint8) for one in given)
    return op_cost(
        call,
        "index",
        read_bytes=touched + distinct_bytes(given),
        indexed_read=touched,
        # A mask decides how many elements come out; an index's shape does.
        indexed_written=distinct_bytes([call.out]) if masked else 0,
    )


@rule("aten::masked_select", data_dependent=True)
def _masked_select(call: Call) -> OpCost:
    """Reads the mask, and the elements it keeps."""
    table, mask = call.args[0], call.args[1]
    kept = min(call.out.numel(), table.numel()) * table.element_size()
    return op_cost(
        call,
        "index",
        read_bytes=kept + distinct_bytes([mask]),
        indexed_read=kept,
        indexed_written=distinct_bytes([call.out]),
    )


@rule("aten::index_put", "aten::_index_put_impl", "aten::_unsafe_index_put", data_dependent=True)
def _index_put(call: Call) -> OpCost:
    """Functional: the whole target is read and written. In place: the touched elements; read too if accumulating."""
    target, indices, values = call.args[0], call.args[1], call.args[2]
    if not call.in_place:
        return op_cost(call, "scatter")
    touched = _indexed(target, indices) * target.element_size()
    read = distinct_bytes([*_given(indices), values])
    return _touching(call, read, touched, combines=bool(call.arg("accumulate", False)))


_ADDING = frozenset({"scatter_add", "index_add", "scatter_reduce", "index_reduce"})


@rule(
    "aten::scatter",
    "aten::scatter_add",
    "aten::scatter_reduce",
    "aten::index_add",
    "aten::index_copy",
    "aten::index_fill",
    "aten::index_reduce",
    data_dependent=True,
)
def _scatter(call: Call) -> OpCost:
    """Functional: the whole target is read and written. In place: the touched elements; read too if combining."""
    if not call.in_place:
        return op_cost(call, "scatter")
    target, dim, index = call.args[0], call.args[1], call.args[2]
    name = call.schema.base.removeprefix("aten::")
    if name.startswith("scatter"):
        touched = _along(target, dim, index) * target.element_size()
    else:
        rows = target.shape[dim] if target.dim() else 1
        touched = distinct_values(index, rows) * (target.numel() // max(1, rows)) * target.element_size()
    read = distinct_bytes([one for one in call.inputs() if one is not target])
    return _touching(call, read, touched, combines=name in _ADDING or call.arg("reduce") is not None)


def _touching(call: Call, read: int, touched: int, *, combines: bool) -> OpCost:
    """In place: ``touched`` bytes of the target are written, and read as well where the op combines them."""
    again = touched if combines else 0
    return op_cost(
        call,
        "scatter",
        read_bytes=read + again,
        written=touched,
        indexed_read=again,
        indexed_written=touched,
    )


@rule(
    "aten::embedding_dense_backward",
    "aten::_embedding_bag_dense_backward",
    "aten::_embedding_bag_per_sample_weights_backward",
    "aten::index_select_backward",
    "aten::masked_scatter",
    "aten::masked_scatter_backward",
    "aten::put",
    "aten::embedding_renorm",
    "aten::_unsafe_masked_index",
    "aten::_unsafe_masked_index_put_accumulate",
)
def _whole_target(call: Call) -> OpCost:
    """Writes the whole gradient or target, whatever the indices."""
    return op_cost(call, "scatter")
