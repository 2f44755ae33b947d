"""The machine: a description and its measured ceilings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from boundby.results.interval import Interval
from boundby.results.showing import Shown

Source = Literal["measured", "modelled", "datasheet"]
Mode = Literal["quick", "default", "full"]
CeilingKind = Literal["matmul", "bandwidth", "function", "overhead", "launch", "anchor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """One limit of a machine, as a stack reaches it.

    ``unit`` is ``flop/s`` (matmul), ``byte/s`` (bandwidth, and matrix-vector products bound by it) or ``s`` (function:
    seconds per element; overhead and launch: seconds per op; anchor: seconds per probe). ``low`` and ``high`` are to
    hold the value that another measuring finds, nine times of ten on a quiet machine (main memory on several threads:
    eight of ten): the spread of the samples, and what 20 runs were seen to differ by on one virtual machine of two
    cores, for want of others (of an accelerator: the spread of the samples alone). ``own`` is the spread of the samples
    alone, of this run at its moment; None where that is ``low`` and ``high``. ``shape`` is (batch, m, n, k)
    for a matmul; ``size_bytes`` the working set of a bandwidth or function probe.

    ``arguments`` says in words what a function was given where that is not the usual: those of a slow range. Such a
    ceiling has a name of its own, as ``exp/denormal``.

    ``samples`` are values the ceiling would have by single windows, in its unit and in the order they were taken; of
    more than 25 windows those at even ranks from the fastest to the slowest, so that quantiles hold. ``windows`` is how
    many there were. ``unsteady``: the median window took over 1.25 times the fastest one. ``contradicted``: the value
    is above what another ceiling of this machine allows.
    """

    kind: CeilingKind
    name: str
    dtype: str | None = None
    threads: int = 1
    stack: str = "torch"
    size_bytes: int | None = None
    shape: tuple[int, ...] | None = None
    arguments: str | None = None
    value: float
    low: float
    high: float
    unit: Literal["flop/s", "byte/s", "s"]
    source: Source = "measured"
    unsteady: bool = False
    contradicted: bool = False
    windows: int = 0
    samples: tuple[float, ...] = ()
    own: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDescription:
    """What this computer is, as far as it can be read. Unknown is None."""

    cpu: str | None
    usable_cores: int
    logical_cores: int | None
    memory_bytes: int | None
    memory_limit_bytes: int | None
    os: str
    python: str
    torch: str | None
    threads: int
    affinity: tuple[int, ...] | None
    device: str = "cpu"
    device_name: str | None = None
    measured_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that could spoil a measurement, or that a ceiling cannot show.

    ``about`` says which of the two. ``path`` and ``line`` are the source line it is about, ``time_s`` the seconds of a
    step that it costs; None is unknown, or that there is no such line or cost.
    """

    code: str
    message: str
    advice: str = ""
    about: Literal["measurement", "script"] = "measurement"
    path: str | None = None
    line: int | None = None
    time_s: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """How the ceilings were measured.

    ``seconds`` from the start of the process to the last window. ``unconfirmed`` ceilings still moved when the time was
    up. ``peak_memory_bytes`` is the most that the measuring process had in memory at once, torch included; None where
    the system does not say. ``probes`` counts up as what is measured, and how, changes; None in files from before that.
    """

    mode: Mode
    seconds: float
    rounds: int
    unconfirmed: int
    peak_memory_bytes: int | None
    probes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Machine(Shown):
    """A description, its ceilings and what was found while measuring them."""

    description: MachineDescription
    ceilings: tuple[Ceiling, ...]
    findings: tuple[Finding, ...] = ()
    measuring: Measuring | None = None

    def __repr__(self) -> str:
        about = self.description
        return f"<boundby.Machine: {about.cpu or 'processor unknown'}, {len(self.ceilings)} ceilings>"

    def without_samples(self) -> Machine:
        """The same without single samples, which are most of a machine file."""
        if not any(one.samples for one in self.ceilings):
            return self
        return replace(self, ceilings=tuple(replace(one, samples=()) for one in self.ceilings))


MAIN_MEMORY_BYTES = 32 << 20
"""From this working set on a bandwidth is main memory's, or that of a last cache shared with others."""


def reaches_main_memory(machine: Machine) -> bool:
    """Whether a bandwidth of main memory was measured: with little memory to take, working sets end in a cache."""
    return any((one.size_bytes or 0) >= MAIN_MEMORY_BYTES for one in machine.ceilings if one.kind == "bandwidth")
