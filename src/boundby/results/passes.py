"""Passes over memory of a function: how often data of one size is read or written, as it is and were it one kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """What a call moves, in units of ``size_bytes``: one pass reads or writes a tensor of that size once.

    ``launches`` are the kernels of the call, ``read`` and ``written`` the passes of all of them together.
    ``fused_read`` and ``fused_written`` are those that one kernel for everything could not do without: what was given
    is read once, what is returned or changed is written once.
    """

    size_bytes: int
    launches: int
    read: float
    written: float
    fused_read: float
    fused_written: float

    @property
    def total(self) -> float:
        """Passes of the call as it is."""
        return self.read + self.written

    @property
    def fused_total(self) -> float:
        """Passes of one kernel for everything."""
        return self.fused_read + self.fused_written

    @property
    def gain(self) -> float | None:
        """How many times as fast one kernel is at most, where memory alone binds; None where nothing is moved."""
        return self.total / self.fused_total if self.fused_total else None
