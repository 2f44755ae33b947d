"""How a script's step, or a callable, scales with the number of threads: all counts in turns of a few steps.

A script runs once for each count, each a live process as in a trial; exactly one goes on at any time. A callable runs
in this process, which changes its number of threads between turns. Either way a speed-up is the median over rounds of
the ratio to the one-thread turn of the same round.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from boundby.capture.script import Target
from boundby.machine.describe import process_affinity, usable_cores
from boundby.remedies.foreign_load import core_time, cores_of_others
from boundby.remedies.trial import (
    FEWEST_TURNS,
    MOST_STEPS_A_TURN,
    MOST_TURNS,
    TURN_S,
    LiveRun,
    TrialFailed,
)
from boundby.remedies.turn_results import Seen, Slice, measured
from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.interval import interval
from boundby.results.language import tr, trn
from boundby.results.machine import Finding
from boundby.results.scaling import ScalingPoint
from boundby.scaling.speedups import point
from boundby.timing.statistics import median, quantile

# What reads its number of threads from the environment, and when it starts.
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "BLIS_NUM_THREADS")
# So many counts, each a process that holds the script's memory; so many times the cores, past which nothing is learnt.
MOST_COUNTS = 8
MOST_OVER = 4
# A reading of the clock is a thousandth of this.
_SAMPLE_S = 2e-3
_WARM_UP = 3

# Cores that others use: below this they are the system's own small jobs.
_LEAST_OTHERS = 0.2

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTimes:
    """Speed-ups by threads as measured, and what could have spoilt them."""

    points: tuple[ScalingPoint, ...]
    findings: tuple[Finding, ...] = ()


class _OtherLoad:
    """How many of the CPUs that this process may use were busy with others since it was made."""

    def __init__(self) -> None:
        self._cpus = process_affinity()
        self._began = time.monotonic()
        self._before = core_time(os.getpid(), self._cpus)

    def findings(self, counts: Sequence[int], cores: int) -> tuple[Finding, ...]:
        """A finding where the threads could not all have run: the most that were measured and others' are too many."""
        passed = time.monotonic() - self._began
        others = cores_of_others(self._before, core_time(os.getpid(), self._cpus), passed)
        most = max((count for count in counts if count <= cores), default=1)
        if others < _LEAST_OTHERS or others + most < cores + _LEAST_OTHERS:
            return ()
        return (
            Finding(
                code="scaling-load",
                message=tr(
                    "other processes kept {others} cores busy meanwhile, of {cores}",
                    others=f"{others:.1f}",
                    cores=cores,
                ),
                advice=tr(
                    "Threads that share their work wait for the one that does not get to run: measure again once the "
                    "machine is quiet, before believing this."
                ),
            ),
        )


def cores_here() -> int:
    """How many threads can run at once: physical cores within this process's affinity and quota."""
    return usable_cores(affinity=process_affinity())


def thread_counts(wanted: Sequence[int] | None, cores: int) -> tuple[int, ...]:
    """The counts to measure, in order, one thread always among them.

    Args:
        wanted: by the user; None: 1, 2, 4 and so on, and all cores.
        cores: that are usable.

    Raises:
        BoundbyError: ``bad-threads`` where a count is none, there are too many, or one is far over the cores.
    """
    if wanted is None:
        doubling = [2**power for power in range(cores.bit_length()) if 2**power <= cores]
        counts = sorted({*doubling, cores})
        return tuple(counts[: MOST_COUNTS - 1] + counts[-1:]) if len(counts) > MOST_COUNTS else tuple(counts)
    if any(isinstance(one, bool) or not isinstance(one, int) or one < 1 for one in wanted):
        _refuse(
            tr("{numbers} are no numbers of threads", numbers=", ".join(map(str, wanted))),
            tr("Name whole numbers from 1: {option}.", option="--threads 1,2"),
        )
    counts = sorted({1, *wanted})
    if len(counts) > MOST_COUNTS:
        _refuse(
            tr("{number} thread counts are too many to take turns", number=str(len(counts))),
            tr("Name at most {number}.", number=str(MOST_COUNTS)),
        )
    if counts[-1] > MOST_OVER * cores:
        _refuse(
            trn(
                "{threads} threads are far more than the {count} usable core",
                "{threads} threads are far more than the {count} usable cores",
                cores,
                threads=f"{counts[-1]:,}",
            ),
            tr(
                "Up to {most} are measured, those over {cores} as oversubscribed.",
                most=str(MOST_OVER * cores),
                cores=str(cores),
            ),
        )
    return tuple(counts)


