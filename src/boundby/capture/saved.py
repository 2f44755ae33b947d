"""What autograd keeps for backward, read from the graph itself.

Saved-tensor hooks would be simpler, but ``torch.func`` refuses to run while any are active, and torch.compile compiles
differently under them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

_raw_names: dict[type, tuple[str, ...]] = {}


class SavedTensors:
    """Collects the storages that the nodes of autograd graphs keep.

    Nodes made before this object (on this thread) belong to earlier steps and are left out. ``parameters`` are the
    addresses of the storages of those parameters that the graphs lead to.
    """

    def __init__(self) -> None:
        self._first = int(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]  # absent from torch's stubs
        self._mark = object()
        self.parameters: set[int] = set()
        # The weak references keep addresses from being used again, so that storages stay told apart.
        self._found: dict[int, tuple[StorageWeakRef, int]] = {}

    def is_new(self, node: Any) -> bool:
        """Whether a node has not been visited yet."""
        return node.metadata.get("boundby") is not self._mark

    def visit(self, root: Any) -> None:
        """Note what a node and all nodes that it leads to keep."""
        pending = [root]
        while pending:
            node = pending.pop()
            if not self.is_new(node):
                continue
            node.metadata["boundby"] = self._mark
            number = node._sequence_nr()
            if number < self._first:
                continue
            pending += [following for following, _ in node.next_functions if following is not None]
            leaf = getattr(node, "variable", None)
            if isinstance(leaf, torch.nn.Parameter):
                self.parameters.update(storage._cdata for storage in storages_of(leaf))
            for name in _names_of(node):
                try:
                    value = getattr(node, name)
                except RuntimeError:  # Freed by a backward that ran already.
                    continue
                for one in value if isinstance(value, (list, tuple)) else (value,):
                    pending += self._note(one)

    def _note(self, saved: Any) -> list[Any]:
        """Note one saved tensor; returns nodes that a checkpoint hides behind it."""
        if saved is None:
            return []
        try:
            kept = saved.data
        except RuntimeError:  # Freed, or changed in place since, in which case backward would fail on it too.
            return []
        if isinstance(kept, torch.Tensor):
            self.add(kept)
            return []
        for leaf in tree_leaves(kept):
            if isinstance(leaf, torch.Tensor):
                self.add(leaf)
        # Non-reentrant checkpointing keeps its inputs on a frame that only its unpack hook knows: as saved tensors,
        # or before torch 2.10 on a node of their own.
        hidden = []
        for cell in getattr(saved.unpack_hook, "__closure__", None) or ():
            for one in getattr(cell.cell_contents, "saved_args", ()):
                if type(one) is type(saved):
                    hidden += self._note(one)
            saver = getattr(cell.cell_contents, "input_saver", None)
            if saver is not None:
                hidden.append(saver)
        return hidden

    def add(self, tensor: torch.Tensor) -> None:
        """Note a tensor's storage, or those of a sparse tensor's parts."""
        for storage in storages_of(tensor):
            if storage._cdata not in self._found:
                self._found[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())

    def total(self, without: Iterable[int] = ()) -> int:
        """Bytes of all storages noted, without those whose addresses are given."""
        skip = set(without)
        return sum(size for key, (_, size) in self._found.items() if key not in skip)

    def part(self, only: Iterable[int], without: Iterable[int] = ()) -> int:
        """Bytes of the noted storages whose addresses are in ``only`` and not in ``without``."""
        keep = set(only) - set(without)
        return sum(size for key, (_, size) in self._found.items() if key in keep)


def storages_of(tensor: torch.Tensor) -> list[torch.UntypedStorage]:
    """The storages of a tensor, of its parts where it is sparse, and of its inner tensors where it wraps some."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is not None:
        inner = [getattr(tensor, name) for name in flatten()[0]]
        return [storage for one in inner for storage in storages_of(one)]
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices().untyped_storage(), tensor._values().untyped_storage()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = (tensor.crow_indices(), tensor.col_indices(), tensor.values())
        return [part.untyped_storage() for part in parts]
    try:
        return [tensor.untyped_storage()]
    except (RuntimeError, NotImplementedError):  # Opaque layouts have no storage.
        return []


_function: Any = torch._C._FunctionBase
_SAVED_BY_FUNCTION = "_raw_saved_tensors"


def following_nodes(node: Any) -> Any:
    """The nodes that a node leads to, with the number of their input; no attribute of a user's function is asked."""
    if issubclass(type(node), _function):
        return _function.__dict__["next_functions"].__get__(node) or ()
    return node.next_functions or ()


def keeps_saved(node: Any) -> bool | None:
    """Whether a node still has what it saved for backward; None where it saves nothing."""
    of_function = issubclass(type(node), _function)
    found: bool | None = None
    for name in (_SAVED_BY_FUNCTION,) if of_function else _names_of(node):
        try:
            value = _function.__dict__[name].__get__(node) if of_function else getattr(node, name)
        except RuntimeError:  # Freed by a backward that ran already.
            found = False
            continue
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if _still_there(one):
                return True
            found = found if one is None else False
    return found


def _still_there(saved: Any) -> bool:
    """Whether a saved tensor, or what a hook made of it, was not freed."""
    try:
        return saved is not None and saved.data is not None
    except RuntimeError:
        return False


def _names_of(node: Any) -> tuple[str, ...]:
    kind = type(node)
    names = _raw_names.get(kind)
    if names is None:
        names = _raw_names[kind] = tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))
    return names
