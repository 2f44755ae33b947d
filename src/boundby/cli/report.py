"""`boundby report`: a saved file as a page to look at and to mail; needs neither torch nor numpy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from boundby.cli.options import output_option_for, working_folder
from boundby.cli.report_files import check_confidential, check_shown, confidential_option, read_saved
from boundby.report.page_files import PAGE_FORMATS, check_output, encoded_page
from boundby.results.errors import BoundbyError
from boundby.results.files import decode_header, write_new
from boundby.results.language import in_language, tr

if TYPE_CHECKING:
    from boundby.report.document import Document

_SCHEMAS = (
    "boundby.report",
    "boundby.machine",
    "boundby.sweep",
    "boundby.scaling",
    "boundby.check",
    "boundby.lab",
    "boundby.decode",
)
# These have no page; the terminal shows them.
_ON_TERMINAL = ("boundby.counts", "boundby.comparison", "boundby.doctor")


@click.command("report")
@click.argument("file", metavar="FILE.json", type=click.Path(path_type=Path, allow_dash=True))
@output_option_for(": .html or .md; FILE.html beside FILE.json if not given")
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser.")
@confidential_option
def report_command(file: Path, output: Path | None, force: bool, opened: bool, confidential: bool) -> None:
    """Make a page of a saved file: one HTML file that works without a network, or Markdown.

    FILE.json is what `-o` of `run`, `try`, `machine`, `sweep`, `scaling`, `check`, `lab` or `decode` wrote; - reads
    standard input.
    """
    name, data = read_saved(file)
    if output is not None:
        check_output(output, force=force, formats=PAGE_FORMATS)
    # What the file is comes before the name that is made of its own.
    document = _document(data, name, confidential=confidential)
    page = output or _page_beside(file)
    if output is None:
        check_output(page, force=force, formats=PAGE_FORMATS)
    with in_language(document.language):
        encoded = encoded_page(document, page)
    write_new(page, encoded, force)
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
    check_shown(schema, name, _SCHEMAS, otherwise=_ON_TERMINAL)
    check_confidential(confidential, schema, name)
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
        case "boundby.check":
            from boundby.report.check_document import check_document
            from boundby.results.budgets import decode_check

            return check_document(decode_check(data, name=name))
        case "boundby.lab":
            from boundby.report.lab_file import lab_page
            from boundby.results.lab import decode_lab

            return lab_page(decode_lab(data, name=name), name=name)
        case _:
            from boundby.llm.decode_file import decode_estimate
            from boundby.report.decode_document import decode_document

            return decode_document(decode_estimate(data, name=name))


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
