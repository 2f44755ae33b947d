"""Tables of the documentation that are made from the code: schemas field by field, remedies, codes."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Literal

import pytest

from boundby.remedies.registry import MODULES
from boundby.results.interval import Interval

DOCS = Path(__file__).parents[2] / "docs"


def extension(name: str) -> ModuleType:
    """An extension of the build, as the build loads it."""
    place = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    # A dataclass looks its module up while it is made.
    sys.modules[name] = module
    place.loader.exec_module(module)
    return module


schema_fields = extension("schema_fields")
indexes = extension("indexes")


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_every_field_has_a_meaning_and_every_meaning_a_field() -> None:
    meanings = schema_fields.read_meanings()
    kinds = schema_fields.all_kinds()
    for kind in kinds:
        assert all(row.meaning for row in schema_fields.fields_of(kind, meanings))
    assert schema_fields.unused_meanings(kinds, meanings) == []


def test_every_schema_of_results_is_on_the_page() -> None:
    named = set(re.findall(r"^```\{schema-fields\} (\S+)$", page("schema.md"), re.MULTILINE))
    assert named == set(schema_fields.SCHEMAS)
    written = set()
    for path in (DOCS.parent / "src" / "boundby" / "results").glob("*.py"):
        written |= set(re.findall(r'^\w*SCHEMA = "([\w.]+)"$', path.read_text(encoding="utf-8"), re.MULTILINE))
    assert named == written


def test_a_table_is_made_once_for_all_schemas() -> None:
    described: set[type] = set()
    text = "".join(schema_fields.tables(schema, described) for schema in schema_fields.SCHEMAS)
    titles = re.findall(r"^### (\w+)$", text, re.MULTILINE)
    assert len(titles) == len(set(titles)) == len(schema_fields.all_kinds())
    linked = set(re.findall(r"\(#(schema-\w+)\)", text + page("schema.md")))
    assert linked <= set(re.findall(r"^\((schema-\w+)\)=$", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (int, "integer"),
        (str | None, "string or null"),
        (tuple[int, ...] | None, "array of integer or null"),
        (tuple[str, int], "array of 2: string, integer"),
        (dict[str, Interval], "object of [Interval](#schema-interval)"),
        (Literal["do", "skip"], "`do`, `skip`"),
    ],
)
def test_types_are_told_as_json_has_them(annotation: object, words: str) -> None:
    assert schema_fields.type_words(annotation) == words


@dataclass
class Made:
    time_s: float
    ratio: float
    count: int


def test_units_come_from_names_or_stand_before_the_meaning() -> None:
    meanings = {"any": {}, "Made": {"time_s": "long", "ratio": "[times] b over a", "count": "many"}}
    rows = schema_fields.fields_of(Made, meanings)
    assert [(row.unit, row.meaning) for row in rows] == [("s", "long"), ("times", "b over a"), ("", "many")]


def test_a_field_without_a_meaning_is_named() -> None:
    with pytest.raises(KeyError, match=r"Made\.ratio"):
        schema_fields.fields_of(Made, {"any": {"time_s": "long"}})


def test_a_meaning_without_a_field_is_named() -> None:
    meanings = {"any": {"gone": "x"}, "Made": {"ratio": "x", "lost": "x"}}
    assert schema_fields.unused_meanings([Made], meanings) == ["any.gone", "Made.lost"]


def remedy_sections() -> dict[str, str]:
    """The text of each section of the page of remedies by its heading."""
    parts = re.split(r"^## (.+)$", page("remedies.md"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def section_of(remedy: str) -> str:
    return next((title for title in remedy_sections() if remedy in title.split(" and ")), "")


@pytest.mark.parametrize("name", MODULES)
def test_every_remedy_has_a_section_that_says_how_it_is_predicted_tried_and_what_it_does_to_numbers(name: str) -> None:
    text = remedy_sections().get(section_of(name), "")
    # A remedy that is the reverse of another one points at its section.
    if "as [" in text and len(text) < 400:
        return
    assert [word for word in ("*Predicted*", "*Numbers*") if word not in text] == []
    assert "*Tried*" in text or "*Not tried*" in text


def test_the_table_of_remedies_links_every_section() -> None:
    rows = re.findall(r"^\| \[([\w-]+)\]\(remedies\.md#([\w-]+)\)", indexes.remedy_table(), re.MULTILINE)
    assert [name for name, _ in rows] == list(MODULES)
    slugs = {title.replace(" ", "-") for title in remedy_sections()}
    assert {anchor for _, anchor in rows} <= slugs


def test_the_list_of_codes_links_every_section_in_order() -> None:
    text = page("codes.md")
    listed = re.findall(r"\[(\S+?)\]\(codes\.md#", indexes.code_list(text))
    assert listed == sorted(re.findall(r"^### (\S+)$", text, re.MULTILINE))
    assert "```{code-index}" in text


BOUNDS = ("overhead", "memory", "compute", "input", "mixed")


@pytest.mark.parametrize("bound", BOUNDS)
def test_every_bound_has_a_page_that_says_what_to_do(bound: str) -> None:
    text = page(f"bound_{bound}.md")
    assert "what now" in text.splitlines()[0]
    assert "remedies.md#" in text
    assert f"bound_{bound}" in page("bounds.md")


def test_every_remedy_is_named_on_the_page_of_some_bound() -> None:
    named = "".join(page(f"bound_{bound}.md") for bound in BOUNDS)
    missing = [name for name in MODULES if not re.search(rf"\[{name}\]\(remedies\.md#", named)]
    assert missing == []
