"""Costs kept by signature: the same op on the same shapes costs the same."""

from __future__ import annotations

from typing import Any

import torch

from boundby.capture.costs.registry import cost_of, forget_on_new_rule, is_data_dependent
from boundby.capture.costs.traffic import shapes_text, tensors_in
from boundby.results.counts import OpCost

_LIMIT = 50_000

_strided = torch.strided
# By id, as hashing an op runs Python code; the list keeps the ids from being used again.
_cacheable: dict[int, bool] = {}
_known_ops: list[Any] = []


def signature(func: Any, args: Any, kwargs: Any) -> Any:
    """A key of all that an op's cost depends on, or None where it depends on tensors' values.

    The key holds the op; of each tensor the sizes, strides and dtype; of tensors of one storage which and where; of
    each number its value (a float: whether it is zero).
    """
    cacheable = _cacheable.get(id(func))
    if cacheable is None:
        _known_ops.append(func)
        cacheable = _cacheable[id(func)] = not is_data_dependent(func)
    if not cacheable:
        return None
    key: list[Any] = [id(func)]
    storages: list[int] = []
    try:
        _describe(args, key, storages)
        if kwargs:
            for name in kwargs:
                key.append(name)
                _describe((kwargs[name],), key, storages)
        if len(storages) > 1 and len(set(storages)) < len(storages):
            first: dict[int, int] = {}
            for index, storage in enumerate(storages):
                first.setdefault(storage, index)
            key.append(tuple([first[storage] for storage in storages]))
            key.append(tuple([int(tensor.storage_offset()) for tensor in tensors_in([args, *kwargs.values()])]))
    except (RuntimeError, NotImplementedError, _NoSignature):
        # Sparse and nested tensors have no such key; their costs are worked out each time.
        return None
    return tuple(key)


class _NoSignature(Exception):
    """The op's cost depends on more than a key can hold."""


def _describe(values: Any, key: list[Any], storages: list[int]) -> None:
    note = key.append
    for value in values:
        if isinstance(value, torch.Tensor):
            if value.layout is not _strided:
                raise _NoSignature
            note(value.shape)
            note(value.stride())
            note(value.dtype)
            storages.append(value.untyped_storage()._cdata)
        elif value is None or isinstance(value, (int, str)):
            note(value)
        elif isinstance(value, float):
            note(value == 0.0)
        elif isinstance(value, (list, tuple)):
            note(len(value))
            _describe(value, key, storages)
        else:
            note(value)


class CostCache:
    """Costs and shape texts of ops, by signature.

    ``hits`` and ``misses`` say how often a look-up was answered from memory; ops that depend on tensors' values are
    neither.
    """

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0
        self.errors: dict[str, str] = {}
        self._kept: dict[Any, tuple[OpCost, str]] = {}
        forget_on_new_rule(self)

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
        key = signature(func, args, kwargs)
        if key is None:
            return self._work_out(func, args, kwargs, out)
        try:
            found = self._kept.get(key)
        except TypeError:  # Symbolic sizes cannot be hashed.
            return self._work_out(func, args, kwargs, out)
        if found is not None:
            self.hits += 1
            return found
        self.misses += 1
        found = self._work_out(func, args, kwargs, out)
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
