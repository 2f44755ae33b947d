"""boundby: what bounds this step, what would help, by how much, and did it.

Importing this package loads neither torch nor numpy; the public names load what they need when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from boundby._version import __version__
from boundby.results.showing import shown_by

if TYPE_CHECKING:
    from boundby.api import cost_rule, count, explain, measure_machine, passes, step, sweep, thread_scaling, time_calls
    from boundby.results import errors
    from boundby.results.counts import Counts
    from boundby.results.errors import BoundbyError
    from boundby.results.machine import Machine
    from boundby.results.report import Report
    from boundby.results.showing import Look

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
    "passes",
    "step",
    "sweep",
    "thread_scaling",
    "time_calls",
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
    "passes": "boundby.api",
    "step": "boundby.api",
    "sweep": "boundby.api",
    "thread_scaling": "boundby.api",
    "time_calls": "boundby.api",
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


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext boundby``: adds the magics ``%boundby`` and ``%%boundby`` to IPython."""
    import importlib

    # By name, as the public functions are: whoever imports the package depends on no notebook.
    importlib.import_module("boundby.notebook").load_ipython_extension(shell)


def _look() -> Look:
    from boundby.report import shown

    return shown


# The results know no report; this package knows both.
shown_by(_look)
