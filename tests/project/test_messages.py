"""The catalogues hold what the package says: nothing missing, nothing unused, places filled in, and compiled."""

from __future__ import annotations

import ast
import gettext
import io
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from messages import ROOT, catalogues, collected, compiled, is_translated, messages_of, read, source_files, written

from boundby.results.language import LANGUAGES, choose_language, environment_language, tr, trn

# What a person reads is said through these: the places of its words among the arguments, and their names.
SAYING = {
    "BoundbyError": ((1, 2), ("message", "advice")),
    "Finding": ((), ("message", "advice")),
    "UsageError": ((0,), ("message",)),
    "BadParameter": ((0,), ("message",)),
    "echo": ((0,), ("message",)),
    "NotApplicable": ((0,), ("reason",)),
    "CannotTell": ((0,), ("reason", "change")),
    "Predicted": ((), ("reason", "change")),
    "saw": ((0,), ("what",)),
    "cannot": ((0,), ("why",)),
    "TrialFailed": ((0,), ()),
    "heading": ((0, 1), ("title", "explanation")),
    "Text": ((0,), ("text",)),
    "Paragraph": ((), ("text",)),
    "Section": ((), ("title",)),
    "Chart": ((), ("title", "summary")),
}
PROSE = re.compile(r"[A-Za-z]{2,},? [a-z]{2,}")


def literals(expression: ast.expr) -> Iterator[str]:
    """The texts written out in an expression; of one with places, what stands between them."""
    if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
        yield expression.value
    elif isinstance(expression, ast.JoinedStr):
        parts = (one.value for one in expression.values if isinstance(one, ast.Constant))
        yield " ".join(part for part in parts if isinstance(part, str))
    elif isinstance(expression, ast.IfExp):
        yield from (*literals(expression.body), *literals(expression.orelse))
    elif isinstance(expression, ast.BinOp):
        yield from (*literals(expression.left), *literals(expression.right))


def untranslatable(source: str) -> Iterator[tuple[int, str]]:
    """Lines and texts of what is said without `tr`; command lines are said as they are."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        places, names = SAYING.get(getattr(node.func, "id", getattr(node.func, "attr", "")), ((), ()))
        said = [node.args[place] for place in places if place < len(node.args)]
        said += [one.value for one in node.keywords if one.arg in names]
        for text in (text for one in said for text in literals(one)):
            if PROSE.search(text) and not text.lstrip().startswith("boundby "):
                yield node.lineno, text


def places(text: str) -> set[str]:
    """The names of the places in a text."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def forms(strings: str | tuple[str, ...] | list[str]) -> list[str]:
    return [strings] if isinstance(strings, str) else list(strings)


def test_every_language_but_english_has_a_catalogue() -> None:
    assert {path.parent.parent.name for path in catalogues()} == set(LANGUAGES) - {"en"}


@pytest.mark.parametrize("path", catalogues(), ids=lambda path: path.parent.parent.name)
class TestCatalogue:
    def test_nothing_that_is_said_is_missing(self, path: Path) -> None:
        catalog = read(path)
        missing = [
            message.id
            for message in collected()
            if message.id and (message.id not in catalog or not is_translated(catalog[message.id]))
        ]
        assert missing == []

    def test_nothing_is_translated_that_nobody_says(self, path: Path) -> None:
        said = collected()
        catalog = read(path)
        assert [one.id for one in catalog if one.id and is_translated(one) and one.id not in said] == []
        assert list(catalog.obsolete) == []

    def test_nothing_is_a_guess(self, path: Path) -> None:
        assert [one.id for one in read(path) if one.id and one.fuzzy] == []

    def test_a_translation_fills_in_the_places_of_its_original_and_no_others(self, path: Path) -> None:
        wrong = []
        for one in read(path):
            if one.id and is_translated(one):
                wanted = set().union(*map(places, forms(one.id)))
                wrong += [text for text in forms(one.string) if places(text) - {"count"} != wanted - {"count"}]
        assert wrong == []

    def test_the_compiled_file_is_that_of_the_catalogue(self, path: Path) -> None:
        stored = gettext.GNUTranslations(path.with_suffix(".mo").open("rb"))
        fresh = gettext.GNUTranslations(io.BytesIO(compiled(read(path))))
        assert stored._catalog == fresh._catalog

    def test_the_file_is_written_as_make_messages_writes_it(self, path: Path) -> None:
        assert path.read_bytes() == written(read(path))


def test_what_a_person_reads_can_be_translated() -> None:
    said = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in source_files()
        for line, text in untranslatable(path.read_text(encoding="utf-8"))
    ]
    assert said == []


def test_texts_without_tr_are_found() -> None:
    for source in (
        'BoundbyError("code", "There is no file.", tr("Check the path."))',
        'Finding(code="code", message=f"{name} was not there")',
        'Text("said " + name if name else f"of {name}, which is new")',
        'click.echo(f"Wrote the file {path}")',
    ):
        assert len(list(untranslatable(source))) == 1, source
    for source in ('Text(f"{name} {value}")', 'heading(tr("A title"))', 'click.echo("boundby show file.json")'):
        assert list(untranslatable(source)) == []


def test_a_text_that_is_not_written_out_is_refused() -> None:
    for source in ('tr(f"{n} ops")', "tr(text)", 'tr("a" + b)', 'trn("one", many, 2)', "trn('one')"):
        with pytest.raises(ValueError, match=r"here\.py:1"):
            list(messages_of(source, name="here.py"))


def test_texts_are_found_however_they_are_broken_up() -> None:
    source = 'x = [tr("one " "text", a=tr("in it")), language.trn("{count} op", "{count} ops", n)]; other("no")'
    assert set(messages_of(source, name="here.py")) == {"one text", "in it", ("{count} op", "{count} ops")}


def test_a_text_without_a_translation_is_told_in_english() -> None:
    try:
        choose_language("zh")
        assert tr("No catalogue has this text, {name}.", name="really") == "No catalogue has this text, really."
        assert trn("{count} such text", "{count} such texts", 1200) == "1,200 such texts"
        with pytest.raises(ValueError, match="'fr'"):
            choose_language("fr")
    finally:
        choose_language("en")


def test_the_first_variable_of_the_locale_that_is_set_decides() -> None:
    assert environment_language({"LC_ALL": "", "LC_MESSAGES": "zh_CN", "LANG": "en_US"}) == "zh"
    assert environment_language({"LC_ALL": "C.UTF-8", "LANG": "zh_CN"}) == "en"
    assert environment_language({}) == "en"
