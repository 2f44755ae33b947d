"""For tests of the magics: an IPython of their own, with made-up ceilings and no predictions, which take seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

from boundby.machine import ensure
from boundby.remedies import ranking
from boundby.results.machine import Machine, MachineDescription

MACHINE = Machine(
    description=MachineDescription(
        cpu="made up",
        usable_cores=2,
        logical_cores=2,
        memory_bytes=None,
        memory_limit_bytes=None,
        os="Linux",
        python="3.11",
        torch=str(torch.__version__),
        threads=1,
        affinity=None,
    ),
    ceilings=(),
)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """An IPython that has loaded the extension."""
    monkeypatch.setattr(ensure, "ensure_machine", lambda **_: MACHINE)
    monkeypatch.setattr(ranking, "with_predictions", lambda report, facts: report)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(history_length=0)
    made.history_manager.enabled = False
    made.run_cell("%load_ext boundby")
    yield made
    made.reset(new_session=False)
    InteractiveShell.clear_instance()
    torch.set_num_threads(threads)
