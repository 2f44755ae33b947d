"""A watcher that one test leaves behind must not watch the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from habit_steps import ROUNDS
from small_training import SMALL, global_state
from torch.utils._python_dispatch import _pop_mode

from boundby.capture import marks
from boundby.capture.session import Session


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Ops of a few elements on several threads take milliseconds where something else runs beside them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    """Takes away what a failed test left: watchers, the profiler, the ear for marks."""
    yield
    marks.listen(None)
    while torch._C._len_torch_dispatch_stack():
        _pop_mode()
    if torch._C._autograd._profiler_enabled():
        torch._C._autograd._disable_profiler()


@pytest.fixture
def nothing_stays() -> Iterator[None]:
    before = global_state()
    yield
    assert global_state() == before


@pytest.fixture
def session() -> Iterator[Session]:
    made = Session(limits=SMALL)
    yield made
    made.disarm()


@pytest.fixture
def rounds() -> Iterator[Session]:
    """A session of enough rounds for three looks at what is left behind."""
    made = Session(limits=ROUNDS)
    yield made
    made.disarm()
