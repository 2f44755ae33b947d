"""Where the files of a tried script are said to be: in the user's folder, not in the one it was led aside to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from boundby.cli.running_aside import at_home, own_error


@pytest.mark.parametrize("home", ["project", 'with "quotes" and ümlauts', "back\\slash"])
def test_paths_are_those_of_the_working_folder(tmp_path: Path, home: str) -> None:
    aside = tmp_path / home
    aside.mkdir()
    linked = tmp_path / "linked"
    linked.symlink_to(aside)
    given = [f"{aside}/u/net.py", f"{linked}/u/sub/../train.py", f"{aside}more/net.py", "/usr/lib/net.py"]
    report = json.dumps({"paths": given, "code": "a / b"}, ensure_ascii=False).encode()
    assert json.loads(at_home(report, linked)) == {
        "paths": [
            "/u/net.py",
            "/u/sub/../train.py",
            f"{aside}more/net.py",
            "/usr/lib/net.py",
        ],
        "code": "a / b",
    }


def test_the_longer_of_two_names_is_replaced_first(tmp_path: Path) -> None:
    real = tmp_path / "real" / f"{tmp_path}/linked/x".lstrip("/")
    real.mkdir(parents=True)
    (tmp_path / "linked").symlink_to(real.parent)
    # The resolved name ends with the other: replaced second, nothing of it would be found.
    assert at_home(f'"{real}/u/train.py"'.encode(), tmp_path / "linked" / "x") == b'"/u/train.py"'


def test_what_boundby_said_last_is_the_error() -> None:
    told = own_error(
        "boundby: an earlier one [no-steps]\nUserWarning: slow\n"
        "boundby: only 4 steps were seen [too-few-steps]\nboundby: Let it run on.\n"
    )
    assert told is not None
    assert (told.code, told.message, told.advice) == ("too-few-steps", "only 4 steps were seen", "Let it run on.")
    alone = own_error("Traceback\nboundby: no step was found [no-steps]")
    assert alone is not None
    assert alone.advice == "See what `boundby run` says of it."
    assert own_error("") is own_error("RuntimeError: [no-steps]\nboundby: running train.py\n") is None
