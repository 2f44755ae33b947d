"""A script run and explained in a process of its own, in a folder of links that is thrown away."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from boundby.results.errors import BoundbyError
from boundby.results.language import language, tr

if TYPE_CHECKING:
    from boundby.capture.script import Target
    from boundby.results.report import Report

_SHOWN_LINES = 20


def explain_aside(target: Target, *, measured: bool) -> Report:
    """Run the target as ``boundby run --stop`` does; nothing in the working folder is written to.

    Args:
        target: what to run.
        measured: whether times and shares are wanted too. Counts alone need no ceilings, which may have to be measured.

    Raises:
        BoundbyError: ``script-not-explained`` where it gave no report or failed; its last lines go to stderr.
    """
    from boundby.remedies.aside import guarded_folders, home_path, make_aside, target_aside
    from boundby.remedies.child_process import child_command
    from boundby.results.files import decode_report

    with tempfile.TemporaryDirectory(prefix="boundby-check-") as folder:
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
        if done.returncode != 0 or not place.exists():
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            for line in lines[-_SHOWN_LINES:]:
                click.echo(home_path(line, root), err=True)
            raise BoundbyError(
                "script-not-explained",
                tr("{script} ended with status {status}", script=target.name, status=done.returncode),
                tr("See what `boundby run` says of it."),
            )
        return decode_report(at_home(place.read_bytes(), root), name=tr("the report"))


def at_home(report: bytes, root: Path) -> bytes:
    """A report's JSON with files of the folder it ran in called by their names in the working folder, where they stay.

    Args:
        report: the JSON.
        root: the folder that stood for the root of the file system.
    """
    for folder in {root, root.resolve()}:
        report = report.replace(_in_json(folder) + b"/", b"/")
    return report


def _in_json(folder: Path) -> bytes:
    return json.dumps(str(folder), ensure_ascii=False)[1:-1].encode("utf-8", "backslashreplace")
