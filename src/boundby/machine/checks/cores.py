"""Checks of the cores a process may use, and of the threads that are to share them."""

from __future__ import annotations

import re

from boundby.machine.checks.stack_facts import Pool, needs_torch
from boundby.machine.checks.surroundings import Surroundings, parse_cpu_list
from boundby.machine.describe import cpu_quota, describe_machine, threads_findings, usable_cores
from boundby.results.doctor import Diagnosis, fine, problem, unread
from boundby.results.language import tr, trn
from boundby.results.machine import Finding

_BINDING = ("OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
# What sets the threads of a BLAS, by a part of its library's name.
_VARIABLES = {"openblas": "OPENBLAS_NUM_THREADS", "mkl": "MKL_NUM_THREADS", "blis": "BLIS_NUM_THREADS"}
_NOT_BOUND = ("", "false", "none", "disabled")


def check_threads(here: Surroundings) -> Diagnosis:
    """Whether torch uses more threads than this process can keep busy."""
    name = tr("threads")
    cores = _usable(here)
    if isinstance(here.stack, str):
        asked = here.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
        if not asked.isdecimal() or int(asked) <= cores:
            return unread(name, needs_torch())
        return problem(
            name,
            Finding(
                code="threads-over-cores",
                message=tr(
                    "OMP_NUM_THREADS asks for {asked} threads and this process can keep {cores} busy.",
                    asked=asked,
                    cores=trn("{count} core", "{count} cores", cores),
                ),
                advice=tr("Set OMP_NUM_THREADS={cores}.", cores=cores),
            ),
            _waiting(),
        )
    described = describe_machine(threads=here.stack.threads, root=here.root, affinity=here.cpus())
    for finding in threads_findings(described):
        return problem(name, finding, _waiting())
    return fine(
        name,
        tr(
            "torch takes {threads}, for {usable_cores}",
            threads=here.stack.threads,
            usable_cores=trn("{count} usable core", "{count} usable cores", cores),
        ),
    )


def _waiting() -> str:
    return tr(
        "Threads wait for each other at the end of every op: steps get slower, often many times, and spread widely."
    )


def check_pools(here: Surroundings) -> Diagnosis:
    """Whether a library beside torch, numpy's BLAS for one, has more threads than there are cores for."""
    name = tr("thread pools")
    if isinstance(here.stack, str):
        return unread(name, needs_torch())
    cores = _usable(here)
    own = [pool for pool in here.stack.pools if not _is_torch(pool)]
    over = [pool for pool in own if pool.threads > cores]
    if not over:
        told = ", ".join(f"{pool.name} {pool.threads}" for pool in own)
        return fine(
            name, tr("of other libraries: {told}", told=told) if told else tr("no library beside torch has one")
        )
    told = ", ".join(tr("{name} takes {threads}", name=pool.name, threads=pool.threads) for pool in over)
    blas = any(pool.purpose == "blas" for pool in over)
    variable = next((known for text, known in _VARIABLES.items() if text in over[0].name), "OMP_NUM_THREADS")
    return problem(
        name,
        Finding(
            code="pools-over-cores",
            message=tr(
                "A library beside torch has more threads than this process can keep busy ({cores}): {told}.",
                cores=trn("{count} core", "{count} cores", cores),
                told=told,
            ),
            advice=tr("Set {variable}={cores} before Python starts.", variable=variable, cores=cores),
        ),
        tr(
            "Matrix products of numpy, as in loading and preparing data, and torch's own ops take the cores from each "
            "other."
        )
        if blas
        else tr("Its work, as in loading and preparing data, and torch's own ops take the cores from each other."),
    )


def check_openmp(here: Surroundings) -> Diagnosis:
    """Whether two OpenMP runtimes live in one process."""
    name = "OpenMP"
    if isinstance(here.stack, str):
        return unread(name, needs_torch())
    runtimes = list(dict.fromkeys(pool.path for pool in here.stack.pools if pool.purpose == "openmp"))
    names = [pool.name for path in runtimes for pool in here.stack.pools if pool.path == path]
    if not runtimes:
        return unread(name, tr("no OpenMP runtime was found in the process that loaded torch"))
    if len(runtimes) == 1:
        return fine(name, tr("one runtime, {names}, with torch and numpy loaded", names=names[0]))
    return problem(
        name,
        Finding(
            code="openmp-clash",
            message=tr(
                "{number} OpenMP runtimes are loaded with torch and numpy: {runtimes}.",
                number=len(runtimes),
                runtimes=", ".join(runtimes),
            ),
            advice=tr(
                "Install torch and numpy from one source (all by pip, or all by conda), and take out what "
                "LD_PRELOAD adds."
            ),
        ),
        tr(
            "Each keeps a pool of threads of its own, so the cores are asked for twice; Intel's beside "
            "another may also hang or stop the process."
        ),
    )


def check_quota(here: Surroundings) -> Diagnosis:
    """Whether the control group allows less processor time than there are CPUs."""
    name = tr("quota")
    quota, cpus = cpu_quota(here.root), len(here.cpus())
    if quota is None:
        if here.read("proc/self/cgroup") is None:
            return unread(name, tr("this system has no control groups that could be read"))
        return fine(name, tr("none set by the control group"))
    if quota >= cpus:
        return fine(
            name, tr("{quota} cores, for {CPUs}", quota=f"{quota:g}", CPUs=trn("{count} CPU", "{count} CPUs", cpus))
        )
    cores = max(1, int(quota))
    return problem(
        name,
        Finding(
            code="quota-below-cores",
            message=tr(
                "The control group allows {quota} cores of processor time; this process sees {CPUs}.",
                quota=f"{quota:g}",
                CPUs=trn("{count} CPU", "{count} CPUs", cpus),
            ),
            advice=tr(
                "Keep all threads and worker processes together at {cores} (OMP_NUM_THREADS={cores}), or raise "
                "the quota.",
                cores=cores,
            ),
        ),
        tr(
            "Who uses it up is stopped for the rest of the period, often tens of milliseconds: some steps "
            "take many times as long as others."
        ),
    )


def check_affinity(here: Surroundings) -> Diagnosis:
    """Whether this process may run on a part of the CPUs only."""
    name = tr("affinity")
    online = here.online()
    if here.affinity is None:
        return unread(name, tr("this system does not tell on which CPUs a process may run"))
    if not online:
        return unread(
            name,
            tr(
                "may run on {CPUs}; how many are online is not known",
                CPUs=trn("{count} CPU", "{count} CPUs", len(here.affinity)),
            ),
        )
    if set(online) <= set(here.affinity):
        return fine(
            name,
            tr("may run on all {online} CPUs", online=len(online))
            if len(online) > 1
            else tr("the machine has one CPU"),
        )
    return problem(
        name,
        Finding(
            code="affinity-narrow",
            message=tr(
                "This process may run on {number} of {cpus} (number {list}).",
                number=len(here.affinity),
                cpus=trn("{count} CPU", "{count} CPUs", len(online)),
                list=_as_list(here.affinity),
            ),
            advice=tr(
                "If it is meant, keep it the same for all that is compared; otherwise start without taskset, or "
                "widen the container's cpuset."
            ),
        ),
        tr("Results and ceilings hold for these CPUs only, and others may run on them or share their caches."),
    )


def check_siblings(here: Surroundings) -> Diagnosis:
    """Whether two CPUs are one core, and whether others may run on the other half."""
    name = "SMT"
    cpus = here.cpus()
    siblings = {cpu: _siblings(here, cpu) for cpu in cpus}
    if any(not known for known in siblings.values()):
        return unread(name, tr("which CPUs share a core is not told in /sys/devices/system/cpu"))
    foreign = sorted({other for known in siblings.values() for other in known} - set(cpus))
    if foreign:
        return problem(
            name,
            Finding(
                code="core-shared",
                message=tr(
                    "Cores are shared with CPUs that this process may not use: {list}.",
                    list=_as_list(tuple(foreign)),
                ),
                advice=tr(
                    "Allow both CPUs of a core (lscpu -e lists them) and use one thread a core, or keep the others "
                    "idle."
                ),
            ),
            tr("Whoever runs there halves the speed of the core, and nothing in this process tells it."),
        )
    cores = len({tuple(known) for known in siblings.values()})
    if cores == len(cpus):
        return fine(name, tr("{cores}, each with one CPU", cores=trn("{count} core", "{count} cores", cores)))
    return fine(
        name,
        tr(
            "{cpus} CPUs are {cores}; threads are counted by cores",
            cpus=len(cpus),
            cores=trn("{count} core", "{count} cores", cores),
        ),
    )


def check_nodes(here: Surroundings) -> Diagnosis:
    """Whether the CPUs have memories of their own."""
    name = tr("memory nodes")
    nodes = {}
    for path in sorted((here.root / "sys/devices/system/node").glob("node[0-9]*/cpulist")):
        members = set(parse_cpu_list(here.read(str(path.relative_to(here.root))) or ""))
        if members & set(here.cpus()):
            nodes[path.parent.name.removeprefix("node")] = members
    if not nodes:
        return unread(name, tr("not told in /sys/devices/system/node"))
    if len(nodes) == 1:
        return fine(name, tr("all CPUs are near the same memory"))
    first = next(iter(nodes))
    return problem(
        name,
        Finding(
            code="nodes-mixed",
            message=tr(
                "The CPUs belong to {number} memory nodes ({nodes}).", number=len(nodes), nodes=", ".join(nodes)
            ),
            advice=tr(
                "Measure within one: numactl --cpunodebind={first} --membind={first} boundby run SCRIPT", first=first
            ),
        ),
        tr("Memory of another node is slower, and where pages come to lie differs from run to run."),
    )


def check_binding(here: Surroundings) -> Diagnosis:
    """Whether OpenMP binds each thread to a CPU, which child processes inherit."""
    name = tr("binding")
    chosen = [known for known in _BINDING if here.environ.get(known, "").strip().lower() not in _NOT_BOUND]
    if not chosen:
        return fine(name, tr("threads may move between CPUs"))
    return problem(
        name,
        Finding(
            code="threads-bound",
            message=tr(
                "Threads are bound to CPUs by {variable}={value}.", variable=chosen[0], value=here.environ[chosen[0]]
            ),
            advice=tr(
                "Unset {chosen} where the script starts worker processes; without such, leave it as it is.",
                chosen=chosen[0],
            ),
        ),
        tr(
            "Steady for one process alone. Worker processes of a DataLoader start on the main thread's CPU, "
            "all on the same, and two such scripts share one CPU while others are idle."
        ),
    )


def check_priority(here: Surroundings) -> Diagnosis:
    """Whether this process gives way to others."""
    name = tr("priority")
    if here.niceness is None:
        return unread(name, tr("this system does not tell"))
    if here.niceness <= 0:
        return fine(name, tr("usual") if here.niceness == 0 else tr("raised (nice {niceness})", niceness=here.niceness))
    return problem(
        name,
        Finding(
            code="low-priority",
            message=tr("This process runs at a lowered priority (nice {niceness}).", niceness=here.niceness),
            advice=tr("Start it without `nice`."),
        ),
        tr("Whatever else runs goes first, so other load slows steps more than usual."),
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
