"""Op times from torch's own profiler: the gentlest way to watch a step.

torch's profiler notes each operator call in C++, about half a microsecond each, where a dispatch mode adds seven or
more to each op and makes torch take slower paths. Only begin, end and name of calls are taken; which call is which op
of the step is found by walking the calls beside the op sequence of an attributed step.
"""

from __future__ import annotations

import functools
import os
import tempfile
import threading
import time
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any

import torch
import torch.autograd.profiler

from boundby.capture.forked import spare_children_of_the_profiler
from boundby.capture.usage import NO_USAGE, StepUsage

_autograd: Any = torch._C._autograd
_profiler: Any = torch._C._profiler
# Written by the profiler at each start and stop, and in a thread that is not the main one, whatever its log level.
_CHATTER = (b"USDT:", b"ERROR: External init callback must run in same thread")
_ALIASES = {"aten::_reshape_alias": "aten::view", "aten::_index_put_impl": "aten::index_put"}


@dataclass(frozen=True, slots=True)
class ProfiledStep:
    """One step under the profiler: its operator calls in order of their begin, times in ns of the wall clock.

    ``waits`` are the (begin, end) of each wait for input inside the step.
    """

    names: list[str]
    begins: array[int]
    ends: array[int]
    begin: int
    end: int
    waits: list[tuple[int, int]]
    usage: StepUsage = NO_USAGE
    turn: int = 0

    @property
    def seconds(self) -> float:
        """Wall time of the profiled step."""
        return (self.end - self.begin) / 1e9


@dataclass(frozen=True, slots=True)
class Matched:
    """A profiled step laid beside a sequence of ops, an entry an op: begin and end (ns), and calls.

    ``calls`` counts the op's own call and those nested in it, 0 for an op that only a dispatch mode makes; ``before``
    those between it and the op before that are no op of their own (composites, autograd nodes); ``after`` those that
    follow the last op.
    """

    begins: array[int]
    ends: array[int]
    calls: array[int]
    before: array[int]
    after: int


def can_profile() -> bool:
    """Whether the profiler is there and nobody else uses it."""
    return hasattr(_autograd, "_enable_profiler") and not _autograd._profiler_enabled()


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A step's begin and end, and its waits for input, in ns of the wall clock."""

    begin: int
    end: int
    waits: list[tuple[int, int]]
    usage: StepUsage = NO_USAGE
    turn: int = 0

    def holds(self, at: int) -> bool:
        """Whether a moment is in the step and not in a wait."""
        return self.begin <= at < self.end and not any(begin <= at < end for begin, end in self.waits)


class ProfilingWatcher:
    """Turns torch's profiler on and off.

    There is one profiler a process. While it is ours, a start by the user's own code ends ours first, as if nobody had
    used it; ``broken`` then says that what was seen is lost.
    """

    def __init__(self) -> None:
        self.broken = False
        self._running = False
        self._thread = 0
        self._undo: list[Callable[[], None]] = []

    def start(self) -> None:
        """Profile from now on."""
        activities = {_profiler.ProfilerActivity.CPU}
        config = _profiler.ProfilerConfig(
            _profiler.ProfilerState.KINETO, False, False, False, False, False, _profiler._ExperimentalConfig()
        )
        spare_children_of_the_profiler()
        with _without_chatter():
            _autograd._prepare_profiler(config, activities)
            _autograd._enable_profiler(config, activities)
        self._running = True
        self._thread = threading.get_ident()
        self._undo = [_before_call(name, self._give_way) for name in ("_prepare_profiler", "_enable_profiler")]

    def _give_way(self) -> None:
        """Somebody else is about to use the profiler."""
        if not self._running:
            return
        self.broken = True
        if threading.get_ident() == self._thread:  # it can be ended by the thread that began it alone
            self._end()

    def _end(self) -> Any:
        """End the profiler if it is still ours; what it saw, or None."""
        self._running = False
        undo, self._undo = self._undo, []
        for one in undo:
            one()
        if not _autograd._profiler_enabled():
            self.broken = True
            return None
        with _without_chatter():
            return _autograd._disable_profiler()

    def stop(self, spans: Sequence[Span] = ()) -> list[ProfiledStep]:
        """Profile no more; the calls of each span's steps, of the thread that made most of them."""
        if not self._running:
            return []
        result = self._end()
        if self.broken:
            return []
        if not spans:
            return []
        calls = [
            (event.start_ns(), -event.duration_ns(), event.start_thread_id(), event.name()) for event in result.events()
        ]
        calls.sort(key=lambda call: call[:2])
        threads = Counter(call[2] for call in calls)
        mine = max(threads, key=lambda thread: threads[thread]) if threads else 0
        calls = [call for call in calls if call[2] == mine]
        starts = [call[0] for call in calls]
        names: dict[str, str] = {}
        steps = []
        for span in spans:
            inside = calls[bisect_left(starts, span.begin) : bisect_left(starts, span.end)]
            inside = [call for call in inside if span.holds(call[0])]
            steps.append(
                ProfiledStep(
                    names=[names.setdefault(call[3], _plain_name(call[3])) for call in inside],
                    begins=array("q", [call[0] for call in inside]),
                    ends=array("q", [call[0] - call[1] for call in inside]),
                    begin=span.begin,
                    end=span.end,
                    waits=span.waits,
                    usage=span.usage,
                    turn=span.turn,
                )
            )
        return steps


