"""What `boundby run` costs on top of the plain script: 60 steps, ceilings known. At most 1.4 x the plain time + 3 s.

    python benchmarks/run_cost.py [--scripts FOLDER] [--steps 60] [--rounds 5] [NAME ...]

Plain and watched runs alternate, and the medians of their wall times are compared. Exit status 1 if any is over.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from processes import execute, table, watched
from script_list import Script, scripts

FACTOR, CONSTANT_S = 1.4, 3.0


def times(script: Script, steps: int, rounds: int) -> tuple[list[float], list[float]]:
    """Wall times in seconds of the plain and of the watched runs, in turns; the ceilings are measured before."""
    plain, under = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = script.environment(folder / "losses.jsonl", steps)
        watched(script.command, cwd=folder, environment=environment)
        for _ in range(rounds):
            plain.append(execute(script.command, cwd=folder, environment=environment).wall_s)
            under.append(watched(script.command, cwd=folder, environment=environment).wall_s)
    return plain, under


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--scripts", type=Path, metavar="FOLDER", help="a folder with a specs.py")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    rows, within = [], True
    for script in scripts(args.scripts, args.names):
        plain, under = times(script, args.steps, args.rounds)
        a, b = statistics.median(plain), statistics.median(under)
        limit = FACTOR * a + CONSTANT_S
        within &= b <= limit
        spread = f"{min(under):.1f} to {max(under):.1f}"
        rows.append(
            [script.name, f"{a:.2f}", f"{b:.2f}", spread, f"{b / a:.2f}", f"{limit:.2f}", "yes" if b <= limit else "NO"]
        )
        print(" | ".join(rows[-1]), file=sys.stderr)
    print(table(["script", "plain (s)", "boundby (s)", "low to high", "ratio", "limit (s)", "within"], rows))
    sys.exit(0 if within else 1)


if __name__ == "__main__":
    main()
