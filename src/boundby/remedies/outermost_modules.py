"""Changing what an outermost module call does, from outside, at little cost to the calls inside it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

# Gets the module, the plain call (which takes the module first), and the arguments; returns the result.
Around = Callable[[Any, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def around_outermost_calls(around: Around) -> None:
    """From now on every outermost ``module(...)`` goes through ``around``; calls inside it go torch's own way.

    Args:
        around: makes the call, by ``plain(module, *args, **kwargs)``.
    """
    import torch

    kind: Any = torch.nn.Module
    plain = kind.__call__
    compiling = torch.compiler.is_compiling
    inside = False

    # The method stays the same one: to put another into the class and back for each call would make the interpreter
    # forget what it knows of every module.
    @functools.wraps(plain)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        if inside or compiling():
            return plain(self, *args, **kwargs)
        inside = True
        try:
            return around(self, plain, args, kwargs)
        finally:
            inside = False

    kind.__call__ = call
