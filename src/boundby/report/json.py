"""A report as JSON text."""

from __future__ import annotations

from boundby.results.files import encode
from boundby.results.report import Report


def render_json(report: Report) -> str:
    """The report as JSON, schema ``boundby.report``, with a final newline: what `--json` prints and `-o` writes."""
    return encode(report).decode() + "\n"
