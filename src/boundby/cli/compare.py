"""`boundby compare`: two saved reports, or two machine files, side by side; needs no torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from boundby.cli.options import detect_display, json_option, print_text, working_folder
from boundby.cli.report_files import read_saved
from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr

if TYPE_CHECKING:
    from boundby.results.comparison import Comparison

_REPORT, _MACHINE = "boundby.report", "boundby.machine"
_KINDS = (_REPORT, _MACHINE)


@click.command("compare")
@click.argument("a", metavar="A", type=click.Path(path_type=Path, allow_dash=True))
@click.argument("b", metavar="B", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--across-machines", is_flag=True, help="Compare times of reports although they are of two machines.")
@json_option
def compare_command(a: Path, b: Path, across_machines: bool, as_json: bool) -> None:
    """Say what changed from A to B.

    A and B are two reports that `boundby run -o` wrote, or two files that `boundby machine -o` wrote. Counts are
    compared exactly, times with the doubt that noise leaves; - reads one of them from standard input.
    """
    if str(a) == str(b) == "-":
        raise BoundbyError(
            "cannot-compare",
            tr("Only one of the two files can be standard input."),
            tr("Name the other file."),
            status=EXIT_USAGE,
        )
    comparison = _compared(read_saved(a), read_saved(b), across_machines)
    if as_json:
        from boundby.results.comparison import encode_comparison

        click.echo(encode_comparison(comparison))
        return
    from boundby.report.compare_page import render_comparison

    display = detect_display(sys.stdout)
    text = render_comparison(
        comparison,
        width=display.width,
        color=display.color,
        unicode=display.unicode,
        folder=working_folder(),
        path_b=None if str(b) == "-" else str(b),
    )
    print_text(text)


def _compared(a: tuple[str, bytes], b: tuple[str, bytes], across_machines: bool) -> Comparison:
    """The comparison of two files of one kind.

    Raises:
        BoundbyError: ``cannot-compare`` for two of different kinds, and those of reading a file.
    """
    from boundby.results.files import decode_header, decode_report

    (name_a, data_a), (name_b, data_b) = a, b
    told_a, told_b = _short_names(name_a, name_b)
    schemas = [decode_header(data, name=name).schema for name, data in (a, b)]
    for schema, (name, data) in zip(schemas, (a, b), strict=True):
        if schema not in _KINDS:
            decode_report(data, name=name)  # raises: it names what the file is, and what was expected
    if schemas[0] != schemas[1]:
        raise BoundbyError(
            "cannot-compare",
            tr("{report} is a report and {machine} is a machine file.", report=name_a, machine=name_b)
            if schemas[0] == _REPORT
            else tr("{machine} is a machine file and {report} is a report.", report=name_b, machine=name_a),
            tr("Compare two reports, or two machine files."),
            status=EXIT_USAGE,
        )
    if schemas[0] == _MACHINE:
        from boundby.bound.compare_machines import compare_machines
        from boundby.results.machine_file import decode_machine

        return compare_machines(
            decode_machine(data_a, name=name_a), decode_machine(data_b, name=name_b), name_a=told_a, name_b=told_b
        )
    from boundby.bound.compare import compare_reports

    return compare_reports(
        decode_report(data_a, name=name_a),
        decode_report(data_b, name=name_b),
        name_a=told_a,
        name_b=told_b,
        across_machines=across_machines,
    )


def _short_names(a: str, b: str) -> tuple[str, str]:
    """The two paths without what they begin with in common: ``before/x.json`` and ``after/x.json``."""
    parts = Path(a).parts, Path(b).parts
    for kept in range(1, max(map(len, parts)) + 1):
        short = [str(Path(*one[-kept:])) for one in parts]
        if short[0] != short[1]:
            return short[0], short[1]
    return Path(a).name, Path(b).name
