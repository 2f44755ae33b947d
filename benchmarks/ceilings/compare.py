"""Compares ceilings with programs that share no code with boundby: C loops, and plain loops over torch ops.

    python benchmarks/ceilings/compare.py [--threads N ...] [--turns 15] [--milliseconds 60] [--itself]

Raw ceilings (stack ``native``) are to lie within 3% of what ``loops.c`` reaches, those of torch and numpy within 5% of
``torch_loops.py``. All processes are kept alive, and stopped (SIGSTOP) while it is not their turn, so that none of
their threads spins on a core another one needs. A turn asks both sides for one figure, one right after the other and
in changing order; the turns go over all ceilings again and again. The ratio is taken turn by turn, and its median over
the turns is judged.

All sides stream over the same memory, a file in RAM that each maps: which physical pages a process was given moves such
figures by a tenth and more, and is none of what is compared.

``loops.c`` is built for three widths of registers and has three forms of each stream; which of them is the best here is
found out before, by short tries, and that one is compared. From 4 MiB on, where the best changes with the moment, both
sides measure two forms in every turn: of the C program's the better one over all turns counts, of boundby's the better
one of each.

Alike on purpose, since it moves such figures and is none of what is compared: how far apart vectors and two threads'
parts begin, that results of functions do not begin closely behind what is read, that sets past the caches go by pieces
of 16 MiB, and the quantile that a figure is read at. What is compared are single probes, each for itself; a measuring
visits all of them in turns.

With ``--itself`` the independent programs are compared with second copies of themselves, which choose their own forms:
what is off then is the machine's and this comparison's doing.

Exit status 1 if a ceiling is further off, or could not be compared.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from processes import table  # noqa: E402

from boundby.machine.describe import cpu_model, process_affinity, usable_cores  # noqa: E402
from boundby.machine.ensure import worker_environment  # noqa: E402

RAW_LIMIT, STACK_LIMIT = 0.03, 0.05
WITHIN = "yes"
KIB, MIB = 1 << 10, 1 << 20
WIDTHS = (16, 32, 64)
PLAIN = ("read", "write", "copy", "inplace", "triad")
PAST_CACHES = ("write_nt", "copy_nt", "triad_nt")
FUNCTIONS = ("exp", "tanh", "sigmoid", "erf", "gelu", "silu", "softmax")
OVERHEADS = (
    "view/transpose", "pointwise/add", "pointwise/gelu", "pointwise_out/exp", "reduction/sum", "matmul/mm",
    "index/index_select", "module_call", "ufunc/add",
)  # fmt: skip
PRODUCTS: tuple[tuple[str, str, tuple[int, int, int, int]], ...] = (
    ("mm", "fp32", (1, 256, 256, 256)),
    ("mm", "fp32", (1, 1024, 1024, 1024)),
    ("mm_nt", "fp32", (1, 512, 512, 512)),
    ("mm", "fp32", (8, 512, 512, 64)),
    ("mm", "bf16", (1, 512, 512, 512)),
    ("mm", "fp64", (1, 512, 512, 512)),
)


@dataclass(slots=True)
class Talker:
    """A process that answers one line with one line, and stands still otherwise."""

    name: str
    process: subprocess.Popen[str]

    def ask(self, question: str) -> float | None:
        self.process.send_signal(signal.SIGCONT)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(question + "\n")
            self.process.stdin.flush()
            said = self.process.stdout.readline()
        except BrokenPipeError:
            said = ""
        if not said:
            sys.exit(f"{self.name} ended with status {self.process.wait()} when asked: {question}")
        self.process.send_signal(signal.SIGSTOP)
        value: float | None = json.loads(said)
        return value


@contextmanager
def talking(name: str, command: Sequence[str], environment: dict[str, str]) -> Iterator[Talker]:
    """Starts the process and waits until it is ready."""
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            sys.exit(f"{name} did not start (status {process.wait()})")
        process.send_signal(signal.SIGSTOP)
        yield Talker(name, process)
    finally:
        process.kill()
        process.wait()


# Whom to ask what: several questions for several forms of one thing.
Side = Sequence[tuple[Talker, str]]


@dataclass(slots=True)
class Comparison:
    """One ceiling: what to ask each side, and what they answered turn by turn, a figure for each question."""

    label: str
    unit: str
    limit: float
    independent: Side
    own: Side
    answers: list[tuple[list[float | None], list[float | None]]] = field(default_factory=list)

    def take(self, own_first: bool) -> None:
        order = (self.own, self.independent) if own_first else (self.independent, self.own)
        first, second = ([talker.ask(question) for talker, question in side] for side in order)
        self.answers.append((second, first) if own_first else (first, second))

    def figures(self) -> tuple[list[float], list[float]]:
        """What each side reached, turn by turn, with the form that is its best over all turns; nothing if one lacks."""
        independent, own = (best_of([turn[side] for turn in self.answers]) for side in (0, 1))
        return (independent, own) if independent and own else ([], [])

    def row(self) -> list[str]:
        limit = f"{self.limit:.0%}"
        independent, own = self.figures()
        if not independent:
            return [self.label, "", "", "", "", limit, "NO ANSWER"]
        ratios = sorted(mine / other for other, mine in zip(independent, own, strict=True))
        ratio = statistics.median(ratios)
        quarter = len(ratios) // 4
        figures = [written(statistics.median(side), self.unit) for side in (independent, own)]
        spread = f"{ratios[quarter]:.3f} to {ratios[-1 - quarter]:.3f}"
        return [self.label, *figures, f"{ratio:.3f}", spread, limit, WITHIN if abs(ratio - 1) <= self.limit else "NO"]


def best_of(turns: Sequence[Sequence[float | None]]) -> list[float]:
    """Of several figures a turn those of one place, whose median is the largest; empty where any of these lacks."""
    known = [[one for one in figures if one] for figures in zip(*turns, strict=True)]
    best = max(known, key=lambda figures: statistics.median(figures) if figures else 0.0, default=[])
    return best if len(best) == len(turns) else []


def written(value: float, unit: str) -> str:
    if unit == "s":
        return f"{1e6 * value:.3f} us" if value > 1e-8 else f"{1e9 * value:.4f} ns"
    return f"{1e-9 * value:.4g} {'GFLOP/s' if unit == 'flop/s' else 'GB/s'}"


def built(folder: Path) -> dict[int, Path]:
    """``loops.c`` for each width of registers that this processor has.

    Ends the process where there is no compiler: there is nothing to compare with then.
    """
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC", ""), "cc", "gcc", "clang"))), None)
    if compiler is None:
        sys.exit("no C compiler: there is nothing to compare the raw ceilings with")
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    features = Path("/proc/cpuinfo").read_text(encoding="utf-8").split() if Path("/proc/cpuinfo").exists() else []
    wanted = [
        width for width, needs in zip(WIDTHS, ("", "avx", "avx512f"), strict=True) if not needs or needs in features
    ]
    found: dict[int, Path] = {}
    for width in wanted if x86 else WIDTHS[:1]:
        path = folder / f"loops{width}"
        flags = ["-O3", "-march=native", "-ffp-contract=fast", "-std=gnu11", "-pthread", f"-DWIDTH={width}"]
        subprocess.run([compiler, *flags, "-o", str(path), str(HERE / "loops.c")], check=True)
        found[width] = path
    return found


@contextmanager
def memory_file() -> Iterator[Path]:
    """A file of 264 MiB in RAM where the system has a place for such; gone at the end, if not before."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    descriptor, name = tempfile.mkstemp(dir=place, prefix="ceilings-")
    try:
        os.truncate(descriptor, 264 * MIB)
        os.close(descriptor)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def best_forms(loops: dict[int, Talker], name: str, size: int, threads: int) -> list[tuple[Talker, str]]:
    """The widths and numbers of stretches that this loop is fastest with: one, or two from 4 MiB on.

    The best four of short tries are tried on; all are judged by the medians of what they reached.
    """
    forms = [(talker, stretches) for talker in loops.values() for stretches in ((1,) if size == 0 else (1, 2, 4))]
    tries: list[list[float]] = [[] for _ in forms]
    left = list(range(len(forms)))
    for turns in (3, 8):
        for number in left * turns:
            talker, stretches = forms[number]
            tries[number].append(talker.ask(f"{name} {size} {threads} {stretches} 12") or 0.0)
        left = sorted(left, key=lambda number: -statistics.median(tries[number]))[:4]
    chosen = [forms[number] for number in left[: 2 if size >= 4 * MIB else 1]]
    return [(talker, f"{name} {size} {threads} {stretches}") for talker, stretches in chosen]


