"""The machine: a description and its measured ceilings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Source = Literal["measured", "modelled", "datasheet"]
CeilingKind = Literal["matmul", "bandwidth", "function", "overhead", "launch", "anchor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """One limit of a machine, as a stack reaches it.

    ``unit`` is ``flop/s`` (matmul), ``byte/s`` (bandwidth, and matrix-vector products bound by it) or ``s`` (function:
    seconds per element; overhead and launch: seconds per op; anchor: seconds per probe). ``low`` and ``high`` bound the
    value over the samples taken. ``shape`` is (batch, m, n, k) for a matmul; ``size_bytes`` the working set of a
    bandwidth or function probe.
    """

    kind: CeilingKind
    name: str
    dtype: str | None = None
    threads: int = 1
    stack: str = "torch"
    size_bytes: int | None = None
    shape: tuple[int, ...] | None = None
    value: float
    low: float
    high: float
    unit: Literal["flop/s", "byte/s", "s"]
    source: Source = "measured"


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
    measured_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that could spoil a measurement, or that a ceiling cannot show."""

    code: str
    message: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A description, its ceilings and what was found while measuring them."""

    description: MachineDescription
    ceilings: tuple[Ceiling, ...]
    findings: tuple[Finding, ...] = ()
