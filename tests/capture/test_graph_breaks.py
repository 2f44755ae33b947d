"""Graph breaks are those of what was watched, and unknown where compiled code may hide some."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from small_training import MANY, net, training

from boundby.capture.compiling import graph_breaks
from boundby.capture.graph_breaks import breaks_before, forget_compiled
from boundby.capture.session import Session

pytestmark = pytest.mark.usefixtures("fresh")


@pytest.fixture
def fresh() -> Iterator[None]:
    """Nothing is compiled, and no break was met."""
    torch._dynamo.reset()
    before = dict(torch._dynamo.utils.counters)
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch._dynamo.utils.counters.update(before)


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


def test_breaks_are_counted_from_when_one_asks() -> None:
    call = torch.compile(broken, backend="eager")
    before = breaks_before()
    assert before.since() == 0
    call(torch.ones(3))
    assert before.since() == 1


def test_compiled_code_may_hide_its_breaks_until_it_is_forgotten() -> None:
    call = torch.compile(broken, backend="eager")
    call(torch.ones(3))
    before = breaks_before()
    call(torch.ones(3))
    assert before.since() is None
    forget_compiled()
    before = breaks_before()
    call(torch.ones(3))
    assert before.since() == 1


def test_code_that_was_compiled_whole_hides_nothing() -> None:
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
    assert breaks_before().since() == 0


def test_only_the_lines_of_breaks_since_then_are_told() -> None:
    torch.compile(broken, backend="eager")(torch.ones(3))
    assert [one.times for one in graph_breaks()] == [1]
    assert graph_breaks(1) == ()
    assert len(graph_breaks(7)) == 1  # the list was emptied since


def test_a_session_tells_its_own_and_no_ones_elses(session: Session) -> None:
    torch.compile(broken, backend="eager")(torch.ones(3))
    model = net()
    session.arm()
    training(model, torch.optim.SGD(model.parameters(), lr=0.1), MANY)
    trace = session.trace()
    assert trace is not None
    assert trace.graph_breaks is None
    assert trace.habits.graph_breaks == ()


def test_a_session_that_compiles_nothing_met_none(session: Session) -> None:
    model = net()
    session.arm()
    training(model, torch.optim.SGD(model.parameters(), lr=0.1), MANY)
    trace = session.trace()
    assert trace is not None
    assert trace.graph_breaks == 0
