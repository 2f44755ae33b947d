"""Trials: the script as it is and with remedies, each a live process of its own, taking turns of a few steps.

A shared machine's speed moves by 1.7 from one second to the next, so two runs one after the other compare moments and
not variants. Here both processes stay alive and exactly one of them runs at any time: the other, with all its children,
is stopped at the end of a step. The ratio is taken turn by turn; the median over turns is the result.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

from boundby.capture.script import Target
from boundby.remedies.aside import make_aside
from boundby.results.remedy import Measured, Numerics
from boundby.timing.statistics import median, median_error

# A turn is to last about this long, so that what a switch disturbs (caches, clocks, threads' sleep) is a small part.
TURN_S = 0.4
MOST_STEPS_A_TURN = 500
# The first steps of a turn bring data back into the caches; they are not counted where there are enough.
UNCOUNTED_SHARE = 0.1
FEWEST_TURNS, MOST_TURNS = 5, 15
# No trial is believed to a finer difference than this, whatever its turns say.
LEAST_FLOOR = 0.02
LONGEST_START_S = 180.0
LONGEST_TURN_S = 60.0


@dataclass(slots=True)
class Slice:
    """The seconds of one turn's steps."""

    seconds: list[float]

    @property
    def typical(self) -> float:
        """The median step once the turn's first ones are left out."""
        return median(self._counted)

    @property
    def mean(self) -> float:
        """Their mean, for steps that come in bursts, as the batches of several workers do."""
        return sum(self._counted) / len(self._counted)

    @property
    def _counted(self) -> list[float]:
        return self.seconds[math.ceil(UNCOUNTED_SHARE * len(self.seconds)) :] or self.seconds


class TrialFailed(Exception):
    """A run of the script ended, or said nothing, before there was a result; the text says why."""


@dataclass(slots=True)
class Seen:
    """What a run told so far."""

    warm: list[float] = field(default_factory=list)
    settled_s: float = 0.0
    slices: list[Slice] = field(default_factory=list)
    losses: dict[int, float] = field(default_factory=dict)
    outputs: dict[int, list[float]] = field(default_factory=dict)
    peak_bytes: int | None = None
    seed: int | None = None
    took_effect: bool = False
    effect: str = ""


