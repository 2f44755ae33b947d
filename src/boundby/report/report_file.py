"""Reports as files for whoever has one in Python: data or a page, by the file's extension."""

from __future__ import annotations

from pathlib import Path

from boundby.report.cell_names import with_cell_names
from boundby.results.files import REPORT_FORMATS, check_writable, encode, write_new
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
    check_writable(path, force, formats=REPORT_FORMATS)
    if path.suffix.lower() == ".html":
        from boundby.report.html import check_html

        check_html()


def write_report_file(report: Report, path: Path, *, force: bool, folder: str | None = None) -> None:
    """Writes a report as its file's extension says: a whole file or nothing.

    Args:
        report: what to write; lines of a notebook's cells are named as the notebook does.
        path: where it goes, checked before by ``check_report_file``.
        force: whether an existing file may be replaced.
        folder: an absolute path; a page names paths below it relative to it.

    Raises:
        BoundbyError: ``output-exists`` or ``output-unwritable``, ``no-plots``.
    """
    write_new(path, _encoded(with_cell_names(report), path, folder), force)


def _encoded(report: Report, path: Path, folder: str | None) -> bytes:
    if path.suffix.lower() == ".json":
        return encode(report)
    from boundby.report.report_document import report_document

    document = report_document(report, folder=folder)
    if path.suffix.lower() == ".html":
        from boundby.report.html import render_html

        text = render_html(document)
    else:
        from boundby.report.markdown import render_markdown

        text = render_markdown(document)
    # File names that are not UTF-8 become text with escapes, as they do in JSON.
    return text.encode("utf-8", "backslashreplace")
