"""How many distinct bytes tensors cover: ideal traffic, exact for expanded, transposed and overlapping tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import torch

# (offset, ((stride, size), ...) by rising stride): elements at offset + sum of stride * (0 .. size-1).
_Grid = tuple[int, tuple[tuple[int, int], ...]]

# Beyond this many elements an irregular overlap is bounded by the span of addresses instead of enumerated.
_ENUMERATION_LIMIT = 1 << 24


def tensors_in(value: Any) -> list[torch.Tensor]:
    """All tensors in ``value``, through lists and tuples, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []


def components(tensor: Any) -> list[torch.Tensor]:
    """The dense tensors that hold a tensor's memory: itself, or a sparse tensor's indices and stored values."""
    layout = tensor.layout
    if tensor.is_nested:
        return [tensor._values] if layout is torch.jagged else [tensor.values()]
    if layout is torch.strided or layout is torch._mkldnn:  # type: ignore[attr-defined]  # untyped in torch
        return [tensor]
    if layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]


def written_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of all elements of each tensor once, a tensor that occurs twice once."""
    return distinct_bytes(tensors)


def distinct_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes that a single read of each distinct element of ``tensors`` moves.

    Elements that several of the tensors share (``x * x``, ``x + x.T``, overlapping slices), or that one holds several
    times (``expand``, ``unfold``), count once.
    """
    parts = [part for tensor in tensors for part in components(tensor)]
    if len(parts) == 1:
        return distinct_elements(parts[0]) * parts[0].element_size()
    by_storage: dict[int, list[torch.Tensor]] = {}
    for part in parts:
        by_storage.setdefault(storage_key(part), []).append(part)
    total = 0
    for group in by_storage.values():
        if len(group) == 1:
            total += distinct_elements(group[0]) * group[0].element_size()
        else:
            total += _union_bytes(group)
    return total


