"""What an object is and has, without running any code of its class: no property, no ``__getattr__``, no proxy."""

from __future__ import annotations

import sys
from types import GetSetDescriptorType, ModuleType
from typing import Any

_order = type.__dict__["__mro__"]
_names = type.__dict__["__dict__"]
_module = type.__dict__["__module__"]
_module_names: Any = vars(ModuleType)["__dict__"]


def attributes_of(value: Any) -> dict[str, Any] | None:
    """An object's own dict; None where it has none, or its class puts something else in its place."""
    kind = type(value)
    if issubclass(kind, ModuleType):
        found = _module_names.__get__(value)
        return found if type(found) is dict else None
    for one in _order.__get__(kind):
        held = _names.__get__(one).get("__dict__")
        if held is not None:
            found = held.__get__(value) if type(held) is GetSetDescriptorType else None
            return found if type(found) is dict else None
    return None


def module_of(kind: type) -> str | None:
    """The name of the module that a class says it is from."""
    name = _module.__get__(kind)
    return name if type(name) is str else None


def file_of(module: Any) -> str | None:
    """A module's file; None without one, and for what is no module."""
    if not issubclass(type(module), ModuleType):
        return None
    path = (attributes_of(module) or {}).get("__file__")
    return path if type(path) is str else None


def file_of_class(kind: type) -> str | None:
    """The file of the module that a class is from."""
    name = module_of(kind)
    return file_of(sys.modules.get(name)) if name is not None else None
