"""What this computer is, as far as a process may use it: cores, memory, versions. Unknown is None, never a guess."""

from __future__ import annotations

import contextlib
import os
import platform
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from boundby.results.language import tr, trn
from boundby.results.machine import Finding, MachineDescription

# cgroup v1 writes "no limit" as the largest multiple of the page size in a signed 64-bit number.
_NO_LIMIT = 1 << 60


def describe_machine(
    *, threads: int, root: Path = Path("/"), affinity: Iterable[int] | None = None, measured_at: str | None = None
) -> MachineDescription:
    """This computer, as this process may use it.

    Args:
        threads: how many threads the measured stack uses.
        root: where ``proc`` and ``sys`` are found; a test gives a folder of its own.
        affinity: the CPUs this process may run on; asked of the operating system where None.
        measured_at: when the ceilings were measured, ISO 8601.
    """
    allowed = process_affinity() if affinity is None else tuple(sorted(affinity))
    return MachineDescription(
        cpu=cpu_model(root),
        usable_cores=usable_cores(root=root, affinity=allowed),
        logical_cores=os.cpu_count(),
        memory_bytes=_memory_total(root),
        memory_limit_bytes=memory_limit(root),
        os=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        torch=torch_version(),
        threads=threads,
        affinity=allowed,
        measured_at=measured_at,
    )


def now_text() -> str:
    """This moment in UTC, ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def torch_version() -> str | None:
    """The installed torch's version, read without importing it; None where there is none."""
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None


def process_affinity() -> tuple[int, ...] | None:
    """The CPUs this process may run on, in order; None where the operating system does not say (macOS).

    Those of all its threads together: with OMP_PROC_BIND each thread of torch, the main one too, is bound to a CPU.
    """
    if not hasattr(os, "sched_getaffinity"):
        return None
    allowed = set(os.sched_getaffinity(0))
    try:
        threads = [int(name) for name in os.listdir("/proc/self/task")]
    except OSError:
        threads = []
    for thread in threads:
        # A thread may end while the others are asked.
        with contextlib.suppress(OSError):
            allowed |= os.sched_getaffinity(thread)
    return tuple(sorted(allowed))


def cpu_model(root: Path = Path("/")) -> str | None:
    """The CPU's name with its family, model and stepping where ``/proc/cpuinfo`` has them.

    Clouds give many CPUs one short name ("AMD EPYC"), so the numbers are part of it.
    """
    text = read_text(root / "proc/cpuinfo")
    if text is None:
        return platform.processor() or platform.machine() or None
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, found, value = line.partition(":")
        if found:
            fields.setdefault(key.strip(), value.strip())
    name = fields.get("model name") or fields.get("Processor") or platform.machine() or None
    numbers = [
        f"{short} {fields[key]}"
        for short, key in (("family", "cpu family"), ("model", "model"), ("stepping", "stepping"))
        if key in fields
    ]
    return f"{name} ({', '.join(numbers)})" if name and numbers else name


def usable_cores(*, root: Path = Path("/"), affinity: tuple[int, ...] | None) -> int:
    """How many physical cores this process can keep busy, at least 1.

    The least of: physical cores among the CPUs it may run on (siblings of one core count once), and the whole cores
    its control group's CPU quota allows (a quota of 1.5 cores is one).

    Args:
        root: where ``proc`` and ``sys`` are found.
        affinity: the CPUs it may run on; all of them where None.
    """
    cpus = affinity if affinity is not None else tuple(range(os.cpu_count() or 1))
    cores = _physical_cores(root, cpus)
    quota = cpu_quota(root)
    if quota is not None:
        cores = min(cores, int(quota))
    return max(1, cores)


def cpu_quota(root: Path = Path("/")) -> float | None:
    """The CPU time a second that the control group allows (cores, may be a fraction); None without a quota.

    Reads cgroup v2 (``cpu.max``) and v1 (``cpu.cfs_quota_us``), from the process's own group up to the root: the
    tightest holds.
    """
    found = [
        *(_quota_v2(text) for text in group_files(root, "cpu.max", controller=None)),
        *(
            _quota_v1(text, read_text(path.with_name("cpu.cfs_period_us")))
            for path, text in _group_paths(root, "cpu.cfs_quota_us", controller="cpu")
        ),
    ]
    return min((quota for quota in found if quota is not None), default=None)


def memory_limit(root: Path = Path("/")) -> int | None:
    """The most memory the control group allows (bytes), cgroup v2 or v1; None without a limit."""
    return min((limit for limit, _ in _group_memory(root)), default=None)


def available_memory(root: Path = Path("/")) -> int | None:
    """How much memory this process can still take without swapping (bytes).

    The least of: what the system has free, what the control group's limit leaves, what the process's own limits
    (``ulimit -v``, ``ulimit -d``) leave. None where nothing of that can be read.

    Args:
        root: where ``proc`` and ``sys`` are found.
    """
    text = read_text(root / "proc/meminfo") or ""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    known = [int(found.group(1)) * 1024] if found else []
    known.extend(max(0, limit - held) for limit, held in _group_memory(root))
    known.extend(_left_by_limits(root))
    return min(known, default=None)


