"""``boundby.step()``: mark by hand what a step is.

Free of torch, and nearly free of cost while boundby is not watching.
"""

from __future__ import annotations

import operator
from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar, overload

from boundby.results.language import tr

T = TypeVar("T")


class StepListener(Protocol):
    """What a running session does with hand-made marks."""

    def mark_begin(self) -> None: ...

    def mark_end(self) -> None: ...

    def mark_dropped(self) -> None: ...

    def marked_input(self) -> AbstractContextManager[None]: ...


def how_to_mark() -> str:
    """What to write into a script whose steps are not found by themselves."""
    return tr(
        "Mark the step yourself: import boundby, then write {loop} for a loop of steps, or {block} around one.",
        loop="`for item in boundby.step(items):`",
        block="`with boundby.step():`",
    )


_listeners: list[StepListener] = []
_listener: StepListener | None = None


def listen(listener: StepListener | None) -> StepListener | None:
    """Make ``listener`` hear the marks from now on; None: nobody. Returns who heard them before."""
    global _listener
    before = _listener
    if listener is None:
        _listeners.clear()
    else:
        _listeners.append(listener)
    _listener = listener
    return before


def stop_listening(listener: StepListener) -> None:
    """``listener`` hears no more marks; whoever heard them before it hears them again."""
    global _listener
    _listeners[:] = [one for one in _listeners if one is not listener]
    _listener = _listeners[-1] if _listeners else None


def is_listened_to() -> bool:
    """Whether a session hears marks now: steps are being watched."""
    return _listener is not None


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


class _Marked(Generic[T]):
    """An iterable whose loops are marked; in all else it is the iterable itself."""

    def __init__(self, iterable: Iterable[T]) -> None:
        self._iterable = iterable

    def __iter__(self) -> Iterator[T]:
        return _marked(self._iterable, _listener) if _listener is not None else iter(self._iterable)

    def __getattr__(self, name: str) -> Any:
        if name == "_iterable":  # asked for by pickle and copy before there is one
            raise AttributeError(name)
        return getattr(self._iterable, name)

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type]  # raises what it raises without marks

    def __length_hint__(self) -> int:
        return operator.length_hint(self._iterable)

    def __bool__(self) -> bool:
        return bool(self._iterable)

    def __getitem__(self, index: Any) -> Any:
        return self._iterable[index]  # type: ignore[index]  # raises what it raises without marks

    def __contains__(self, item: object) -> bool:
        return item in self._iterable  # type: ignore[operator]  # as above

    def __reversed__(self) -> Iterator[T]:
        return reversed(self._iterable)  # type: ignore[call-overload,no-any-return]  # as above


class _MarkedIterator(_Marked[T]):
    """The same for an iterator, which gives one item after another across several loops and ``next`` calls."""

    def __init__(self, iterable: Iterable[T]) -> None:
        super().__init__(iterable)
        self._turns: Iterator[T] | None = None

    def __iter__(self) -> Iterator[T]:
        if isinstance(self._turns, Generator):
            self._turns.close()  # drops the step that the last `next` began
        self._turns = None
        return super().__iter__()

    def __next__(self) -> T:
        if self._turns is None:
            self._turns = super().__iter__()
        return next(self._turns)


@overload
def step() -> _Step: ...
@overload
def step(iterable: Iterable[T]) -> Iterable[T]: ...
def step(iterable: Iterable[T] | None = None) -> _Step | Iterable[T]:
    """Mark a step by hand, where no optimizer step or outermost module call does.

    As a context manager, ``with boundby.step(): ...`` is one step. As a wrapper of an iterable,
    ``for batch in boundby.step(batches): ...``, each turn of the loop is one step, and waiting for the next item is its
    input time. The wrapper can be looped over as often as the iterable can, and has its length and attributes. Marks
    made by hand take the place of steps found by themselves. While boundby is not watching, ``step`` returns the
    iterable itself and the context manager does nothing.
    """
    if iterable is None:
        return _STEP
    if _listener is None:
        return iterable
    return _MarkedIterator(iterable) if hasattr(iterable, "__next__") else _Marked(iterable)


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
