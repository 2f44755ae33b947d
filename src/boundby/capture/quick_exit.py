"""``os._exit`` in a watched script: what was seen is told first, then the process ends as the script has it."""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def before_quick_exit(tell: Callable[[int], int], *, tell_no_more: Callable[[], None]) -> Iterator[None]:
    """Has ``tell`` called before ``os._exit`` ends this process.

    The script does not go on after it: no ``finally`` and no exit handler runs, and nothing it had not yet written is
    written, as ``os._exit`` promises. Forked children end at once, as ever. In another thread nothing can be told of
    what the main thread is in the middle of.

    Args:
        tell: called in the main thread with the status; returns the one to end with.
        tell_no_more: called where another thread ends the process.
    """
    plain, process, thread = os._exit, os.getpid(), threading.get_ident()

    def leave(status: int) -> NoReturn:
        status = operator.index(status)
        if os.getpid() != process:
            plain(status)
        os._exit = plain
        try:
            if threading.get_ident() == thread:
                status = tell(status)
            else:
                tell_no_more()
        finally:
            plain(status)

    leave.__name__ = leave.__qualname__ = plain.__name__
    os._exit = leave
    try:
        yield
    finally:
        os._exit = plain
