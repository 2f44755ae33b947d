"""How much memory measuring may take, and how much it took. Does not import torch."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

from boundby.results.language import tr
from boundby.results.machine import Finding
from boundby.results.units import format_size

MOST_MEMORY_BYTES = 2 << 30
MOST_MEMORY_SHARE = 0.25
# torch itself, its workspaces, and the probes whose size does not depend on memory; and what compiling needs besides.
FIXED_MEMORY_BYTES = 560 << 20
COMPILING_MEMORY_BYTES = 320 << 20
# With less than this the sweep over working sets would not leave the caches.
LEAST_MEMORY_BYTES = 32 << 20
_MOST_DATA_BYTES = 1 << 30


def memory_bound(available_bytes: int | None) -> int:
    """The most that measuring is to have in memory at once (bytes): 2 GiB, or a quarter of what there is.

    Args:
        available_bytes: the memory this process can still take; None where unknown.
    """
    if available_bytes is None:
        return MOST_MEMORY_BYTES
    return min(MOST_MEMORY_BYTES, int(available_bytes * MOST_MEMORY_SHARE))


def memory_allowance(available_bytes: int | None, *, compiling: bool = False) -> int:
    """How much memory the probes' data may take (bytes), so that all of it with torch stays within the bound.

    At least 32 MiB, even where torch alone takes more than the bound.

    Args:
        available_bytes: the memory this process can still take; None where unknown.
        compiling: whether functions are compiled too.
    """
    fixed = FIXED_MEMORY_BYTES + (COMPILING_MEMORY_BYTES if compiling else 0)
    return max(LEAST_MEMORY_BYTES, min(_MOST_DATA_BYTES, memory_bound(available_bytes) - fixed))


def peak_memory(root: Path = Path("/")) -> int | None:
    """The most that this process had in memory at once so far (bytes); None where the system does not say.

    Linux's own count of the process comes first: what ``getrusage`` says of a process that another one started holds
    the other's memory too, at the time it was started.

    Args:
        root: where ``proc`` is found.
    """
    try:
        status = (root / "proc/self/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        status = ""
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    if found:
        return int(found.group(1)) * 1024
    # Kilobytes everywhere but on macOS.
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return most or None


def memory_findings(peak_bytes: int | None, available_bytes: int | None) -> tuple[Finding, ...]:
    """Says where measuring took more memory than it was meant to.

    Args:
        peak_bytes: what it had in memory at most; None where unknown.
        available_bytes: what it could take when it began; None where unknown.
    """
    bound = memory_bound(available_bytes)
    if peak_bytes is None or peak_bytes <= bound:
        return ()
    return (
        Finding(
            code="memory-over-bound",
            message=tr(
                "Measuring took {peak} of memory, over the {bound} meant for it, a quarter of what is "
                "there: torch, its workspaces and the smallest set of probes alone need some "
                "{least}.",
                peak=format_size(peak_bytes, digits=2),
                bound=format_size(bound, digits=2),
                least=format_size(FIXED_MEMORY_BYTES, digits=2),
            ),
            advice=tr("Nothing to do where it ended well; give it more memory where it was killed."),
        ),
    )
