"""The C library's allocator told to keep freed memory: pages that a step writes are then there already."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from typing import Any

from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.freed_memory import KEEP_FREED, LEAST_KEPT, MOST_KEPT, glibc_as_it_comes
from boundby.remedies.predicting import predicted_from_saving
from boundby.results.language import tr
from boundby.results.units import format_time

NAME = "allocator"
CHANGES_NUMBERS = False
ENVIRONMENT: Mapping[str, str] = KEEP_FREED
# Fewer faults than these a step cost nothing that could be seen.
FEW_FAULTS = 64


def title() -> str:
    """What it does, for people."""
    return tr("keep freed memory (glibc's mmap and trim thresholds)")


def _change() -> str:
    settings = " ".join(f"{name}={value}" for name, value in ENVIRONMENT.items())
    return tr("set {settings} in the script's environment", settings=settings)


def predict(evidence: Evidence) -> Prediction:
    """The step without its page faults: their number is counted, the cost of one is a ceiling."""
    faults = evidence.report.page_faults
    if platform.libc_ver()[0] != "glibc":
        return NotApplicable(tr("the C library here is not glibc"))
    if not glibc_as_it_comes():
        return NotApplicable(tr("the allocator is told something already"))
    if faults is None or faults.per_step < FEW_FAULTS:
        return NotApplicable(tr("a step hardly touches fresh memory"))
    if faults.time_s is None:
        return CannotTell(tr("what a page fault costs here is not known"), change=_change())
    # No more of a step than its split has for memory that is made anew, at most with what nothing explains on top: not
    # all faults of a step were seen in the windows of its ops.
    report = evidence.report
    step, allocation = report.step.time_s.median, report.overhead_parts.allocation
    saved, least = (min(part * faults.time_s, allocation * step) for part in (1.0, LEAST_KEPT))
    most = min(MOST_KEPT * faults.time_s, (allocation + report.split.unexplained.value) * step)
    return predicted_from_saving(
        evidence.report,
        saved,
        least,
        most,
        reason=tr(
            "{faults} page faults a step take {time} of it; memory that is kept has none",
            faults=f"{faults.per_step:,.0f}",
            time=format_time(faults.time_s),
        ),
        change=_change(),
        changes_numbers=CHANGES_NUMBERS,
    )


def apply(effects: Effects) -> None:
    """The environment did it, before the process began; here it is looked at alone."""
    if all(os.environ.get(name) == value for name, value in ENVIRONMENT.items()):
        effects.saw(tr("glibc told to keep freed memory"))
    else:
        effects.cannot(tr("the environment was changed on the way"))


def wrap(step: Callable[[], Any], effects: Effects) -> None:
    """A process's allocator is chosen when it begins."""