def _group_memory(root: Path) -> list[tuple[int, int]]:
    """For each limit of the control group and those above it: its bytes, and those held that cannot simply be dropped.

    Pages of files that nobody used lately can be.
    """
    found = []
    for controller, limit_name, used_name, idle_name in (
        (None, "memory.max", "memory.current", "inactive_file"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        for path, text in _group_paths(root, limit_name, controller=controller):
            limit = text.strip()
            if not limit.isdigit() or not 0 < int(limit) < _NO_LIMIT:
                continue
            used = (read_text(path.with_name(used_name)) or "").strip()
            stat = read_text(path.with_name("memory.stat")) or ""
            idle = re.search(rf"^{idle_name} (\d+)$", stat, re.MULTILINE)
            held = int(used) - (int(idle.group(1)) if idle else 0) if used.isdigit() else 0
            found.append((int(limit), max(0, held)))
    return found


def _left_by_limits(root: Path) -> list[int]:
    """What the limits of this process leave it (bytes), one for each that there is."""
    limits, status = (read_text(root / "proc/self" / name) or "" for name in ("limits", "status"))
    left = []
    for limited, counted in (("Max address space", "VmSize"), ("Max data size", "VmData")):
        limit = re.search(rf"^{limited}\s+(\d+)\s", limits, re.MULTILINE)
        used = re.search(rf"^{counted}:\s+(\d+) kB", status, re.MULTILINE)
        if limit:
            left.append(max(0, int(limit.group(1)) - (int(used.group(1)) * 1024 if used else 0)))
    return left


def threads_findings(description: MachineDescription) -> tuple[Finding, ...]:
    """What is wrong with the number of threads, if anything: more threads than cores they can run on."""
    if description.threads <= description.usable_cores:
        return ()
    cores = trn("{count} core", "{count} cores", description.usable_cores)
    return (
        Finding(
            code="threads-over-cores",
            message=tr(
                "torch uses {threads} threads and this process can keep {cores} busy, so threads wait for each other.",
                threads=description.threads,
                cores=cores,
            ),
            advice=tr(
                "Set OMP_NUM_THREADS={cores}, or call torch.set_num_threads({cores}).",
                cores=description.usable_cores,
            ),
        ),
    )


def relevant_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment variables that change how fast this stack runs, by name: threads, math libraries, allocator."""
    prefixes = ("OMP_", "KMP_", "GOMP_", "MKL_", "DNNL_", "ONEDNN_", "ATEN_", "OPENBLAS_", "MALLOC_")
    names = (
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ZE_AFFINITY_MASK",
        "GLIBC_TUNABLES",
        "LD_PRELOAD",
        "THP_MEM_ALLOC_ENABLE",
        "TORCH_MKLDNN_MATMUL_MIN_DIM",
    )
    return {name: environ[name] for name in sorted(environ) if name.startswith(prefixes) or name in names}


def _physical_cores(root: Path, cpus: tuple[int, ...]) -> int:
    cores: set[str] = set()
    for cpu in cpus:
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        siblings = read_text(topology / "thread_siblings_list") or read_text(topology / "core_cpus_list")
        cores.add(siblings.strip() if siblings and siblings.strip() else f"cpu{cpu}")
    return len(cores)


def _memory_total(root: Path) -> int | None:
    found = re.search(r"^MemTotal:\s+(\d+) kB", read_text(root / "proc/meminfo") or "", re.MULTILINE)
    return int(found.group(1)) * 1024 if found else None


def _quota_v2(text: str) -> float | None:
    parts = text.split()
    if len(parts) != 2 or not all(part.isdigit() for part in parts) or int(parts[1]) == 0:
        return None
    return int(parts[0]) / int(parts[1])


def _quota_v1(quota: str, period: str | None) -> float | None:
    try:
        quota_us, period_us = int(quota), int(period or "")
    except ValueError:
        return None
    return quota_us / period_us if quota_us > 0 and period_us > 0 else None


def group_files(root: Path, name: str, *, controller: str | None) -> list[str]:
    """The texts of the files called ``name`` of this process's control group and of all above it, its own first.

    Args:
        root: where ``proc`` and ``sys`` are found.
        name: the file's name.
        controller: the cgroup v1 controller; None for cgroup v2.
    """
    return [text for _, text in _group_paths(root, name, controller=controller)]


def _group_paths(root: Path, name: str, *, controller: str | None) -> list[tuple[Path, str]]:
    """The files called ``name`` of this process's control group and all above it, with their text.

    Args:
        root: where ``proc`` and ``sys`` are found.
        name: the file's name.
        controller: the cgroup v1 controller; None for cgroup v2.
    """
    names = ("", "unified") if controller is None else (controller, f"{controller},cpuacct")
    mounts = [root / "sys/fs/cgroup" / folder for folder in names]
    found: list[tuple[Path, str]] = []
    for mount in mounts:
        own = mount / (_own_group(root, controller) or "").lstrip("/")
        for folder in (own, *own.parents):
            text = read_text(folder / name)
            if text is not None:
                found.append((folder / name, text))
            if folder == mount:
                break
    return found


def _own_group(root: Path, controller: str | None) -> str | None:
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        _, controllers, path = parts
        if (controller is None and controllers == "") or (controller and controller in controllers.split(",")):
            return path
    return None


def read_text(path: Path) -> str | None:
    """A small file's text; None where it is not there or may not be read, a plain answer where /proc and /sys go."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
