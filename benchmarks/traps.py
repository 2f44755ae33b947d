"""Five traps, each a change that sounds good and is not, or the reverse: what boundby says, and what is measured.

    python benchmarks/traps.py [--budget 3] [NAME ...]

Each script in benchmarks/traps is explained by `boundby run` and given to `boundby try` with the remedy in question.
Prints a Markdown table. Exit status 1 if boundby fell into a trap: advised what does not help, missed what does, or
said nothing of the cause where it should have been found.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import HERE, execute, table, watched

WORTH = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """A script and the remedy that it is about; ``finding`` is the code that has to be among the findings.

    ``threads`` on one core, as by ``OMP_NUM_THREADS`` and ``taskset``; None leaves both as they are.
    """

    name: str
    remedy: str
    what: str
    finding: str | None = None
    threads: int | None = None


TRAPS = (
    Trap(
        name="half_precision",
        remedy="int8-weights",
        what="fp16 products without hardware for them",
        finding="dtype-slow",
    ),
    Trap(name="one_kernel", remedy="compile", what="compiling a function that is one kernel"),
    Trap(name="matmul_bound", remedy="fused-optimizer", what="fused AdamW where products bind"),
    Trap(name="denormals", remedy="flush-denormal", what="square roots of denormal numbers"),
    Trap(
        name="two_threads_one_core",
        remedy="one-thread",
        what="two threads on one core",
        finding="threads-over-cores",
        threads=2,
    ),
)


def examine(trap: Trap, budget_s: float) -> tuple[list[str], bool]:
    """A line of the table, and whether boundby stayed out of the trap."""
    script = str(HERE / "traps" / f"{trap.name}.py")
    environment = {"BOUNDBY_KEEP_TRIALS": "0"}
    if trap.threads is not None:
        environment["OMP_NUM_THREADS"] = str(trap.threads)
    with tempfile.TemporaryDirectory() as name, on_one_core(trap.threads is not None):
        folder = Path(name)
        run = watched([script], options=["--stop"], cwd=folder, environment=environment)
        report = folder / "tried.json"
        command = ("-m", "boundby", "try", "--budget", str(budget_s), "-o", str(report), trap.remedy, script)
        done = execute(command, cwd=folder, environment=environment, report=report)
    if run.report is None or done.report is None:
        print(run.stderr if run.report is None else done.stderr, file=sys.stderr)
        return [trap.what, trap.remedy, "no report", "", "", "", "NO"], False
    found = next(one for one in done.report["remedies"] if one["name"] == trap.remedy)
    codes = [one["code"] for one in run.report["findings"]]
    before = next((one for one in run.report["remedies"] if one["name"] == trap.remedy), None)
    told = before["predicted"] if before is not None else None
    advised = before["advice"] if before is not None else "not applicable"
    measured = found["measured"]
    right = trap.finding is None or trap.finding in codes
    if measured is not None and found["took_effect"] is not False:
        right &= not (advised == "do" and measured["high"] < WORTH)
        right &= not (advised == "skip" and measured["low"] > WORTH)
        right &= not (advised == "not applicable" and measured["low"] > WORTH)
    row = [
        trap.what,
        trap.remedy,
        _factor(told) if told else (before["why"] if before is not None else "not applicable"),
        advised,
        _factor(measured) if measured else str(found["failed"]),
        found["advice"],
        ", ".join(codes) or "none",
        "yes" if right else "NO",
    ]
    return row, right


@contextmanager
def on_one_core(wanted: bool) -> Iterator[None]:
    """This process, and those it starts meanwhile, on its first core alone, where that is wanted and possible."""
    if not wanted or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _factor(one: dict[str, Any]) -> str:
    return f"{one['speedup']:.2f} ({one['low']:.2f}-{one['high']:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--budget", type=float, default=3.0, metavar="SECONDS", help="of turns for each trial")
    args = parser.parse_args()
    unknown = set(args.names) - {one.name for one in TRAPS}
    if unknown:
        raise SystemExit(f"no such trap: {', '.join(sorted(unknown))}; there are {', '.join(t.name for t in TRAPS)}")
    rows, stayed_out = [], True
    for trap in TRAPS:
        if args.names and trap.name not in args.names:
            continue
        row, right = examine(trap, args.budget)
        print(" | ".join(row), file=sys.stderr)
        rows.append(row)
        stayed_out &= right
    header = ["trap", "remedy", "predicted", "advised", "measured", "after the trial", "findings", "stayed out"]
    print(table(header, rows))
    sys.exit(0 if stayed_out else 1)


if __name__ == "__main__":
    main()
