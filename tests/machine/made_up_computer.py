"""Computers made up in a folder, for the checks of `boundby doctor`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from boundby.machine.checks.activity import Activity, CpuTicks, ProcessTicks
from boundby.machine.checks.stack_facts import Pool, StackFacts
from boundby.machine.checks.surroundings import SpeedProbe, Surroundings
from boundby.results.doctor import Diagnosis

GIB = 1 << 20  # in the kibibytes of /proc/meminfo
GNU = Pool(purpose="openmp", name="libgomp", threads=2, path="/site-packages/torch/lib/libgomp.so.1")
INTEL = Pool(purpose="openmp", name="libiomp", threads=2, path="/conda/lib/libiomp5.so")
BLAS = Pool(purpose="blas", name="libscipy_openblas", threads=2, path="/site-packages/numpy.libs/libscipy_openblas.so")
STACK = StackFacts(
    torch="2.13.0",
    numpy="2.4.6",
    debug=False,
    build="  - Build settings: BUILD_TYPE=Release, CXX_FLAGS= -O2 -fPIC, USE_CUDA=0, ",
    capability="AVX512",
    accelerator=None,
    threads=2,
    pools=(GNU, BLAS),
    denormals_kept=True,
    slow_denormals="exp",
    denormal_slowdown=1.4,
)
STEADY = SpeedProbe(loops_ns=(500_000,) * 100, cpu=0, clock_hz=3.5e9, read_ns=50.0, step_ns=20)


class Computer:
    """A folder that stands for a computer, written file by file."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str) -> Computer:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"{text}\n")
        return self

    def cpus(self, count: int, *, siblings: Callable[[int], str] = str) -> Computer:
        self.write("sys/devices/system/cpu/online", f"0-{count - 1}" if count > 1 else "0")
        for cpu in range(count):
            self.write(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", siblings(cpu))
        return self

    def frequency(self, cpu: int, **files: object) -> Computer:
        for name, text in files.items():
            self.write(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/{name}", str(text))
        return self

    def memory(
        self, total_gib: float, available_gib: float, *, swap_gib: float = 0, swapped_gib: float = 0
    ) -> Computer:
        fields = {
            "MemTotal": total_gib,
            "MemAvailable": available_gib,
            "SwapTotal": swap_gib,
            "SwapFree": swap_gib - swapped_gib,
        }
        lines = (f"{name}: {round(size * GIB)} kB" for name, size in fields.items())
        return self.write("proc/meminfo", "\n".join(lines))

    def surroundings(self, **given: object) -> Surroundings:
        usual = Surroundings(root=self.root, affinity=(0, 1), stack=STACK, speed=STEADY)
        return replace(usual, **given)


def activity(
    *busy: int, total: int = 1000, stolen: int = 0, processes: dict[int, int] | None = None, **counters: int | None
) -> Activity:
    """Counters with the given busy ticks of each CPU, and processor time of processes by their number."""
    return Activity(
        cpus={cpu: CpuTicks(busy=ticks, stolen=stolen, total=total) for cpu, ticks in enumerate(busy)},
        processes={pid: ProcessTicks(name="other", parent=1, used=used) for pid, used in (processes or {}).items()},
        swapped_pages=counters.get("swapped_pages"),
        heat_events=counters.get("heat_events"),
    )


def outcome(diagnosis: Diagnosis) -> str:
    """A problem's code, or the state."""
    return diagnosis.code or diagnosis.state
