"""Checks of what else uses the processor, and of what keeps this process from it."""

from __future__ import annotations

import os
import re

from boundby.machine.checks.activity import Activity, family
from boundby.machine.checks.surroundings import Surroundings
from boundby.machine.describe import group_files
from boundby.results.doctor import Diagnosis, fine, problem, unread
from boundby.results.language import tr, trn
from boundby.results.machine import Finding
from boundby.results.units import format_percent

# Of one core. The system counts in hundredths of a second, and its own small jobs stay below this.
_LOAD = 0.15
_STOLEN = 0.01
_THROTTLED = 0.01
_NAMED = 3
# Of one core: a process below this is not worth a name.
_WORTH_NAMING = 0.05


def check_load(here: Surroundings) -> Diagnosis:
    """Whether other processes used the processor between the two moments; this one and what it started do not count."""
    name = tr("other load")
    used = _cores_busy(here)
    average = _load_average(here)
    if used is None and average is None:
        return unread(name, tr("neither /proc/stat nor a load average could be read"))
    told_average = "" if average is None else tr("; load average {average} over a minute", average=f"{average:.2f}")
    cpus = len(here.cpus())
    if used is None:
        return unread(name, tr("/proc/stat could not be read{told_average}", told_average=told_average))
    if used < _LOAD:
        return fine(
            name,
            tr(
                "{used} of {CPUs} in use{told_average}",
                used=f"{used:.2f}",
                CPUs=trn("{count} CPU", "{count} CPUs", cpus),
                told_average=told_average,
            ),
        )
    return problem(
        name,
        Finding(
            code="other-load",
            message=tr(
                "Other processes use {used} of {CPUs} now{told_average}{busiest}.",
                used=f"{used:.2f}",
                CPUs=trn("{count} CPU", "{count} CPUs", cpus),
                told_average=told_average,
                busiest=_told_busiest(here),
            ),
            advice=tr(
                "Stop them, or wait until they are done. top shows what runs; in a container, look from the host."
            ),
        ),
        tr(
            "They take the processor from steps in the middle, empty their caches and use their memory "
            "bandwidth. One such process can turn a gain into a loss."
        ),
    )


def check_stolen(here: Surroundings) -> Diagnosis:
    """Whether the host gives this virtual machine's processors to others."""
    name = tr("steal time")
    share = _stolen_share(here)
    since_start = _stolen_since_start(here)
    if share is None or since_start is None:
        return unread(name, tr("/proc/stat could not be read"))
    told = tr(
        "{share} now, {since_start} since the system started",
        share=format_percent(share),
        since_start=format_percent(since_start),
    )
    if max(share, since_start) < _STOLEN:
        return fine(name, told)
    return problem(
        name,
        Finding(
            code="time-stolen",
            message=tr("The host gives time of this machine's processors to others: {told}.", told=told),
            advice=tr("Take a machine with processors of its own, or a quiet hour; compare in turns only."),
        ),
        tr("Steps stop in the middle without anything in this machine to show for it."),
    )


def check_throttled(here: Surroundings) -> Diagnosis:
    """Whether the control group's quota has stopped its processes."""
    name = tr("quota hits")
    counted = [
        (stopped, periods)
        for controller in (None, "cpu")
        for text in group_files(here.root, "cpu.stat", controller=controller)
        if (stopped := _field(text, "nr_throttled")) is not None and (periods := _field(text, "nr_periods")) is not None
    ]
    if not counted:
        return unread(name, tr("no counters of a control group (cpu.stat) could be read"))
    # Groups further up count the hits of quotas of their own; the one that is hit most matters.
    stopped, periods = max(counted, key=lambda one: one[0] / max(1, one[1]))
    if periods == 0:
        return fine(name, tr("none: no quota was ever in force"))
    share = stopped / periods
    told = {
        "stopped": f"{stopped:,}",
        "periods": trn("{count} period", "{count} periods", periods),
        "share": format_percent(share),
    }
    if share < _THROTTLED:
        return fine(name, tr("stopped in {stopped} of {periods} ({share})", **told))
    return problem(
        name,
        Finding(
            code="stopped-by-quota",
            message=tr(
                "The quota has stopped processes of this control group in {stopped} of {periods} ({share}) since the "
                "group began.",
                **told,
            ),
            advice=tr("Use fewer threads and worker processes than the quota has cores, or raise it."),
        ),
        tr("A stopped step waits for the next period: some steps take tens of milliseconds more than others."),
    )


