"""A page as one HTML file that needs no network: `render_html`, and `check_html` before anything is measured."""

from __future__ import annotations

from boundby.report.html.bokeh_script import check_html
from boundby.report.html.page import render_html

__all__ = ["check_html", "render_html"]