def storage_key(tensor: torch.Tensor) -> int:
    """A number equal for tensors that share a storage; for a tensor without one (opaque layouts) its own id."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return id(tensor)


def distinct_elements(tensor: torch.Tensor) -> int:
    """How many different elements of memory a tensor covers."""
    numel = tensor.numel()
    if numel == 0 or tensor.layout is not torch.strided or tensor.is_contiguous():
        return numel
    return _size_of(_grid(tensor.shape, tensor.stride(), 0))


def covered_elements(grids: Iterable[tuple[int, Sequence[int], Sequence[int]]]) -> int:
    """How many different elements several strided ranges of one array cover together.

    Args:
        grids: (offset, sizes, strides) of each, in elements.
    """
    return _union([*{_grid(sizes, strides, offset) for offset, sizes, strides in grids}])


def _grid(shape: Sequence[int], stride: Sequence[int], offset: int) -> _Grid:
    """The elements of a strided tensor as a grid without dimensions that repeat or overlap where that can be had."""
    dims = sorted((step, size) for step, size in zip(stride, shape, strict=True) if step and size > 1)
    merged: list[tuple[int, int]] = []
    for step, size in dims:
        if merged:
            low_step, low_size = merged[-1]
            if step % low_step == 0 and step < low_step * low_size:
                # Sliding windows: the runs overlap or touch, so together they are one longer run.
                merged[-1] = (low_step, low_size + step // low_step * (size - 1))
                continue
        merged.append((step, size))
    return offset, tuple(merged)


def _is_disjoint(dims: Sequence[tuple[int, int]]) -> bool:
    span = 0
    for step, size in dims:
        if step <= span:
            return False
        span += step * (size - 1)
    return True


def _size_of(grid: _Grid) -> int:
    dims = grid[1]
    if _is_disjoint(dims):
        return prod(size for _, size in dims)
    return len(_enumerate([grid]))


def _union_bytes(group: list[torch.Tensor]) -> int:
    """Bytes that tensors of one storage cover together."""
    width = group[0].element_size()
    if any(part.element_size() != width for part in group) or any(part.layout is not torch.strided for part in group):
        # Views under another dtype: count in bytes.
        grids = {_byte_grid(part) for part in group if part.numel()}
        return _union([*grids])
    grids = {_grid(part.shape, part.stride(), int(part.storage_offset())) for part in group if part.numel()}
    return _union([*grids]) * width


def _byte_grid(part: torch.Tensor) -> _Grid:
    width = part.element_size()
    shape = [*part.shape, width]
    stride = [step * width for step in part.stride()] + [1]
    return _grid(shape, stride, int(part.storage_offset()) * width)


def _union(grids: list[_Grid]) -> int:
    if len(grids) == 1:
        return _size_of(grids[0])
    grids = sorted(grids)
    # Tensors whose address ranges are apart are apart: only chains of overlapping ranges need more.
    total = 0
    chain: list[_Grid] = []
    end = -1
    for grid in grids:
        last = grid[0] + sum(step * (size - 1) for step, size in grid[1])
        if chain and grid[0] > end:
            total += _union_overlapping(chain)
            chain = []
        chain.append(grid)
        end = max(end, last)
    return total + _union_overlapping(chain)


def _union_overlapping(grids: list[_Grid]) -> int:
    if len(grids) == 1:
        return _size_of(grids[0])
    boxes = _boxes(grids)
    if boxes is not None and len(boxes) <= 12:
        return _union_of_boxes(boxes)
    return len(_enumerate(grids))


_Box = tuple[tuple[int, int], ...]


def _boxes(grids: list[_Grid]) -> list[_Box] | None:
    """The grids as boxes (begin, end by axis) of one common lattice of nested strides, or None where there is none."""
    if not all(_is_disjoint(dims) for _, dims in grids):
        return None
    steps = sorted({step for _, dims in grids for step, _ in dims} | {1})
    if any(high % low for low, high in pairwise(steps)):
        return None
    radix = [high // low for low, high in pairwise(steps)]
    boxes: list[_Box] = []
    for offset, dims in grids:
        sizes = dict(dims)
        box: list[tuple[int, int]] = []
        rest = offset
        starts = []
        for ratio in radix:
            starts.append(rest % ratio)
            rest //= ratio
        starts.append(rest)
        carried = 1
        for axis, step in enumerate(steps):
            size = sizes.get(step, 1)
            if carried > 1:
                if size > 1:
                    return None
                size = carried
            carried = 1
            if axis < len(radix) and starts[axis] + size > radix[axis]:
                if starts[axis] or size % radix[axis]:
                    return None
                carried, size = size // radix[axis], radix[axis]
            box.append((starts[axis], starts[axis] + size))
        boxes.append(tuple(box))
    return boxes


def _union_of_boxes(boxes: list[_Box]) -> int:
    """The number of lattice points in any of the boxes, by taking each box without those before it."""
    total = 0
    for index, box in enumerate(boxes):
        before = [cut for other in boxes[:index] if (cut := _intersection(box, other)) is not None]
        total += prod(end - begin for begin, end in box)
        if before:
            total -= _union_of_boxes(list(dict.fromkeys(before)))
    return total


def _intersection(one: _Box, other: _Box) -> _Box | None:
    cut = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))
    return None if any(begin >= end for begin, end in cut) else cut


def _enumerate(grids: list[_Grid]) -> Any:
    """The distinct offsets of irregular grids, one by one; an object whose length is their number."""
    count = sum(prod(size for _, size in dims) for _, dims in grids)
    if count > _ENUMERATION_LIMIT:
        begin = min(offset for offset, _ in grids)
        end = max(offset + sum(step * (size - 1) for step, size in dims) for offset, dims in grids)
        return range(min(count, end - begin + 1))
    pieces = []
    for offset, dims in grids:
        offsets = np.array([offset], dtype=np.int64)
        for step, size in dims:
            offsets = (offsets[:, None] + np.arange(size, dtype=np.int64) * step).ravel()
        pieces.append(offsets)
    return np.unique(np.concatenate(pieces))


_SHORT_NAMES: dict[torch.dtype, str] = {
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.complex32: "c32",
    torch.complex64: "c64",
    torch.complex128: "c128",
    torch.qint8: "int8",
    torch.quint8: "uint8",
    torch.qint32: "int32",
}


def short_dtype(dtype: torch.dtype) -> str:
    """The short name of a dtype: ``fp32``, ``bf16``, ``int64``, ``c64``."""
    name = _SHORT_NAMES.get(dtype)
    return name if name is not None else str(dtype).removeprefix("torch.")


def compute_dtype(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> str:
    """The short name of the dtype an op computes in: a floating result's, else a floating input's, else the first's."""
    for tensor in (*outputs, *inputs):
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            return short_dtype(tensor.dtype)
    for tensor in (*inputs, *outputs):
        return short_dtype(tensor.dtype)
    return "fp32"


def shapes_text(tensors: Sequence[torch.Tensor], limit: int = 6) -> str:
    """Tensor shapes for people: ``96x64 64x192``, ``scalar`` for no dimension."""
    words = ["x".join(map(str, tensor.shape)) or "scalar" for tensor in tensors[:limit]]
    if len(tensors) > limit:
        words.append(f"... ({len(tensors)} tensors)")
    return " ".join(words)
