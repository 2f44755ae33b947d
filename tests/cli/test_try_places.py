"""Where the files of a tried script are said to be: in the user's folder, not in the one it was led aside to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from boundby.cli.try_ import at_home


@pytest.mark.parametrize("home", ["project", 'with "quotes" and ümlauts', "back\\slash"])
def test_paths_are_those_of_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    (tmp_path / home).mkdir()
    aside = tmp_path / "aside"
    aside.mkdir()
    linked = tmp_path / "linked"
    linked.symlink_to(aside)
    monkeypatch.chdir(tmp_path / home)
    given = [f"{aside}/net.py", f"{linked}/sub/train.py", f"{aside}more/net.py", "/usr/lib/net.py"]
    report = json.dumps({"paths": given, "code": "a / b"}, ensure_ascii=False).encode()
    assert json.loads(at_home(report, linked)) == {
        "paths": [
            f"{tmp_path / home}/net.py",
            f"{tmp_path / home}/sub/train.py",
            f"{aside}more/net.py",
            "/usr/lib/net.py",
        ],
        "code": "a / b",
    }
