"""The command a person is likely to want after reading a report."""

from __future__ import annotations

import os
import os.path
import shlex
from collections.abc import Sequence
from itertools import pairwise

from boundby.results.files import FORMATS, REPORT_FORMATS
from boundby.results.language import tr
from boundby.results.report import Report
from boundby.results.run_command import OUTPUT_OPTIONS, WITH_VALUE, options_start, script_and_arguments


def next_command(report: Report) -> str:
    """After a run: how to see the file it wrote again; to try remedies where that is a page; else how to keep it.

    Args:
        report: that was made just now, by a command or, where that is empty, by a program.
    """
    command = report.tool.command
    if not command:
        return tr("{call} in your program keeps it", call='Path("report.json").write_text(report.to_json())')
    place = _output_place(command)
    if place is None:
        return rerun_command(report, "report.json")
    if os.path.splitext(command[place])[1].lower() in FORMATS:
        return f"boundby show {_quoted(command[place])}"
    ran = script_and_arguments(command)
    if ran is None:
        return rerun_command(report, "report.json")
    script, arguments = ran
    return _joined(["boundby", "try", *script, *arguments])


def rerun_command(report: Report, output: str) -> str:
    """The command that made the report, its result going to another file.

    Args:
        report: the report whose ``tool.command`` is to run again.
        output: the new file, so that the old report stays for comparison.
    """
    command = list(report.tool.command)
    start = options_start(report.tool.command)
    if start is None:
        return f"boundby run -o {_quoted(output)} SCRIPT"
    place = _output_place(report.tool.command)
    if place is None:
        command[start:start] = ["-o", output]
    else:
        command[place] = output
    return _joined(["boundby", *command[1:]])


def run_command_of(script: Sequence[str], output: str) -> str:
    """The command that explains a script and keeps that in a file.

    Args:
        script: its path, or ``-m`` and a module's name, with its arguments; empty for boundby's own.
        output: the file.
    """
    return _joined(["boundby", "run", "-o", output, *script])


def saved_command(report: Report, file: str) -> str:
    """What can be done with a saved report: make it again, for comparison; what no command made, only a program can.

    Args:
        report: the saved report.
        file: where it is saved; empty where that is not known.
    """
    if report.tool.command:
        return rerun_command(report, "after.json")
    return tr(
        "{command}, once your program has saved a second report",
        command=f"boundby compare {_quoted(file or 'before.json')} after.json",
    )


def _joined(words: list[str]) -> str:
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    """A word for a shell; what is not printable is written as an escape, which survives being shown and copied."""
    if word.isprintable():
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(one if one.isprintable() else _escape(one) for one in escaped) + "'"


def _escape(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))


def _output_place(command: tuple[str, ...]) -> int | None:
    """Where the command names the report's file. boundby's options come before the script and its own."""
    start = options_start(command)
    if start is None:
        return None
    for place, (option, value) in enumerate(pairwise(command)):
        if place < start:
            continue
        before = command[place - 1]
        if not option.startswith("-") and not (place > start and before.startswith("-") and before in WITH_VALUE):
            return None  # the script, or a remedy
        if option in OUTPUT_OPTIONS and os.path.splitext(value)[1].lower() in REPORT_FORMATS:
            return place + 1
        if option == "-m":
            return None
    return None
