"""The tensors in a running function's variables, without a trace of the looking."""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

import torch

_TENSORS = (torch.Tensor, torch.nn.Parameter)
# Whoever names one of these may hold the dict of the variables, or look at it: that dict is not asked for then.
_ASKS = frozenset({"locals", "vars", "dir", "eval", "exec"})
_FRAME_ASKS = frozenset({"f_locals", "_getframe", "currentframe"})
# References to a frame's dict that are its own and this module's.
_OWN_REFERENCES = 3


def tensors_in(frame: FrameType) -> list[torch.Tensor]:
    """Tensors in the frame's variables, in plain containers too, each once.

    Containers are gone through by the built-in types' own methods, so no code of the user's runs. Before Python 3.13 a
    function's variables come as a dict that stays with its frame: it is emptied again, or it would keep the tensors
    alive after their ``del``. Of a function that may hold that dict itself, nothing is looked at.

    Args:
        frame: a function's or a module's that runs.
    """
    code = frame.f_code
    copied = bool(code.co_flags & inspect.CO_OPTIMIZED)
    if copied and _may_hold_its_variables(code):
        return []
    names = frame.f_locals
    found = list(_tensors(list(names.values())))
    # A tracer's dict is written back into the variables after each of its calls, but it is filled anew before.
    if copied and type(names) is dict and sys.getrefcount(names) <= _OWN_REFERENCES:
        names.clear()
    return found


def _may_hold_its_variables(code: CodeType) -> bool:
    # An attribute of such a name is another thing: pytest's own ``@py_builtins.locals()`` in asserts, above all.
    names = {one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return not _ASKS.isdisjoint(names) or not _FRAME_ASKS.isdisjoint(code.co_names)


def _tensors(values: list[Any]) -> Iterator[torch.Tensor]:
    met: set[int] = set()
    pending = [iter(values)]
    while pending:
        try:
            value = next(pending[-1])
        except StopIteration:
            pending.pop()
            continue
        kind = type(value)
        if kind in _TENSORS:
            if id(value) not in met:
                met.add(id(value))
                yield value
            continue
        inner = _inner(kind, value)
        if inner is not None and id(value) not in met:
            met.add(id(value))
            pending.append(iter(inner))


def _inner(kind: type, value: Any) -> list[Any] | None:
    """What a container holds; subclasses, such as named tuples and model outputs, as the built-in type sees them."""
    if issubclass(kind, dict):
        return list(dict.values(value))
    if issubclass(kind, list):
        return list(list.__iter__(value))
    if issubclass(kind, tuple):
        return list(tuple.__iter__(value))
    return None
