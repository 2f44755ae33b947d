"""Work that no dispatcher sees: tensors handed to numpy, and regions that torch.compile fused into generated code."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

_BOUNDBY_ROOT = __file__.rpartition("capture")[0]
_SKIPPED = frozenset({"CACHE", "PRECALL", "KW_NAMES", "LOAD_CONST", "PUSH_NULL", "RESUME", "NOP", "EXTENDED_ARG"})
_EXPORTS = frozenset({"numpy", "__array__", "__dlpack__"})

_at_call: dict[tuple[CodeType, int], bool] = {}


def is_leaving_torch() -> bool:
    """Whether the ``aten::detach`` now being dispatched hands the tensor's memory to numpy or another library.

    ``Tensor.numpy()`` is dispatched as a detach, and nothing later tells them apart. The call is recognised in the
    innermost Python frame: torch's own ``__array__`` or ``__dlpack__``, or a frame at a call of a method ``numpy``.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_BOUNDBY_ROOT):
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


class CompiledRegions:
    """Counts the calls of regions that inductor compiled, whose kernels do not go through the dispatcher.

    The class of compiled graphs is patched while open, not the graphs or their callers, so nothing recompiles.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._withdraw: list[Callable[[], None]] = []
        self._patched: Any = None
        if "torch._dynamo" not in sys.modules:
            return
        self._patch()
        if self._patched is None:
            from torch._dynamo.callback import callback_handler

            callback_handler.register_end_callback(self._after_compile)
            self._withdraw.append(lambda: callback_handler.remove_end_callback(self._after_compile))

    def _after_compile(self, *args: Any) -> None:
        self._patch()

    def _patch(self) -> None:
        module = sys.modules.get("torch._inductor.output_code")
        if module is None or self._patched is not None:
            return
        graph = self._patched = module.CompiledFxGraph
        original = graph.__call__

        def counted(this: Any, inputs: Any) -> Any:
            self.calls += 1
            return original(this, inputs)

        graph.__call__ = counted

        def restore() -> None:
            graph.__call__ = original

        self._withdraw.append(restore)

    def close(self) -> None:
        """Put everything back."""
        for withdraw in self._withdraw:
            withdraw()
        self._withdraw.clear()