class LiveRun:
    """One process that runs the script, stopped unless it is its turn."""

    def __init__(
        self, target: Target, *, remedies: Sequence[str], environment: Mapping[str, str], folder: Path, name: str
    ) -> None:
        self.seen = Seen()
        aside = folder / name
        aside.mkdir()
        make_aside(Path.cwd(), aside)
        self._log = (folder / f"{name}.log").open("w+b")
        ours, theirs = os.pipe(), os.pipe()
        command = [sys.executable, "-m", "boundby.remedies.turns", "--to-trial", str(ours[1])]
        command += ["--from-trial", str(theirs[0]), "--folder", str(Path.cwd())]
        command += [word for remedy in remedies for word in ("--remedy", remedy)]
        command += ["--module"] * target.is_module + [target.name, "--", *target.args]
        self._process = subprocess.Popen(
            command,
            cwd=aside,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            pass_fds=(ours[1], theirs[0]),
            # A group of its own, so that loaders' workers stop and go on with it.
            start_new_session=True,
        )
        os.close(ours[1])
        os.close(theirs[0])
        self._from_run: IO[str] = os.fdopen(ours[0], "r")
        self._to_run: IO[str] = os.fdopen(theirs[1], "w")

    def start(self) -> None:
        """Wait until its steps have settled; then it is stopped.

        Raises:
            TrialFailed: it ended before, or took too long.
        """
        message = self._hear(LONGEST_START_S, "to start")
        self.seen.warm = message["seconds"]
        self.seen.settled_s = message["settled_s"]

    def turn(self, steps: int) -> Slice:
        """Let it go on for so many steps.

        Raises:
            TrialFailed: it ended within them, or took too long.
        """
        os.killpg(self._process.pid, signal.SIGCONT)
        try:
            self._to_run.write(json.dumps({"steps": steps}) + "\n")
            self._to_run.flush()
        except BrokenPipeError:
            raise TrialFailed(self._last_words()) from None
        message = self._hear(LONGEST_TURN_S, f"for {steps} steps")
        slice_ = Slice(message["seconds"])
        self.seen.slices.append(slice_)
        return slice_

    def close(self) -> None:
        """End the process and all its children."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        else:
            # Children of one that has ended may live on, stopped or not.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._from_run.close()
        with suppress(BrokenPipeError):
            self._to_run.close()
        self._log.close()

    def _hear(self, limit_s: float, what: str) -> dict[str, Any]:
        ready, _, _ = select.select([self._from_run], [], [], limit_s)
        if not ready:
            raise TrialFailed(f"it took over {limit_s:.0f} s {what}")
        line = self._from_run.readline()
        if not line:
            raise TrialFailed(self._last_words())
        message: dict[str, Any] = json.loads(line)
        self.seen.took_effect, self.seen.effect = message["took_effect"], message["effect"]
        if message["event"] == "end":
            watching = "; ".join(message["watching"])
            why = message["error"] or watching or f"the script ended with status {message['status']}"
            if message["status"] == 0 and not message["error"] and not watching:
                why = "the script ended by itself; let it run for more steps"
            raise TrialFailed(f"{why}, before there was a result")
        os.killpg(self._process.pid, signal.SIGSTOP)
        self.seen.peak_bytes = message["peak_bytes"]
        self.seen.seed = message["seed"]
        self.seen.losses |= {int(step): loss for step, loss in message["losses"].items()}
        self.seen.outputs |= {int(step): output for step, output in message["outputs"].items()}
        return message

    def _last_words(self) -> str:
        self._process.wait()
        self._log.seek(0)
        lines = [line.strip() for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
        status = self._process.returncode
        return f"{lines[-1][:300]} (status {status})" if lines else f"the script ended with status {status}"


def take_turns(
    base: LiveRun,
    changed: LiveRun,
    *,
    budget_s: float,
    progress: Callable[[float], None] = lambda share: None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Both runs in turns, until the budget is used up or the turns agree well enough.

    Args:
        base: the script as it is, started.
        changed: the script with the remedy, started.
        budget_s: seconds for all turns; ``FEWEST_TURNS`` are taken however long they last.
        progress: told the share done.
        clock: seconds.

    Raises:
        TrialFailed: one of them ended before there were enough turns.
    """
    began = clock()
    steps = _steps_a_turn(base, changed)
    for turn in range(MOST_TURNS):
        order = (base, changed) if turn % 2 == 0 else (changed, base)
        try:
            for run in order:
                run.turn(steps)
        except TrialFailed:
            if min(len(base.seen.slices), len(changed.seen.slices)) >= FEWEST_TURNS:
                return  # a script that ends by itself has said enough
            raise
        spent = clock() - began
        progress(min(1.0, max(spent / budget_s, (turn + 1) / MOST_TURNS)))
        if turn + 1 >= FEWEST_TURNS and spent > budget_s:
            return


def _steps_a_turn(base: LiveRun, changed: LiveRun) -> int:
    slowest = max(min(base.seen.warm), min(changed.seen.warm))
    return max(2, min(MOST_STEPS_A_TURN, math.ceil(TURN_S / max(slowest, 1e-6))))


def measured(base: Seen, changed: Seen, *, work: float = 1.0, bursts: bool = False) -> Measured:
    """What the turns say.

    Args:
        base: the script as it is.
        changed: the script with the remedy.
        work: how many times as much a step of the changed script does (2 for twice the batch).
        bursts: whether steps of one of them may come in bursts, so that only their mean says how long they take.
    """
    base_steps, steps = ([one.mean if bursts else one.typical for one in seen.slices][1:] for seen in (base, changed))
    pairs = list(zip(base_steps, steps, strict=False))
    ratios = sorted(work * a / b for a, b in pairs)
    value = median(ratios)
    error = median_error([math.log(ratio) for ratio in ratios])
    floor = max(LEAST_FLOOR, _noise(base_steps), _noise(steps))
    half = max(2.0 * error, floor)
    base_step, step = median([a for a, _ in pairs]), median([b for _, b in pairs])
    start, base_start = changed.settled_s - len(changed.warm) * step, base.settled_s - len(base.warm) * base_step
    gain = work * base_step - step
    return Measured(
        speedup=value,
        low=value * math.exp(-half),
        high=value * math.exp(half),
        floor=floor,
        turns=len(ratios),
        steps_per_turn=len(base.slices[-1].seconds),
        base_step_s=base_step,
        step_s=step,
        base_start_s=base_start,
        start_s=start,
        break_even_steps=math.ceil(max(0.0, start - base_start) / gain) if gain > 0 else None,
        base_peak_bytes=base.peak_bytes,
        peak_bytes=changed.peak_bytes,
    )


