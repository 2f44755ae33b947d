"""Steps marked by hand."""

from __future__ import annotations

import contextlib

import pytest

import boundby
from boundby.capture import marks


class Listener:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def mark_begin(self) -> None:
        self.heard.append("begin")

    def mark_end(self) -> None:
        self.heard.append("end")

    def mark_dropped(self) -> None:
        self.heard.append("dropped")

    @contextlib.contextmanager
    def marked_input(self):
        self.heard.append("wait")
        try:
            yield
        finally:
            self.heard.append("got")


@pytest.fixture
def listener():
    one = Listener()
    marks.listen(one)
    yield one
    marks.listen(None)


def test_nobody_listens_by_default_and_marks_change_nothing():
    batches = [1, 2, 3]
    assert boundby.step(batches) is batches
    generator = (batch for batch in batches)
    assert boundby.step(generator) is generator
    with boundby.step() as nothing:
        assert nothing is None
    assert boundby.step() is boundby.step()


def test_an_exception_inside_a_mark_passes_while_nobody_listens():
    with pytest.raises(KeyError, match="mine"), boundby.step():
        raise KeyError("mine")


def test_a_with_block_is_a_step(listener):
    with boundby.step():
        listener.heard.append("work")
    assert listener.heard == ["begin", "work", "end"]


def test_an_exception_ends_no_step_and_passes(listener):
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught, boundby.step():
        raise error
    assert caught.value is error
    assert "end" not in listener.heard
    assert listener.heard[-1] == "dropped"


def test_each_turn_of_a_loop_is_a_step_that_begins_with_its_input(listener):
    for batch in boundby.step("ab"):
        listener.heard.append(batch)
    turn = ["begin", "wait", "got"]
    assert listener.heard[:10] == [*turn, "a", "end", *turn, "b", "end"]
    # The last turn never came.
    assert listener.heard[10:] == [*turn, "dropped"]


def test_items_come_through_in_order_and_lazily(listener):
    taken = []

    def batches():
        for number in range(3):
            taken.append(number)
            yield number

    marked = iter(boundby.step(batches()))
    assert taken == []
    assert next(marked) == 0
    assert taken == [0]
    assert list(marked) == [1, 2]


def test_a_loop_left_early_marks_no_end_for_its_last_turn(listener):
    for batch in boundby.step([1, 2, 3]):
        if batch == 2:
            break
    assert listener.heard.count("end") == 1
    assert listener.heard[-1] == "dropped"


def test_an_exception_in_the_iterable_passes(listener):
    def broken():
        yield 1
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        list(boundby.step(broken()))
    assert listener.heard.count("wait") == listener.heard.count("got")
    assert listener.heard[-1] == "dropped"


def test_something_that_is_no_iterable_is_refused_as_python_does(listener):
    with pytest.raises(TypeError, match="not iterable"):
        list(boundby.step(3))  # type: ignore[call-overload]  # the mistake is the point


def test_marked_batches_can_be_looped_over_again_and_have_a_length(listener):
    data = [1, 2, 3]
    batches = boundby.step(data)
    assert len(batches) == 3
    assert [list(batches) for _ in range(3)] == [data] * 3
    assert listener.heard.count("end") == 9
    assert batches.index(2) == 1
    assert batches[0] == 1
    assert 3 in batches
    assert not hasattr(batches, "__next__")


def test_what_the_iterable_lacks_the_marked_one_lacks(listener):
    marked = boundby.step(iter([1]))
    with pytest.raises(TypeError, match="len"):
        len(marked)
    with pytest.raises(AttributeError):
        marked.sampler  # noqa: B018  # the asking is the test


def test_a_marked_iterator_goes_on_from_call_to_call(listener):
    marked = boundby.step(iter(range(4)))
    assert next(marked) == 0
    assert next(marked) == 1
    assert list(marked) == [2, 3]
    with pytest.raises(StopIteration):
        next(marked)
    assert listener.heard.count("end") == 4 - 1  # the step of the second item never came to the next


def test_whoever_listened_before_hears_again(listener):
    inner = Listener()
    assert marks.listen(inner) is listener
    with boundby.step():
        pass
    marks.stop_listening(inner)
    with boundby.step():
        pass
    assert inner.heard == listener.heard == ["begin", "end"]


def test_a_listener_that_stops_beneath_another_is_not_given_back(listener):
    inner = Listener()
    marks.listen(inner)
    marks.stop_listening(listener)
    assert marks._listener is inner
    marks.stop_listening(inner)
    assert marks._listener is None


def test_the_hint_names_the_import_and_the_form_for_a_loop() -> None:
    hint = marks.how_to_mark()
    assert "import boundby" in hint
    assert "for item in boundby.step(items):" in hint
    assert "with boundby.step():" in hint
