"""How long calls take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTime:
    """Seconds per call: the fastest round, the median one and the slowest, each of ``loops`` calls in a row.

    ``rounds_s`` are all rounds in the order they were taken. ``cpu_share`` is the processor time of the process, all
    its threads together, over the time of the rounds: of work in one thread, others took of the core what is missing
    to 1.
    """

    fastest_s: float
    median_s: float
    slowest_s: float
    loops: int
    rounds_s: tuple[float, ...] = ()
    cpu_share: float | None = None
