"""``boundby.step()``: mark by hand what a step is.

Free of torch, and nearly free of cost while boundby is not watching.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, TypeVar, overload

T = TypeVar("T")


class StepListener(Protocol):
    """What a running session does with hand-made marks."""

    def mark_begin(self) -> None: ...

    def mark_end(self) -> None: ...

    def mark_dropped(self) -> None: ...

    def marked_input(self) -> AbstractContextManager[None]: ...


_listener: StepListener | None = None


def listen(listener: StepListener | None) -> None:
    """Make ``listener`` hear the marks from now on; None: nobody."""
    global _listener
    _listener = listener


class _Step:
    __slots__ = ()

    def __enter__(self) -> None:
        if _listener is not None:
            _listener.mark_begin()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if _listener is not None:
            if kind is None:
                _listener.mark_end()
            else:
                _listener.mark_dropped()


_STEP = _Step()


@overload
def step() -> _Step: ...
@overload
def step(iterable: Iterable[T]) -> Iterable[T]: ...
def step(iterable: Iterable[T] | None = None) -> _Step | Iterable[T]:
    """Mark a step by hand, where no optimizer step or outermost module call does.

    As a context manager, ``with boundby.step(): ...`` is one step. As an iterator wrapper,
    ``for batch in boundby.step(batches): ...``, each turn of the loop is one step, and waiting for the next item is its
    input time. Marks made by hand take the place of steps found by themselves. While boundby is not watching, the
    wrapper returns the iterable itself and the context manager does nothing.
    """
    if iterable is None:
        return _STEP
    if _listener is None:
        return iterable
    return _marked(iterable, _listener)


def _marked(iterable: Iterable[T], listener: StepListener) -> Iterator[T]:
    iterator = iter(iterable)
    while True:
        listener.mark_begin()
        try:
            with listener.marked_input():
                item = next(iterator)
            yield item
        except BaseException as error:  # the end, a break out of the loop, or an error: no whole step
            listener.mark_dropped()
            if isinstance(error, StopIteration):
                return
            raise
        listener.mark_end()
