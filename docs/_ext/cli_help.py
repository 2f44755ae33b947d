"""A directive that prints what ``boundby COMMAND --help`` prints, so that the page cannot say anything else."""

from __future__ import annotations

import os
import subprocess
import sys

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

COLUMNS = "88"


class CliHelp(SphinxDirective):
    """``{cli-help} run`` becomes the help text of ``boundby run``; without an argument, that of ``boundby``."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The help text as a literal block; a command that fails is an error of the build."""
        command = [*self.arguments, "--help"]
        done = subprocess.run(
            [sys.executable, "-m", "boundby", *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, "COLUMNS": COLUMNS, "NO_COLOR": "1", "LC_ALL": "C.UTF-8"},
        )
        if done.returncode != 0:
            raise self.error(f"boundby {' '.join(command)} ended with status {done.returncode}: {done.stderr.strip()}")
        text = done.stdout.rstrip()
        return [nodes.literal_block(text, text, language="text")]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directive."""
    app.add_directive("cli-help", CliHelp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
