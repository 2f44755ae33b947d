"""What other processes do to a measurement: threads that could run and have no core, and who has it instead.

A step of several threads waits for the slowest of them. Where another process holds a core, that thread waits for
milliseconds, and so does the step, however short its ops: such seconds say nothing of the script.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil

_TASKS = "/proc/self/task"


def waiting_s() -> float | None:
    """Seconds that this process's threads could have run and had no core, so far; None where that is not told.

    Source: Linux, Documentation/scheduler/sched-stats: /proc/<pid>/schedstat, the time spent waiting on a runqueue.
    """
    try:
        threads = os.listdir(_TASKS)
    except OSError:  # not Linux
        return None
    total, told = 0, False
    for one in threads:
        # A thread may end meanwhile; a kernel may be built without these counts.
        with suppress(OSError, ValueError, IndexError):
            with open(f"{_TASKS}/{one}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[1])
            told = True
    return total * 1e-9 if told else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreTime:
    """Processor seconds so far: of the whole machine, or of some of its CPUs, and of one process with its children."""

    machine_s: float
    own_s: float


def core_time(process_id: int, affinity: Collection[int] | None = None) -> CoreTime:
    """Processor seconds so far of the machine and of a process with its children.

    Args:
        process_id: of the process; one that has ended counts nothing.
        affinity: the CPUs to look at, those that the process may use; None: all.
    """
    if affinity is None:
        machine_s = _busy_s(psutil.cpu_times())
    else:
        machine_s = math.fsum(_busy_s(one) for cpu, one in enumerate(psutil.cpu_times(percpu=True)) if cpu in affinity)
    own = 0.0
    with suppress(psutil.Error):
        process = psutil.Process(process_id)
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):  # it has ended meanwhile, or is not the user's
                spent = one.cpu_times()
                own += spent.user + spent.system
    return CoreTime(machine_s=machine_s, own_s=own)


def _busy_s(times: Any) -> float:
    idle = times.idle + getattr(times, "iowait", 0.0)
    # A guest's seconds are among the user's already.
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return float(math.fsum(times) - idle - guests)


def cores_of_others(before: CoreTime, after: CoreTime, wall_s: float) -> float:
    """How many cores other processes kept busy between two readings.

    Args:
        before: at the begin.
        after: at the end.
        wall_s: seconds between them.
    """
    others = (after.machine_s - before.machine_s) - (after.own_s - before.own_s)
    return max(0.0, others) / max(wall_s, 1e-9)