def _before_call(name: str, act: Callable[[], None]) -> Callable[[], None]:
    """Call ``act()`` before torch's profilers call the function of that name; returns the undo."""
    names = vars(torch.autograd.profiler)
    plain = names[name]

    @functools.wraps(plain)
    def announced(*args: Any, **kwargs: Any) -> Any:
        act()
        return plain(*args, **kwargs)

    names[name] = announced

    def undo() -> None:
        if names[name] is announced:
            names[name] = plain

    return undo


def profile_once(step: Callable[[], object]) -> ProfiledStep:
    """One call of ``step()`` under the profiler."""
    watcher = ProfilingWatcher()
    watcher.start()
    begin = wall_ns()
    step()
    return watcher.stop([Span(begin=begin, end=wall_ns(), waits=[])])[0]


def match_calls(step: ProfiledStep, ops: Sequence[str], works: Sequence[int]) -> Matched | None:
    """Find the calls that are the ops of a step, in order; None where some op has no call, or some call no op.

    Args:
        step: the profiled step.
        ops: names of the step's ops as calls bear them, ``aten::mm``.
        works: whether each op does work. One that does not may have no call: a dispatch mode makes torch take other
            views than it takes without one, and detach what it saves.
    """
    found = _find_all(step, ops, works)
    if found is None or _has_more(step, {op for op, work in zip(ops, works, strict=True) if work}, found):
        return None
    begins, ends, calls, before = array("q"), array("q"), array("I"), array("I")
    last_end, last_at = step.begin, 0
    for at in found:
        if at is None:
            begins.append(last_end)
            ends.append(last_end)
            calls.append(0)
            before.append(0)
            continue
        last_end = step.ends[at]
        begins.append(step.begins[at])
        ends.append(last_end)
        before.append(at - last_at)
        last_at = past_call(step, at)
        calls.append(last_at - at)
    return Matched(begins=begins, ends=ends, calls=calls, before=before, after=len(step.names) - last_at)


def _find_all(step: ProfiledStep, ops: Sequence[str], works: Sequence[int]) -> list[int | None] | None:
    """The index of each op's call; None in place of all where an op that does work has none."""
    names, count = step.names, len(step.names)
    found: list[int | None] = [None] * len(ops)
    at = 0
    optional: list[int] = []
    for index, op in enumerate(ops):
        if not works[index]:
            optional.append(index)
            continue
        first = at
        while at < count and names[at] != op:
            at += 1
        if at == count:
            return None
        _place_optional(step, ops, optional, first, at, found)
        optional = []
        found[index] = at
        at = past_call(step, at)
    _place_optional(step, ops, optional, at, count, found)
    return found


def _has_more(step: ProfiledStep, known: set[str], found: Sequence[int | None]) -> bool:
    """Whether calls neither of the ops, nor in them, nor around them, bear names of ops: it is another, longer step."""
    at = 0
    for index in (*(one for one in found if one is not None), len(step.names)):
        extra = (other for other in range(at, index) if step.names[other] in known)
        if any(past_call(step, other) <= index for other in extra):
            return True
        at = past_call(step, index) if index < len(step.names) else index
    return False


def _place_optional(
    step: ProfiledStep, ops: Sequence[str], optional: Sequence[int], first: int, last: int, found: list[int | None]
) -> None:
    """Find calls for ops that need none, in order, among the calls from ``first`` to ``last``."""
    at = first
    for index in optional:
        there = at
        while there < last and step.names[there] != ops[index]:
            there += 1
        if there < last:
            found[index] = there
            at = past_call(step, there)


def past_call(step: ProfiledStep, at: int) -> int:
    """The index after a call and all that is nested in it."""
    end, count = step.ends[at], len(step.names)
    at += 1
    while at < count and step.begins[at] < end:
        at += 1
    return at


def call_name(op: Any) -> str:
    """The name under which the profiler notes an op's call: without the overload, and in place or not all the same.

    The autograd engine adds gradients up in place where nobody else holds them; under a dispatch mode somebody does.
    """
    schema = getattr(op, "_schema", None)
    return _plain_name(str(schema.name) if schema is not None else str(op))


def _plain_name(name: str) -> str:
    name = name.rstrip("_")
    return _ALIASES.get(name, name)


def wall_ns() -> int:
    """The clock that the profiler's times are in."""
    return time.time_ns()


@contextmanager
def _without_chatter() -> Iterator[None]:
    """Hold back the lines that the profiler writes to standard error; pass on any others."""
    aside = _scratch_file()
    if aside is None:
        yield
        return
    with aside:
        try:
            kept = os.dup(2)
        except OSError:  # there is no standard error to write to, or no descriptor left
            yield
            return
        try:
            os.dup2(aside.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(kept, 2)
                aside.seek(0)
                rest = b"".join(line for line in aside if not line.startswith(_CHATTER))
                if rest:
                    _write_all(2, rest)
        finally:
            os.close(kept)


def _scratch_file() -> IO[bytes] | None:
    """A file without a name, in memory where the system can; None where none can be had."""
    try:
        if hasattr(os, "memfd_create"):
            return os.fdopen(os.memfd_create("boundby"), "w+b")
        return tempfile.TemporaryFile()
    except OSError:
        return None


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, as far as whoever reads takes it: a closed pipe is not worth an error here."""
    with suppress(OSError):
        while data:
            data = data[os.write(descriptor, data) :]
