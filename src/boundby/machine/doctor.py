"""What could spoil a measurement here: all checks in order, what spoils most first. Does not import torch."""

from __future__ import annotations

import platform
from collections.abc import Callable

from boundby.machine.checks import cores, load, memory, software, speed
from boundby.machine.checks.surroundings import Surroundings, read_standing, read_surroundings
from boundby.machine.describe import cpu_model, now_text
from boundby.results.doctor import Diagnosis, Examination, finding_of
from boundby.results.machine import Finding

CHECKS: tuple[Callable[[Surroundings], Diagnosis], ...] = (
    cores.check_threads,
    load.check_load,
    load.check_stolen,
    cores.check_quota,
    load.check_throttled,
    memory.check_memory,
    memory.check_swap,
    software.check_torch_build,
    software.check_python,
    software.check_switches,
    software.check_preloaded,
    software.check_tracer,
    software.check_instructions,
    software.check_accelerator,
    cores.check_openmp,
    cores.check_pools,
    speed.check_steadiness,
    speed.check_heat,
    speed.check_battery,
    speed.check_governor,
    speed.check_clock,
    cores.check_siblings,
    cores.check_nodes,
    cores.check_affinity,
    cores.check_binding,
    cores.check_priority,
    memory.check_huge_pages,
    software.check_denormals,
    software.check_compiler,
    speed.check_clock_source,
    speed.check_virtual,
)

# What a single look tells, and what makes the times of any script untrue.
_AT_ONCE = (
    cores.check_quota,
    memory.check_memory,
    software.check_python,
    software.check_switches,
    software.check_preloaded,
    software.check_tracer,
    speed.check_battery,
    cores.check_priority,
)


def examine(surroundings: Surroundings | None = None) -> Examination:
    """Looks for all that could spoil a measurement in this process's surroundings.

    Args:
        surroundings: what to look at; where None, read now, which takes two or three seconds and loads torch in a
            process of its own.
    """
    here = read_surroundings() if surroundings is None else surroundings
    return Examination(
        examined_at=now_text(),
        cpu=cpu_model(here.root),
        os=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        torch=None if isinstance(here.stack, str) else here.stack.torch,
        checks=tuple(check(here) for check in CHECKS),
    )


def standing_findings(surroundings: Surroundings | None = None) -> tuple[Finding, ...]:
    """The problems that can be seen at once and make the times of any script untrue, for those who measure one.

    Takes milliseconds: nothing is waited for or timed, and torch is not asked.

    Args:
        surroundings: what to look at; this process's own where None.
    """
    here = read_standing() if surroundings is None else surroundings
    found = (finding_of(check(here)) for check in _AT_ONCE)
    return tuple(finding for finding in found if finding is not None)
