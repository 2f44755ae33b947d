"""The line that makes a container grow, and the one that switches a mode on; read as text."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch

from boundby.capture import sources
from boundby.capture.sources import growing_line, only_call_of

pytestmark = pytest.mark.usefixtures("nothing_stays")


def test_the_growing_line_is_looked_for_in_the_running_function():
    def other():
        values = []
        values.append(1)
        return values

    def mine():
        values = []
        values.append(2)
        return growing_line(__file__, "values", sys._getframe())

    assert other() == [1]
    assert mine().code == "values.append(2)"
    assert growing_line("/no/such/file.py", "values", None).line is None


CALLS = {
    "from torch.profiler import profile as watched\nwatched()": 2,
    "import torch\ntorch.profiler.profile()": 2,
    "import torch.profiler as p\ndef main():\n    with p.profile():\n        pass": 3,
    # Others of the same name, and what is not known.
    "def profile(): pass\nprofile()": None,
    "import torch\ntorch.profile = torch.trace\ntorch.trace(torch.eye(3))\ndel torch.profile": None,
    "from torch.profiler import profile\ndef main(profile):\n    profile()": None,
    "def main():\n    from torch.profiler import profile\n    profile()": None,
    # More than one.
    "from torch.profiler import profile\nprofile()\nprofile()": None,
    "from torch.profiler import profile\nprofile()\nif 0: profile(False)": 2,
}


@pytest.mark.parametrize("source", CALLS)
def test_a_line_is_named_only_where_it_alone_calls_what_is_looked_for(source, tmp_path, monkeypatch):
    file = tmp_path / "script.py"
    file.write_text(source)
    module = ModuleType("script")
    module.__file__ = str(file)
    exec(compile(source, str(file), "exec"), vars(module))
    monkeypatch.setattr(sources, "users_modules", lambda: [(module, str(file))])
    assert only_call_of([torch.profiler.profile]).line == CALLS[source]
