"""``boundby doctor``: what could spoil a measurement here."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from boundby.cli.options import detect_display, json_option, output_option, print_text
from boundby.results.language import tr


@click.command("doctor")
@json_option
@output_option
def doctor_command(as_json: bool, output: Path | None, force: bool) -> None:
    """Say what could spoil a measurement here, what it does to one, and what to do.

    Looks at other load, threads and cores, quotas, clock and heat, memory, debug builds and variables, libraries and
    the compiler, in two or three seconds. Nothing is changed. Run it as the script would be run: in its environment,
    its container, with its OMP_NUM_THREADS.

    The exit status is 0 whether or not there are problems; with --json, each check has a state.
    """
    from boundby.machine.doctor import examine
    from boundby.report.doctor_page import render_examination
    from boundby.results.doctor import encode_examination
    from boundby.results.files import check_writable, write_new

    if output is not None:
        check_writable(output, force)
    examination = examine()
    data = encode_examination(examination) + b"\n"
    if output is not None:
        write_new(output, data, force)
        click.echo(tr("Wrote {output}", output=output), err=True)
    if as_json:
        click.echo(data, nl=False)
        return
    display = detect_display(sys.stdout)
    text = render_examination(examination, width=display.width, color=display.color, unicode=display.unicode)
    print_text(text)
