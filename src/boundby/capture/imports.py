"""Act right after the user's script has imported a module, without importing it first.

Importing torch before the script does would freeze what the script may still set (``OMP_NUM_THREADS`` and the like).
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, imported: Callable[[], None]) -> None:
        self.loader = loader
        self.imported = imported

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        # The module must look as if nobody had stood between.
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.imported()


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self.name = name
        self.then = then
        self.looking = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        if self.looking:
            return None
        # Asking whether a module exists comes here too, so the request stays until the module has run.
        self.looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self.looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self.imported)
        return spec

    def imported(self) -> None:
        """The module has run: act, once."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self.then()


def after_import(name: str, then: Callable[[], None]) -> Callable[[], None]:
    """Call ``then()`` once, right after top-level module ``name`` is first imported (now, if it already is).

    Returns a function that withdraws the request.
    """
    if name in sys.modules:
        then()
        return lambda: None
    finder = _Finder(name, then)
    sys.meta_path.insert(0, finder)

    def withdraw() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)

    return withdraw
