"""Checks of memory: enough of it, none of it on disk, and in pages of which size."""

from __future__ import annotations

import re

from boundby.machine.checks.surroundings import Surroundings
from boundby.machine.describe import group_files, memory_limit
from boundby.results.doctor import Diagnosis, fine, problem, unread
from boundby.results.language import tr
from boundby.results.machine import Finding
from boundby.results.units import format_size

_KIB = 1024
# `boundby machine` and a small training script need about this much.
_LITTLE = 2 << 30
_SMALL_SHARE = 0.1
# Pages that nobody uses go to disk on a healthy machine too; more than this share of memory means that it was short.
_SWAPPED_SHARE = 0.1

_DEFER = "echo defer+madvise | sudo tee /sys/kernel/mm/transparent_hugepage/defrag"
_ENABLE = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"


def check_memory(here: Surroundings) -> Diagnosis:
    """Whether much memory is left, on the machine and within the control group's limit."""
    name = tr("memory")
    total, available = _meminfo(here, "MemTotal"), _meminfo(here, "MemAvailable")
    limit, room = memory_limit(here.root), _group_room(here)
    if available is None or total is None:
        return unread(name, tr("/proc/meminfo could not be read"))
    if limit is not None and limit < total and room is None:
        return unread(
            name, tr("a limit of {limit} holds, and what is used of it could not be read", limit=format_size(limit))
        )
    grouped = room is not None and room[1] < available
    whole, left = room if room is not None and grouped else (total, available)
    sizes = {"left": format_size(left), "whole": format_size(whole)}
    told = (
        tr("{left} left of the control group's {whole}", **sizes)
        if grouped
        else tr("{left} left of the machine's {whole}", **sizes)
    )
    if left >= _LITTLE and left >= _SMALL_SHARE * whole:
        return fine(name, told)
    return problem(
        name,
        Finding(
            code="memory-low",
            message=tr("Little memory is left: {told}.", told=told),
            advice=tr("Raise the limit of the container, or give it less to hold.")
            if grouped
            else tr("End what holds memory, or raise the limit of the container."),
        ),
        tr("Probes use smaller arrays than they should; the system drops cached files, swaps or ends the process."),
    )


def check_swap(here: Surroundings) -> Diagnosis:
    """Whether memory lies on disk, and whether it moves there now."""
    name = tr("swap")
    size, free, total = _meminfo(here, "SwapTotal"), _meminfo(here, "SwapFree"), _meminfo(here, "MemTotal")
    if size is None or free is None or total is None:
        return unread(name, tr("/proc/meminfo could not be read"))
    before = here.before.swapped_pages if here.before is not None else None
    after = here.after.swapped_pages if here.after is not None else None
    moved = after - before if before is not None and after is not None else 0
    used = size - free
    if moved <= 0 and used <= _SWAPPED_SHARE * total:
        return fine(
            name,
            tr("{used} of {size} in use", used=format_size(used), size=format_size(size))
            if size
            else tr("there is none"),
        )
    moving = tr(", {moved} pages moved in the last half second", moved=f"{moved:,}") if moved > 0 else ""
    return problem(
        name,
        Finding(
            code="swapping",
            message=tr("{used} of memory lie in swap{moving}.", used=format_size(used), moving=moving),
            advice=tr("End what holds memory, or use less: a smaller batch, fewer worker processes."),
        ),
        tr("A page that comes back from disk costs as much as a thousand ops."),
    )


def check_huge_pages(here: Surroundings) -> Diagnosis:
    """Which memory may come in huge pages, and whether a process waits until there is one."""
    name = tr("huge pages")
    enabled = _chosen(here.read("sys/kernel/mm/transparent_hugepage/enabled"))
    defrag = _chosen(here.read("sys/kernel/mm/transparent_hugepage/defrag"))
    if enabled is None:
        return unread(name, tr("no /sys/kernel/mm/transparent_hugepage"))
    if enabled == "always" and defrag == "always":
        return problem(
            name,
            Finding(
                code="huge-pages-stall",
                message=tr(
                    "Huge pages are given to all memory, and made at the moment when it is first touched (enabled "
                    "and defrag: always)."
                ),
                advice=_DEFER,
            ),
            tr("The system may stop an op for milliseconds to move memory about until a huge page is free."),
        )
    if enabled == "never":
        return problem(
            name,
            Finding(
                code="huge-pages-off",
                message=tr("Huge pages are switched off (enabled: never)."),
                advice=_ENABLE,
            ),
            tr(
                "Fresh memory is faulted in by 4 KiB, 512 times as many faults as with huge pages: large tensors "
                "made at every step cost more than they could."
            ),
        )
    asks = here.environ.get("THP_MEM_ALLOC_ENABLE") == "1"
    if enabled == "always":
        return fine(name, tr("for all memory"))
    if asks:
        return fine(name, tr("for memory that asks, as torch's does now"))
    return fine(name, tr("for memory that asks (torch asks with THP_MEM_ALLOC_ENABLE=1)"))


def _meminfo(here: Surroundings, name: str) -> int | None:
    found = re.search(rf"^{name}:\s+(\d+) kB", here.read("proc/meminfo") or "", re.MULTILINE)
    return int(found.group(1)) * _KIB if found else None


def _group_room(here: Surroundings) -> tuple[int, int] | None:
    """Of the control groups with a limit, the one with least left: limit and what is left (bytes).

    Cached files count as left, since the system gives them back when asked.
    """
    rooms = []
    for limit_name, usage_name, cached, controller in (
        ("memory.max", "memory.current", "inactive_file", None),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "memory"),
    ):
        limits, usages, stats = (
            group_files(here.root, name, controller=controller) for name in (limit_name, usage_name, "memory.stat")
        )
        if len(limits) != len(usages):
            continue
        for place, (limit, usage) in enumerate(zip(limits, usages, strict=True)):
            if limit.strip().isdecimal() and usage.strip().isdecimal():
                found = re.search(rf"^{cached} (\d+)$", stats[place] if len(stats) == len(limits) else "", re.MULTILINE)
                used = int(usage) - (int(found.group(1)) if found else 0)
                rooms.append((int(limit), max(0, int(limit) - used)))
    return min(rooms, key=lambda room: room[1], default=None)


def _chosen(text: str | None) -> str | None:
    """The word in brackets: the kernel lists all choices and marks the one in force."""
    found = re.search(r"\[(\S+)\]", text or "")
    return found.group(1) if found else None
