"""The public names are those of the API page, and each of them is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import boundby

API_PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def documented_names() -> list[str]:
    return re.findall(r"^\| `boundby\.(\w+)` \|", API_PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_api_page_lists_the_public_names() -> None:
    assert sorted(documented_names()) == sorted(set(boundby.__all__) - {"__version__"})


@pytest.mark.parametrize("name", sorted(boundby.__all__))
def test_a_public_name_is_there_and_says_what_it_is(name: str) -> None:
    value = getattr(boundby, name)
    assert name in dir(boundby)
    assert name == "__version__" or value.__doc__


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    name = "no_such_name"
    with pytest.raises(AttributeError, match=name):
        getattr(boundby, name)
