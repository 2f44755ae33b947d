"""Trials: the script as it is and with remedies, each a live process of its own, taking turns of a few steps.

A shared machine's speed moves by 1.7 from one second to the next, so two runs one after the other compare moments and
not variants. Here both processes stay alive and exactly one of them runs at any time: the other, with all its children,
is stopped at the end of a step. The ratio is taken turn by turn; the median over turns is the result.
"""

from __future__ import annotations

import functools
import json
import math
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from boundby.capture.script import Target
from boundby.remedies.aside import guarded_folders, home_path, make_aside, target_aside
from boundby.remedies.child_process import child_command, end_other_programs
from boundby.remedies.foreign_load import core_time, cores_of_others
from boundby.remedies.turn_results import Seen, Slice, measured, numerics
from boundby.results.language import language, tr
from boundby.results.remedy import Measured, Numerics

# A turn is to last about this long, so that what a switch disturbs (caches, clocks, threads' sleep) is a small part.
TURN_S = 0.4
FEWEST_STEPS_A_TURN, MOST_STEPS_A_TURN = 2, 500
FEWEST_TURNS, MOST_TURNS = 5, 15
# Below so many cores, what other processes did is not why threads had to wait.
LEAST_OTHERS = 0.2
LONGEST_START_S = 180.0
LONGEST_TURN_S = 60.0


class TrialFailed(Exception):
    """A run of the script ended, or said nothing, before there was a result; the text says why."""


class TooShort(TrialFailed):
    """The script ended as it should, after ``steps`` steps in all, before there were enough turns."""

    def __init__(self, steps: int) -> None:
        super().__init__(tr("the script ended by itself before there was a result; let it run for more steps"))
        self.steps = steps


class LiveRun:
    """One process that runs the script, stopped unless it is its turn."""

    def __init__(
        self,
        target: Target,
        *,
        remedies: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        name: str,
        threads: int | None = None,
    ) -> None:
        self.seen = Seen()
        self._root = folder / name
        self._root.mkdir()
        home = Path.cwd()
        aside = make_aside(home, self._root)
        own = target_aside(target, home, self._root)
        self._log = (folder / f"{name}.log").open("w+b")
        ours, theirs = os.pipe(), os.pipe()
        command = [*child_command("boundby.remedies.turns"), "--to-trial", str(ours[1])]
        command += ["--from-trial", str(theirs[0]), "--root", str(self._root), "--language", language()]
        command += [word for one in guarded_folders(target, home) for word in ("--folder", str(one))]
        command += [word for remedy in remedies for word in ("--remedy", remedy)]
        command += [] if threads is None else ["--threads", str(threads)]
        command += ["--module"] * target.is_module + [own.name, "--", *target.args]
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
        message = self._hear(LONGEST_START_S, tr("it took over {limit} s to start", limit=f"{LONGEST_START_S:.0f}"))
        self.seen.warm = message["seconds"]
        self.seen.settled_s = message["settled_s"]

    def turn(self, steps: int) -> Slice:
        """Let it go on for so many steps.

        Raises:
            TrialFailed: it ended within them, or took too long.
        """
        began, before = time.monotonic(), core_time(self._process.pid)
        os.killpg(self._process.pid, signal.SIGCONT)
        try:
            self._to_run.write(json.dumps({"steps": steps}) + "\n")
            self._to_run.flush()
        except BrokenPipeError:
            raise TrialFailed(self._last_words()) from None
        late = tr("it took over {limit} s for {steps} steps", limit=f"{LONGEST_TURN_S:.0f}", steps=str(steps))
        message = self._hear(LONGEST_TURN_S, late)
        others = cores_of_others(before, core_time(self._process.pid), time.monotonic() - began)
        # Threads of the script's own that are more than the cores wait too, and that is what the script takes.
        slice_ = Slice(message["seconds"], waited_s=message["waited_s"] if others >= LEAST_OTHERS else 0.0)
        self.seen.slices.append(slice_)
        return slice_

    def close(self) -> None:
        """End the process and all its children."""
        if self._process.poll() is None:
            end_other_programs(self._process.pid)
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

    def _hear(self, limit_s: float, late: str) -> dict[str, Any]:
        ready, _, _ = select.select([self._from_run], [], [], limit_s)
        if not ready:
            raise TrialFailed(late)
        line = self._from_run.readline()
        if not line:
            raise TrialFailed(self._last_words())
        message: dict[str, Any] = json.loads(line)
        self.seen.took_effect, self.seen.effect = message["took_effect"], message["effect"]
        if message["event"] == "end":
            watching = tr("; ").join(message["watching"])
            if message["status"] == 0 and not message["error"] and not watching:
                raise TooShort(message["steps"])
            why = home_path(message["error"] or "", self._root) or watching or _ended(message["status"])
            raise TrialFailed(tr("{why}, before there was a result", why=why))
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
        if not lines:
            return _ended(status)
        return tr("{line} (status {status})", line=home_path(lines[-1], self._root)[:300], status=str(status))


