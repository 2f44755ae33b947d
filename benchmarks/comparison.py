"""Whether `boundby compare` tells runs apart: a workload with itself does not differ 19 of 20 times, 1.3x is found.

Each workload is explained again and again in turns with one that does 1.3 times as much; consecutive reports of the
first are the A/A pairs, neighbours of the two kinds the 1.3x pairs. With --processes each report comes from a process
of its own, as two reports of a user do.

python benchmarks/comparison.py [--pairs 20] [--processes]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path

from processes import table

from boundby.bound.compare import compare_reports
from boundby.results.files import decode_report
from boundby.results.report import Report

MORE = 1.3
ENOUGH = 0.95
KINDS = ("small ops", "matrix products", "large streams")


@cache
def part_of(kind: str) -> Callable[[], object]:
    """A tenth of a workload, on data made once: two buffers may lie so that one is several times as fast."""
    import torch

    small, square, large = torch.ones(8), torch.rand(192, 192), torch.ones(1 << 24)
    parts: dict[str, Callable[[], object]] = {
        "small ops": lambda: [small + 1.0 for _ in range(20)],
        "matrix products": lambda: square @ square,
        "large streams": lambda: large.mul_(1.0),
    }
    return parts[kind]


def workload(kind: str, times: int) -> Callable[[], None]:
    """A step of ``times`` equal parts: 10 are the workload, 13 the one that is 1.3 times as much."""
    part = part_of(kind)

    def step() -> None:
        for _ in range(times):
            part()

    return step


def explained(kind: str, times: int) -> Report:
    """One report from this process."""
    import boundby

    return boundby.explain(workload(kind, times))


def explained_apart(kind: str, times: int) -> Report:
    """One report from a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        command = [sys.executable, __file__, "--one", kind, str(times), str(path)]
        subprocess.run(command, check=True)
        return decode_report(path.read_bytes(), name=str(path))


def differs(a: Report, b: Report) -> tuple[bool | None, float]:
    """Whether two reports differ in time, and the least difference that would have been told."""
    found = compare_reports(a, b, name_a="a", name_b="b").time
    if found is None or found.noise is None:
        return None, float("nan")
    return found.differs, found.noise.told_apart


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--processes", action="store_true")
    parser.add_argument("--one", nargs=3, metavar=("KIND", "TIMES", "FILE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        Path(args.one[2]).write_text(explained(args.one[0], int(args.one[1])).to_json())
        return
    explain = explained_apart if args.processes else explained
    taken: dict[str, list[tuple[Report, Report]]] = {kind: [] for kind in KINDS}
    for _ in range(args.pairs + 1):
        for kind in KINDS:
            taken[kind].append((explain(kind, 10), explain(kind, round(10 * MORE))))
    rows, within = [], True
    for kind, reports in taken.items():
        alike = [differs(a[0], b[0]) for a, b in pairwise(reports)]
        unlike = [differs(*pair) for pair in reports[: args.pairs]]
        same = sum(found is False for found, _ in alike)
        found = sum(found is True for found, _ in unlike)
        within &= min(same, found) >= ENOUGH * args.pairs
        least = statistics.median(told for _, told in alike)
        rows.append([kind, f"{same} of {len(alike)}", f"{found} of {len(unlike)}", f"{least:.0%}"])
    print(table(["workload", "A/A: no difference", f"{MORE}x: found", "least told apart (median)"], rows))
    sys.exit(0 if within else 1)


if __name__ == "__main__":
    main()
