"""Passes over memory: what a call moves, in units of its largest tensor, beside what one kernel would have to move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from boundby.capture.costs.traffic import distinct_bytes
from boundby.capture.counter import count_callable
from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr
from boundby.results.passes import Passes

# The argument by which torch functions are told where their result goes: written, and not read.
_OUT = "out"


def count_passes(fn: Callable[..., Any], args: Any, kwargs: dict[str, Any], *, size_bytes: int | None) -> Passes:
    """Counts one call of ``fn(*args, **kwargs)``; see ``boundby.passes``."""
    read = _tensors([args, {name: value for name, value in kwargs.items() if name != _OUT}, _enclosed(fn)])
    given = [*read, *_tensors(kwargs.get(_OUT))]
    versions = [_version(tensor) for tensor in given]
    results: list[Any] = []

    def kept(*args: Any, **kwargs: Any) -> Any:
        results.append(fn(*args, **kwargs))
        return results[0]

    counts = count_callable(kept, *args, **kwargs)
    changed = [tensor for tensor, before in zip(given, versions, strict=True) if _version(tensor) != before]
    # A view of what was given and not changed is handed back without being written.
    theirs = {_storage(tensor) for tensor in given}
    made = [tensor for tensor in _tensors(results) if _storage(tensor) not in theirs]
    if size_bytes is None:
        size_bytes = max((distinct_bytes([tensor]) for tensor in (*given, *made)), default=0)
    if size_bytes < 1:
        raise BoundbyError(
            "no-tensors",
            tr("passes over memory are counted in units of a tensor's size, and the call takes and returns none"),
            tr("Give the tensors as arguments, or the size in bytes as {argument}.", argument="size_bytes"),
            status=EXIT_USAGE,
        )
    return Passes(
        size_bytes=size_bytes,
        launches=counts.launches,
        read=counts.bytes_read / size_bytes,
        written=counts.bytes_written / size_bytes,
        fused_read=distinct_bytes(read) / size_bytes,
        fused_written=distinct_bytes([*changed, *made]) / size_bytes,
    )


def _enclosed(fn: Callable[..., Any]) -> list[Any]:
    """What a function closes over, or a module's parameters and buffers."""
    if isinstance(fn, torch.nn.Module):
        return [*fn.parameters(), *fn.buffers()]
    cells = getattr(fn, "__closure__", None) or ()
    return [cell.cell_contents for cell in cells if _is_filled(cell)]


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # The variable is not assigned yet.
        return False


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _version(tensor: torch.Tensor) -> int:
    """Counts the changes in place; the same always for a tensor of inference mode, which keeps no count."""
    return 0 if tensor.is_inference() else tensor._version


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
