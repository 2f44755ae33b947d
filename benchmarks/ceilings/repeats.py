"""How well `boundby machine` repeats, run after run, and what a busy core does to it.

    python benchmarks/ceilings/repeats.py FOLDER [--runs 20] [--loaded 4] [--unlike]

Each run is a `boundby machine --again` of its own, kept in FOLDER; files that are there already are taken as they are
where they are of this machine and of the same measuring. What it keeps for itself goes to FOLDER too: no script is ever
judged by a loaded run. Loaded runs come last, beside a process that keeps the last core busy.

Told are, by kind of ceiling: how many are typically within 3% of their median over the quiet runs (half of the runs
are), how many in nine runs of ten, how often the band of one quiet run holds the value of another, and the median of
all. Of each loaded run: what it is flagged with, and how many quiet medians its bands hold; a ceiling that it lacks is
not held. --unlike lists the ceilings that are not typically within 3%. Quiet runs that are flagged as not quiet are
told, and counted all the same.

Exit status 1 if a ceiling is not typically within 3%, if a loaded run has no flag, or if its bands hold fewer than nine
of ten.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from processes import execute, other_core_loaded, table  # noqa: E402

from boundby.machine.bands import Key, ceiling_key, moved_bytes  # noqa: E402
from boundby.results.machine import MAIN_MEMORY_BYTES, Ceiling, Machine  # noqa: E402
from boundby.results.machine_file import decode_machine  # noqa: E402

NEAR = 0.03
ENOUGH = 0.9


def measured(path: Path, *, loaded: bool = False) -> Machine:
    """The machine file at ``path``, made first where it is not there."""
    if not path.exists():
        with other_core_loaded(loaded):
            done = execute(
                ("-m", "boundby", "machine", "--again", "-o", str(path)),
                environment={"BOUNDBY_CACHE_DIR": str(path.parent / "cache")},
            )
        if done.status != 0:
            sys.exit(f"boundby machine ended with status {done.status}: {done.stderr}")
    machine = decode_machine(path.read_bytes(), name=str(path))
    if machine.measuring is not None:
        how = machine.measuring
        print(
            f"{path.name}: {how.seconds:.1f} s, {how.rounds} rounds, {how.peak_memory_bytes / 2**20:,.0f} MiB, "
            f"flags: {', '.join(one.code for one in machine.findings) or 'none'}",
            file=sys.stderr,
        )
    return machine


def by_key(machine: Machine) -> dict[Key, Ceiling]:
    """All ceilings but the anchors, which are readings of their moment."""
    return {ceiling_key(one): one for one in machine.ceilings if one.kind != "anchor"}


def kind_of(one: Ceiling) -> str:
    """The row of the table that this ceiling is counted in."""
    if one.kind == "bandwidth" or one.unit == "byte/s":
        what = "main memory" if moved_bytes(one) >= MAIN_MEMORY_BYTES else "streams in caches"
    else:
        what = {"overhead": "overhead", "function": "functions", "matmul": "products"}.get(one.kind, one.kind)
    if what == "products" and one.stack == "native":
        return "native multiply-adds"
    if what == "products" and one.name.startswith(("conv", "attention")):
        what = "convolutions, attention"
    native = "native " if one.stack == "native" else ""
    return f"{native}{what}" + ("" if what == "overhead" else f", {one.threads} thr.")


def share(several: Iterable[bool]) -> float:
    """How many of them are true, from 0 to 1; 0 of none."""
    known = list(several)
    return sum(known) / len(known) if known else 0.0


def flags(machine: Machine) -> list[str]:
    """The codes by which a run says that it was not alone."""
    return [one.code for one in machine.findings if one.code in ("machine-busy", "machine-unsteady")]


def what_was_measured(machine: Machine) -> tuple[object, ...]:
    """What two runs have to have in common, or they are no repeats of each other."""
    here, how = machine.description, machine.measuring
    return here.cpu, here.usable_cores, here.threads, here.torch, how and how.mode


class Repeated:
    """One ceiling over the quiet runs."""

    def __init__(self, runs: Sequence[Ceiling]) -> None:
        self.runs = runs
        self.median = statistics.median(one.value for one in runs)
        self.distances = sorted(abs(one.value / self.median - 1) for one in runs)

    @property
    def typical(self) -> float:
        """The median distance from the median, as a share of it."""
        return statistics.median(self.distances)

    @property
    def far(self) -> float:
        """The distance that nine runs of ten stay within."""
        return self.distances[math.ceil(ENOUGH * len(self.distances)) - 1]

    @property
    def holds_others(self) -> float:
        """Of all pairs of runs, how many of the first ones' bands hold the second one's value."""
        pairs = [(one, two) for one in self.runs for two in self.runs if one is not two]
        return share(one.low <= two.value <= one.high for one, two in pairs)

    @property
    def holds_median(self) -> float:
        """How many runs' bands hold the median of all."""
        return share(one.low <= self.median <= one.high for one in self.runs)


