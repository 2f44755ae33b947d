"""Remedies by name, and which of them go together."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from boundby.remedies.registry import MODULES, all_remedies, compatible, remedy_named
from boundby.results.errors import BoundbyError
from boundby.results.language import LANGUAGES, choose_language


def test_every_remedy_bears_the_name_it_is_registered_by():
    assert [one.NAME for one in all_remedies()] == list(MODULES)


def test_that_remedies_do_not_import_each_other_is_checked_of_all_of_them():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (one for one in project["tool"]["importlinter"]["contracts"] if one["type"] == "independence")
    assert set(contract["modules"]) == {f"boundby.remedies.{module}" for module in MODULES.values()}


def test_every_remedy_has_a_title_of_its_own_in_every_language():
    titles = []
    try:
        for name in LANGUAGES:
            choose_language(name)
            titles += [one.title() for one in all_remedies()]
    finally:
        choose_language("en")
    assert len(set(titles)) == len(LANGUAGES) * len(MODULES)


@pytest.mark.parametrize(
    ("names", "together"),
    [
        (["one-thread", "all-threads"], ["one-thread"]),
        (["int8-weights", "allocator", "bf16-autocast"], ["int8-weights", "allocator"]),
        (["workers-2", "fused-optimizer", "workers-0"], ["workers-2", "fused-optimizer"]),
        (["fused-optimizer", "allocator"], ["fused-optimizer", "allocator"]),
    ],
)
def test_of_remedies_that_exclude_each_other_the_first_is_kept(names, together):
    assert compatible(names) == together


def test_an_unknown_name_names_near_ones():
    with pytest.raises(BoundbyError, match="fused-optimiser") as caught:
        remedy_named("fused-optimiser")
    assert "fused-optimizer" in caught.value.advice
