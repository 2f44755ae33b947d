"""The graph breaks that torch.compile met in this process, read from its own record."""

from __future__ import annotations

import sys


def graph_breaks_so_far() -> int:
    """How many breaks there were; 0 where nothing was compiled. Loads nothing."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return 0
    breaks = dynamo.counters.get("graph_break")
    return 0 if breaks is None else sum(breaks.values())