def _ended(status: int) -> str:
    return tr("the script ended with status {status}", status=str(status))


def take_turns(
    base: LiveRun,
    changed: LiveRun,
    *,
    budget_s: float,
    steps_a_turn: int | None = None,
    progress: Callable[[float], None] = lambda share: None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Both runs in turns, until the budget is used up or the turns agree well enough.

    Args:
        base: the script as it is, started.
        changed: the script with the remedy, started.
        budget_s: seconds for all turns; ``FEWEST_TURNS`` are taken however long they last.
        steps_a_turn: how many; None: as many as last long enough.
        progress: told the share done.
        clock: seconds.

    Raises:
        TrialFailed: one of them ended before there were enough turns.
    """
    began = clock()
    steps = steps_a_turn or _steps_a_turn(base, changed)
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
    return _steps_for(max(min(base.seen.warm), min(changed.seen.warm)))


def _steps_for(step_s: float) -> int:
    return max(FEWEST_STEPS_A_TURN, min(MOST_STEPS_A_TURN, math.ceil(TURN_S / max(step_s, 1e-6))))


def expected_turns_s(step_s: float, budget_s: float) -> float:
    """About how long the turns of a trial take (seconds), where the remedy changes nothing of it.

    Args:
        step_s: a step of the script as it is, seconds.
        budget_s: seconds for all turns.
    """
    both_s = 2 * _steps_for(step_s) * step_s
    return max(FEWEST_TURNS * both_s, min(budget_s, MOST_TURNS * both_s))


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
    attempt = functools.partial(
        _try_once, target, remedies, environment, budget_s=budget_s, work=work, bursts=bursts, progress=progress
    )
    try:
        return attempt(steps_a_turn=None, last=False)
    except _Fewer as fewer:
        return attempt(steps_a_turn=fewer.steps_a_turn, last=True)


class _Fewer(Exception):
    """The script is too short for turns of the usual length, and would do for shorter ones."""

    def __init__(self, steps_a_turn: int) -> None:
        super().__init__(steps_a_turn)
        self.steps_a_turn = steps_a_turn


def _try_once(
    target: Target,
    remedies: Sequence[str],
    environment: Mapping[str, str],
    *,
    budget_s: float,
    work: float,
    bursts: bool,
    progress: Callable[[float], None],
    steps_a_turn: int | None,
    last: bool,
) -> Tried:
    """One attempt.

    Raises:
        _Fewer: unless it is the ``last`` one.
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
                    why = str(failed)
                    if name == "as-it-is":
                        why = tr("the script as it is: {why}", why=why)
                    return Tried(measured=None, numerics=None, took_effect=None, effect=seen.effect, failed=why)
            base, changed = runs
            try:
                take_turns(base, changed, budget_s=budget_s, steps_a_turn=steps_a_turn, progress=progress)
            except TrialFailed as failed:
                if isinstance(failed, TooShort) and not last:
                    left = failed.steps - max(len(base.seen.warm), len(changed.seen.warm))
                    if left >= FEWEST_STEPS_A_TURN * FEWEST_TURNS:
                        raise _Fewer(left // FEWEST_TURNS) from None
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
