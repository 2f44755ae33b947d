"""What watching costs: microseconds and bytes a watched op, and whether both grow in proportion with the ops.

    python benchmarks/watch_cost.py [--ops 1000 10000 100000 1000000] [--sizes 1 100]

At most 15 us a watched op (the mean over all watched steps), and at most 300 MB for a million of them.
Exit status 1 if any is over.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from processes import HERE, table

WATCH, TIMED, WARMUP, TAIL = 3, 3, 2, 3
MICROSECONDS = 15.0
BYTES_A_MILLION = 300e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Seconds of each step, the process's wall time (s) and its largest resident set (bytes)."""

    seconds: list[float]
    wall_s: float
    peak_bytes: int
    watched: int


def run(ops: int, sizes: int, *, under_boundby: bool) -> Run:
    """Run the script in a process of its own."""
    steps = WARMUP + TIMED + WATCH + TAIL + 4
    script = [str(HERE / "watched_ops.py"), str(ops), str(steps), str(sizes)]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["--warmup", str(WARMUP), "--steps", str(TIMED), "--watch", str(WATCH), "-o", str(report)]
        command = ["-m", "boundby", "run", *options, *script] if under_boundby else script
        begin = time.perf_counter()
        with (Path(folder) / "stdout").open("w+") as stdout, (Path(folder) / "stderr").open("w+") as stderr:
            process = subprocess.Popen([sys.executable, *command], stdout=stdout, stderr=stderr)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            wall_s = time.perf_counter() - begin
            stdout.seek(0)
            stderr.seek(0)
            if process.returncode != 0 or (under_boundby and not report.exists()):
                raise RuntimeError(f"status {process.returncode}: {stderr.read()}")
            seconds = json.loads(stdout.read().splitlines()[-1])["seconds"]
        watched = json.loads(report.read_text())["step"]["steps_watched"] if under_boundby else 0
    unit = 1 if sys.platform == "darwin" else 1024
    return Run(seconds=seconds, wall_s=wall_s, peak_bytes=usage.ru_maxrss * unit, watched=watched)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 100], help="how many different shapes the ops have")
    args = parser.parse_args()
    run(args.ops[0], 1, under_boundby=True)  # ceilings known
    rows, within = [], True
    for sizes in args.sizes:
        least: Run | None = None
        for ops in args.ops:
            plain, under = run(ops, sizes, under_boundby=False), run(ops, sizes, under_boundby=True)
            least = least or under
            bare = statistics.median(plain.seconds[WARMUP:])
            slowest = sorted(under.seconds[WARMUP:])[-under.watched :]
            costs = [1e6 * (seconds - bare) / ops for seconds in slowest]
            grown = under.peak_bytes - least.peak_bytes - max(0, plain.peak_bytes - least.peak_bytes)
            over = statistics.mean(costs) > MICROSECONDS or grown > BYTES_A_MILLION * max(1.0, ops / 1e6)
            within &= not over
            rows.append(
                [
                    f"{ops:,}",
                    str(sizes),
                    f"{1e6 * bare / ops:.2f}",
                    " ".join(f"{cost:.1f}" for cost in costs),
                    f"{1e6 * (under.wall_s - plain.wall_s) / (ops * under.watched):.1f}",
                    f"{(under.peak_bytes - plain.peak_bytes) / 1e6:.0f}",
                    f"{grown / 1e6:.0f}",
                    "NO" if over else "yes",
                ]
            )
            print(" | ".join(rows[-1]), file=sys.stderr)
    header = ["ops a step", "shapes", "bare (us an op)", "watching, by step (us an op)", "whole run (us a watched op)"]
    print(table([*header, "memory over plain (MB)", "over the smallest run (MB)", "within"], rows))
    sys.exit(0 if within else 1)


if __name__ == "__main__":
    main()
