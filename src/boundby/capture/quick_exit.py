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

    A script may keep ``os._exit`` as it is found here and call it later, as an exit handler: after the body, or once
    something was told, it is the plain one. Another function that the script has put in its place stays there.

    Args:
        tell: called in the main thread with the status; returns the one to end with.
        tell_no_more: called where another thread ends the process.
    """
    plain, process, thread = os._exit, os.getpid(), threading.get_ident()
    active = True

    def stop() -> None:
        nonlocal active
        active = False
        if os._exit is leave:
            os._exit = plain

    def leave(status: int) -> NoReturn:
        status = operator.index(status)
        if not active or os.getpid() != process:
            plain(status)
        os.strerror(status)  # refuses what is no C int, as the plain one does: the script then goes on, still watched
        stop()
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
        stop()
