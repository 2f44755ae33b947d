"""The names that a running function of the script's has, where they can be read without its noticing."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from types import CodeType, FrameType
from typing import Any

# What gives a function the dict of its names; before Python 3.13 it is one and the same for as long as it runs.
_GIVING = frozenset({"locals", "vars", "eval", "exec", "dir", "_getframe", "currentframe"})
_GIVING_OF = frozenset({"locals", "vars", "f_locals", "_getframe", "currentframe"})
_GLOBAL, _ATTRIBUTE = frozenset({"LOAD_GLOBAL", "LOAD_NAME"}), frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_SHARED = sys.version_info < (3, 13)
# References to the dict of a frame's names that are ours and the frame's own: a variable, an argument, the frame.
_OURS = 3


def names_in(frame: FrameType) -> list[tuple[str, Any]]:
    """Local names of a function's frame, or of the module at its outermost; none where that could be noticed.

    Before Python 3.13, a function's names are copied into a dict that its frame keeps: the very one that ``locals()``
    has given or will give. Asking for it brings it up to date, which changes what a script may have put aside, so
    functions that could have asked are left alone, and all of them while a tracer is on, which writes the dict back.
    The copy would keep the user's tensors alive for as long as the function runs: it is emptied again, unless somebody
    else holds it.
    """
    code = frame.f_code
    if not (_SHARED and code.co_flags & inspect.CO_OPTIMIZED):
        names = frame.f_locals
        return list(names.items()) if type(names) is dict or not _SHARED else []
    if sys.gettrace() is not None or sys.getprofile() is not None or _may_hold(code) or _others_look(code.co_filename):
        return []
    names = frame.f_locals
    if type(names) is not dict:
        return []
    found = list(names.items())
    if sys.getrefcount(names) <= _OURS:
        names.clear()
    return found


@functools.cache
def _may_hold(code: CodeType) -> bool:
    """Whether a function, or one inside of it, names what gives it the dict of its names."""
    for one in dis.get_instructions(code):
        # model.eval() is something else.
        if one.argval in (_GIVING if one.opname in _GLOBAL else _GIVING_OF if one.opname in _ATTRIBUTE else ()):
            return True
    return any(_may_hold(one) for one in code.co_consts if type(one) is CodeType)


@functools.cache
def _others_look(path: str) -> bool:
    """Whether a file asks for the names of frames anywhere; also where it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return "f_locals" in file.read()
    except (OSError, ValueError):
        return True
