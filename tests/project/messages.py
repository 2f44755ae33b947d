"""Collects what the package has to say through `tr` and `trn`, and brings its catalogues up to it: `make messages`.

Babel's own extractor takes the first literal it finds; this one insists that the English text stands in the call.
"""

from __future__ import annotations

import ast
import io
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.catalog import Message as CatalogMessage
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "boundby"
LOCALE = PACKAGE / "locale"
# How many texts each function takes: one, or a singular and a plural.
TEXTS = {"tr": 1, "trn": 2}
# Fixed, so that an unchanged catalogue is an unchanged file.
UNDATED = datetime(2026, 1, 1, tzinfo=UTC)

Message = str | tuple[str, ...]


def messages_of(source: str, *, name: str) -> Iterator[Message]:
    """The texts of all calls of `tr` and `trn` in a file's source.

    Args:
        source: the file's text.
        name: what to call it in an error.

    Raises:
        ValueError: a text is not written out in the call.
    """
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        function = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if function not in TEXTS:
            continue
        texts = node.args[: TEXTS[function]]
        if len(texts) < TEXTS[function] or not all(
            isinstance(one, ast.Constant) and isinstance(one.value, str) for one in texts
        ):
            raise ValueError(f"{name}:{node.lineno}: write the English text out in the call of {function}")
        values = tuple(str(ast.literal_eval(one)) for one in texts)
        yield values[0] if len(values) == 1 else values


def source_files() -> list[Path]:
    """The files that messages are collected from; not the one that defines `tr`."""
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "results" / "language.py")


def collected() -> Catalog:
    """A catalogue of all messages with the files they stand in, sorted by those."""
    catalog = Catalog(project="boundby", creation_date=UNDATED)
    for path in source_files():
        name = path.relative_to(ROOT).as_posix()
        for message in messages_of(path.read_text(encoding="utf-8"), name=name):
            catalog.add(message, locations=[(name, None)])
    return catalog


def catalogues() -> list[Path]:
    """The catalogues of the package, one a language."""
    return sorted(LOCALE.glob("*/LC_MESSAGES/boundby.po"))


def read(path: Path) -> Catalog:
    """A catalogue as it is in its file; the name of its folder is its language."""
    return read_po(io.BytesIO(path.read_bytes()), locale=path.parent.parent.name, domain="boundby")


def compiled(catalog: Catalog) -> bytes:
    """The catalogue as gettext reads it."""
    out = io.BytesIO()
    write_mo(out, catalog)
    return out.getvalue()


def written(catalog: Catalog) -> bytes:
    """The catalogue as a person edits it."""
    out = io.BytesIO()
    write_po(out, catalog, width=120, sort_by_file=True, ignore_obsolete=True, include_lineno=False)
    return out.getvalue()


def update(path: Path, template: Catalog) -> int:
    """Brings a catalogue up to what the package says, and compiles it; returns how many texts lack a translation."""
    catalog = read(path)
    # No guesses: a changed text has to be translated again by someone who reads it.
    catalog.update(template, no_fuzzy_matching=True, update_creation_date=False)
    path.write_bytes(written(catalog))
    path.with_suffix(".mo").write_bytes(compiled(read(path)))
    return sum(1 for message in catalog if message.id and not is_translated(message))


def is_translated(message: CatalogMessage) -> bool:
    """Whether every form of the message has a text."""
    strings = [message.string] if isinstance(message.string, str) else list(message.string or ())
    return bool(strings) and all(strings)


def main() -> None:
    """Updates every catalogue and says what is left to translate."""
    template = collected()
    for path in catalogues():
        missing = update(path, template)
        sys.stdout.write(f"{path.relative_to(ROOT)}: {len(template)} texts, {missing} to translate\n")


if __name__ == "__main__":
    main()
