"""The command a person is likely to want after reading a report."""

from __future__ import annotations

import os.path
import shlex
from itertools import pairwise

from boundby.results.files import FORMATS, REPORT_FORMATS
from boundby.results.report import Report

_OUTPUT_OPTIONS = ("-o", "--output")
_WITH_VALUE = frozenset(
    {*_OUTPUT_OPTIONS, "--warmup", "--steps", "--watch", "--machine", "--budget", "--lang", "--trace"}
)


def next_command(report: Report) -> str:
    """After a run: how to see the file it wrote again or, where it wrote none or a page, how to keep it as data."""
    place = _output_place(report.tool.command)
    if place is None or os.path.splitext(report.tool.command[place])[1].lower() not in FORMATS:
        return rerun_command(report, "report.json")
    return f"boundby show {shlex.quote(report.tool.command[place])}"


def rerun_command(report: Report, output: str) -> str:
    """The command that made the report, its result going to another file.

    Args:
        report: the report whose ``tool.command`` is to run again.
        output: the new file, so that the old report stays for comparison.
    """
    command = list(report.tool.command)
    start = _options_start(report.tool.command)
    if start is None:
        return f"boundby run -o {shlex.quote(output)} SCRIPT"
    place = _output_place(report.tool.command)
    if place is None:
        command[start:start] = ["-o", output]
    else:
        command[place] = output
    return shlex.join(["boundby", *command[1:]])


def _options_start(command: tuple[str, ...]) -> int | None:
    """Where the options of `run` or `try` begin in a command; None where it is neither."""
    place = 1
    while place < len(command) and command[place].startswith("--lang"):
        place += 1 if "=" in command[place] else 2
    return place + 1 if command[place : place + 1] in (("run",), ("try",)) else None


def _output_place(command: tuple[str, ...]) -> int | None:
    """Where the command names the report's file. boundby's options come before the script and its own."""
    start = _options_start(command)
    if start is None:
        return None
    for place, (option, value) in enumerate(pairwise(command)):
        if place < start:
            continue
        before = command[place - 1]
        if not option.startswith("-") and not (place > start and before.startswith("-") and before in _WITH_VALUE):
            return None  # the script, or a remedy
        if option in _OUTPUT_OPTIONS and os.path.splitext(value)[1].lower() in REPORT_FORMATS:
            return place + 1
        if option == "-m":
            return None
    return None