def quiet_table(repeated: Sequence[Repeated]) -> str:
    kinds: dict[str, list[Repeated]] = defaultdict(list)
    for one in repeated:
        kinds[kind_of(one.runs[0])].append(one)
    kinds = {**dict(sorted(kinds.items())), "all": list(repeated)}
    rows = [
        [
            kind,
            str(len(ones)),
            str(sum(one.typical <= NEAR for one in ones)),
            str(sum(one.far <= NEAR for one in ones)),
            f"{statistics.median(one.typical for one in ones):.1%}",
            f"{statistics.mean(one.holds_others for one in ones):.1%}",
            f"{statistics.mean(one.holds_median for one in ones):.1%}",
        ]
        for kind, ones in kinds.items()
    ]
    return table(
        ["kind", "ceilings", "typically within 3%", "nine of ten", "typical", "holds another run", "holds the median"],
        rows,
    )


def written(one: Repeated) -> str:
    first = one.runs[0]
    words = [first.stack, first.kind, first.name, first.dtype, first.shape, first.size_bytes, f"{first.threads} thr."]
    return f"{' '.join(str(word) for word in words if word is not None)}: {one.typical:.1%}, nine of ten {one.far:.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--runs", type=int, default=20, help="how many quiet runs")
    parser.add_argument("--loaded", type=int, default=4, help="how many runs beside a busy core")
    parser.add_argument("--unlike", action="store_true", help="list the ceilings that do not repeat within 3%%")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    machines = [measured(args.folder / f"quiet{number:02}.json") for number in range(args.runs)]
    if len(machines) < 2:
        sys.exit("two quiet runs at the least have something to repeat")
    if len({what_was_measured(one) for one in machines}) > 1:
        sys.exit(f"the files in {args.folder} are of different machines or measurings: give an empty folder")
    quiet = [by_key(one) for one in machines]
    in_all = [key for key in quiet[0] if all(key in one for one in quiet)]
    repeated = {key: Repeated([one[key] for one in quiet]) for key in in_all}
    print(quiet_table(list(repeated.values())))
    unlike = [one for one in repeated.values() if one.typical > NEAR]
    print(
        f"\n{len(repeated) - len(unlike)} of {len(repeated)} ceilings are typically within {NEAR:.0%} of their median."
    )
    sometimes = len({key for one in quiet for key in one}) - len(in_all)
    if sometimes:
        print(f"{sometimes} more were not measured in every run.")
    print(f"{sum(bool(flags(one)) for one in machines)} of {len(machines)} quiet runs say that they were not quiet.")
    if args.unlike:
        print("\n".join(written(one) for one in sorted(unlike, key=lambda one: -one.typical)))
    good = not unlike
    for number in range(args.loaded):
        path = args.folder / f"loaded{number:02}.json"
        machine = measured(path, loaded=True)
        found = by_key(machine)
        held = share(key in found and found[key].low <= one.median <= found[key].high for key, one in repeated.items())
        told = ", ".join(flags(machine))
        print(f"{path.name}: {told or 'NO FLAG'}; its bands hold the quiet median for {held:.1%}")
        good &= bool(told) and held >= ENOUGH
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
