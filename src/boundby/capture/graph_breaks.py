"""The graph breaks that torch.compile met in this process, read from its own record."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class BreaksBefore:
    """torch.compile's record when watching began.

    ``breaks`` are counted breaks, ``reasons`` the entries of its list of them. ``hidden``: code that was compiled
    before may run again, and its breaks are not counted anew.
    """

    breaks: int
    reasons: int
    hidden: bool

    def since(self) -> int | None:
        """How many breaks there were from then on; None where compiled code may have met some that do not show."""
        return None if self.hidden else max(0, graph_breaks_so_far() - self.breaks)


def breaks_before() -> BreaksBefore:
    """The record as it is now. Loads nothing."""
    reasons = len(_reasons())
    breaks = graph_breaks_so_far()
    return BreaksBefore(breaks=breaks, reasons=reasons, hidden=bool(breaks or reasons) and _has_compiled())


def graph_breaks_so_far() -> int:
    """How many breaks there were; 0 where nothing was compiled. Loads nothing."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return 0
    breaks = dynamo.counters.get("graph_break")
    return 0 if breaks is None else sum(breaks.values())


def forget_compiled() -> None:
    """Have torch.compile compile again what it compiled before, so that its breaks show. Loads nothing."""
    if "torch._dynamo" in sys.modules:
        sys.modules["torch"].compiler.reset()


def _reasons() -> list[Any]:
    return getattr(sys.modules.get("torch._dynamo.utils"), "graph_break_reasons", [])


def _has_compiled() -> bool:
    """Whether compiled code is kept; also where this torch does not tell."""
    codes = getattr(sys.modules.get("torch._dynamo.convert_frame"), "input_codes", None)
    seen = getattr(codes, "seen", None)
    return seen is None or any(one() is not None for one in seen)
