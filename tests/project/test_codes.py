"""Every code that an error or finding can have has a section on the page of codes, and every section has its code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "boundby"
CALLS = ("BoundbyError", "Finding")


def code_arguments(tree: ast.AST) -> Iterator[ast.expr]:
    """The expression given as the code of each error or finding made in ``tree``.

    An error told again in other words (``BoundbyError(error.code, ...)``) has the code of the one before.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        if name not in CALLS:
            continue
        code = next((item.value for item in node.keywords if item.arg == "code"), node.args[0] if node.args else None)
        if code is not None and not (isinstance(code, ast.Attribute) and code.attr == "code"):
            yield code


def literal_codes(expression: ast.expr) -> list[str]:
    """The strings a code expression can be; empty where it is not made of literals."""
    if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
        return [expression.value]
    if isinstance(expression, ast.IfExp):
        return literal_codes(expression.body) + literal_codes(expression.orelse)
    return []


def codes_in_source() -> dict[str, str]:
    """Each code with a place that makes it."""
    found: dict[str, str] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for expression in code_arguments(ast.parse(path.read_text(encoding="utf-8"))):
            place = f"{path.relative_to(ROOT)}:{expression.lineno}"
            codes = literal_codes(expression)
            assert codes, f"{place}: write the code out as a literal, so that it can be searched for"
            found.update((code, place) for code in codes)
    return found


def section_texts() -> list[tuple[str, str]]:
    """Each code with the text of its section, in the order of the page."""
    page = (ROOT / "docs" / "codes.md").read_text(encoding="utf-8")
    parts = re.split(r"^(#{2,3}) (.+)$", page, flags=re.MULTILINE)[1:]
    return [(title, text) for level, title, text in zip(*[iter(parts)] * 3, strict=True) if level == "###"]


def sections() -> list[str]:
    return [code for code, _ in section_texts()]


def test_every_code_has_a_section() -> None:
    missing = {code: place for code, place in codes_in_source().items() if code not in sections()}
    assert missing == {}


def test_every_section_has_a_code() -> None:
    assert set(sections()) - set(codes_in_source()) == set()


def test_no_code_has_two_sections() -> None:
    assert len(sections()) == len(set(sections()))


@pytest.mark.parametrize(("code", "text"), section_texts(), ids=sections())
def test_a_section_says_what_happened_what_it_does_and_what_to_do(code: str, text: str) -> None:
    paragraphs = [" ".join(one.split()) for one in text.strip().split("\n\n")]
    assert [re.match(r"\*+(Error|Finding|Effect|Do)", one) is not None for one in paragraphs] == [True] * 3
    assert [re.sub(r"\W.*", "", one.lstrip("*")) for one in paragraphs[1:]] == ["Effect", "Do"]


def test_codes_are_kebab_case() -> None:
    assert [code for code in codes_in_source() if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code)] == []


@pytest.mark.parametrize(
    ("source", "codes"),
    [
        ('BoundbyError("one", "text")', [["one"]]),
        ('errors.BoundbyError(code="one", message="text")', [["one"]]),
        ('Finding(code="one" if cold else "two", message="text")', [["one", "two"]]),
        ('Finding(code=name, message="text")', [[]]),
        ('Other(code="one")', []),
        ('BoundbyError(error.code, "text")', []),
    ],
)
def test_the_search_finds_codes_as_they_are_written(source: str, codes: list[list[str]]) -> None:
    assert [literal_codes(expression) for expression in code_arguments(ast.parse(source))] == codes
