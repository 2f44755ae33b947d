"""What a demonstration of a lab shows, as plain data: tables, lines and charts, and which of it hold timings.

Whatever holds a timing is marked where it is printed; all else is the same on every run, machine and thread count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from boundby.report.chart import Chart
from boundby.results.lab import LabLine
from boundby.results.lab import LabTable as LabTable

Line = LabLine
"""A sentence or two; ``timed`` where it tells of a timing, or of the machine that was timed."""

LabBlock = Line | LabTable | Chart


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a demonstration found.

    ``about`` says what it does and what to look for, ``blocks`` follow in order (charts are left out on a terminal),
    ``observations`` say what this machine showed. ``data`` are the numbers for JSON, units in the names of its keys.
    """

    about: tuple[str, ...]
    blocks: tuple[LabBlock, ...]
    observations: tuple[Line, ...]
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """A demonstration that was run: its place in the lab from 1, its name for JSON, its title, what it showed."""

    number: int
    name: str
    title: str
    shown: Shown
