"""The page on the command line shows the help of every command, as the commands print it when the page is built."""

from __future__ import annotations

import re
from pathlib import Path

from boundby.cli.main import COMMANDS

CLI_PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_each_command_has_its_help_on_the_page() -> None:
    shown = re.findall(r"^```\{cli-help\} ?(\S*)$", CLI_PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(shown) == sorted(["", *COMMANDS])
