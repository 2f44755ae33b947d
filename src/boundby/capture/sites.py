"""Where an op comes from: the user's source line, the module, and the phase of the step."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from boundby.results.counts import Phase
from boundby.results.own_code import BOUNDBY_ROOT, is_boundbys, is_pythons

Place = tuple[str | None, int | None, str | None]

_FOREIGN, _USER, _MODULE, _ENGINE, _CHECKPOINT, _OUTERMOST = range(6)

_node_now: Callable[[], Any] = torch._C._current_autograd_node
_sequence_now = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]  # absent from torch's stubs
_frame_at = sys._getframe

_MODULE_CALL = torch.nn.Module._wrapped_call_impl.__code__
_TORCH_ROOT = torch.__file__.rpartition("__init__")[0]
SCRIPT_RUNNER = BOUNDBY_ROOT + "capture/script.py"  # above it are only boundby's own frames, a dozen
# Generated code has no file; an interactive session's has none either, but is the user's.
_INTERACTIVE = ("<ipython", "<stdin")

# By id, as hashing a code object costs as much as the rest of a step of the walk; the list keeps the ids from reuse.
_code_kinds: dict[int, int] = {}
_known_codes: list[CodeType] = []


def is_torchs(path: str | None) -> bool:
    """Whether a file is of torch itself; None is unknown."""
    return path is not None and path.startswith(_TORCH_ROOT)


def _kind_of_code(code: CodeType) -> int:
    path = code.co_filename
    if code is _MODULE_CALL:
        kind = _MODULE
    elif is_torchs(path):
        if path.endswith("/utils/checkpoint.py"):
            kind = _CHECKPOINT
        elif code.co_name == "_engine_run_backward":
            kind = _ENGINE
        else:
            kind = _FOREIGN
    elif path == SCRIPT_RUNNER:
        kind = _OUTERMOST
    elif is_boundbys(path) or "/torchinductor_" in path:
        kind = _FOREIGN
    elif path.startswith("<"):
        kind = _USER if path.startswith(_INTERACTIVE) else _FOREIGN
    elif is_pythons(path):
        kind = _FOREIGN
    else:
        kind = _USER
    _known_codes.append(code)
    _code_kinds[id(code)] = kind
    return kind


def users_line(frame: FrameType | None) -> tuple[str | None, int | None]:
    """The innermost source line outside torch, boundby and the standard library, from ``frame`` outwards."""
    while frame is not None:
        if is_users(frame.f_code):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None, None


def is_users(code: CodeType) -> bool:
    """Whether code is neither torch's, boundby's nor the standard library's."""
    kind = _code_kinds.get(id(code))
    return (_kind_of_code(code) if kind is None else kind) == _USER


def forward_key() -> int:
    """The sequence number of the autograd node that the forward op now being dispatched makes, if it makes one."""
    return int(_sequence_now()) - 1


def backward_key() -> int | None:
    """The sequence number of the autograd node now executing; None outside backward and for gradient accumulation."""
    node = _node_now()
    if node is None:
        return None
    number = int(node._sequence_nr())
    return number if number < 1 << 63 else None


class PhaseTracker:
    """Knows whether an optimizer is stepping on the thread that made it, by torch's global optimizer hooks.

    ``close`` removes the hooks. Hooks of torch's own, so that the optimizer's code stays as it is.
    """

    def __init__(self) -> None:
        self.stepping = 0
        self._thread = threading.get_ident()
        self._handles = [
            register_optimizer_step_pre_hook(self._begin),
            register_optimizer_step_post_hook(self._end),
        ]

    def _begin(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self.stepping += threading.get_ident() == self._thread

    def _end(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if threading.get_ident() == self._thread:
            self.stepping = max(0, self.stepping - 1)

    def close(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()

    def phase_now(self) -> Phase:
        """The phase of the op now being dispatched: backward while an autograd node executes, optimizer in its step.

        A closure that an optimizer calls runs with gradients enabled, which its own arithmetic never does.
        """
        if _node_now() is not None:
            return "backward"
        if self.stepping and not torch.is_grad_enabled():
            return "optimizer"
        return "forward"


class SiteFinder:
    """Finds the place of the op now being dispatched by walking the Python frames of this thread.

    ``modules_seen`` are the modules whose calls were met on the way, by id, kept weakly.
    """

    def __init__(self) -> None:
        self.modules_seen: dict[int, weakref.ref[torch.nn.Module]] = {}
        self._labels: dict[tuple[int, int], str] = {}

    def find(self, depth: int = 1) -> Place:
        """The innermost source line outside torch, boundby and the standard library, and the innermost module.

        Args:
            depth: frames above this call to begin at.

        Returns:
            (path, line, module path), each None where there is none. The module path is the qualified name in the
            outermost module that is being called (``blocks.0.attn.qkv``), or the class name of that module itself.
        """
        frame: FrameType | None = _frame_at(depth)
        kind_of = _code_kinds.get
        path: str | None = None
        line: int | None = None
        inner_frame: FrameType | None = None
        outer_frame: FrameType | None = None
        while frame is not None:
            code = frame.f_code
            kind = kind_of(id(code))
            if kind:  # Most frames are foreign, kind 0.
                if kind == _USER:
                    if path is None:
                        path = code.co_filename
                        line = frame.f_lineno
                elif kind == _MODULE:
                    outer_frame = frame
                    if inner_frame is None:
                        inner_frame = frame
                elif kind == _OUTERMOST:
                    break
            elif kind is None and _kind_of_code(code):
                continue
            frame = frame.f_back
        if inner_frame is None or outer_frame is None:
            return path, line, None
        # Only these frames' locals are read: reading others' would keep the user's tensors alive for longer.
        inner = inner_frame.f_locals["self"]
        outer = inner if outer_frame is inner_frame else outer_frame.f_locals["self"]
        return path, line, self._label(inner, outer)

    def _label(self, inner: torch.nn.Module, outer: torch.nn.Module) -> str:
        key = (id(outer), id(inner))
        label = self._labels.get(key)
        if label is not None:
            known = self.modules_seen.get(key[1])
            if known is not None and known() is inner:
                return label
        self._note(outer)
        for name, module in outer.named_modules(remove_duplicate=False):
            self._note(module)
            self._labels[(key[0], id(module))] = name or type(outer).__name__
        if key not in self._labels or self._labels[key] == "":
            self._labels[key] = type(inner).__name__
        self._note(inner)
        return self._labels[key]

    def _note(self, module: torch.nn.Module) -> None:
        self.modules_seen[id(module)] = weakref.ref(module)


def is_recomputing() -> bool:
    """Whether the op now being dispatched runs a forward again inside backward (checkpointing).

    True where gradients are enabled inside an autograd node, and Python code of torch's checkpoint or of the user
    stands between the autograd engine and the op; where backward itself records a graph (``create_graph``), only
    torch's own checkpoint counts.
    """
    if _node_now() is None or not torch.is_grad_enabled():
        return False
    frame: FrameType | None = _frame_at(1)
    user = False
    while frame is not None:
        code = frame.f_code
        kind = _code_kinds.get(id(code))
        if kind is None:
            kind = _kind_of_code(code)
        if kind == _CHECKPOINT:
            return True
        if kind == _ENGINE:
            recorded = frame.f_locals["args"]
            return user and not (len(recorded) > 2 and bool(recorded[2]))
        if kind == _USER:
            user = True
        frame = frame.f_back
    return False
