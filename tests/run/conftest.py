"""One folder of kept ceilings for all black-box tests, measured before the first of them."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from black_box import Runner

_MEASURE = "from boundby.machine.ensure import ensure_machine; ensure_machine(budget_s=5.0)"


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """Starts plain and watched runs that share one folder of ceilings, also between parallel test workers.

    They are measured in less time than `boundby run` would take, so that no test needs to measure again.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    runner = Runner(cache=shared / "ceilings", scratch=base / "black-box")
    runner.scratch.mkdir(parents=True, exist_ok=True)
    with (shared / "ceilings.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not runner.cache.exists():
            measured = runner.execute(("-c", _MEASURE))
            assert measured.status == 0, measured.stderr
    servers = runner.start_servers()
    yield runner
    for server in servers:
        server.communicate()
