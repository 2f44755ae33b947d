"""What the processors did up to a moment, as the system counts it; two moments give what happened between them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from boundby.machine.describe import read_text


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTicks:
    """Clock ticks of one CPU since the system started: at work, taken by the host for other guests, and in all."""

    busy: int
    stolen: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTicks:
    """A process's name, the process that started it, and the processor time (ticks) that it has used."""

    name: str
    parent: int
    used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """The system's counters at one moment; what could not be read is empty or None."""

    cpus: Mapping[int, CpuTicks]
    processes: Mapping[int, ProcessTicks]
    swapped_pages: int | None
    heat_events: int | None


def read_activity(root: Path = Path("/")) -> Activity:
    """The counters as they stand now.

    Args:
        root: where ``proc`` and ``sys`` are found.
    """
    return Activity(
        cpus=_cpus(read_text(root / "proc/stat") or ""),
        processes=_processes(root / "proc"),
        swapped_pages=_swapped_pages(read_text(root / "proc/vmstat") or ""),
        heat_events=heat_events(root),
    )


def heat_events(root: Path) -> int | None:
    """How often cores or packages were slowed by heat since the system started; None where nothing counts it."""
    counts: dict[tuple[str, ...], int] = {}
    for path in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/*_throttle_count"):
        count = (read_text(path) or "").strip()
        topology = path.parent.parent / "topology"
        package, core = (
            (read_text(topology / name) or path.parent.parent.name).strip()
            for name in ("physical_package_id", "core_id")
        )
        # CPUs of one core, and cores of one package, show the same events again.
        place = (path.name, package) if path.name.startswith("package") else (path.name, package, core)
        if count.isdecimal():
            counts[place] = max(counts.get(place, 0), int(count))
    return sum(counts.values()) if counts else None


def family(processes: Mapping[int, ProcessTicks], pid: int) -> set[int]:
    """A process and all that it started, and what those started, as far as they still run."""
    found, more = set(), {pid}
    while more:
        found |= more
        more = {one for one, process in processes.items() if process.parent in more} - found
    return found


def _cpus(stat: str) -> dict[int, CpuTicks]:
    found = {}
    for match in re.finditer(r"^cpu(\d+) +(.+)$", stat, re.MULTILINE):
        fields = [int(text) for text in match.group(2).split()[:8] if text.isdecimal()]
        if len(fields) < 5:
            continue
        # user, nice, system, idle, iowait, irq, softirq, steal; guests' time is part of user and nice.
        user, nice, system, idle, waiting, *rest = (*fields, 0, 0, 0)[:8]
        interrupts, stolen = rest[0] + rest[1], rest[2]
        busy = user + nice + system + interrupts
        found[int(match.group(1))] = CpuTicks(busy=busy, stolen=stolen, total=busy + stolen + idle + waiting)
    return found


def _processes(proc: Path) -> dict[int, ProcessTicks]:
    found = {}
    for path in proc.glob("[0-9]*/stat"):
        # The name stands in brackets and may hold blanks and brackets of its own.
        start, closed, rest = (read_text(path) or "").rpartition(")")
        fields = rest.split()
        if closed and len(fields) > 12 and path.parent.name.isdecimal():
            name = start.partition("(")[2]
            parent, user, system = (int(fields[place]) for place in (1, 11, 12))
            found[int(path.parent.name)] = ProcessTicks(name=name, parent=parent, used=user + system)
    return found


def _swapped_pages(vmstat: str) -> int | None:
    counts = re.findall(r"^pswp(?:in|out) (\d+)$", vmstat, re.MULTILINE)
    return sum(map(int, counts)) if counts else None