def _noise(turns: Sequence[float]) -> float:
    """By how much a run differs from itself: the error of the median ratio of each turn to the next, in the log."""
    steps = [math.log(a / b) for a, b in pairwise(turns)]
    return 2.0 * median_error(steps) if len(steps) >= 2 else 0.0


def numerics(base: Seen, changed: Seen) -> Numerics | None:
    """How the results of the same steps differ; None where there is nothing to compare, or chance is in it.

    A script that sets no seed begins each run with other numbers, whose results say nothing of a remedy.
    """
    if base.seed != changed.seed:
        return None
    steps = sorted(base.losses.keys() & changed.losses.keys())
    if steps:
        apart = [_relative(base.losses[step], changed.losses[step]) for step in steps]
        return Numerics(
            of="loss",
            steps=len(steps),
            largest=max(apart),
            last=apart[-1],
            base_last=base.losses[steps[-1]],
            remedy_last=changed.losses[steps[-1]],
        )
    steps = sorted(
        step
        for step in base.outputs.keys() & changed.outputs.keys()
        if len(base.outputs[step]) == len(changed.outputs[step])
    )
    if not steps:
        return None
    apart = [_apart(base.outputs[step], changed.outputs[step]) for step in steps]
    return Numerics(of="output", steps=len(steps), largest=max(apart), last=apart[-1])


def _relative(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return 0.0 if math.isnan(a) and math.isnan(b) else math.inf
    return abs(a - b) / max(abs(a), 1e-12) if a != b else 0.0


def _apart(a: Sequence[float], b: Sequence[float]) -> float:
    scale = max((abs(x) for x in a if math.isfinite(x)), default=0.0) or 1.0
    return max(
        (abs(x - y) / scale if math.isfinite(x - y) else (0.0 if x == y else math.inf))
        for x, y in zip(a, b, strict=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What one trial gave: the result, or why there is none."""

    measured: Measured | None
    numerics: Numerics | None
    took_effect: bool | None
    effect: str
    failed: str | None = None


def try_once(
    target: Target,
    remedies: Sequence[str],
    *,
    environment: Mapping[str, str],
    budget_s: float,
    work: float = 1.0,
    bursts: bool = False,
    progress: Callable[[float], None] = lambda share: None,
) -> Tried:
    """The script beside itself with some remedies.

    Args:
        target: the script.
        remedies: their names; none is the script against itself.
        environment: what the remedies add to the changed run's environment.
        budget_s: seconds for the turns; starting both runs comes on top.
        work: how many times as much a step of the changed script does.
        bursts: whether its steps may come in bursts.
        progress: told the share done.
    """
    with tempfile.TemporaryDirectory(prefix="boundby-trial-") as scratch:
        runs: list[LiveRun] = []
        try:
            for name, some, more in (("as-it-is", (), {}), ("changed", remedies, environment)):
                runs.append(LiveRun(target, remedies=some, environment=more, folder=Path(scratch), name=name))
                try:
                    runs[-1].start()
                except TrialFailed as failed:
                    seen = runs[-1].seen
                    who = "the script as it is: " if name == "as-it-is" else ""
                    return Tried(
                        measured=None, numerics=None, took_effect=None, effect=seen.effect, failed=f"{who}{failed}"
                    )
            base, changed = runs
            try:
                take_turns(base, changed, budget_s=budget_s, progress=progress)
            except TrialFailed as failed:
                return Tried(
                    measured=None,
                    numerics=numerics(base.seen, changed.seen),
                    took_effect=changed.seen.took_effect if remedies else None,
                    effect=changed.seen.effect,
                    failed=str(failed),
                )
            return Tried(
                # A change that did not take place left the work as it was.
                measured=measured(
                    base.seen, changed.seen, work=work if changed.seen.took_effect else 1.0, bursts=bursts
                ),
                # Results of other work are other results.
                numerics=numerics(base.seen, changed.seen) if work == 1.0 else None,
                took_effect=changed.seen.took_effect if remedies else None,
                effect=changed.seen.effect,
            )
        finally:
            for run in runs:
                run.close()
