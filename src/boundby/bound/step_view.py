"""The ops of a step with their places and the seconds that they take of the unwatched step."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from boundby.bound.split import Division
from boundby.results.interval import Interval, interval
from boundby.results.language import tr
from boundby.results.trace import OpSite, Trace
from boundby.results.units import format_percent, format_time_band

Floats = np.ndarray[Any, np.dtype[np.float64]]
Whole = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """Columns over the ops of a step in order, empty where none were seen.

    ``site`` indexes ``sites``. ``window`` and ``gap`` (before the op) are seconds of the bare step, ``work`` the part
    of the window beyond dispatch and page faults; None where ops were not timed. ``doubt`` is by what share seconds may
    be off, as watched and bare steps compare; ``step_s`` the bare step's seconds.
    """

    sites: tuple[OpSite, ...]
    site: Whole
    window: Floats | None
    gap: Floats | None
    work: Floats | None
    step_s: float
    doubt: float
    device: str

    @staticmethod
    def of(trace: Trace, division: Division) -> StepView:
        """The step of a trace as it was divided."""
        step_s = division.time_s.median
        known = division.reconciliation
        doubt = 0.0 if known is None else min(1.0, max(abs(known.low - 1.0), abs(known.high - 1.0)))
        site: Whole = np.zeros(0, dtype=np.int64)
        window = gap = work = None
        if trace.ops is not None:
            site = np.frombuffer(trace.ops.site, dtype=np.uint32).astype(np.int64)
            if division.times is not None:
                factor = division.scale * step_s
                gaps = np.frombuffer(trace.ops.gap_s, dtype=np.float64)
                window = division.times.window * factor
                gap = np.maximum(np.nan_to_num(gaps), 0.0) * factor
                times = division.times
                work = np.maximum(times.window - times.dispatch - times.allocation, 0.0) * factor
        return StepView(
            sites=trace.sites,
            site=site,
            window=window,
            gap=gap,
            work=work,
            step_s=step_s,
            doubt=doubt,
            device=trace.device,
        )

    def where(self, holds: Callable[[OpSite], bool]) -> Whole:
        """Positions of the ops whose site holds."""
        if not len(self.site):
            return self.site
        return np.flatnonzero(np.array([holds(one) for one in self.sites])[self.site])

    def at(self, position: int) -> OpSite:
        """The site of an op of the step."""
        return self.sites[int(self.site[position])]

    def seconds(self, at: Whole, *, gaps: Whole | None = None) -> Interval | None:
        """What the ops at these positions take of the step, with the gaps before others; None where not timed."""
        if self.window is None or self.gap is None:
            return None
        total = float(self.window[at].sum()) + (float(self.gap[gaps].sum()) if gaps is not None else 0.0)
        return self._doubted(total)

    def work_seconds(self, at: Whole) -> Interval | None:
        """What the ops at these positions take beyond dispatch and page faults; None where not timed."""
        return None if self.work is None else self._doubted(float(self.work[at].sum()))

    def _doubted(self, seconds: float) -> Interval:
        return interval(seconds, seconds * (1.0 - self.doubt), seconds * (1.0 + self.doubt))

    def worth(self, cost: Interval | None, least: float) -> bool:
        """Whether a known cost is at least this share of the step."""
        return cost is not None and self.step_s > 0 and cost.value >= least * self.step_s

    def told(self, cost: Interval | None) -> str:
        """A cost in words: of a step, and which share of it."""
        if cost is None:
            return tr("what it costs is not known")
        share = cost.value / self.step_s if self.step_s > 0 else None
        return tr(
            "{time} a step, {share} of it",
            time=format_time_band(cost.value, cost.low, cost.high),
            share=format_percent(share),
        )


def whereabouts(path: str | None, line: int | None) -> str:
    """The beginning of a message about a line: ``train.py:12: ``; nothing where it is not known."""
    if not path:
        return ""
    return f"{os.path.basename(path)}:{line}: " if line else f"{os.path.basename(path)}: "
