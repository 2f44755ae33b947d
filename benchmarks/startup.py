"""How fast boundby starts: at most 3 x `python -c "import click, rich"`, with neither torch nor numpy loaded.

python benchmarks/startup.py [--rounds 15]
"""

from __future__ import annotations

import argparse
import statistics
import sys

from processes import execute, table

LIMIT = 3.0
COMMANDS = {
    'python -c "import click, rich"': ["-c", "import click, rich"],
    'python -c "import boundby"': ["-c", "import boundby"],
    "boundby --help": ["-m", "boundby", "--help"],
    "boundby --version": ["-m", "boundby", "--version"],
    "boundby run --help": ["-m", "boundby", "run", "--help"],
    "boundby show --help": ["-m", "boundby", "show", "--help"],
}
LOADED = """
import runpy, sys
sys.argv[:] = ["boundby", *sys.argv[1:]]
try:
    runpy.run_module("boundby", run_name="__main__", alter_sys=True) if sys.argv[1:] else __import__("boundby")
finally:
    print("loaded:", *sorted({"torch", "numpy", "scipy"} & set(sys.modules)), file=sys.stderr)
"""


def loaded(arguments: list[str]) -> str:
    """Which of the heavy packages a command loads."""
    done = execute(["-c", LOADED, *arguments])
    return next(line for line in done.stderr.splitlines() if line.startswith("loaded:")).removeprefix("loaded:").strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(args.rounds):
        for name, command in COMMANDS.items():
            done = execute(command)
            if done.status != 0:
                raise SystemExit(f"{name}: status {done.status}\n{done.stderr}")
            times[name].append(done.wall_s)
    base = statistics.median(next(iter(times.values())))
    rows, within = [], True
    for name, command in COMMANDS.items():
        ours = "boundby" in name
        heavy = loaded(command[2:] if command[0] == "-m" else []) if ours else ""
        ratio = statistics.median(times[name]) / base
        within &= not ours or (ratio <= LIMIT and not heavy)
        rows.append([f"`{name}`", f"{1e3 * statistics.median(times[name]):.0f}", f"{ratio:.2f}", heavy or "none"])
    print(table(["command", "median (ms)", "ratio", "heavy packages loaded"], rows))
    sys.exit(0 if within else 1)


if __name__ == "__main__":
    main()
