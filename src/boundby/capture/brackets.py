"""What takes a step's time outside of ops, measured around the calls that do it: loading input, clearing gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def bracket_dataloaders(begin: Callable[[Any], None], end: Callable[[], None]) -> Callable[[], None]:
    """Call ``begin(iterator)`` before and ``end()`` after each ``next`` of a DataLoader's iterator; gives the undo."""
    from torch.utils.data import dataloader

    return _bracket(dataloader._BaseDataLoaderIter, "__next__", begin, end)


def bracket_clearing(begin: Callable[[Any], None], end: Callable[[], None]) -> Callable[[], None]:
    """Call ``begin(it)`` before and ``end()`` after each ``zero_grad`` of an optimizer or module; gives the undo."""
    from torch.nn import Module
    from torch.optim import Optimizer

    undoes = [_bracket(kind, "zero_grad", begin, end) for kind in (Optimizer, Module)]

    def undo() -> None:
        for one in undoes:
            one()

    return undo


def _bracket(kind: Any, name: str, begin: Callable[[Any], None], end: Callable[[], None]) -> Callable[[], None]:
    plain = getattr(kind, name)

    @functools.wraps(plain)
    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        begin(self)
        try:
            return plain(self, *args, **kwargs)
        finally:
            end()

    setattr(kind, name, timed)

    def undo() -> None:
        if getattr(kind, name) is timed:
            setattr(kind, name, plain)

    return undo
