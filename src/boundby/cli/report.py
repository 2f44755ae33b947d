"""`boundby report`: a saved file as a page to look at and to mail; needs neither torch nor numpy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from boundby.cli.options import output_option_for, working_folder
from boundby.cli.report_files import confidential_option
from boundby.report.page_files import PAGE_FORMATS, check_output, encoded_page
from boundby.results.errors import BoundbyError
from boundby.results.files import decode_header, read_file, write_new
from boundby.results.language import tr

if TYPE_CHECKING:
    from boundby.report.document import Document

_REPORT = "boundby.report"
_SCHEMAS = (_REPORT, "boundby.machine", "boundby.sweep", "boundby.scaling", "boundby.decode")


@click.command("report")
@click.argument("file", metavar="FILE.json", type=click.Path(path_type=Path, allow_dash=True))
@output_option_for(": .html or .md; FILE.html beside FILE.json if not given")
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser.")
@confidential_option
def report_command(file: Path, output: Path | None, force: bool, opened: bool, confidential: bool) -> None:
    """Make a page of a saved file: one HTML file that works without a network, or Markdown.

    FILE.json is what `-o` of `run`, `try`, `machine`, `sweep`, `scaling` or `decode` wrote; - reads standard input.
    """
    if str(file) == "-":
        name, data = tr("standard input"), sys.stdin.buffer.read()
    else:
        name, data = str(file), read_file(file)
    page = output or _page_beside(file)
    check_output(page, force=force, formats=PAGE_FORMATS)
    document = _document(data, name, confidential=confidential)
    write_new(page, encoded_page(document, page), force)
    click.echo(tr("Wrote {file}", file=page), err=True)
    if opened:
        _open(page)
    elif page.suffix.lower() == ".html":
        click.echo(f"{tr('Next')}     {tr('open it in a browser, or mail it: it needs no network')}", err=True)


def _page_beside(file: Path) -> Path:
    """Where the page goes if nothing else is said."""
    return Path("report.html") if str(file) == "-" else file.with_suffix(".html")


def _document(data: bytes, name: str, *, confidential: bool) -> Document:
    """The page of a file, whatever boundby wrote it.

    Raises:
        BoundbyError: ``damaged-file``, ``unknown-schema`` or ``unknown-version``.
    """
    schema = decode_header(data, name=name).schema
    if confidential and schema != _REPORT:
        raise click.UsageError(
            tr(
                "{option} is for reports; {name} has the schema {schema}.",
                option="--confidential",
                name=name,
                schema=repr(schema),
            )
        )
    match schema:
        case "boundby.report":
            from boundby.report.report_document import report_document
            from boundby.results.files import decode_report

            return report_document(decode_report(data, name=name), confidential=confidential, folder=working_folder())
        case "boundby.machine":
            from boundby.report.machine_document import machine_document
            from boundby.results.machine_file import decode_machine

            return machine_document(decode_machine(data, name=name))
        case "boundby.sweep":
            from boundby.report.sweep_document import sweep_document
            from boundby.results.sweep import decode_sweep

            return sweep_document(decode_sweep(data, name=name))
        case "boundby.scaling":
            from boundby.report.scaling_document import scaling_document
            from boundby.results.scaling import decode_scaling

            return scaling_document(decode_scaling(data, name=name))
        case "boundby.decode":
            from boundby.llm.decode_file import decode_estimate
            from boundby.report.decode_document import decode_document

            return decode_document(decode_estimate(data, name=name))
        case _:
            raise BoundbyError(
                "unknown-schema",
                tr(
                    "{name} has the schema {schema}; pages are made of {schemas}.",
                    name=name,
                    schema=repr(schema),
                    schemas=", ".join(_SCHEMAS),
                ),
                tr("Show it on the terminal instead: {command}.", command="boundby show FILE"),
            )


def _open(page: Path) -> None:
    """Opens a page in the user's browser.

    Raises:
        BoundbyError: ``no-browser`` where the system starts none; the page is written all the same.
    """
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        raise BoundbyError(
            "no-browser",
            tr("No browser could be started to show {page}.", page=page),
            tr("Open the file in a browser of yours."),
        )
