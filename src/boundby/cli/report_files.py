"""What the commands share that write a report or read a saved file: options, refusals, the command that shows it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from boundby.cli.options import output_option_for
from boundby.results.errors import BoundbyError
from boundby.results.files import BYTE_ORDER_MARK, read_file
from boundby.results.language import tr
from boundby.results.report import SCHEMA as REPORT_SCHEMA

_Function = TypeVar("_Function", bound=Callable[..., Any])

# Where a page says that it is one.
_HEAD_BYTES = 256

report_output_option = output_option_for(" (.json, .html, .md)")
"""`-o FILE` and `--force`, for commands that write a report as data or as a page."""


def confidential_option(function: _Function) -> _Function:
    """Adds `--confidential` (parameter ``confidential``)."""
    return click.option(
        "--confidential",
        is_flag=True,
        help="Leave paths, source lines and names of the script out of what -o and --json write.",
    )(function)


def read_saved(file: Path) -> tuple[str, bytes]:
    """What to call a file in errors, and what it holds; ``-`` is standard input.

    Raises:
        BoundbyError: ``no-such-file``, ``unreadable-file``, or ``unknown-schema`` where it is an HTML page.
    """
    if str(file) == "-":
        name, data = tr("standard input"), sys.stdin.buffer.read()
    else:
        name, data = str(file), read_file(file)
    if data[:_HEAD_BYTES].removeprefix(BYTE_ORDER_MARK).lstrip().lower().startswith((b"<!doctype html", b"<html")):
        raise BoundbyError(
            "unknown-schema",
            tr("{name} is a page already, and not the data that a page is made of.", name=name),
            tr("Open it in a browser, or give the .json file that `-o` of a command wrote."),
        )
    return name, data


def check_confidential(confidential: bool, schema: object, name: str) -> None:
    """Refuses ``--confidential`` for a file that is no report.

    Raises:
        click.UsageError: that it was given.
    """
    if confidential and schema != REPORT_SCHEMA:
        raise click.UsageError(
            tr(
                "{option} is for reports; {name} has the schema {schema}.",
                option="--confidential",
                name=name,
                schema=repr(schema),
            )
        )


def check_shown(schema: object, name: str, shown: Sequence[str], *, otherwise: Sequence[str] = ()) -> None:
    """Refuses a file that the command does not show.

    Args:
        schema: what the file says it is.
        name: what to call it in an error.
        shown: the schemas that the command shows.
        otherwise: those that `boundby show` shows beside them.

    Raises:
        BoundbyError: ``unknown-schema``, with what to do with such a file.
    """
    if schema in shown:
        return
    told = tr(
        "{name} has the schema {schema}; this command reads {schemas}.",
        name=name,
        schema=repr(schema),
        schemas=", ".join(shown),
    )
    if schema in otherwise:
        advice = tr("Show it on the terminal instead: {command}.", command="boundby show FILE")
    elif schema == "boundby.baseline":
        told = tr(
            "{name} is a baseline of `boundby check`: the counts that a step is held against, and no report.", name=name
        )
        advice = tr("Hold a step against it: {command}.", command="boundby check --baseline FILE SCRIPT")
    elif schema == "boundby.validation":
        told = tr(
            "{name} is what `boundby validate --json` wrote: measurements beside what was expected of them, for other "
            "programs to read.",
            name=name,
        )
        advice = tr("The same on the terminal: {command}; with --each, every row.", command="boundby validate")
    else:
        advice = tr("Give a file that `boundby run -o FILE.json` or another command of boundby's wrote.")
    raise BoundbyError("unknown-schema", told, advice)


def show_command_for(output: Path | None) -> str | None:
    """The command that shows the data that was written; None where none was, or a page."""
    if output is None or output.suffix.lower() != ".json":
        return None
    return f"boundby show {shlex.quote(str(output))}"