def _field(text: str, name: str) -> int | None:
    """The number that stands after ``name`` in a file of such lines."""
    found = re.search(rf"^{name} (\d+)$", text, re.MULTILINE)
    return int(found.group(1)) if found else None


def _cores_busy(here: Surroundings) -> float | None:
    """How many CPUs' worth of work others did between the two moments, on the CPUs this process may use."""
    pairs = _pairs(here)
    if not pairs or here.before is None or here.after is None:
        return None
    busy = sum((after[0] - before[0]) / (after[2] - before[2]) for before, after in pairs)
    own = sum(used for pid, used in _used(here.before, here.after).items() if pid in _own(here.after))
    return max(0.0, busy - own / _ticks_passed(here.before, here.after))


def _stolen_share(here: Surroundings) -> float | None:
    pairs = _pairs(here)
    passed = sum(after[2] - before[2] for before, after in pairs)
    return sum(after[1] - before[1] for before, after in pairs) / passed if passed > 0 else None


def _stolen_since_start(here: Surroundings) -> float | None:
    cpus = here.after.cpus.values() if here.after is not None else ()
    passed = sum(one.total for one in cpus)
    return sum(one.stolen for one in cpus) / passed if passed > 0 else None


def _pairs(here: Surroundings) -> list[tuple[tuple[int, int, int], tuple[int, int, int]]]:
    """Busy, stolen and all ticks of each CPU before and after, of those that were seen to move on."""
    if here.before is None or here.after is None:
        return []
    both = [(here.before.cpus.get(cpu), here.after.cpus.get(cpu)) for cpu in here.cpus()]
    return [
        ((first.busy, first.stolen, first.total), (last.busy, last.stolen, last.total))
        for first, last in both
        if first is not None and last is not None and last.total > first.total
    ]


def _told_busiest(here: Surroundings) -> str:
    """The processes that used most, in CPUs; empty where none could be seen."""
    if here.before is None or here.after is None:
        return ""
    ticks, own = _ticks_passed(here.before, here.after), _own(here.after)
    used = {pid: ticks for pid, ticks in _used(here.before, here.after).items() if pid not in own}
    busiest = sorted(used, key=lambda pid: -used[pid])[:_NAMED]
    told = [
        f"{here.after.processes[pid].name} (pid {pid}) {used[pid] / ticks:.2f}"
        for pid in busiest
        if ticks > 0 and used[pid] / ticks >= _WORTH_NAMING
    ]
    return (
        tr(". Busiest, in CPUs: {told}", told=", ".join(told))
        if told
        else tr(". No process that can be seen from here is busy")
    )


def _used(before: Activity, after: Activity) -> dict[int, int]:
    """Ticks that each process used between the two moments, of those that are there at both."""
    return {
        pid: now.used - before.processes[pid].used for pid, now in after.processes.items() if pid in before.processes
    }


def _own(after: Activity) -> set[int]:
    return family(after.processes, os.getpid())


def _ticks_passed(before: Activity, after: Activity) -> float:
    """Ticks that went by on each CPU, the mean over those that are known."""
    passed = [after.cpus[cpu].total - before.cpus[cpu].total for cpu in after.cpus if cpu in before.cpus]
    return sum(passed) / len(passed) if passed else 0.0


def _load_average(here: Surroundings) -> float | None:
    first = (here.read("proc/loadavg") or "").partition(" ")[0]
    return float(first) if first.replace(".", "", 1).isdecimal() else None
