"""What the operating system counts for this process, free to read."""

from __future__ import annotations

import sys
from typing import NamedTuple


class StepUsage(NamedTuple):
    """Minor page faults and involuntary context switches, of all threads."""

    faults: int = 0
    preemptions: int = 0

    def since(self, before: StepUsage) -> StepUsage:
        """What has come since ``before``."""
        return StepUsage(self.faults - before.faults, self.preemptions - before.preemptions)


NO_USAGE = StepUsage()

if sys.platform == "win32":

    def minor_faults() -> int:
        """Minor page faults of this process so far; not told on this system."""
        return 0

    def usage_now() -> StepUsage:
        """Counts of this process so far; not told on this system."""
        return StepUsage()

else:
    from resource import RUSAGE_SELF, getrusage

    def minor_faults() -> int:
        """Minor page faults of this process so far, all threads."""
        return getrusage(RUSAGE_SELF).ru_minflt

    def usage_now() -> StepUsage:
        """Counts of this process so far."""
        usage = getrusage(RUSAGE_SELF)
        return StepUsage(usage.ru_minflt, usage.ru_nivcsw)
