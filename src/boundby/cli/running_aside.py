"""A script run and explained in a process of its own, in a folder of links that is thrown away."""

from __future__ import annotations

import re
import subprocess
import tempfile
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from boundby.results.errors import BoundbyError
from boundby.results.language import language, tr

if TYPE_CHECKING:
    from boundby.capture.script import Target
    from boundby.results.report import Report

_SHOWN_LINES = 20
_OWN = "boundby: "
_OWN_ERROR = re.compile(rf"{_OWN}(?P<message>.+) \[(?P<code>[a-z0-9-]+)\]")


class _Said(NamedTuple):
    """An error as its line told it."""

    code: str
    message: str


def run_aside(target: Target, *, measured: bool) -> tuple[subprocess.CompletedProcess[str], bytes | None]:
    """Run the target as ``boundby run --stop`` does, in a process of its own; nothing of the user's is written to.

    Args:
        target: what to run.
        measured: whether times and shares are wanted too. Counts alone need no ceilings, which may have to be measured.

    Returns:
        The process that has ended, and the report's JSON, None where it gave none. Both call files by their names in
        the working folder.
    """
    from boundby.remedies.aside import guarded_folders, home_path, make_aside, target_aside
    from boundby.remedies.child_process import child_command

    with tempfile.TemporaryDirectory(prefix="boundby-aside-") as folder:
        place, root, home = Path(folder) / "report.json", Path(folder) / "as-it-is", Path.cwd()
        root.mkdir()
        aside = make_aside(home, root)
        command = [*child_command("boundby.remedies.explained_aside"), str(root)]
        command += [*map(str, guarded_folders(target, home)), "--"]
        if measured:
            command += ["boundby", "--lang", language(), "run", "--stop", "-o", str(place)]
        else:
            command += ["boundby.cli.counted_run", language(), str(place)]
        command += ["-m"] * target.is_module + [target_aside(target, home, root).name, *target.args]
        done = subprocess.run(
            command, cwd=aside, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
        )
        done.stderr = home_path(done.stderr, root)
        return done, at_home(place.read_bytes(), root) if place.exists() else None


def explain_aside(target: Target, *, measured: bool) -> Report:
    """The report of a target that is run as ``run_aside`` does, with the same arguments.

    Raises:
        BoundbyError: what boundby itself said where the script ended but could not be explained, as ``too-few-steps``;
            ``script-not-explained`` where it failed, and its last lines go to stderr.
    """
    from boundby.results.files import decode_report

    done, report = run_aside(target, measured=measured)
    if done.returncode != 0 or report is None:
        if own := own_error(done.stderr):
            raise own
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        for line in lines[-_SHOWN_LINES:]:
            click.echo(line, err=True)
        raise BoundbyError(
            "script-not-explained",
            tr("{script} ended with status {status}", script=target.name, status=done.returncode),
            tr("See what `boundby run` says of it."),
        )
    return decode_report(report, name=tr("the report"))


def own_error(errors: str) -> BoundbyError | None:
    """The last error of boundby's own in what a command of it wrote to standard error; None where there is none."""
    found, lines = None, errors.splitlines()
    for line, following in zip_longest(lines, lines[1:], fillvalue=""):
        if told := _OWN_ERROR.fullmatch(line.strip()):
            advice = following.strip().removeprefix(_OWN) if following.startswith(_OWN) else ""
            said = _Said(**told.groupdict())
            found = BoundbyError(said.code, said.message, advice or tr("See what `boundby run` says of it."))
    return found


def at_home(report: bytes, root: Path) -> bytes:
    """A report's JSON with files of the folder it ran in called by their names in the working folder, where they stay.

    Args:
        report: the JSON.
        root: the folder that stood for the root of the file system.
    """
    from boundby.remedies.aside import home_path

    return home_path(report.decode(), root, in_json=True).encode()