def comparisons(
    loops: dict[int, Talker], plain: Talker, own: Talker | tuple[dict[int, Talker], Talker], threads: int, ms: float
) -> list[Comparison]:
    """All that is compared; ``own`` are boundby's probes, or second copies of the independent programs."""
    found: list[Comparison] = []

    def raw(label: str, name: str, size: int, question: list[object], unit: str) -> None:
        def asked_of(programs: dict[int, Talker]) -> list[tuple[Talker, str]]:
            return [(talker, f"{asked} {ms}") for talker, asked in best_forms(programs, name, size, threads)]

        independent = asked_of(loops)
        width = next(width for width, one in loops.items() if one is independent[0][0])
        form = f"{8 * width} bit" + (f" x {independent[0][1].split()[3]}" if size else "")
        found.append(
            Comparison(
                label=f"native {label}, {threads} thr. ({form})",
                unit=unit,
                limit=RAW_LIMIT,
                independent=independent,
                own=[(own, json.dumps([*question, len(independent) * ms]))]
                if isinstance(own, Talker)
                else asked_of(own[0]),
            )
        )

    def stack(label: str, question: list[object], unit: str, stack: str = "torch", long: float = 1.0) -> None:
        kind, name, dtype, what = question
        asked = json.dumps([kind, name, dtype, what, long * ms])
        found.append(
            Comparison(
                label=f"{stack} {label}, {threads} thr.",
                unit=unit,
                limit=STACK_LIMIT,
                independent=[(plain, asked)],
                own=[(own, json.dumps([stack, *question, long * ms]))]
                if isinstance(own, Talker)
                else [(own[1], asked)],
            )
        )

    for dtype, name in (("fp32", "fma32"), ("fp64", "fma64")):
        raw(f"fma {dtype}", name, 0, ["native", "matmul", "fma", dtype, None], "flop/s")
    for size, text in ((16 * KIB, "16 KiB"), (256 * KIB, "256 KiB"), (4 * MIB, "4 MiB"), (256 * MIB, "256 MiB")):
        for name in PLAIN + (PAST_CACHES if size >= 4 * MIB else ()):
            raw(f"{name} {text}", name, size, ["native", "bandwidth", name, "fp32", size], "byte/s")
        # On few elements torch uses one thread, and the cost of handing out the work is the larger part.
        if size >= (256 * KIB if threads == 1 else 4 * MIB):
            for name in PLAIN:
                stack(f"{name} {text}", ["bandwidth", name, "fp32", size], "byte/s")
    for name, dtype, shape in PRODUCTS:
        sizes = " x ".join(map(str, shape if shape[0] > 1 else shape[1:]))
        stack(
            f"{name} {dtype} {sizes}",
            ["matmul", name, dtype, list(shape)],
            "flop/s",
            long=5.0 if math.prod(shape) > 5e8 else 1.0,
        )
    elements = 32 * KIB * max(2, threads)
    for name in FUNCTIONS:
        stack(f"{name} of {elements:,}", ["function", name, "fp32", 4 * elements], "s")
    if threads == 1:
        for name in OVERHEADS:
            numpy = name.startswith("ufunc")
            stack(name, ["overhead", name, None, None], "s", "numpy" if numpy else "torch")
    return found


