"""Files that a report is written to, for the commands that make one or read one: data, or a page."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from boundby.cli.options import output_option_for
from boundby.cli.page_files import check_output, encoded_page, is_page

if TYPE_CHECKING:
    from boundby.results.report import Report

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


def check_report_output(path: Path, *, force: bool) -> None:
    """Makes sure, before a long run, that a report can be written to ``path``.

    Args:
        path: where it is to go; its extension picks the format.
        force: whether an existing file may be replaced.

    Raises:
        BoundbyError: ``output-format``, ``output-exists`` or ``output-unwritable``; ``no-plots`` where a page is asked
            for and what draws its charts is not installed.
    """
    from boundby.results.files import REPORT_FORMATS

    check_output(path, force=force, formats=REPORT_FORMATS)


def write_report(
    report: Report, path: Path, *, force: bool, confidential: bool = False, folder: str | None = None
) -> None:
    """Writes a report in the format that the file's extension picks: a whole file or nothing.

    Args:
        report: what to write.
        path: where it goes, checked before by ``check_report_output``.
        force: whether an existing file may be replaced.
        confidential: whether to leave out what is private of the script.
        folder: an absolute path; a page shows paths below it relative to it.

    Raises:
        BoundbyError: ``output-exists`` or ``output-unwritable``, ``no-plots``.
    """
    from boundby.results.files import write_new

    write_new(path, _encoded(report, path, confidential, folder), force=force)


def show_command_for(output: Path | None) -> str | None:
    """The command that shows the data that was written; None where none was, or a page."""
    if output is None or output.suffix.lower() != ".json":
        return None
    return f"boundby show {shlex.quote(str(output))}"


def shown_report(report: Report, *, confidential: bool) -> Report:
    """The report as `--json` is to print it."""
    if not confidential:
        return report
    from boundby.report.private_text import without_private_text

    return without_private_text(report)


def _encoded(report: Report, path: Path, confidential: bool, folder: str | None) -> bytes:
    if not is_page(path):
        from boundby.results.files import encode

        return encode(shown_report(report, confidential=confidential))
    from boundby.report.report_document import report_document

    return encoded_page(report_document(report, confidential=confidential, folder=folder), path)
