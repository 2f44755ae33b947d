"""Predicts remedies for realistic scripts, tries them, and compares both with what each was measured to do by hand.

    python benchmarks/remedies.py [--scripts FOLDER] [--budget 3] [--results FOLDER] [--again] [NAME ...]

For each script: `boundby run -o`, then `boundby try` of what may be worth it, of what a `truth.json` beside the
scripts has a variant by hand for, and of compile and bf16-autocast, which are what people try on everything. The report
of each script is kept in the results folder as soon as it is there, and a later call takes it from there, unless it is
to be measured --again.

Prints a Markdown table and what it amounts to. Exit status 1 if predictions held in less than 8 of 10 trials, an
interval is wider than +-20%, or an advice has the wrong sign: a "do" that slows, a "skip" that would have given over
10%.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import execute, table, watched
from script_list import Script, scripts

HELD, WIDEST, MISSED = 0.8, 0.20, 1.10
# A script that ends before its trial does says nothing: so many times its usual steps; without usual ones, so many.
LONGER, STEPS = 10, 4_000
# The switch by hand, by the remedy that does the same from outside.
BY_HAND = {
    "fused-optimizer": "fused",
    "compile": "compile",
    "bf16-autocast": "bf16",
    "bf16-weights": "bf16w",
    "int8-weights": "int8",
    "sparse-gradients": "sparse",
    "recompute": "checkpoint",
    "channels-last": "channels_last",
    "workers-0": "workers0",
    "workers-2": "workers2",
    "one-thread": "threads1",
    "batch-x2": "batchx2",
    "allocator": "malloc",
}
LORE = ("compile", "bf16-autocast")
# Twice the batch is another training: following the advice is measured without it.
OTHER_WORK = ("batch-x2",)

Result = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One remedy on one script; ``truth`` is what the variant by hand gave: a factor, its range and a verdict."""

    script: str
    remedy: Result
    truth: Result | None

    @property
    def predicted(self) -> Result | None:
        return self.remedy["predicted"]

    @property
    def measured(self) -> Result | None:
        # What did not take place is no result of the remedy.
        return self.remedy["measured"] if self.remedy["took_effect"] is not False else None

    @property
    def advised(self) -> str:
        """The advice that the prediction alone gives, by the threshold that boundby states."""
        if self.predicted is None:
            return "try"
        if self.predicted["low"] >= 1.05:
            return "do"
        return "skip" if self.predicted["high"] < 1.05 else "try"

    @property
    def width(self) -> float | None:
        """Half of the predicted interval, as a share of its value."""
        one = self.predicted
        return None if one is None else (one["high"] - one["low"]) / 2 / one["speedup"]

    def wrong_signs(self) -> Iterator[str]:
        """Advice that clearly was the wrong one: by the trial or by hand, each with its own uncertainty."""
        told = {"predicted": self.advised}
        if self.measured is not None:
            told["tried"] = self.remedy["advice"]
        facts = []
        if self.measured is not None:
            facts.append(("measured", self.measured["speedup"], self.measured["low"], self.measured["high"]))
        if self.truth is not None and self.truth.get("best_estimate"):
            facts.append(("by hand", self.truth["best_estimate"], *self.truth["range"]))
        for who, advice in told.items():
            for how, value, low, high in facts:
                if advice == "do" and high < 1.0:
                    yield f"{self.script}, {self.remedy['name']}: {who} do, {how} {value:.2f}"
                if advice == "skip" and value > MISSED and low > 1.0:
                    yield f"{self.script}, {self.remedy['name']}: {who} skip, {how} {value:.2f}"

    def row(self) -> list[str]:
        """A line of the table."""
        one, remedy = self.measured, self.remedy
        tried = remedy["failed"] or ("did not take place" if remedy["took_effect"] is False else "not tried")
        return [
            self.script,
            remedy["name"],
            _factor(self.predicted) or "not predicted",
            _factor(one) or tried[:80].replace("|", "/"),
            "" if remedy["held"] is None else "yes" if remedy["held"] else "NO",
            _numerics(remedy["numerics"]),
            f"{self.advised} -> {remedy['advice']}" if one is not None else self.advised,
            _by_hand(self.truth),
            "WRONG" if any(self.wrong_signs()) else "",
        ]


def _factor(one: Result | None) -> str:
    return "" if one is None else f"{one['speedup']:.2f} ({one['low']:.2f}-{one['high']:.2f})"


def _by_hand(truth: Result | None) -> str:
    if truth is None or not truth.get("best_estimate"):
        return ""
    low, high = truth["range"]
    return f"{truth['best_estimate']:.2f} ({low:.2f}-{high:.2f})"


def _numerics(one: Result | None) -> str:
    if one is None:
        return ""
    if one["largest"] == 0:
        return "equal"
    first = f"first {one['first']:.0e}, " if one["first"] is not None else ""
    return f"{one['of']} {first}last {one['last']:.0e}"


def truths(folder: Path | None) -> dict[str, dict[str, Result]]:
    """What variants by hand gave, by script and switch; empty where nobody measured them."""
    file = None if folder is None else folder / "truth.json"
    if file is None or not file.exists():
        return {}
    return {name: one["variants"] for name, one in json.loads(file.read_text())["scripts"].items()}


