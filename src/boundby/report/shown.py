"""Reports and machines as `print` and notebooks show them: plain text, and the same coloured in a frame of its own.

A notebook keeps what its cells show, and a page with charts is a megabyte: so the frame holds the terminal's words, and
of a machine its roofline as a picture. It runs no script and asks nothing of a network, so that front ends that allow
neither show it, and it shares no style with the page around it. Whole pages are files: ``-o report.html``.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from boundby.report.cell_names import with_cell_names
from boundby.report.machine_table import render_machine
from boundby.report.remedy_words import is_tried
from boundby.report.terminal import render_report
from boundby.results.errors import BoundbyError
from boundby.results.language import language, tr
from boundby.results.machine import Machine
from boundby.results.report import Report

if TYPE_CHECKING:
    from rich.text import Text

# Columns of the frame: what a notebook beside a panel or two has room for.
_COLUMNS = 88
# The colours of terminals by their numbers.
_COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white", "bright-black")
# CSS pixels. The frame cannot ask how high its text is, so that the style sheet fixes it.
_LINE, _PICTURE, _ROUND = 17, 430, 40
_DEFAULT_COLUMNS = 80


def text(result: Report | Machine) -> str:
    """The result as the terminal's lines, without colour, as wide as the terminal and in characters it can show."""
    columns = shutil.get_terminal_size((_DEFAULT_COLUMNS, 24)).columns
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return _rendered(result, columns, color=False, unicode=encoding.lower().startswith("utf"))


def html(result: Report | Machine) -> str:
    """The result as an ``iframe`` with its page inside; a front end that takes frames away leaves one line of words."""
    picture = _picture(result)
    lines = _rendered(result, _COLUMNS, color=True, unicode=True, chart=not picture).rstrip("\n").split("\n")
    page = _template("shown.html").render(
        lines=[list(_pieces(line)) for line in lines],
        line_height=_LINE,
        picture=picture,
        picture_height=_PICTURE,
        title=repr(result),
        language=language(),
    )
    height = len(lines) * _LINE + _ROUND + (_PICTURE if picture else 0)
    frame: str = _template("frame.html").render(page=page, height=height, title=repr(result))
    return frame


def _rendered(result: Report | Machine, columns: int, *, color: bool, unicode: bool, chart: bool = True) -> str:
    if isinstance(result, Machine):
        return render_machine(result, width=columns, color=color, unicode=unicode, chart=chart)
    return render_report(
        with_cell_names(result),
        width=columns,
        color=color,
        unicode=unicode,
        folder=_folder(),
        next_command=_next(result),
    )


def _next(report: Report) -> str | None:
    """What to do next, where the report comes of a call from Python or of a callback and not of a command."""
    if report.tool.command:
        return None
    if report.step.kind != "callable":  # a trainer's callback saw it
        return tr("{code} keeps the report as a page", code='BoundbyCallback(output="report.html")')
    if any(is_tried(one) for one in report.remedies):
        return None
    if report.step.name != "step":  # what a notebook's magic ran
        return f"boundby.try_remedies(lambda: {report.step.name})"
    return tr("{code}, where step is a function that runs this code", code="boundby.try_remedies(step)")


def _folder() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _picture(result: Report | Machine) -> str:
    """A machine's roofline as SVG, which has its words escaped; nothing where there is none to draw."""
    if not isinstance(result, Machine):
        return ""
    from markupsafe import Markup

    from boundby.report.roofline_picture import render_picture

    try:
        return Markup(render_picture(result))
    except BoundbyError:  # a machine without the ceilings for it; its words say what there is
        return ""


def _pieces(line: str) -> Iterator[tuple[str, str]]:
    """A line of the terminal as texts with the names of their styles: ``bold``, ``dim`` and colours."""
    from rich.text import Text

    whole = Text.from_ansi(line)
    edges = sorted({0, len(whole), *(edge for span in whole.spans for edge in (span.start, span.end))})
    for begin, end in pairwise(edges):
        yield whole.plain[begin:end], " ".join(_styles(whole, begin))


def _styles(whole: Text, at: int) -> Iterator[str]:
    from rich.style import Style

    for span in whole.spans:
        if span.start <= at < span.end and isinstance(span.style, Style):
            if span.style.bold:
                yield "bold"
            if span.style.dim:
                yield "dim"
            number = span.style.color.number if span.style.color is not None else None
            if number is not None and number < len(_COLORS):
                yield _COLORS[number]


@cache
def _template(name: str) -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("boundby.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
