"""One folder of kept ceilings for all black-box tests, measured before the first of them."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from black_box import Runner

_PLACE_OF_CEILINGS = (
    "from boundby.machine.store import machine_key, machine_path;print(machine_path(machine_key(threads=None)))"
)
_FIRST = "first-stderr.txt"


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """Starts plain and watched runs that share one folder of ceilings, also between parallel test workers.

    The first run finds a damaged file of ceilings there and measures, so that no test needs to measure again.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    runner = Runner(cache=shared / "ceilings", scratch=base / "black-box")
    runner.scratch.mkdir(parents=True, exist_ok=True)
    with (shared / "ceilings.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not runner.cache.exists():
            place = Path(runner.execute(("-c", _PLACE_OF_CEILINGS)).text.strip())
            place.parent.mkdir(parents=True)
            place.write_text('{"schema": "boundby.mach')
            first = runner.watched("loops.py", "mlp_sgd", fresh=True)
            (shared / _FIRST).write_text(first.stderr)
    servers = runner.start_servers()
    yield runner
    for server in servers:
        server.communicate()


@pytest.fixture(scope="session")
def first_stderr(runner: Runner) -> str:
    """What the run that found the damaged ceilings wrote to standard error."""
    return (runner.cache.parent / _FIRST).read_text()
