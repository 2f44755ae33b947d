"""`boundby show`: a saved report, or machine file, on the terminal again; needs neither torch nor numpy."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from boundby.cli.options import detect_display, json_option, print_report
from boundby.results.files import decode_header, decode_report, read_file

_MACHINE_SCHEMA = "boundby.machine"


@click.command("show")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True))
@json_option
def show_command(file: Path, as_json: bool) -> None:
    """Show a saved report again.

    FILE is what `boundby run -o` or `boundby machine -o` wrote; - reads standard input.
    """
    if str(file) == "-":
        name, data = "standard input", sys.stdin.buffer.read()
    else:
        name, data = str(file), read_file(file)
    if decode_header(data, name=name).schema == _MACHINE_SCHEMA:
        _show_machine(data, name, as_json)
    else:
        _show_report(data, name, as_json)


def _show_report(data: bytes, name: str, as_json: bool) -> None:
    report = decode_report(data, name=name)
    if as_json:
        from boundby.report.json import render_json

        click.echo(render_json(report).encode(), nl=False)
    else:
        from boundby.report.next_command import rerun_command

        print_report(report, next_command=rerun_command(report, "after.json"))


def _show_machine(data: bytes, name: str, as_json: bool) -> None:
    from boundby.results.machine_file import decode_machine, encode_machine

    machine = decode_machine(data, name=name)
    if as_json:
        click.echo(encode_machine(machine))
        return
    from boundby.report.machine_table import render_machine

    display = detect_display(sys.stdout)
    _write(render_machine(machine, width=display.width, color=display.color, unicode=display.unicode))


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
