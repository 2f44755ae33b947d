"""Reading the command that made a report: where boundby's own options begin, and what script it ran."""

from __future__ import annotations

from collections.abc import Sequence

OUTPUT_OPTIONS = ("-o", "--output")
WITH_VALUE = frozenset(
    {*OUTPUT_OPTIONS, "--warmup", "--steps", "--watch", "--machine", "--budget", "--lang", "--trace"}
)


def options_start(command: Sequence[str]) -> int | None:
    """Where the options of `run` or `try` begin in a command; None where it is neither."""
    place = 1
    while place < len(command) and command[place].startswith("--lang"):
        place += 1 if "=" in command[place] else 2
    return place + 1 if command[place : place + 1] in (("run",), ("try",)) else None


def script_and_arguments(command: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The script of a `run`, as its path or ``-m`` and a module's name, and its arguments.

    Args:
        command: the words of the command; none where a program made the report.

    Returns:
        None for another command, or one without a script.
    """
    start = options_start(command)
    if start is None or command[start - 1] != "run":
        return None
    place = start
    while place < len(command) and command[place].startswith("-") and command[place] not in ("-m", "--"):
        place += 2 if command[place] in WITH_VALUE else 1
    place += command[place : place + 1] == ("--",)
    named = place + (2 if command[place : place + 1] == ("-m",) else 1)
    return (tuple(command[place:named]), tuple(command[named:])) if named <= len(command) else None
