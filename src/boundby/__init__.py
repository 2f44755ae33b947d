"""boundby: what bounds this step, what would help, by how much, and did it.

Importing this package loads neither torch nor numpy; the public names load what they need when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from boundby._version import __version__

if TYPE_CHECKING:
    from boundby.api import cost_rule, count, explain, measure_machine, step, sweep
    from boundby.results import errors
    from boundby.results.counts import Counts
    from boundby.results.errors import BoundbyError
    from boundby.results.machine import Machine
    from boundby.results.report import Report

__all__ = [
    "BoundbyError",
    "Counts",
    "Machine",
    "Report",
    "__version__",
    "cost_rule",
    "count",
    "errors",
    "explain",
    "measure_machine",
    "step",
    "sweep",
    "try_remedies",
]

_HOMES = {
    "BoundbyError": "boundby.results.errors",
    "Counts": "boundby.results.counts",
    "Machine": "boundby.results.machine",
    "Report": "boundby.results.report",
    "cost_rule": "boundby.api",
    "count": "boundby.api",
    "explain": "boundby.api",
    "measure_machine": "boundby.api",
    "step": "boundby.api",
    "sweep": "boundby.api",
    "try_remedies": "boundby.api",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name == "errors":
        return importlib.import_module("boundby.results.errors")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'boundby' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
