"""A script run and explained in a process of its own, in a folder of links that is thrown away."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from boundby.results.errors import BoundbyError
from boundby.results.language import language, tr

if TYPE_CHECKING:
    from boundby.capture.script import Target
    from boundby.results.report import Report

_SHOWN_LINES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedAside:
    """The report, and the folder that stood for the working one: paths in the report may lie below it."""

    report: Report
    folder: str


def explain_aside(target: Target, *, measured: bool) -> ExplainedAside:
    """Run the target as ``boundby run --stop`` does; nothing in the working folder is written to.

    Args:
        target: what to run.
        measured: whether times and shares are wanted too. Counts alone need no ceilings, which may have to be measured.

    Raises:
        BoundbyError: ``script-not-explained`` where it gave no report or failed; its last lines go to stderr.
    """
    from boundby.remedies.aside import make_aside
    from boundby.remedies.child_process import child_command
    from boundby.results.files import decode_report

    with tempfile.TemporaryDirectory(prefix="boundby-check-") as folder:
        place, aside = Path(folder) / "report.json", Path(folder) / "as-it-is"
        aside.mkdir()
        make_aside(Path.cwd(), aside)
        command = [*child_command("boundby.remedies.explained_aside"), str(Path.cwd())]
        if measured:
            command += ["boundby", "--lang", language(), "run", "--stop", "-o", str(place)]
        else:
            command += ["boundby.cli.counted_run", language(), str(place)]
        command += ["-m"] * target.is_module + [target.name, *target.args]
        done = subprocess.run(
            command, cwd=aside, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
        )
        if done.returncode != 0 or not place.exists():
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            for line in lines[-_SHOWN_LINES:]:
                click.echo(line.replace(str(aside), str(Path.cwd())), err=True)
            raise BoundbyError(
                "script-not-explained",
                tr("{script} ended with status {status}", script=target.name, status=done.returncode),
                tr("See what `boundby run` says of it."),
            )
        return ExplainedAside(report=decode_report(place.read_bytes(), name=tr("the report")), folder=str(aside))
