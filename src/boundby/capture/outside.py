"""Work that no dispatcher sees: tensors handed to numpy or another library."""

from __future__ import annotations

import dis
import sys
from types import CodeType, FrameType

from boundby.results.own_code import BOUNDBY_ROOT

_SKIPPED = frozenset({"CACHE", "PRECALL", "KW_NAMES", "LOAD_CONST", "PUSH_NULL", "RESUME", "NOP", "EXTENDED_ARG"})
_EXPORTS = frozenset({"numpy", "__array__", "__dlpack__"})

_at_call: dict[tuple[CodeType, int], bool] = {}


def is_leaving_torch() -> bool:
    """Whether the ``aten::detach`` now being dispatched hands the tensor's memory to numpy or another library.

    ``Tensor.numpy()`` is dispatched as a detach, and nothing later tells them apart. The call is recognised in the
    innermost Python frame: torch's own ``__array__`` or ``__dlpack__``, or a frame at a call of a method ``numpy``.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(BOUNDBY_ROOT):
        frame = frame.f_back
    if frame is None:
        return False
    code = frame.f_code
    if code.co_name in ("__array__", "__dlpack__") and code.co_filename.endswith("torch/_tensor.py"):
        return True
    if not _EXPORTS.intersection(code.co_names):
        return False
    key = (code, frame.f_lasti)
    known = _at_call.get(key)
    if known is None:
        known = _at_call[key] = _calls_export(code, frame.f_lasti)
    return known


def _calls_export(code: CodeType, at: int) -> bool:
    """Whether the call instruction at byte ``at`` calls a method that exports a tensor's memory."""
    before = [one for one in dis.get_instructions(code) if one.offset < at]
    for one in reversed(before):
        if one.opname in _SKIPPED:
            continue
        return one.opname in ("LOAD_METHOD", "LOAD_ATTR") and one.argval in _EXPORTS
    return False
