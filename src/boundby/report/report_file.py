"""Reports as files: data or a page, by the file's extension."""

from __future__ import annotations

from pathlib import Path

from boundby.report.cell_names import with_cell_names
from boundby.report.page_files import check_output, encoded_page, is_page
from boundby.results.files import REPORT_FORMATS, encode, write_new
from boundby.results.report import Report


def check_report_file(path: Path, *, force: bool) -> None:
    """Makes sure, before a long run, that a report can be written to ``path``.

    Args:
        path: where it is to go; ``.json``, ``.html`` or ``.md`` picks the format.
        force: whether an existing file may be replaced.

    Raises:
        BoundbyError: ``output-format``, ``output-exists`` or ``output-unwritable``; ``no-plots`` where a page is asked
            for and what draws its charts is not installed.
    """
    check_output(path, force=force, formats=REPORT_FORMATS)


def write_report_file(
    report: Report, path: Path, *, force: bool, confidential: bool = False, folder: str | None = None
) -> None:
    """Writes a report as its file's extension says: a whole file or nothing.

    Args:
        report: what to write; lines of a notebook's cells are named as the notebook does.
        path: where it goes, checked before by ``check_report_file``.
        force: whether an existing file may be replaced.
        confidential: whether to leave out what is private of the script.
        folder: an absolute path; a page names paths below it relative to it.

    Raises:
        BoundbyError: ``output-exists`` or ``output-unwritable``, ``no-plots``.
    """
    write_new(path, _encoded(with_cell_names(report), path, confidential, folder), force)


def shown_report(report: Report, *, confidential: bool) -> Report:
    """The report as data that is given away: as it is, or without what is private of the script."""
    if not confidential:
        return report
    from boundby.report.private_text import without_private_text

    return without_private_text(report)


def _encoded(report: Report, path: Path, confidential: bool, folder: str | None) -> bytes:
    if not is_page(path):
        return encode(shown_report(report, confidential=confidential))
    from boundby.report.report_document import report_document

    return encoded_page(report_document(report, confidential=confidential, folder=folder), path)
