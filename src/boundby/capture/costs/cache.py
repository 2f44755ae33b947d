"""Costs kept by signature: the same op on the same shapes costs the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from boundby.capture.costs.registry import cost_of, forget_on_new_rule, is_data_dependent
from boundby.capture.costs.traffic import shapes_text, tensors_in
from boundby.results.counts import OpCost

_LIMIT = 50_000

_strided = torch.strided
_Tensor = torch.Tensor
# By id, as hashing an op runs Python code; the list keeps the ids from being used again.
_cacheable: dict[int, bool] = {}
_known_ops: list[Any] = []


@dataclass(slots=True, eq=False)
class Known:
    """What is known of a call: its cost, its input shapes for people, and whether it is kept for calls like it.

    ``read_sizes`` are the bytes of each input tensor (an op's tensors in order, those in lists too).
    """

    cost: OpCost
    text: str
    kept: bool
    read_sizes: tuple[int, ...]


def signature(func: Any, args: Any, kwargs: Any, tensors: list[Any] | None = None) -> Any:
    """A key of all that an op's cost depends on, or None where it depends on tensors' values.

    The key holds the op; of each tensor the sizes, strides and dtype; of tensors of one storage which and where; of
    each number its value (a float: whether it is zero).

    Args:
        func: the op.
        args: its positional arguments.
        kwargs: its keyword arguments.
        tensors: an empty list, which then holds the tensors among them in order (some of them, where the key is None).
    """
    found = [] if tensors is None else tensors
    cacheable = _cacheable.get(id(func))
    if cacheable is None:
        _known_ops.append(func)
        cacheable = _cacheable[id(func)] = not is_data_dependent(func)
    if not cacheable:
        return None
    key: list[Any] = [id(func)]
    try:
        _describe(args, key, found)
        if kwargs:
            for name in kwargs:
                key.append(name)
                _describe((kwargs[name],), key, found)
        if len(found) > 1:
            storages = [tensor.untyped_storage()._cdata for tensor in found]
            if len(set(storages)) < len(storages):
                first: dict[int, int] = {}
                for index, storage in enumerate(storages):
                    first.setdefault(storage, index)
                key.append(tuple([first[storage] for storage in storages]))
                key.append(tuple([int(tensor.storage_offset()) for tensor in found]))
    except (RuntimeError, NotImplementedError, _NoSignature):
        # Sparse and nested tensors have no such key; their costs are worked out each time.
        return None
    return tuple(key)


class _NoSignature(Exception):
    """The op's cost depends on more than a key can hold."""


def _describe(values: Any, key: list[Any], tensors: list[Any]) -> None:
    note = key.append
    for value in values:
        kind = type(value)
        if kind is _Tensor or isinstance(value, _Tensor):
            if value.layout is not _strided:
                raise _NoSignature
            note(value.shape)
            note(value.stride())
            note(value.dtype)
            tensors.append(value)
        elif kind is float or isinstance(value, float):
            note(value == 0.0)
        elif value is None or isinstance(value, (int, str)):
            note(value)
        elif isinstance(value, (list, tuple)):
            note(len(value))
            _describe(value, key, tensors)
        else:
            note(value)


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """Look-ups of costs: answered from memory, worked out and kept, and worked out each time (by tensors' values)."""

    hits: int
    misses: int
    uncached: int

    @property
    def hit_rate(self) -> float:
        """The share of look-ups that was answered from memory; 0 without any."""
        return self.hits / max(1, self.hits + self.misses + self.uncached)


class CostCache:
    """Costs and shape texts of ops, by signature.

    ``hits`` and ``misses`` say how often a look-up was answered from memory; those of ops whose cost depends on
    tensors' values are ``uncached``.
    """

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0
        self.uncached = 0
        self.errors: dict[str, str] = {}
        self._kept: dict[Any, Known] = {}
        forget_on_new_rule(self)

    @property
    def info(self) -> CacheInfo:
        """The look-ups so far."""
        return CacheInfo(self.hits, self.misses, self.uncached)

    def forget(self) -> None:
        """Drop all kept costs."""
        self._kept.clear()
        _cacheable.clear()

    def lookup(self, func: Any, args: Any, kwargs: Any, out: Any) -> tuple[OpCost, str]:
        """The cost of one executed op and its input shapes for people.

        Args:
            func: the op.
            args: its positional arguments.
            kwargs: its keyword arguments.
            out: its result.
        """
        tensors: list[Any] = []
        key, known = self.find(func, args, kwargs, tensors)
        if known is None:
            known = self.learn(key, func, args, kwargs, out, tensors)
        return known.cost, known.text

    def find(self, func: Any, args: Any, kwargs: Any, tensors: list[Any]) -> tuple[Any, Known | None]:
        """What is known of a call like this one, also before it is made, and its key; see :meth:`learn`.

        Args:
            func: the op.
            args: its positional arguments.
            kwargs: its keyword arguments.
            tensors: an empty list, which then holds the op's input tensors in order.
        """
        key = signature(func, args, kwargs, tensors)
        try:
            found = self._kept.get(key)
        except TypeError:  # Symbolic sizes cannot be hashed.
            return None, None
        if found is not None:
            self.hits += 1
        return key, found

    def learn(self, key: Any, func: Any, args: Any, kwargs: Any, out: Any, tensors: list[Any]) -> Known:
        """What is to be known of an executed op of which :meth:`find` knew nothing; kept where its key allows it.

        Args:
            key: from ``find``.
            func: the op.
            args: its positional arguments.
            kwargs: its keyword arguments.
            out: its result.
            tensors: the list from ``find``, which then holds all of the op's input tensors.
        """
        cost, text = self._work_out(func, args, kwargs, out)
        if key is None:
            self.uncached += 1
            tensors[:] = tensors_in([*args, *kwargs.values()])
            return Known(cost, text, False, tuple([covered_bytes(one) for one in tensors]))
        self.misses += 1
        found = Known(cost, text, True, tuple([covered_bytes(one) for one in tensors]))
        if len(self._kept) >= _LIMIT:
            self._kept.clear()
        self._kept[key] = found
        return found

    def _work_out(self, func: Any, args: Any, kwargs: Any, out: Any) -> tuple[OpCost, str]:
        tensors = tensors_in([*args, *kwargs.values()])
        try:
            cost = cost_of(func, args, kwargs, out)
        except Exception as error:  # A rule that fails on a call must not fail the user's step: the op is unmodelled.
            self.errors[str(func)] = f"{type(error).__name__}: {error}"
            cost = OpCost(kind="other", modelled=False)
        try:
            text = shapes_text(tensors)
        except RuntimeError:  # A nested tensor has no sizes.
            text = ""
        return cost, text


def covered_bytes(tensor: Any) -> int:
    """Bytes of a tensor's memory that it covers; 0 where it has none of its own, or not in one block."""
    try:
        return int(min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()))
    except (RuntimeError, NotImplementedError, TypeError):
        return 0
