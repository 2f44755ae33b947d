"""Hear of outermost module calls only, at no cost to the calls inside them."""

from __future__ import annotations

import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from boundby.capture.imports import after_import

# Written where a compiled module is called under global hooks; ours never runs inside compiled code.
_HOOKS_WARNING = r"Using `torch\.compile\(module\)` when there are global hooks"


class _CallToken:
    """Lives as long as one module call does."""

    def __init__(self, gone: Callable[[_CallToken], None]) -> None:
        self.gone = gone

    def __del__(self) -> None:
        self.gone(self)


class _ForwardHooks(OrderedDict[int, Any]):
    """torch's global forward hooks; torch asks for its items where a module call ends by an exception.

    Empty it counts as no hook, so that modules inside the call keep torch's short way. Compiled code is bound to its
    type, so it takes the plain mapping's place once, right after torch was imported, and stays for good.
    """

    failing: Callable[[int], None] | None = None

    def items(self) -> Any:
        if not torch.compiler.is_compiling() and self.failing is not None:
            self.failing(id(sys._getframe(1)))
        return super().items()


def _told_forward_hooks() -> _ForwardHooks:
    plain = torch_module._global_forward_hooks
    if isinstance(plain, _ForwardHooks):
        return plain
    told = _ForwardHooks(plain)
    vars(torch_module)["_global_forward_hooks"] = told
    return told


class OutermostCalls:
    """Calls ``began(module)`` as each outermost module call begins.

    The hook takes itself away for as long as such a call lasts, and comes back with its end. The end shows by the death
    of an object that the frame of the call holds. An exception may keep that frame alive; its way out of the call shows
    by torch's look for hooks that are always to be called.
    """

    def __init__(self, began: Callable[[Any], None], wanted: Callable[[], bool]) -> None:
        self._began = began
        self._wanted = wanted
        self._token: _CallToken | None = None
        self._token_id: int | None = None
        self._frame_id: int | None = None
        self._hooks = _told_forward_hooks()
        self._hooks.failing = self._failing
        self._hook = self._called
        self._key = torch_module.register_module_forward_pre_hook(self._hook).id
        self._installed = True
        self._filter: Any = None
        self._forget_request = after_import("torch._dynamo", self._add_filter)

    def remove(self) -> None:
        """Hear no more."""
        self._installed = False
        torch_module._global_forward_pre_hooks.pop(self._key, None)
        if self._hooks.failing == self._failing:
            self._hooks.failing = None
        self._forget_request()
        if self._filter in warnings.filters:
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]  # a list, whatever the stubs say

    def _called(self, module: Any, args: Any) -> None:
        if self._token_id is not None or not self._wanted():
            return
        caller = sys._getframe(1)
        call = caller if caller.f_code.co_name == "_call_impl" else caller.f_back
        mine = caller.f_locals.get("called_always_called_hooks")
        if call is not None and isinstance(mine, set):
            torch_module._global_forward_pre_hooks.pop(self._key, None)
            token = _CallToken(self._gone)
            self._token_id, self._frame_id = id(token), id(call)
            mine.add(token)
        # Without that set, of a torch that works another way, inner calls are taken for outermost ones.
        self._began(module)

    def _gone(self, token: _CallToken) -> None:
        if id(token) == self._token_id:
            self._returned()

    def _failing(self, frame_id: int) -> None:
        if frame_id == self._frame_id:
            self._returned()

    def _returned(self) -> None:
        self._token_id = self._frame_id = None
        if self._installed:
            torch_module._global_forward_pre_hooks[self._key] = self._hook

    def _add_filter(self) -> None:
        warnings.filterwarnings("ignore", message=_HOOKS_WARNING)
        self._filter = warnings.filters[0]
