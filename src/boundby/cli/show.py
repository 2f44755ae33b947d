"""`boundby show`: a saved report or machine on the terminal again, or written anew; needs neither torch nor numpy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from boundby.cli.options import Display, detect_display, json_option, print_report, working_folder
from boundby.cli.report_files import confidential_option, report_output_option
from boundby.results.files import check_writable, decode_header, decode_report, read_file, write_new
from boundby.results.language import tr


@click.command("show")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True))
@json_option
@report_output_option
@confidential_option
def show_command(file: Path, as_json: bool, output: Path | None, force: bool, confidential: bool) -> None:
    """Show a saved report again.

    FILE is what `-o` of `run`, `try`, `machine`, `count`, `sweep` or `doctor` wrote; - reads standard input. With -o it
    is written anew, a machine also as a picture (.svg).
    """
    if str(file) == "-":
        name, data = tr("standard input"), sys.stdin.buffer.read()
    else:
        name, data = str(file), read_file(file)
    schema = decode_header(data, name=name).schema
    shown = {
        "boundby.machine": _show_machine,
        "boundby.counts": _show_counts,
        "boundby.doctor": _show_examination,
        "boundby.sweep": _show_sweep,
    }.get(schema)
    if shown is None:
        _show_report(data, name, as_json, output, force, confidential)
    elif confidential:
        raise click.UsageError(
            tr(
                "{option} is for reports; {name} has the schema {schema}.",
                option="--confidential",
                name=name,
                schema=repr(schema),
            )
        )
    else:
        shown(data, name, as_json, output, force)


def _show_report(data: bytes, name: str, as_json: bool, output: Path | None, force: bool, confidential: bool) -> None:
    from boundby.report.report_file import check_report_file, shown_report, write_report_file

    report = decode_report(data, name=name)
    if output is not None:
        check_report_file(output, force=force)
        write_report_file(report, output, force=force, confidential=confidential, folder=working_folder())
        click.echo(tr("Wrote {file}", file=output), err=True)
    if as_json:
        from boundby.report.json import render_json

        click.echo(render_json(shown_report(report, confidential=confidential)).encode(), nl=False)
    else:
        from boundby.report.next_command import rerun_command

        print_report(report, next_command=rerun_command(report, "after.json"))


def _show_machine(data: bytes, name: str, as_json: bool, output: Path | None, force: bool) -> None:
    from boundby.results.machine_file import decode_machine, encode_machine

    machine = decode_machine(data, name=name)
    if output is not None:
        from boundby.cli.machine import FORMATS, write_machine

        check_writable(output, force, formats=FORMATS)
        write_machine(machine, output, force=force)
    if as_json:
        click.echo(encode_machine(machine))
        return
    from boundby.report.machine_table import render_machine

    display = detect_display(sys.stdout)
    _write(render_machine(machine, width=display.width, color=display.color, unicode=display.unicode))


def _show_counts(data: bytes, name: str, as_json: bool, output: Path | None, force: bool) -> None:
    from boundby.report.count_table import render_counts
    from boundby.results.count_file import decode_counts, encode_counts

    counts = decode_counts(data, name=name)
    _show_again(
        encode_counts(counts),
        lambda display: render_counts(
            counts, width=display.width, color=display.color, unicode=display.unicode, next_command="boundby count"
        ),
        as_json,
        output,
        force,
    )


def _show_examination(data: bytes, name: str, as_json: bool, output: Path | None, force: bool) -> None:
    from boundby.report.doctor_page import render_examination
    from boundby.results.doctor import decode_examination, encode_examination

    examination = decode_examination(data, name=name)
    _show_again(
        encode_examination(examination),
        lambda display: render_examination(
            examination, width=display.width, color=display.color, unicode=display.unicode
        ),
        as_json,
        output,
        force,
    )


def _show_sweep(data: bytes, name: str, as_json: bool, output: Path | None, force: bool) -> None:
    from boundby.report.sweep_page import render_sweep
    from boundby.results.sweep import decode_sweep, encode_sweep

    sweep = decode_sweep(data, name=name)
    _show_again(
        encode_sweep(sweep),
        lambda display: render_sweep(sweep, width=display.width, color=display.color, unicode=display.unicode),
        as_json,
        output,
        force,
    )


def _show_again(
    encoded: bytes, render: Callable[[Display], str], as_json: bool, output: Path | None, force: bool
) -> None:
    if output is not None:
        check_writable(output, force)
        write_new(output, encoded + b"\n", force)
        click.echo(tr("Wrote {file}", file=output), err=True)
    if as_json:
        click.echo(encoded)
        return
    _write(render(detect_display(sys.stdout)))


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
