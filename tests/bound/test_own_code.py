"""Whose a file is, by its path."""

from __future__ import annotations

import dis
import os

import click
import pytest

from boundby.labs import base_model
from boundby.results import own_code
from boundby.results.own_code import is_boundbys, is_installed, is_own, is_pythons


@pytest.mark.parametrize(
    ("path", "whose"),
    [
        ("train.py", "own"),
        ("/home/me/train.py", "own"),
        (__file__, "own"),
        # A script may stand beside its environment, or be called like one.
        ("/home/me/site-packages-2/train.py", "own"),
        (base_model.__file__, "own"),
        (own_code.__file__, "boundby's"),
        (dis.__file__, "Python's"),
        (click.__file__, "installed"),
        ("/home/me/.local/lib/python3.9/site-packages/net/model.py", "installed"),
        ("/usr/lib/python3/dist-packages/net.py", "installed"),
        ("<frozen importlib._bootstrap>", "none"),
        (None, "none"),
    ],
)
def test_a_file_is_of_one_owner(path: str | None, whose: str) -> None:
    assert is_own(path) == (whose == "own")
    if path is not None:
        found = {"boundby's": is_boundbys(path), "installed": is_installed(path), "Python's": is_pythons(path)}
        assert [name for name, held in found.items() if held] == ([whose] if whose in found else [])


def test_boundby_s_labs_are_the_user_s_where_boundby_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    root = "/usr/lib/python3/site-packages/boundby/"
    monkeypatch.setattr(own_code, "BOUNDBY_ROOT", root)
    monkeypatch.setattr(own_code, "_LABS_ROOT", f"{root}labs{os.sep}")
    assert is_own(root + "labs/gpt.py")
    assert not is_own(root + "api.py")
