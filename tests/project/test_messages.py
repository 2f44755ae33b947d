"""The catalogues hold what the package says: nothing missing, nothing unused, places filled in, and compiled."""

from __future__ import annotations

import gettext
import io
import string
from pathlib import Path

import pytest
from messages import PACKAGE, ROOT, catalogues, collected, compiled, is_translated, messages_of, read, written

from boundby.results.language import LANGUAGES, choose_language, environment_language, tr, trn

# What has been translated so far; the rest of the package follows.
COMPLETE = ("cli/lab.py", "labs/", "report/lab_text.py", "report/lab_document.py")


def is_complete(place: str) -> bool:
    """Whether all that a file (its path in the repository) says has to be in every language."""
    return place.startswith(tuple(f"{PACKAGE.relative_to(ROOT).as_posix()}/{part}" for part in COMPLETE))


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
            if message.id
            and any(is_complete(place) for place, _ in message.locations)
            and (message.id not in catalog or not is_translated(catalog[message.id]))
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
