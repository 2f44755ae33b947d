"""Checks of the cores a process may use, and of the threads that are to share them."""

from __future__ import annotations

import re

from boundby.machine.checks.stack_facts import NEEDS_TORCH, Pool
from boundby.machine.checks.surroundings import Surroundings, parse_cpu_list
from boundby.machine.describe import cpu_quota, describe_machine, threads_findings, usable_cores
from boundby.results.doctor import Diagnosis, fine, problem, unread
from boundby.results.machine import Finding
from boundby.results.units import plural

_WAITING = "Threads wait for each other at the end of every op: steps get slower, often many times, and spread widely."
_BINDING = ("OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
# What sets the threads of a BLAS, by a part of its library's name.
_VARIABLES = {"openblas": "OPENBLAS_NUM_THREADS", "mkl": "MKL_NUM_THREADS", "blis": "BLIS_NUM_THREADS"}
_NOT_BOUND = ("", "false", "none", "disabled")


def check_threads(here: Surroundings) -> Diagnosis:
    """Whether torch uses more threads than this process can keep busy."""
    name = "threads"
    cores = _usable(here)
    if isinstance(here.stack, str):
        asked = here.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
        if not asked.isdecimal() or int(asked) <= cores:
            return unread(name, NEEDS_TORCH)
        return problem(
            name,
            Finding(
                code="threads-over-cores",
                message=f"OMP_NUM_THREADS asks for {asked} threads and this process can keep "
                f"{plural(cores, 'core')} busy.",
                advice=f"Set OMP_NUM_THREADS={cores}.",
            ),
            _WAITING,
        )
    described = describe_machine(threads=here.stack.threads, root=here.root, affinity=here.cpus())
    for finding in threads_findings(described):
        return problem(name, finding, _WAITING)
    return fine(name, f"torch takes {here.stack.threads}, for {plural(cores, 'usable core')}")


def check_pools(here: Surroundings) -> Diagnosis:
    """Whether a library beside torch, numpy's BLAS for one, has more threads than there are cores for."""
    name = "thread pools"
    if isinstance(here.stack, str):
        return unread(name, NEEDS_TORCH)
    cores = _usable(here)
    own = [pool for pool in here.stack.pools if not _is_torch(pool)]
    over = [pool for pool in own if pool.threads > cores]
    if not over:
        told = ", ".join(f"{pool.name} {pool.threads}" for pool in own)
        return fine(name, f"of other libraries: {told}" if told else "no library beside torch has one")
    told = ", ".join(f"{pool.name} takes {pool.threads}" for pool in over)
    blas = any(pool.purpose == "blas" for pool in over)
    variable = next((known for text, known in _VARIABLES.items() if text in over[0].name), "OMP_NUM_THREADS")
    return problem(
        name,
        Finding(
            code="pools-over-cores",
            message=f"A library beside torch has more threads than this process can keep busy "
            f"({plural(cores, 'core')}): {told}.",
            advice=f"Set {variable}={cores} before Python starts.",
        ),
        f"{'Matrix products of numpy' if blas else 'Its work'}, as in loading and preparing data, and torch's own ops "
        "take the cores from each other.",
    )


def check_openmp(here: Surroundings) -> Diagnosis:
    """Whether two OpenMP runtimes live in one process."""
    name = "OpenMP"
    if isinstance(here.stack, str):
        return unread(name, NEEDS_TORCH)
    runtimes = list(dict.fromkeys(pool.path for pool in here.stack.pools if pool.purpose == "openmp"))
    names = [pool.name for path in runtimes for pool in here.stack.pools if pool.path == path]
    if not runtimes:
        return unread(name, "no OpenMP runtime was found in the process that loaded torch")
    if len(runtimes) == 1:
        return fine(name, f"one runtime, {names[0]}, with torch and numpy loaded")
    return problem(
        name,
        Finding(
            code="openmp-clash",
            message=f"{len(runtimes)} OpenMP runtimes are loaded with torch and numpy: {', '.join(runtimes)}.",
            advice="Install torch and numpy from one source (all by pip, or all by conda), and take out what "
            "LD_PRELOAD adds.",
        ),
        "Each keeps a pool of threads of its own, so the cores are asked for twice; Intel's beside another may also "
        "hang or stop the process.",
    )


def check_quota(here: Surroundings) -> Diagnosis:
    """Whether the control group allows less processor time than there are CPUs."""
    name = "quota"
    quota, cpus = cpu_quota(here.root), len(here.cpus())
    if quota is None:
        if here.read("proc/self/cgroup") is None:
            return unread(name, "this system has no control groups that could be read")
        return fine(name, "none set by the control group")
    if quota >= cpus:
        return fine(name, f"{quota:g} cores, for {plural(cpus, 'CPU')}")
    cores = max(1, int(quota))
    return problem(
        name,
        Finding(
            code="quota-below-cores",
            message=f"The control group allows {quota:g} cores of processor time; this process sees "
            f"{plural(cpus, 'CPU')}.",
            advice=f"Keep all threads and worker processes together at {cores} (OMP_NUM_THREADS={cores}), or raise "
            "the quota.",
        ),
        "Who uses it up is stopped for the rest of the period, often tens of milliseconds: some steps take many times "
        "as long as others.",
    )


def check_affinity(here: Surroundings) -> Diagnosis:
    """Whether this process may run on a part of the CPUs only."""
    name = "affinity"
    online = here.online()
    if here.affinity is None:
        return unread(name, "this system does not tell on which CPUs a process may run")
    if not online:
        return unread(name, f"may run on {plural(len(here.affinity), 'CPU')}; how many are online is not known")
    if set(online) <= set(here.affinity):
        return fine(name, f"may run on all {len(online)} CPUs" if len(online) > 1 else "the machine has one CPU")
    return problem(
        name,
        Finding(
            code="affinity-narrow",
            message=f"This process may run on {len(here.affinity)} of {plural(len(online), 'CPU')} "
            f"(number {_as_list(here.affinity)}).",
            advice="If it is meant, keep it the same for all that is compared; otherwise start without taskset, or "
            "widen the container's cpuset.",
        ),
        "Results and ceilings hold for these CPUs only, and others may run on them or share their caches.",
    )


def check_siblings(here: Surroundings) -> Diagnosis:
    """Whether two CPUs are one core, and whether others may run on the other half."""
    name = "SMT"
    cpus = here.cpus()
    siblings = {cpu: _siblings(here, cpu) for cpu in cpus}
    if any(not known for known in siblings.values()):
        return unread(name, "which CPUs share a core is not told in /sys/devices/system/cpu")
    foreign = sorted({other for known in siblings.values() for other in known} - set(cpus))
    if foreign:
        return problem(
            name,
            Finding(
                code="core-shared",
                message=f"Cores are shared with CPUs that this process may not use: {_as_list(tuple(foreign))}.",
                advice="Allow both CPUs of a core (lscpu -e lists them) and use one thread a core, or keep the others "
                "idle.",
            ),
            "Whoever runs there halves the speed of the core, and nothing in this process tells it.",
        )
    cores = len({tuple(known) for known in siblings.values()})
    if cores == len(cpus):
        return fine(name, f"{plural(cores, 'core')}, each with one CPU")
    return fine(name, f"{len(cpus)} CPUs are {plural(cores, 'core')}; threads are counted by cores")


def check_nodes(here: Surroundings) -> Diagnosis:
    """Whether the CPUs have memories of their own."""
    name = "memory nodes"
    nodes = {}
    for path in sorted((here.root / "sys/devices/system/node").glob("node[0-9]*/cpulist")):
        members = set(parse_cpu_list(here.read(str(path.relative_to(here.root))) or ""))
        if members & set(here.cpus()):
            nodes[path.parent.name.removeprefix("node")] = members
    if not nodes:
        return unread(name, "not told in /sys/devices/system/node")
    if len(nodes) == 1:
        return fine(name, "all CPUs are near the same memory")
    first = next(iter(nodes))
    return problem(
        name,
        Finding(
            code="nodes-mixed",
            message=f"The CPUs belong to {len(nodes)} memory nodes ({', '.join(nodes)}).",
            advice=f"Measure within one: numactl --cpunodebind={first} --membind={first} boundby run SCRIPT",
        ),
        "Memory of another node is slower, and where pages come to lie differs from run to run.",
    )


def check_binding(here: Surroundings) -> Diagnosis:
    """Whether OpenMP binds each thread to a CPU, which child processes inherit."""
    name = "binding"
    chosen = [known for known in _BINDING if here.environ.get(known, "").strip().lower() not in _NOT_BOUND]
    if not chosen:
        return fine(name, "threads may move between CPUs")
    return problem(
        name,
        Finding(
            code="threads-bound",
            message=f"Threads are bound to CPUs by {chosen[0]}={here.environ[chosen[0]]}.",
            advice=f"Unset {chosen[0]} where the script starts worker processes; without such, leave it as it is.",
        ),
        "Steady for one process alone. Worker processes of a DataLoader start on the main thread's CPU, all on the "
        "same, and two such scripts share one CPU while others are idle.",
    )


def check_priority(here: Surroundings) -> Diagnosis:
    """Whether this process gives way to others."""
    name = "priority"
    if here.niceness is None:
        return unread(name, "this system does not tell")
    if here.niceness <= 0:
        return fine(name, "usual" if here.niceness == 0 else f"raised (nice {here.niceness})")
    return problem(
        name,
        Finding(
            code="low-priority",
            message=f"This process runs at a lowered priority (nice {here.niceness}).",
            advice="Start it without `nice`.",
        ),
        "Whatever else runs goes first, so other load slows steps more than usual.",
    )


def _usable(here: Surroundings) -> int:
    return usable_cores(root=here.root, affinity=here.cpus())


def _is_torch(pool: Pool) -> bool:
    """Whether torch's number of threads sets that of the pool: its own check speaks of it."""
    return pool.purpose == "openmp" or re.search(r"[/\\]torch[/\\]", pool.path) is not None


def _siblings(here: Surroundings, cpu: int) -> tuple[int, ...]:
    folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
    return parse_cpu_list(here.read(f"{folder}/thread_siblings_list") or here.read(f"{folder}/core_cpus_list") or "")


def _as_list(cpus: tuple[int, ...]) -> str:
    """CPUs as people write them: ``0-2, 5``."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
