"""Keep boundby's own frames out of the user's tracebacks."""

from __future__ import annotations

import os
import types

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OWN = (*(os.path.join(_HERE, room, "") for room in ("capture", "cli")), os.path.join(_HERE, "api.py"))


def own_frames_removed(error: BaseException) -> None:
    """Rewrite the tracebacks of ``error`` and of its causes and contexts without boundby's frames.

    A frame of a watcher stands between the user's line and ``torch/_ops.py``; both go, since a plain run has neither.
    """
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = _filtered(one.__traceback__)
        todo += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            todo += one.exceptions


def _filtered(traceback: types.TracebackType | None) -> types.TracebackType | None:
    frames: list[types.TracebackType] = []
    after_own = False
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        own = name.startswith(_OWN)
        relay = after_own and bool(frames) and name.endswith(os.path.join("torch", "_ops.py"))
        if not own and not relay:
            frames.append(traceback)
        after_own = own or relay
        traceback = traceback.tb_next
    # Frames before the user's first one are the console script's, click's and the interpreter's start.
    while frames and _is_launcher(frames[0].tb_frame.f_code.co_filename):
        frames.pop(0)
    result: types.TracebackType | None = None
    for one in reversed(frames):
        result = types.TracebackType(result, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return result


def _is_launcher(name: str) -> bool:
    return os.path.join("site-packages", "click") + os.sep in name
