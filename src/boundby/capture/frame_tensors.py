"""The tensors in a running function's variables, without a trace of the looking."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch

from boundby.capture.frame_names import names_in

_TENSORS = (torch.Tensor, torch.nn.Parameter)


def tensors_in(frame: FrameType) -> list[torch.Tensor]:
    """Tensors in the variables of a frame that called boundby, in plain containers too, each once.

    Containers are gone through by the built-in types' own methods, so no code of the user's runs. Of a function that
    could notice that its variables are read, nothing is looked at.

    Args:
        frame: a function's or a module's that runs; its own code called boundby.
    """
    return list(_tensors([value for _, value in names_in(frame, called_us=True)]))


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
