"""Time spent waiting for a DataLoader, measured around its iterator's ``__next__``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def bracket_dataloaders(begin: Callable[[Any], None], end: Callable[[], None]) -> Callable[[], None]:
    """Call ``begin(iterator)`` before and ``end()`` after each ``next`` of a DataLoader's iterator; gives the undo."""
    from torch.utils.data import dataloader

    kind: Any = dataloader._BaseDataLoaderIter
    plain = kind.__next__

    @functools.wraps(plain)
    def timed_next(self: Any) -> Any:
        begin(self)
        try:
            return plain(self)
        finally:
            end()

    kind.__next__ = timed_next

    def undo() -> None:
        if kind.__next__ is timed_next:
            kind.__next__ = plain

    return undo
