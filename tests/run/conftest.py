"""One folder of kept ceilings for all black-box tests, measured before the first of them."""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from black_box import QUICK, Runner


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Starts plain and watched runs that share one folder of ceilings, also between parallel test workers."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    runner = Runner(cache=shared / "ceilings", scratch=base / "black-box")
    runner.scratch.mkdir(parents=True, exist_ok=True)
    with (shared / "ceilings.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not runner.cache.exists():
            runner.cache.mkdir()
            runner.watched("loops.py", "mlp_sgd", options=QUICK)
    return runner
