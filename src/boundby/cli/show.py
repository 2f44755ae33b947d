"""`boundby show`: a saved file on the terminal again, or written anew; needs neither torch nor numpy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypedDict

import click

from boundby.cli.options import Display, detect_display, json_option, print_report, print_text, working_folder
from boundby.cli.report_files import (
    check_confidential,
    check_shown,
    confidential_option,
    read_saved,
    report_output_option,
)
from boundby.results.files import check_writable, decode_header, decode_report, write_new
from boundby.results.language import tr
from boundby.results.report import SCHEMA as REPORT_SCHEMA


class _Read(NamedTuple):
    """A saved file that was read: written anew, and what shows it."""

    encoded: bytes
    render: Callable[[Display], str]


@click.command("show")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True))
@json_option
@report_output_option
@confidential_option
def show_command(file: Path, as_json: bool, output: Path | None, force: bool, confidential: bool) -> None:
    """Show a saved report, or another saved result, again.

    FILE is what `-o` of a command wrote, or `--json`; - reads standard input. With -o it is written anew, a report also
    as a page (.html, .md), a machine also as a picture (.svg).
    """
    name, data = read_saved(file)
    schema = decode_header(data, name=name).schema
    if schema == REPORT_SCHEMA:
        saved_at = "" if str(file) == "-" else str(file)
        _show_report(data, name, saved_at, as_json, output, force, confidential)
        return
    check_shown(schema, name, (REPORT_SCHEMA, _MACHINE, *_READERS))
    check_confidential(confidential, schema, name)
    if schema == _MACHINE:
        _show_machine(data, name, as_json, output, force)
    else:
        _show_again(_READERS[schema](data, name), as_json, output, force)


def _show_report(
    data: bytes, name: str, saved_at: str, as_json: bool, output: Path | None, force: bool, confidential: bool
) -> None:
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
        from boundby.report.next_command import saved_command

        report = shown_report(report, confidential=confidential)
        print_report(report, next_command=saved_command(report, saved_at))


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
    print_text(render_machine(machine, width=display.width, color=display.color, unicode=display.unicode))


def _counts(data: bytes, name: str) -> _Read:
    from boundby.report.count_table import render_counts
    from boundby.results.count_file import decode_counts, encode_counts

    counts = decode_counts(data, name=name)
    return _Read(encode_counts(counts), lambda on: render_counts(counts, next_command="boundby count", **_paper_of(on)))


def _examination(data: bytes, name: str) -> _Read:
    from boundby.report.doctor_page import render_examination
    from boundby.results.doctor import decode_examination, encode_examination

    found = decode_examination(data, name=name)
    return _Read(encode_examination(found), lambda on: render_examination(found, **_paper_of(on)))


def _sweep(data: bytes, name: str) -> _Read:
    from boundby.report.sweep_page import render_sweep
    from boundby.results.sweep import decode_sweep, encode_sweep

    sweep = decode_sweep(data, name=name)
    return _Read(encode_sweep(sweep), lambda on: render_sweep(sweep, **_paper_of(on)))


def _scaling(data: bytes, name: str) -> _Read:
    from boundby.report.scaling_page import render_scaling
    from boundby.results.scaling import decode_scaling, encode_scaling

    scaling = decode_scaling(data, name=name)
    return _Read(encode_scaling(scaling), lambda on: render_scaling(scaling, **_paper_of(on)))


def _comparison(data: bytes, name: str) -> _Read:
    from boundby.report.compare_page import render_comparison
    from boundby.results.comparison import decode_comparison, encode_comparison

    found = decode_comparison(data, name=name)
    return _Read(
        encode_comparison(found), lambda on: render_comparison(found, folder=working_folder(), **_paper_of(on))
    )


def _check(data: bytes, name: str) -> _Read:
    from boundby.report.check_page import render_check
    from boundby.results.budgets import decode_check, encode_check

    check = decode_check(data, name=name)
    return _Read(encode_check(check), lambda on: render_check(check, **_paper_of(on)))


def _estimate(data: bytes, name: str) -> _Read:
    from boundby.llm.decode_file import decode_estimate, encode_estimate
    from boundby.report.decode_page import render_decode

    found = decode_estimate(data, name=name)
    return _Read(encode_estimate(found), lambda on: render_decode(found, default_hardware=False, **_paper_of(on)))


def _lab(data: bytes, name: str) -> _Read:
    from boundby.report.lab_file import render_lab
    from boundby.report.lab_text import Paper
    from boundby.results.lab import decode_lab, encode_lab

    result = decode_lab(data, name=name)
    return _Read(encode_lab(result), lambda on: render_lab(result, Paper(**_paper_of(on)), name=name))


class _PaperOf(TypedDict):
    width: int
    color: bool
    unicode: bool


def _paper_of(display: Display) -> _PaperOf:
    return {"width": display.width, "color": display.color, "unicode": display.unicode}


# By schema; reports and machines can be written as more than data, and have functions of their own.
_MACHINE = "boundby.machine"
_READERS: dict[str, Callable[[bytes, str], _Read]] = {
    "boundby.counts": _counts,
    "boundby.sweep": _sweep,
    "boundby.scaling": _scaling,
    "boundby.comparison": _comparison,
    "boundby.check": _check,
    "boundby.doctor": _examination,
    "boundby.lab": _lab,
    "boundby.decode": _estimate,
}


def _show_again(read: _Read, as_json: bool, output: Path | None, force: bool) -> None:
    if output is not None:
        check_writable(output, force)
        write_new(output, read.encoded + b"\n", force)
        click.echo(tr("Wrote {file}", file=output), err=True)
    if as_json:
        click.echo(read.encoded)
        return
    print_text(read.render(detect_display(sys.stdout)))
