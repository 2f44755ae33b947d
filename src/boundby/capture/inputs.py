"""Time spent waiting for a DataLoader, measured around its iterator's ``__next__``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def bracket_dataloaders(begin: Callable[[], None], end: Callable[[], None]) -> Callable[[], None]:
    """Call ``begin()`` before and ``end()`` after every ``next`` of a torch DataLoader's iterator; returns the undo."""
    from torch.utils.data import dataloader

    kind: Any = dataloader._BaseDataLoaderIter
    plain = kind.__next__

    @functools.wraps(plain)
    def timed_next(self: Any) -> Any:
        begin()
        try:
            return plain(self)
        finally:
            end()

    kind.__next__ = timed_next

    def undo() -> None:
        if kind.__next__ is timed_next:
            kind.__next__ = plain

    return undo
