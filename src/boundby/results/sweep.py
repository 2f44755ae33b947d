"""Time against one argument of a factory, and what it fits; as a file, schema ``boundby.sweep``.

History:
- 1: ``target``, ``argument``, ``backward``, ``threads``, ``tool``, ``points``, ``fit`` and ``findings``.

A change that an older boundby could misread raises VERSION; a version that is not known is refused by its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from boundby.results.interval import Interval
from boundby.results.machine import Finding
from boundby.results.report import Tool

SCHEMA = "boundby.sweep"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One value of the argument: seconds a call, the median of windows with their middle half, and the windows."""

    at: int
    time_s: Interval
    samples_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthFit:
    """Time as ``fixed_s + each_s * n ** power``, with 95% intervals.

    ``fixed_s`` are seconds that a call takes whatever the argument; ``each_s`` seconds for each n ** power.
    ``rate_per_s`` is 1 / ``each_s``, the rate that is approached where the argument is large, of n ** power a second.
    ``half_at`` is the argument at which half of that rate is reached, where both parts take as long: Hockney's n_1/2.
    Both are None where time does not grow with the argument. ``largest_miss`` is by which share of a measured time the
    fit is off where it is most so, at ``missed_at``.
    """

    power: int
    fixed_s: Interval
    each_s: Interval
    rate_per_s: Interval | None
    half_at: Interval | None
    largest_miss: float
    missed_at: int

    def time_s(self, at: float) -> float:
        """Seconds that the fit gives a call at this value of the argument."""
        return self.fixed_s.value + self.each_s.value * at**self.power


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What `boundby sweep` measured: ``target`` is what was built, ``argument`` what was varied."""

    target: str
    argument: str
    backward: bool
    threads: int
    points: tuple[SweepPoint, ...]
    fit: GrowthFit
    tool: Tool | None = None
    findings: tuple[Finding, ...] = ()

    def to_json(self) -> str:
        """The sweep as JSON text, schema ``boundby.sweep``."""
        return encode_sweep(self).decode()


def encode_sweep(sweep: Sweep) -> bytes:
    """The sweep as indented UTF-8 JSON, without a final newline."""
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(sweep)
    return msgspec.json.format(msgspec.json.encode({"schema": SCHEMA, "version": VERSION} | plain), indent=2)
