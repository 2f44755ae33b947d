"""Run realistic scripts plain and under boundby, and compare their results, their time and what boundby says.

    python benchmarks/real_scripts.py [--scripts FOLDER] [--rounds 3] [NAME ...]

Prints a Markdown table. Words on standard output that differ between plain runs (rates, durations) are not compared.
Exit status 1 if a result changed, a status changed or a reconciliation is off by over 5%.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
from pathlib import Path

from processes import Done, execute, table, watched
from script_list import Script, losses, scripts

SHARES = ("overhead", "memory", "matmul", "pointwise", "input", "unexplained")


def run_once(script: Script, *, under_boundby: bool) -> tuple[Done, str]:
    """One run in an empty folder: how it went, and its losses."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "losses.jsonl"
        environment = script.environment(file)
        run = watched if under_boundby else execute
        done = run(script.command, cwd=Path(folder), environment=environment)
        return done, losses(file, done.stdout)


def same_text(plain: list[str], other: str) -> bool:
    """Whether ``other`` has the words of the plain runs, but for those that vary among these."""
    columns = itertools.zip_longest(*(text.split() for text in plain), fillvalue=None)
    steady = [column[0] if len(set(column)) == 1 else None for column in columns]
    words = other.split()
    return len(words) == len(steady) and all(w == s for w, s in zip(words, steady, strict=True) if s is not None)


def examine(script: Script, rounds: int) -> tuple[list[str], bool]:
    """A line of the table, and whether all is as it must be."""
    plain, under = [], []
    for _ in range(rounds):
        plain.append(run_once(script, under_boundby=False))
        under.append(run_once(script, under_boundby=True))
    plain_loss = {loss for _, loss in plain}
    same_loss = plain_loss == {loss for _, loss in under} and len(plain_loss) == 1 and "" not in plain_loss
    same_status = {done.status for done, _ in plain} == {done.status for done, _ in under}
    texts = [done.stdout for done, _ in plain]
    same_stdout = all(same_text(texts, done.stdout) for done, _ in under)
    plain_s = statistics.median(done.wall_s for done, _ in plain)
    under_s = statistics.median(done.wall_s for done, _ in under)
    reports = [done.report for done, _ in under if done.report is not None]
    row = [
        script.name,
        "same" if same_loss else "CHANGED",
        "same" if same_status else f"CHANGED: {[done.status for done, _ in under]}",
        "same" if same_stdout else "CHANGED",
    ]
    if not reports:
        print(under[-1][0].stderr, file=sys.stderr)
        return [*row, "no report", "", f"{plain_s:.1f}", f"{under_s:.1f}", "", ""], False
    values = [report["reconciliation"]["value"] for report in reports if report["reconciliation"]]
    reconciled = len(values) == len(reports) and all(abs(value - 1) <= 0.05 for value in values)
    bounds = sorted({report["verdict"]["bound"] for report in reports})
    expected = f" (expected {script.expected})" if script.sure and bounds != [script.expected] else ""
    split = " ".join(
        f"{name} {100 * statistics.median(report['split'][name]['value'] for report in reports):.0f}" for name in SHARES
    )
    row += [
        " ".join(f"{value:.3f}" for value in values) or "none",
        str(reports[-1]["step"]["events_per_step"]),
        f"{plain_s:.1f}",
        f"{under_s:.1f}",
        "/".join(bounds) + expected,
        split,
    ]
    return row, same_loss and same_status and same_stdout and reconciled and not expected


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--scripts", type=Path, metavar="FOLDER", help="a folder with a specs.py")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    chosen = scripts(args.scripts, args.names)
    with tempfile.TemporaryDirectory() as folder:
        # The ceilings are measured at first use; here they are to be known.
        watched(chosen[0].command, cwd=Path(folder), environment=chosen[0].environment(Path(folder) / "losses.jsonl"))
    rows, right = [], True
    for script in chosen:
        row, as_expected = examine(script, args.rounds)
        print(" | ".join(row), file=sys.stderr)
        rows.append(row)
        right &= as_expected
    header = ["script", "losses", "status", "stdout", "reconciliation", "events a step"]
    print(table([*header, "plain (s)", "boundby (s)", "verdict", "split (%)"], rows))
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
