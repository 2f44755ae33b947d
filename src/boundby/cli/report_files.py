"""Options of the commands that write a report, and the command that shows what was written."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from boundby.cli.options import output_option_for

_Function = TypeVar("_Function", bound=Callable[..., Any])

report_output_option = output_option_for(" (.json, .html, .md)")
"""`-o FILE` and `--force`, for commands that write a report as data or as a page."""


def confidential_option(function: _Function) -> _Function:
    """Adds `--confidential` (parameter ``confidential``)."""
    return click.option(
        "--confidential",
        is_flag=True,
        help="Leave paths, source lines and names of the script out of what -o and --json write.",
    )(function)


def show_command_for(output: Path | None) -> str | None:
    """The command that shows the data that was written; None where none was, or a page."""
    if output is None or output.suffix.lower() != ".json":
        return None
    return f"boundby show {shlex.quote(str(output))}"
