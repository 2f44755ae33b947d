"""A page of plain data as one HTML file: its words escaped, its charts as data beside the script that draws them."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup, escape
from rich.cells import cell_len

from boundby.report.chart import Chart
from boundby.report.chart_words import chart_tables
from boundby.report.document import Block, Bullets, Code, Document, Paragraph, Table
from boundby.report.html.bokeh_script import bokeh_script, sha256_of
from boundby.report.html.chart_data import chart_data, group_colors, json_in_html
from boundby.report.safe_text import clean, clean_lines
from boundby.results.language import tr

# Terminal cells from which on a cell holds a sentence and no name; of Chinese, half as many characters.
_LONG_CELL = 24
_SCRIPT_PARTS = ("units", "bokeh", "drawing", "names", "reader", "start")
_FEW_COLUMNS = 2
_CODE_SPAN = re.compile(r"`([^`]+)`")


def render_html(document: Document) -> str:
    """The page as the text of an HTML file that opens by itself, asks nothing of a network and follows light and dark.

    Every word of the document is escaped: names and paths of a user's code stay text, also where they are pointed at.

    Args:
        document: what to write. Names of its charts are unique.

    Raises:
        BoundbyError: ``no-plots`` where it has charts and the library that draws them is not installed.
    """
    blocks = [*document.lead, *(block for section in document.sections for block in section.blocks)]
    charts = [block for block in blocks if isinstance(block, Chart)]
    bokeh = bokeh_script() if charts else None
    script = _script() if charts else ""
    colors = group_colors(charts)
    hashes = [sha256_of(script.encode()), bokeh.sha256] if bokeh is not None else []
    text: str = _template().render(
        language=document.language,
        title=document.title,
        lead=document.lead,
        sections=document.sections,
        style=_asset("page.css"),
        script=script,
        bokeh=bokeh,
        words=json_in_html(_words()) if charts else "",
        policy=_policy(hashes),
        data={chart.name: chart_data(chart, colors) for chart in charts},
        same_as_table=tr("The same as a table"),
    )
    return text


def _policy(hashes: list[str]) -> str:
    """What the page may load: nothing but its own styles and those scripts; images only those in its own text."""
    scripts = " ".join(f"'sha256-{one}'" for one in hashes) or "'none'"
    allowed = f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:"
    return f"{allowed}; base-uri 'none'; form-action 'none'"


def _words() -> dict[str, str]:
    """What the script says by itself."""
    return {
        "keys": tr("Arrow keys go from mark to mark, + and - zoom, 0 shows all, Escape leaves."),
        "failed": tr("The chart could not be drawn here; the table below holds the same."),
        "of": tr("{at} of {all}"),
    }


@cache
def _template() -> Any:
    """The page's template. Loaded when the first page is written: jinja2 takes a while to import."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("boundby.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["clean"] = lambda text: clean(text, unicode=True)
    environment.filters["prose"] = _prose
    environment.filters["clean_lines"] = clean_lines
    environment.globals["kind"] = _kind
    environment.globals["tables"] = chart_tables
    environment.globals["long_columns"] = _long_columns
    return environment.get_template("page.html")


def _prose(text: str) -> Markup:
    """A sentence, escaped, with what stands between backticks as code."""
    return Markup(_CODE_SPAN.sub(r"<code>\1</code>", str(escape(clean(text, unicode=True)))))


def _kind(block: Block) -> str:
    return {Paragraph: "paragraph", Bullets: "bullets", Table: "table", Code: "code", Chart: "chart"}[type(block)]


def _long_columns(table: Table) -> set[int]:
    """Columns of sentences: on a narrow screen they stay wide enough to read, and the table scrolls.

    Two columns fit beside each other on any screen.
    """
    if len(table.head) <= _FEW_COLUMNS:
        return set()
    return {column for row in table.rows for column, cell in enumerate(row) if cell_len(cell) > _LONG_CELL}


@cache
def _script() -> str:
    """The script that draws charts: its parts in one scope of their own."""
    parts = "\n".join(_asset(f"charts/{name}.js") for name in _SCRIPT_PARTS)
    return f'(() => {{\n"use strict";\n\n{parts}}})();\n'


@cache
def _asset(name: str) -> str:
    return files("boundby.report").joinpath("templates", *name.split("/")).read_text(encoding="utf-8")