def compared(
    programs: dict[int, Path], threads: int, *, every_core: bool, turns: int, ms: float, itself: bool
) -> list[Comparison]:
    """All that is compared at so many threads, after all its turns."""
    environment = {
        **worker_environment(dict(os.environ), every_core=every_core),
        "OMP_NUM_THREADS": str(threads),
    }
    with memory_file() as memory, ExitStack() as stack:

        def start(name: str, *command: str) -> Talker:
            return stack.enter_context(talking(name, [*command, str(memory)], environment))

        def start_loops() -> dict[int, Talker]:
            return {width: start(path.name, str(path)) for width, path in programs.items()}

        def start_python(name: str, script: str) -> Talker:
            return start(name, sys.executable, str(HERE / script), str(threads))

        loops, plain = start_loops(), start_python("plain torch loops", "torch_loops.py")
        own = (
            (start_loops(), start_python("a copy of the torch loops", "torch_loops.py"))
            if itself
            else start_python("boundby's probes", "boundby_probes.py")
        )
        # All have mapped it: however this process ends, nothing is left of it.
        memory.unlink()
        print(f"{threads} threads: trying the forms of loops.c", file=sys.stderr)
        found = comparisons(loops, plain, own, threads, ms)
        for turn in range(turns):
            for one in found:
                one.take(own_first=turn % 2 == 1)
            print(f"{threads} threads: turn {turn + 1} of {turns}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = usable_cores(affinity=process_affinity())
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, cores}), metavar="N")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--milliseconds", type=float, default=60.0, help="how long each side measures in a turn")
    parser.add_argument("--itself", action="store_true", help="compare the independent programs with copies of them")
    args = parser.parse_args()
    # Stopped processes are no use to anybody: they go with this one.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    print(f"{cpu_model()}, {cores} usable cores", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        programs = built(Path(folder))
        found = [
            one
            for threads in args.threads
            for one in compared(
                programs,
                threads,
                every_core=threads == cores > 1,
                turns=args.turns,
                ms=args.milliseconds,
                itself=args.itself,
            )
        ]
    rows = [one.row() for one in found]
    other = "copy" if args.itself else "boundby"
    header = ["ceiling", "independent", other, "ratio", "middle half of the turns", "limit", "within"]
    print(table(header, rows))
    within = sum(row[-1] == WITHIN for row in rows)
    print(f"\n{within} of {len(rows)} within their limits.")
    sys.exit(0 if within == len(rows) else 1)


if __name__ == "__main__":
    main()
