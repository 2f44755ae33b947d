"""A notebook's cells by the names that people know them by: ``In[3]`` and not the file that IPython compiled it as."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from boundby.results.counts import Counts
from boundby.results.report import Report


def with_cell_names(report: Report) -> Report:
    """The report with lines of this process's notebook cells named as the notebook does; itself outside of IPython."""
    named = _namer()
    if named is None:
        return report
    return replace(
        report,
        lines=tuple(replace(one, path=named(one.path)) for one in report.lines),
        ops=tuple(replace(one, path=named(one.path)) for one in report.ops),
        findings=tuple(replace(one, path=named(one.path)) for one in report.findings),
        counts=_counts(report.counts, named),
    )


def _namer() -> Callable[[str | None], str | None] | None:
    """From the path of a cell's code to the cell's name; other paths stay. None where no IPython runs."""
    # Looked up and not imported: whoever has no IPython running shall not load it.
    loaded = sys.modules.get("IPython.core.getipython")
    shell: Any = loaded.get_ipython() if loaded is not None else None
    if shell is None:
        return None

    def named(path: str | None) -> str | None:
        known = shell.compile.format_code_name(path) if path is not None else None
        return path if known is None else known[1]

    return named


def _counts(counts: Counts, named: Callable[[str | None], str | None]) -> Counts:
    """Counts by line, whose rows are named ``PATH:LINE``."""
    rows = []
    for row in counts.by_line:
        path, colon, line = row.name.rpartition(":")
        rows.append(replace(row, name=f"{named(path)}{colon}{line}") if colon else row)
    return replace(counts, by_line=tuple(rows))
