"""The JavaScript that draws charts: Bokeh's, as its wheel ships it, deflated for a page that carries it.

Only the file is used. Bokeh's Python side is not imported: a page holds its charts as plain data, and the scripts in
`templates/charts` make the models where they are drawn.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from boundby.results.errors import BoundbyError
from boundby.results.language import tr

_FILE = Path("server", "static", "js", "bokeh.min.js")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedScript:
    """A script as a page carries it: deflated (zlib's format) and in base64, with the SHA-256 of its text in base64."""

    packed: str
    sha256: str


def check_html() -> None:
    """Makes sure, before a long run, that a page with charts can be written.

    Raises:
        BoundbyError: ``no-plots`` where the library that draws charts is not installed.
    """
    _path()


@cache
def bokeh_script() -> PackedScript:
    """Bokeh's JavaScript for a page.

    Raises:
        BoundbyError: ``no-plots``.
    """
    text = _path().read_bytes()
    return PackedScript(packed=base64.b64encode(zlib.compress(text, 9)).decode(), sha256=sha256_of(text))


def sha256_of(text: bytes) -> str:
    """A script's digest as a content security policy names it, without the ``sha256-`` before it."""
    return base64.b64encode(hashlib.sha256(text).digest()).decode()


def _path() -> Path:
    """Where the file is, found without importing the package."""
    spec = find_spec("bokeh")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        path = Path(folder) / _FILE
        if path.is_file():
            return path
    raise BoundbyError(
        "no-plots",
        tr("Bokeh, which draws the charts of an HTML page, is not installed."),
        tr("Install it with `{command}`, or write a .json or .md file.", command="pip install bokeh"),
    )
