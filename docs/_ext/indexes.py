"""Directives that list what there is: remedies by the registry, codes by the sections of this page."""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

# Remedies that share a section with another one, and the section.
SHARED_SECTIONS = {"workers-0": "workers-0-and-workers-2", "workers-2": "workers-0-and-workers-2"}


def remedy_table() -> str:
    """A Markdown table of all remedies, in the order of the registry."""
    from boundby.remedies.registry import MODULES, remedy_named

    lines = ["| remedy | is | results | a trial can make it |", "| --- | --- | --- | --- |"]
    for name in MODULES:
        remedy = remedy_named(name)
        numbers = "may differ" if remedy.CHANGES_NUMBERS else "stay as they are"
        outside = "no" if getattr(remedy, "ADVICE_ONLY", False) else "yes"
        lines.append(
            f"| [{name}](remedies.md#{SHARED_SECTIONS.get(name, name)}) | {remedy.title()} | {numbers} | {outside} |"
        )
    return "\n".join(lines)


def code_list(page: str) -> str:
    """A line of Markdown that links every section of the page of codes, by the alphabet.

    Args:
        page: the text of the page.
    """
    codes = re.findall(r"^### (\S+)$", page, re.MULTILINE)
    return " · ".join(f"[{code}](codes.md#{code})" for code in sorted(codes))


class RemedyIndex(SphinxDirective):
    """``{remedy-index}`` becomes the table of remedies."""

    def run(self) -> list[nodes.Node]:
        """The table."""
        return self.parse_text_to_nodes(remedy_table())


class CodeIndex(SphinxDirective):
    """``{code-index}`` becomes the list of the codes of the page that it stands on."""

    def run(self) -> list[nodes.Node]:
        """The list."""
        page = Path(self.env.doc2path(self.env.docname))
        return self.parse_text_to_nodes(code_list(page.read_text(encoding="utf-8")))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directives."""
    app.add_directive("remedy-index", RemedyIndex)
    app.add_directive("code-index", CodeIndex)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
