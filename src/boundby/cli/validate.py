"""`boundby validate`: estimates of decoding beside published measurements; needs no torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from boundby.cli.options import detect_display, json_option, print_text

if TYPE_CHECKING:
    from boundby.llm.validate import Compared


@click.command("validate")
@click.option(
    "--rows",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Compare with the rows of this CSV, in the columns of the shipped ones.",
)
@click.option("--each", is_flag=True, help="List every row, not only the worst.")
@json_option
def validate_command(rows: Path | None, each: bool, as_json: bool) -> None:
    """Say how far estimates of decoding were off what others measured.

    Shows errors by engine, hardware and kind, those of rows that calibration never saw apart, and three simpler
    estimates beside them. A measurement is one line of CSV: FILE may hold yours.
    """
    from boundby.llm.rows import read_rows, shipped_rows
    from boundby.llm.validate import compare_rows, used_rows

    compared, skipped = compare_rows(
        shipped_rows() if rows is None else read_rows(rows), used_rows() if rows is None else frozenset()
    )
    if as_json:
        from boundby.llm.validate import encode_comparison

        click.echo(encode_comparison(compared, skipped))
        sys.exit(_status(compared))
    from boundby.report.validate_page import render_validation

    display = detect_display(sys.stdout)
    text = render_validation(
        compared, skipped, each=each, width=display.width, color=display.color, unicode=display.unicode
    )
    print_text(text)
    sys.exit(_status(compared))


def _status(compared: Sequence[Compared]) -> int:
    """1 where nothing could be compared: whoever asked learnt nothing."""
    return 0 if compared else 1