def examine(script: Script, by_hand: dict[str, Result], budget_s: float, kept: Path) -> Result | None:
    """The report of the trials of one script, kept; None where there is none, which is told."""
    environment = script.environment(kept.with_suffix(".losses"), LONGER * script.steps if script.steps else None)
    # The trials of a benchmark are not the user's own.
    environment |= {"BOUNDBY_KEEP_TRIALS": "0"}
    command = script.command if script.steps else [*script.command, str(STEPS)]
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        run = watched(command, options=["--stop"], cwd=Path(folder), environment=environment)
        if run.report is None:
            print(f"{script.name}: no report\n{run.stderr}", file=sys.stderr)
            return None
        names = chosen(run.report["remedies"], by_hand)
        options = ("-m", "boundby", "try", "--budget", str(budget_s), "--force", "-o", str(kept))
        done = execute((*options, *names, *command), cwd=Path(folder), environment=environment, report=kept)
        seconds = time.perf_counter() - begin
    if done.status != 0 or done.report is None:
        print(f"{script.name}: no trials\n{done.stderr}", file=sys.stderr)
        return None
    print(f"{script.name}: {len(names)} trials, {seconds:.0f} s", file=sys.stderr)
    return done.report


def chosen(remedies: list[Result], by_hand: dict[str, Result]) -> list[str]:
    """Which remedies to try: those that boundby would try, those measured by hand, and what people always try."""
    worth = [
        one["name"]
        for one in remedies
        if one["advice"] != "skip" and (one["predicted"] is None or one["predicted"]["from_outside"])
    ]
    predicted = {one["name"] for one in remedies}
    known = [name for name, switch in BY_HAND.items() if switch in by_hand]
    return list(dict.fromkeys([*worth, *(name for name in (*known, *LORE) if name in predicted)]))


def followed(trials: list[Trial]) -> float:
    """How many times as fast a script is once the advice is followed: the best that was measured, together or alone."""
    together = [one for one in trials if "+" in one.remedy["name"]]
    alone = [one for one in trials if one.remedy["name"] not in OTHER_WORK]
    done = [
        one.measured["speedup"]
        for one in (together or alone)
        if one.measured is not None and (together or one.remedy["advice"] == "do")
    ]
    return max(done, default=1.0)


def by_lore(name: str, trials: list[Trial]) -> float:
    """How many times as fast it is with that remedy, whatever is predicted; 1 where it fails or changes nothing."""
    return next((one.measured["speedup"] for one in trials if one.remedy["name"] == name and one.measured), 1.0)


def summary(found: dict[str, list[Trial]]) -> tuple[list[str], bool]:
    """What all trials amount to, and whether the limits are kept."""
    trials = [one for some in found.values() for one in some]
    judged = [one for one in trials if one.remedy["held"] is not None]
    held = sum(one.remedy["held"] for one in judged)
    widths = [one.width for one in judged if one.width is not None]
    wide = sum(width > WIDEST for width in widths)
    wrong = [text for one in trials for text in one.wrong_signs()]
    lines = [
        f"Predictions held in {held} of {len(judged)} trials (limit: {HELD:.0%}).",
        f"Intervals: median +-{statistics.median(widths):.0%}, {wide} of {len(widths)} wider than +-{WIDEST:.0%}."
        if widths
        else "Intervals: none.",
        f"Advice of the wrong sign: {'; '.join(wrong) or 'none'}.",
    ]
    for what, factors in (
        ("following the advice", [followed(some) for some in found.values()]),
        ("compile everything", [by_lore("compile", some) for some in found.values()]),
        ("bf16 everything", [by_lore("bf16-autocast", some) for some in found.values()]),
    ):
        mean = math.exp(statistics.fmean(map(math.log, factors)))
        lines.append(f"Geometric mean speed-up over {len(factors)} scripts, {what}: {mean:.2f}.")
    kept = bool(judged) and held >= HELD * len(judged) and not wide and not wrong
    return lines, kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--scripts", type=Path, metavar="FOLDER", help="a folder with a specs.py")
    parser.add_argument("--budget", type=float, default=3.0, metavar="SECONDS", help="of turns for each trial")
    parser.add_argument("--results", type=Path, metavar="FOLDER", default=Path(tempfile.gettempdir()) / "tried")
    parser.add_argument("--again", action="store_true", help="measure also what the results folder has")
    args = parser.parse_args()
    args.results.mkdir(parents=True, exist_ok=True)
    by_hand = truths(args.scripts)
    found: dict[str, list[Trial]] = {}
    missing = []
    for script in scripts(args.scripts, args.names):
        kept = (args.results / f"{script.name}.json").absolute()
        variants = by_hand.get(script.name, {})
        old = json.loads(kept.read_text()) if kept.exists() and not args.again else None
        report = old or examine(script, variants, args.budget, kept)
        if report is None:
            missing.append(script.name)
            continue
        found[script.name] = [
            Trial(script=script.name, remedy=one, truth=variants.get(BY_HAND.get(one["name"], "")))
            for one in report["remedies"]
        ]
    header = ["script", "remedy", "predicted", "measured", "held", "numerics", "advice", "by hand", "sign"]
    print(table(header, [one.row() for some in found.values() for one in some]))
    lines, kept_limits = summary(found) if found else (["No script gave a result."], False)
    print("", *lines, sep=os.linesep)
    if missing:
        print(f"Without a result: {', '.join(missing)}.")
    sys.exit(0 if kept_limits and not missing else 1)


if __name__ == "__main__":
    main()
