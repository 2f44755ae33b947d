"""How a forked child of a process whose steps were profiled comes to its end.

torch's profiler starts a thread of its own that lasts until the process ends, when a C++ destructor waits for it. A
child made by fork has the destructor but not the thread, so it would wait forever, or be aborted, where it leaves by
``sys.exit``, by an exception or by the last line of the script. Its interpreter still ends as it always does: threads
are joined, ``atexit`` handlers run, streams are flushed. What C libraries registered before the fork is left out.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

_registered = False


def spare_children_of_the_profiler() -> None:
    """From now on, children that this process forks end without the destructors of the profiler.

    Nothing is done where the C library cannot do it (only glibc hands the exit status to a handler).
    """
    global _registered
    end = None if _registered or not hasattr(os, "register_at_fork") else _quick_end()
    if end is not None:
        _registered = True
        os.register_at_fork(after_in_child=end)


def _quick_end() -> Callable[[], None] | None:
    """Has exit(), once the interpreter is done, flush C's streams and leave before the handlers that are there now."""
    library = ctypes.CDLL(None)
    on_exit, at_exit = (getattr(library, name, None) for name in ("on_exit", "__cxa_atexit"))
    if on_exit is None or at_exit is None:
        return None
    on_exit.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    at_exit.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    leave = ctypes.cast(library._exit, ctypes.c_void_p)
    flush = ctypes.cast(library.fflush, ctypes.c_void_p)

    def end() -> None:
        # No Python is left to run by then, so the handlers are C functions themselves; the last registered runs first.
        on_exit(leave, None)
        at_exit(flush, None, None)

    return end
