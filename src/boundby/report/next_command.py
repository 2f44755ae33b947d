"""The command a person is likely to want after reading a report."""

from __future__ import annotations

import os.path
import shlex
from itertools import pairwise

from boundby.results.files import FORMATS
from boundby.results.report import Report

_OUTPUT_OPTIONS = ("-o", "--output")
_WITH_VALUE = frozenset({*_OUTPUT_OPTIONS, "--warmup", "--steps", "--watch", "--machine", "--budget"})


def next_command(report: Report) -> str:
    """After a run: how to see the file it wrote again or, where it wrote none, how to keep its report."""
    place = _output_place(report.tool.command)
    if place is None:
        return rerun_command(report, "report.json")
    return f"boundby show {shlex.quote(report.tool.command[place])}"


def rerun_command(report: Report, output: str) -> str:
    """The command that made the report, its result going to another file.

    Args:
        report: the report whose ``tool.command`` is to run again.
        output: the new file, so that the old report stays for comparison.
    """
    command = list(report.tool.command)
    if command[1:2] != ["run"]:
        return f"boundby run -o {shlex.quote(output)} SCRIPT"
    place = _output_place(report.tool.command)
    if place is None:
        command[2:2] = ["-o", output]
    else:
        command[place] = output
    return shlex.join(["boundby", *command[1:]])


def _output_place(command: tuple[str, ...]) -> int | None:
    """Where the command names the report's file. boundby's options come before the script and its own."""
    for place, (option, value) in enumerate(pairwise(command)):
        if place < 2:
            continue
        before = command[place - 1]
        if not option.startswith("-") and not (before.startswith("-") and before in _WITH_VALUE):
            return None  # the script
        if option in _OUTPUT_OPTIONS and os.path.splitext(value)[1].lower() in FORMATS:
            return place + 1
        if option == "-m":
            return None
    return None
