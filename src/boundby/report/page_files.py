"""Pages as files: checked before anything is run for them, written as HTML or Markdown by the file's extension."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from boundby.results.files import check_writable

if TYPE_CHECKING:
    from boundby.report.document import Document

PAGE_FORMATS = (".html", ".md")


def check_output(path: Path, *, force: bool, formats: tuple[str, ...]) -> None:
    """Makes sure, before a long run, that its result can be written to ``path``.

    Args:
        path: where it is to go; its extension picks the format.
        force: whether an existing file may be replaced.
        formats: the extensions that can be written, with their dots.

    Raises:
        BoundbyError: ``output-format``, ``output-exists`` or ``output-unwritable``; ``no-plots`` where an HTML page is
            asked for and what draws its charts is not installed.
    """
    check_writable(path, force, formats=formats)
    if path.suffix.lower() == ".html":
        from boundby.report.html import check_html

        check_html()


def is_page(path: Path) -> bool:
    """Whether a file of this name is a page."""
    return path.suffix.lower() in PAGE_FORMATS


def encoded_page(document: Document, path: Path) -> bytes:
    """A page as the bytes of a file of this name.

    Args:
        document: the page.
        path: a name that ends in one of ``PAGE_FORMATS``.

    Raises:
        BoundbyError: ``no-plots``.
    """
    if path.suffix.lower() == ".html":
        from boundby.report.html import render_html

        text = render_html(document)
    else:
        from boundby.report.markdown import render_markdown

        text = render_markdown(document)
    # File names that are not UTF-8 become text with escapes, as they do in JSON.
    return text.encode("utf-8", "backslashreplace")
