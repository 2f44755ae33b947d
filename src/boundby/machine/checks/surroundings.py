"""All that the checks look at, read once: so that a check is a function of it, and a test can make it up."""

from __future__ import annotations

import os
import platform
import re
import sys
import sysconfig
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from boundby.machine.checks.activity import Activity, read_activity
from boundby.machine.checks.stack_facts import StackFacts, read_stack
from boundby.machine.describe import process_affinity, read_text
from boundby.results.language import tr
from boundby.timing.clock import Clock, clock_resolution_ns, monotonic_ns

# Long enough for a process that uses a tenth of a core to show as five ticks of the system's clock.
_WATCH_S = 0.5
_SPIN_S = 0.25
# Some half a millisecond of Python: long enough for the clock, short enough that a switch of processes shows.
_LOOP_TURNS = 20_000
_CLOCK_READS = 1000
_CLOCK_BATCHES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The Python that scripts run in: debug build, development mode, and whether C++ code can be built against it."""

    debug_build: bool = False
    dev_mode: bool = False
    unoptimized: bool = False
    headers: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedProbe:
    """A fixed loop, run again and again on one CPU.

    ``loops_ns`` are its times in order, ``cpu`` where it ran at its end, ``clock_hz`` what the system said of that
    CPU's clock right after, ``read_ns`` what a reading of the clock costs, ``step_ns`` the smallest step it was seen to
    make.
    """

    loops_ns: tuple[int, ...]
    cpu: int | None
    clock_hz: float | None
    read_ns: float
    step_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a measurement would run in. What could not be read is None; of the stack, ``stack`` then says why.

    Attributes:
        root: where ``proc``, ``sys`` and ``etc`` are found.
        environ: the environment variables a script would have.
        affinity: the CPUs this process may run on.
        niceness: this process's priority, 0 the usual, up to 19 the lowest.
        interpreter: the Python that scripts run in.
        before: what the processors had done before a stretch in which this process slept.
        after: what they had done after it.
        speed: a loop of known work, timed.
        stack: torch and its libraries, or why they could not be asked.
    """

    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[int, ...] | None = None
    niceness: int | None = None
    interpreter: Interpreter = field(default_factory=Interpreter)
    before: Activity | None = None
    after: Activity | None = None
    speed: SpeedProbe | None = None
    stack: StackFacts | str = field(default_factory=lambda: tr("it was not asked"))

    def read(self, path: str) -> str | None:
        """A file's text below ``root``, without blanks at its ends; None where it cannot be read."""
        text = read_text(self.root / path)
        return None if text is None else text.strip()

    def cpus(self) -> tuple[int, ...]:
        """The CPUs this process may run on; all that are online where the system does not say."""
        return self.affinity or self.online() or tuple(range(os.cpu_count() or 1))

    def online(self) -> tuple[int, ...]:
        """The CPUs of this machine that are online; empty where unknown."""
        return parse_cpu_list(self.read("sys/devices/system/cpu/online") or "")


def read_standing() -> Surroundings:
    """What can be read of this process's surroundings at once: without waiting, timing anything or asking torch."""
    return Surroundings(
        environ=dict(os.environ),
        affinity=process_affinity(),
        niceness=os.getpriority(os.PRIO_PROCESS, 0) if hasattr(os, "getpriority") else None,
        interpreter=_read_interpreter(),
    )


def read_surroundings() -> Surroundings:
    """Everything about this process's surroundings, in two or three seconds, most of them the loading of torch."""
    standing = read_standing()
    # Torch is loaded last: its work must not be taken for the load of others.
    before = read_activity(standing.root)
    time.sleep(_WATCH_S)
    after = read_activity(standing.root)
    return replace(
        standing,
        before=before,
        after=after,
        speed=measure_speed(standing.root),
        stack=read_stack(standing.environ),
    )


def measure_speed(root: Path, *, clock: Clock = monotonic_ns, spin_s: float = _SPIN_S) -> SpeedProbe:
    """Times a fixed loop for a while, and the clock itself.

    Args:
        root: where ``proc`` and ``sys`` are found.
        clock: gives nanoseconds.
        spin_s: how long to go on, seconds.
    """
    loops = []
    begin = now = clock()
    while now - begin < spin_s * 1e9:
        before = now
        _fixed_work()
        now = clock()
        loops.append(now - before)
    cpu, clock_hz = _clock_now(root)
    batches = []
    for _ in range(_CLOCK_BATCHES):
        before = clock()
        for _ in range(_CLOCK_READS):
            clock()
        batches.append((clock() - before) / _CLOCK_READS)
    return SpeedProbe(
        loops_ns=tuple(loops),
        cpu=cpu,
        clock_hz=clock_hz,
        read_ns=min(batches),
        step_ns=clock_resolution_ns(clock),
    )


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """The CPUs of a list as the kernel writes it: ``0-2,5`` is 0, 1, 2, 5."""
    found: list[int] = []
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        found.extend(range(int(first), int(last or first) + 1))
    return tuple(found)


def _fixed_work() -> int:
    total = 0
    for turn in range(_LOOP_TURNS):
        total += turn
    return total


def _clock_now(root: Path) -> tuple[int | None, float | None]:
    """The CPU that this process runs on at the moment, and its clock (Hz)."""
    fields = (read_text(root / "proc/self/stat") or "").rpartition(")")[2].split()
    if len(fields) < 37 or not fields[36].isdecimal():
        return None, None
    cpu = int(fields[36])
    text = (read_text(root / f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq") or "").strip()
    return cpu, int(text) * 1e3 if text.isdecimal() else None


def _read_interpreter() -> Interpreter:
    include = sysconfig.get_path("include")
    return Interpreter(
        debug_build=hasattr(sys, "gettotalrefcount"),
        dev_mode=sys.flags.dev_mode,
        unoptimized=platform.python_implementation() == "CPython" and _unoptimized(),
        headers=(Path(include) / "Python.h").is_file() if include else None,
    )


def _unoptimized() -> bool:
    """Whether the compiler was told, last of all, not to optimise this Python."""
    levels = re.findall(r"(?:^| )-O(\S*)", str(sysconfig.get_config_var("PY_CFLAGS") or ""))
    return bool(levels) and levels[-1] == "0"
