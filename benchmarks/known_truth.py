"""Compare boundby's split with the truth on workloads whose split is known by construction.

    python benchmarks/known_truth.py [--runs 20] [--load] [--threads N] [WORKLOAD ...]

Each workload in benchmarks/known_truth measures its own truth after its steps, with a clock between its parts and no
boundby. A run is right if every share is within 5 points of it and the bound is the largest part's. Exit status 1 if
any run was not.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import HERE, Done, other_core_loaded, table, watched

SHARES = ("overhead", "memory", "matmul", "pointwise", "input", "unexplained")
BOUND = {"overhead": "overhead", "memory": "memory", "matmul": "compute", "pointwise": "compute", "input": "input"}
POINTS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One run against its truth: share by share the deviation, and the bound that was given."""

    deviations: dict[str, float]
    bound: str
    right_bounds: tuple[str, ...]
    reconciliation: float | None
    split: dict[str, float]
    truth: dict[str, float]

    @property
    def worst(self) -> tuple[str, float]:
        return max(self.deviations.items(), key=lambda item: abs(item[1]))

    @property
    def shares_right(self) -> bool:
        return abs(self.worst[1]) <= POINTS

    @property
    def bound_right(self) -> bool:
        return self.bound in self.right_bounds


def workloads() -> list[str]:
    """The names of the workloads: all scripts of the folder but the module that they share."""
    return sorted(path.stem for path in (HERE / "known_truth").glob("*.py") if path.stem != "workload")


def right_bounds(truth: dict[str, float]) -> tuple[str, ...]:
    """The bounds that a fair reader would give: what takes over half of the step, or else ``mixed`` or the largest."""
    groups: dict[str, float] = {}
    for name, share in truth.items():
        if name in BOUND:
            groups[BOUND[name]] = groups.get(BOUND[name], 0.0) + share
    largest = max(groups, key=lambda name: groups[name])
    return (largest,) if groups[largest] >= 0.55 else (largest, "mixed")


def deviation(value: float, truth: float, rest: float) -> float:
    """How far a share is from the truth; ``rest`` of the step has no known bound and may be in any share."""
    return min(0.0, value - truth) or max(0.0, value - truth - rest)


def compare(done: Done) -> Comparison:
    """Compare a watched run with the truth that its script printed.

    Raises:
        RuntimeError: the run failed or gave no report; carries what it wrote.
    """
    if done.status != 0 or done.report is None:
        raise RuntimeError(f"status {done.status}\n{done.stdout}\n{done.stderr}")
    truth: dict[str, float] = json.loads(done.stdout.splitlines()[-1])["truth"]
    split = {name: done.report["split"][name]["value"] for name in SHARES}
    rest = truth.get("rest", 0.0)
    reconciliation: dict[str, Any] | None = done.report["reconciliation"]
    return Comparison(
        deviations={name: deviation(split[name], truth.get(name, 0.0), rest) for name in SHARES},
        bound=done.report["verdict"]["bound"],
        right_bounds=right_bounds(truth),
        reconciliation=reconciliation["value"] if reconciliation else None,
        split=split,
        truth=truth,
    )


def row(name: str, runs: list[Comparison]) -> list[str]:
    """A line of the table."""
    share, off = max((run.worst for run in runs), key=lambda item: abs(item[1]))
    reconciled = [run.reconciliation for run in runs if run.reconciliation is not None]
    truth = " ".join(f"{key} {100 * value:.0f}" for key, value in runs[0].truth.items())
    return [
        name,
        truth,
        f"{sum(run.shares_right for run in runs)}/{len(runs)}",
        f"{sum(run.bound_right for run in runs)}/{len(runs)}",
        f"{share} {100 * off:+.1f}",
        f"{min(reconciled):.2f} to {max(reconciled):.2f}" if reconciled else "none",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(workloads())}")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--load", action="store_true", help="load the other core; the workload then uses one thread")
    parser.add_argument("--threads", type=int, help="threads of the workload; torch's own choice unless given")
    parser.add_argument("--save", type=Path, help="append every comparison to this file, as JSON lines")
    args = parser.parse_args()
    threads = args.threads or (1 if args.load else None)
    environment = {"OMP_NUM_THREADS": str(threads)} if threads else {}
    rows, right = [], True
    with other_core_loaded(args.load):
        for name in args.workloads or workloads():
            script = str(HERE / "known_truth" / f"{name}.py")
            runs = []
            for number in range(args.runs):
                run = compare(watched([script], environment=environment))
                runs.append(run)
                right &= run.shares_right and run.bound_right
                share, off = run.worst
                print(
                    f"{name} {number + 1}/{args.runs}: {run.bound} ({'right' if run.bound_right else 'wrong'}),"
                    f" {share} {100 * off:+.1f}",
                    file=sys.stderr,
                )
                if args.save:
                    with args.save.open("a") as file:
                        print(
                            json.dumps({"name": name, "split": run.split, "truth": run.truth, "bound": run.bound}),
                            file=file,
                        )
            rows.append(row(name, runs))
    print(
        table(
            ["workload", "truth (%)", "shares right", "verdict right", "worst deviation (points)", "reconciliation"],
            rows,
        )
    )
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
