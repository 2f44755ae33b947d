"""Results that show themselves: printed, or last in a notebook's cell.

How they look is not known here. Whoever knows says so once, by ``shown_by``; nothing is loaded until one is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol


class Look(Protocol):
    """What writes a result for a person to look at."""

    def text(self, result: Any) -> str:
        """The result as lines of plain text."""
        ...

    def html(self, result: Any) -> str:
        """The result as HTML that can stand in a page of anybody's."""
        ...


_find_look: Callable[[], Look] | None = None


def shown_by(find: Callable[[], Look]) -> None:
    """From now on, results are written by what ``find`` returns; it is called when the first is shown."""
    global _find_look
    _find_look = find


class Shown:
    """A result that ``print`` and a notebook show as a person reads it; ``repr`` is one line."""

    __slots__ = ()

    def __str__(self) -> str:
        """The whole of it as plain text."""
        return repr(self) if _find_look is None else _find_look().text(self).rstrip("\n")

    def _repr_html_(self) -> str | None:
        return None if _find_look is None else _find_look().html(self)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        """Both forms, for a notebook to keep and a front end to choose from; those that were asked for."""
        bundle: dict[str, Callable[[], str | None]] = {"text/plain": self.__str__, "text/html": self._repr_html_}
        made = {
            kind: make()
            for kind, make in bundle.items()
            if (include is None or kind in include) and (exclude is None or kind not in exclude)
        }
        return {kind: text for kind, text in made.items() if text is not None}
