"""What the operating system counts for this process, free to read."""

from __future__ import annotations

import sys

if sys.platform == "win32":

    def minor_faults() -> int:
        """Minor page faults of this process so far; not told on this system."""
        return 0

    def faults_and_preemptions() -> tuple[int, int]:
        """Minor page faults and involuntary context switches so far; not told on this system."""
        return 0, 0

else:
    from resource import RUSAGE_SELF, getrusage

    def minor_faults() -> int:
        """Minor page faults of this process so far, all threads."""
        return getrusage(RUSAGE_SELF).ru_minflt

    def faults_and_preemptions() -> tuple[int, int]:
        """Minor page faults and involuntary context switches of this process so far, all threads."""
        usage = getrusage(RUSAGE_SELF)
        return usage.ru_minflt, usage.ru_nivcsw
