"""`--trace FILE`: the watched step as a file that trace viewers open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from boundby.results.language import tr

if TYPE_CHECKING:
    from boundby.results.trace import Trace

_Function = TypeVar("_Function", bound=Callable[..., Any])


def trace_option(function: _Function) -> _Function:
    """Adds `--trace FILE` (parameter ``trace_file``: a path or None)."""
    return click.option(
        "--trace",
        "trace_file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Write the watched step to FILE (.json) as a trace that Perfetto and chrome://tracing open.",
    )(function)


def checked_trace_file(path: Path, *, beside: Path | None, force: bool, confidential: bool) -> Path:
    """The whole path of a trace, after making sure, before a long run, that it can be written.

    Args:
        path: where it is to go.
        beside: where the report goes, as a whole path; None where it goes nowhere.
        force: whether an existing file may be replaced.
        confidential: whether nothing private of the script may be written, which a trace is full of.

    Raises:
        UsageError: both go to one file, or nothing private may be written.
        BoundbyError: ``output-format``, ``output-exists`` or ``output-unwritable``.
    """
    from boundby.report.trace_export import TRACE_FORMATS
    from boundby.results.files import check_writable

    if confidential:
        raise click.UsageError(tr("--trace writes paths, source lines and names: leave it out, or --confidential."))
    if path.absolute() == beside:
        raise click.UsageError(tr("-o and --trace name the same file: give each its own."))
    check_writable(path, force, formats=TRACE_FORMATS)
    return path.absolute()


def write_trace(trace: Trace, path: Path, *, name: str, force: bool, folder: str | None) -> None:
    """Writes a trace: a whole file or nothing.

    Args:
        trace: what was watched.
        path: where it goes, checked before by ``checked_trace_file``.
        name: the script's name.
        force: whether an existing file may be replaced.
        folder: an absolute path; paths below it are named relative to it.

    Raises:
        BoundbyError: ``no-op-times``, ``output-exists`` or ``output-unwritable``.
    """
    from boundby.report.trace_export import render_trace
    from boundby.results.files import write_new

    write_new(path, render_trace(trace, name=name, folder=folder), force)