def script_scaling(
    target: Target, counts: Sequence[int], *, cores: int, budget_s: float, progress: Progress = lambda share: None
) -> ThreadTimes:
    """A script's step at each thread count.

    Args:
        target: the script, which is not changed; what it writes is thrown away.
        counts: as ``thread_counts`` gives them.
        cores: that are usable.
        budget_s: seconds for all turns; starting the script once for each count comes on top.
        progress: told the share done.

    Raises:
        BoundbyError: ``script-not-scaled`` where a run ended before there was a result, ``threads-chosen`` where the
            script chooses its threads for itself.
    """
    with tempfile.TemporaryDirectory(prefix="boundby-scaling-") as scratch:
        runs: list[LiveRun] = []
        try:
            for count in counts:
                run = LiveRun(
                    target,
                    remedies=(),
                    environment=dict.fromkeys(VARIABLES, str(count)),
                    folder=Path(scratch),
                    name=f"threads-{count}",
                    threads=count,
                )
                runs.append(run)
                try:
                    run.start()
                except TrialFailed as failed:
                    raise _not_scaled(
                        trn("with {count} thread, {failed}", "with {count} threads, {failed}", count, failed=failed)
                    ) from None
                _check_threads(run.seen)
            load = _OtherLoad()
            slowest = max(min(run.seen.warm) for run in runs)
            steps = max(2, min(MOST_STEPS_A_TURN, math.ceil(TURN_S / max(slowest, 1e-6))))
            try:
                _take_turns([partial(run.turn, steps) for run in runs], budget_s, progress)
            except TrialFailed as failed:
                if min(len(run.seen.slices) for run in runs) < FEWEST_TURNS:
                    raise _not_scaled(str(failed)) from None
            seen = [run.seen for run in runs]
            findings = load.findings(counts, cores)
        finally:
            for run in runs:
                run.close()
    for one in seen:
        _check_threads(one)
    return ThreadTimes(points=_points(counts, seen, cores), findings=findings)


def callable_scaling(
    call: Callable[[], Any],
    counts: Sequence[int],
    *,
    cores: int,
    budget_s: float,
    clock: Callable[[], float] = time.perf_counter,
    at_threads: Callable[[int], Any] | None = None,
) -> ThreadTimes:
    """A call at each thread count, in this process.

    Args:
        call: what is timed; called without arguments.
        counts: as ``thread_counts`` gives them.
        cores: that are usable.
        budget_s: seconds for all turns.
        clock: seconds.
        at_threads: a context of so many threads; None: torch's, and those of the BLAS and OpenMP libraries.
    """
    limited = at_threads or _at_threads
    load = _OtherLoad()
    seen = [Seen() for _ in counts]
    for count, one in zip(counts, seen, strict=True):
        with limited(count):
            one.warm = [_seconds(call, 1, clock) for _ in range(_WARM_UP)]
    slowest = max(min(one.warm) for one in seen)
    calls = max(1, math.ceil(_SAMPLE_S / max(slowest, 1e-9)))
    samples = max(2, min(MOST_STEPS_A_TURN, math.ceil(TURN_S / 2 / max(slowest * calls, 1e-9))))

    def turn(count: int, one: Seen) -> None:
        with limited(count):
            one.slices.append(Slice([_seconds(call, calls, clock) for _ in range(samples)]))

    _take_turns(
        [partial(turn, count, one) for count, one in zip(counts, seen, strict=True)],
        budget_s,
        lambda share: None,
        clock,
    )
    return ThreadTimes(points=_points(counts, seen, cores), findings=load.findings(counts, cores))


def _seconds(call: Callable[[], Any], calls: int, clock: Callable[[], float]) -> float:
    began = clock()
    for _ in range(calls):
        call()
    return (clock() - began) / calls


@contextmanager
def _at_threads(count: int) -> Iterator[None]:
    """torch, and BLAS and OpenMP libraries that are loaded, at ``count`` threads."""
    from threadpoolctl import threadpool_limits

    torch = sys.modules.get("torch")
    before = None if torch is None else torch.get_num_threads()
    with threadpool_limits(count):
        if torch is not None:
            torch.set_num_threads(count)
        try:
            yield
        finally:
            if torch is not None:
                torch.set_num_threads(before)


def _take_turns(
    turns: Sequence[Callable[[], Any]],
    budget_s: float,
    progress: Progress,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Every turn once a round, each round in the other order, until the budget is used up."""
    began = clock()
    for number in range(MOST_TURNS):
        for turn in turns if number % 2 == 0 else reversed(turns):
            turn()
        spent = clock() - began
        progress(min(1.0, max(spent / budget_s, (number + 1) / MOST_TURNS)))
        if number + 1 >= FEWEST_TURNS and spent > budget_s:
            return


def _points(counts: Sequence[int], seen: Sequence[Seen], cores: int) -> tuple[ScalingPoint, ...]:
    found = []
    for count, one in zip(counts, seen, strict=True):
        steps = [slice_.typical for slice_ in one.slices][1:]
        time_s = interval(median(steps), quantile(steps, 0.25), quantile(steps, 0.75))
        if count == 1:
            found.append(point(1, interval(1.0), time_s=time_s, turns=len(steps)))
            continue
        ratio = measured(seen[0], one)
        found.append(
            point(
                count,
                interval(ratio.speedup, ratio.low, ratio.high),
                time_s=time_s,
                oversubscribed=count > cores,
                turns=ratio.turns,
            )
        )
    return tuple(found)


def _check_threads(seen: Seen) -> None:
    """That a run has the threads that it was given."""
    if not seen.took_effect:
        raise BoundbyError(
            "threads-chosen",
            tr(
                "{effect}, so other counts cannot be had",
                effect=seen.effect.removeprefix("; ") or tr("torch was never given its threads"),
            ),
            tr(
                "Take {call} out of the script, or let it read {variable}.",
                call="torch.set_num_threads",
                variable="OMP_NUM_THREADS",
            ),
        )


def _not_scaled(why: str) -> BoundbyError:
    return BoundbyError(
        "script-not-scaled",
        tr("no steps could be compared: {why}", why=why),
        tr("See what `boundby run` says of the script."),
    )


def _refuse(message: str, advice: str) -> None:
    raise BoundbyError("bad-threads", message, advice, status=EXIT_USAGE)
