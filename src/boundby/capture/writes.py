"""What a script's steps write, as the system counts it, and which lines do it."""

from __future__ import annotations

import builtins
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from boundby.capture.sites import users_line
from boundby.results.habits import Place, Writes, WritingLine
from boundby.results.interval import Interval, interval
from boundby.timing.statistics import quantile

_IO = "/proc/self/io"
# What people write by: module, then the name in it. Only what is imported already is looked at.
_WRITERS = (
    ("logging", "Handler.handle"),
    ("json", "dump"),
    ("csv", "DictWriter.writerow"),
    ("torch", "save"),
    ("numpy", "save"),
    ("numpy", "savez"),
    ("numpy", "savetxt"),
    ("pickle", "dump"),
    ("tqdm.std", "tqdm.refresh"),
    ("tqdm.std", "tqdm.write"),
    ("torch.utils.tensorboard.writer", "FileWriter.add_event"),
    ("wandb.sdk.wandb_run", "Run.log"),
)


def written() -> tuple[int, int] | None:
    """System calls that wrote, and bytes that they were given, of this process so far; None where it is not told."""
    try:
        with open(_IO, "rb", buffering=0) as file:
            lines = file.read(512).split(b"\n")
        counts = {name: int(value) for name, _, value in (line.partition(b": ") for line in lines) if value}
        return counts[b"syscw"], counts[b"wchar"]
    except (OSError, KeyError, ValueError):
        return None


@dataclass(slots=True)
class _Line:
    calls: int
    seconds: list[float]


class WritingLines:
    """Times the calls that write, by the user's line, while ``open``: print, logging, torch.save and their like.

    In those steps alone the functions stand in for torch's and Python's own; a script that had taken the name before
    goes on calling the plain one, and its calls are not seen. Calls of other threads than the step's are not counted.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._lines: dict[tuple[str | None, int | None], list[list[float]]] = {}
        self._step: dict[tuple[str | None, int | None], list[float]] = {}
        self._undo: list[Callable[[], None]] = []
        self._inside = False
        self._thread = 0

    def open(self) -> None:
        """A step begins on this thread; what others write is not the step's."""
        self._step = {}
        self._inside = False
        self._thread = threading.get_ident()
        self._take(builtins, "print")
        for name, path in _WRITERS:
            owner: Any = sys.modules.get(name)
            *outer, last = path.split(".")
            for one in outer:
                owner = getattr(owner, one, None)
            if owner is not None and callable(getattr(owner, last, None)):
                self._take(owner, last)

    def close(self, *, keep: bool = True) -> None:
        """The step has ended; ``keep`` says whether it was a whole one."""
        undo, self._undo = self._undo, []
        for one in undo:
            one()
        if not keep:
            return
        self._steps += 1
        for place, seconds in self._step.items():
            self._lines.setdefault(place, []).append(seconds)

    def _take(self, owner: Any, name: str) -> None:
        # Looked up in the owner's own names: a static method would be bound otherwise.
        plain = vars(owner).get(name)
        if plain is None or isinstance(plain, (staticmethod, classmethod, property)):
            return
        call: Callable[..., Any] = plain

        @functools.wraps(call)
        def timed(*args: Any, **kwargs: Any) -> Any:
            # A script that took this function during a step goes on calling it when the step is over.
            if not self._undo or threading.get_ident() != self._thread or self._inside:
                return call(*args, **kwargs)
            self._inside = True
            place = users_line(sys._getframe(1))
            before = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                self._step.setdefault(place, []).append(time.perf_counter() - before)
                self._inside = False

        setattr(owner, name, timed)

        def undo() -> None:
            if vars(owner).get(name) is timed:
                setattr(owner, name, plain)

        self._undo.append(undo)

    def found(self) -> tuple[WritingLine, ...]:
        """Lines that wrote, the costliest first; calls and seconds are means over the steps looked at."""
        if not self._steps:
            return ()
        lines = []
        for (path, line), steps in self._lines.items():
            each = [second for step in steps for second in step]
            calls = len(each) / self._steps
            lines.append(
                WritingLine(
                    place=Place(path=path, line=line),
                    calls=calls,
                    time_s=interval(calls * median(each), calls * quantile(each, 0.25), calls * quantile(each, 0.75)),
                )
            )
        return tuple(sorted(lines, key=lambda one: -one.time_s.value))


class StepWrites:
    """Writes of timed steps, an entry a step."""

    def __init__(self) -> None:
        self.lines = WritingLines()
        self._calls: list[int] = []
        self._bytes: list[int] = []
        self._before: tuple[int, int] | None = None

    def begin(self) -> None:
        """A timed step is about to begin."""
        self._before = written()

    def end(self) -> None:
        """It has ended."""
        after = written()
        if self._before is not None and after is not None:
            self._calls.append(after[0] - self._before[0])
            self._bytes.append(after[1] - self._before[1])
        self._before = None

    def found(self) -> Writes | None:
        """The median step's writes; None where the system does not tell and no line was seen to write."""
        lines = self.lines.found()
        if not self._calls:
            return Writes(calls=None, bytes=None, lines=lines) if lines else None
        calls, size = _quarters(self._calls), _quarters(self._bytes)
        return Writes(calls=calls.value, bytes=size.value, lines=lines, calls_range=calls, bytes_range=size)


def _quarters(counts: list[int]) -> Interval:
    values = [float(one) for one in counts]
    return interval(median(values), quantile(values, 0.25), quantile(values, 0.75))


def resident_bytes() -> int | None:
    """Memory of this process that is in use now; None where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read(128).split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, ValueError, IndexError):
        return None
