"""Torch with one thread for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def in_one_thread() -> Iterator[None]:
    """Torch and its math library with one thread, which has no second one to wait for on a busy machine; put back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
