"""Sphinx configuration. Builds offline: no inventories are fetched and no page loads anything from elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from boundby import __version__

project = "boundby"
author = "The boundby developers"
copyright = "The boundby developers. Licensed under Apache-2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "cli_help", "indexes", "schema_fields"]
exclude_patterns = ["_build", "_ext", "examples"]
templates_path: list[str] = []

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Source"]

# Names of other projects' documentation, which this build does not fetch.
nitpick_ignore_regex = [
    (r"py:.*", r"(array|collections|contextlib|dataclasses|enum|os|pathlib|subprocess|types|typing)\..*"),
    (r"py:.*", r"(click|msgspec|numpy|rich|torch)\..*"),
    (r"py:.*", r"boundby\.(capture|results\.habits)\..*"),
    (r"py:.*", r"(optional|array|Path|Iterable|Iterator|Callable|Sequence|Mapping|Any)"),
]

html_theme = "furo"
html_title = f"boundby {release}"
html_show_sourcelink = False
html_copy_source = False
