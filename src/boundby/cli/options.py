"""Options that several commands share, and what the stream they print to can show."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from boundby.results.language import tr

if TYPE_CHECKING:
    from boundby.results.report import Report

_Function = TypeVar("_Function", bound=Callable[..., Any])

# What a pipe or a file is written for: the narrowest terminal that people commonly read in.
_DEFAULT_WIDTH = 80
_UNICODE_SAMPLE = "█▓▒░═·…µ"


def output_option_for(formats: str) -> Callable[[_Function], _Function]:
    """Adds `-o FILE` (parameter ``output``: a path or None) and `--force` (parameter ``force``).

    Args:
        formats: what the help says of the extensions, after "its extension picks the format".
    """

    def add(function: _Function) -> _Function:
        function = click.option("--force", is_flag=True, help="Replace FILE if it exists.")(function)
        return click.option(
            "-o",
            "--output",
            metavar="FILE",
            type=click.Path(path_type=Path),
            multiple=True,
            callback=_only_one,
            help=f"Write the result to FILE; its extension picks the format{formats}.",
        )(function)

    return add


def _only_one(_context: click.Context, _option: click.Parameter, given: tuple[Path, ...]) -> Path | None:
    """The one file; click itself takes the last of several and says nothing."""
    if len(given) > 1:
        raise click.UsageError(
            tr(
                "-o takes one FILE, and {count} were given: {files}.",
                count=len(given),
                files=", ".join(map(str, given)),
            )
        )
    return given[0] if given else None


output_option = output_option_for(" (.json)")
"""`-o FILE.json` and `--force`, for commands that write JSON alone."""


def json_option(function: _Function) -> _Function:
    """Adds `--json` (parameter ``as_json``)."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else, on standard output.")(
        function
    )


def machine_file_option(function: _Function) -> _Function:
    """Adds `--machine FILE` (parameter ``elsewhere``: a path or None)."""
    return click.option(
        "--machine",
        "elsewhere",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Say what would bind on the machine that FILE is of (`boundby machine -o`), as modelled from this run.",
    )(function)


def language_option() -> click.Option:
    """`--lang`, which takes effect as soon as it is read: in the language it names, the rest of the line is told."""
    from boundby.results.language import LANGUAGES, choose_language

    def choose(_context: click.Context, _option: click.Parameter, name: str | None) -> None:
        if name is not None:
            choose_language(writable_language(name))

    return click.Option(
        ["--lang"],
        type=click.Choice(LANGUAGES),
        is_eager=True,
        expose_value=False,
        callback=choose,
        help="The language of what is printed [default: the locale's].",
    )


def writable_language(name: str) -> str:
    """The language ``name``, or English where standard output or standard error cannot write its letters."""
    sample = {"zh": "中文"}.get(name, "")
    streams = [one for one in (sys.stdout, sys.stderr) if one is not None and not getattr(one, "closed", False)]
    return name if all(_can_write(one, sample) for one in streams) else "en"


@dataclass(frozen=True, slots=True, kw_only=True)
class Display:
    """What a stream can show: its width in columns, whether colour is welcome, whether block characters are."""

    width: int
    color: bool
    unicode: bool


def detect_display(stream: IO[str], environment: Mapping[str, str] = os.environ) -> Display:
    """What ``stream`` can show.

    Colour needs a terminal that is not ``TERM=dumb``, and no ``NO_COLOR``; ``FORCE_COLOR`` asks for it anyway. The
    width is ``COLUMNS``, or the terminal's, or 80 where the stream is no terminal.
    """
    terminal = _is_terminal(stream)
    if environment.get("NO_COLOR"):
        color = False
    elif environment.get("FORCE_COLOR"):
        color = True
    else:
        color = terminal and environment.get("TERM", "") != "dumb"
    columns = environment.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        width = int(columns)
    elif terminal:
        width = _terminal_width(stream)
    else:
        width = _DEFAULT_WIDTH
    return Display(width=width, color=color, unicode=_can_write(stream, _UNICODE_SAMPLE))


def print_report(report: Report, *, stream: IO[str] | None = None, next_command: str | None = None) -> None:
    """Prints a report as ``stream`` can show it, paths relative to the working directory.

    Args:
        report: what to print.
        stream: where to print; standard output where None.
        next_command: the command to name at the end; one that fits the report where None.
    """
    from boundby.report.terminal import render_report

    out = sys.stdout if stream is None else stream
    display = detect_display(out)
    text = render_report(
        report,
        width=display.width,
        color=display.color,
        unicode=display.unicode,
        folder=working_folder(),
        next_command=next_command,
    )
    print_text(text, stream=out)


def print_text(text: str, *, stream: IO[str] | None = None) -> None:
    """Prints text as it is; what ``stream`` has no character for becomes an escape.

    Args:
        text: lines that end in a newline.
        stream: where to print; standard output where None.
    """
    out = sys.stdout if stream is None else stream
    encoding = getattr(out, "encoding", None) or "utf-8"
    out.write(text.encode(encoding, "backslashreplace").decode(encoding))
    out.flush()


def working_folder() -> str | None:
    """Where the user is; None where that folder is gone."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _is_terminal(stream: IO[str]) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False


def _terminal_width(stream: IO[str]) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or _DEFAULT_WIDTH
    except (OSError, ValueError):
        return shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns


def _can_write(stream: IO[str], text: str) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
