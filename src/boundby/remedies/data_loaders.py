"""Changing the arguments that a script's loaders are made with."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from boundby.remedies.contract import Effects


def change_loaders(change: Callable[[dict[str, Any]], str | None], effects: Effects) -> None:
    """Loaders made from now on get the arguments that ``change`` makes of the script's.

    Args:
        change: is given all arguments of a loader by name, defaults included, and changes them in place; returns what
            it changed, in words, or None where it left them alone.
        effects: told of each loader that was changed.
    """
    from torch.utils.data import DataLoader

    plain = DataLoader.__init__
    signature = inspect.signature(plain)

    @functools.wraps(plain)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            given = signature.bind(self, *args, **kwargs)
        except TypeError:  # the script's own mistake, which the plain call tells
            plain(self, *args, **kwargs)
            return
        given.apply_defaults()
        changed = change(given.arguments)
        if changed is None:
            plain(self, *args, **kwargs)
            return
        plain(*given.args, **given.kwargs)
        effects.saw(changed)

    DataLoader.__init__ = init  # type: ignore[method-assign]  # what applying from outside means
