"""Freed memory that glibc gives back to the system, whose pages fault anew in the next step, and how it is kept."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping

# Nothing is mapped or given back by itself below 4 GiB; what the heap grows by at a time is 64 MiB.
KEEP_FREED: Mapping[str, str] = {
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(16 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
# Not every fault goes away, and a page that is there already need not be fetched into the caches either: between which
# parts of the faults' time the time that they cost lies.
LEAST_KEPT, MOST_KEPT = 0.6, 1.4


def glibc_as_it_comes() -> bool:
    """Whether memory is glibc's, with its own thresholds: nothing in the environment tells it others."""
    told = (*KEEP_FREED, "GLIBC_TUNABLES", "LD_PRELOAD")
    return platform.libc_ver()[0] == "glibc" and not any(name in os.environ for name in told)
