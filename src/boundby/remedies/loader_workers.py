"""Another number of DataLoader workers: what a step would take, and how loaders are given it from outside."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import psutil

from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.data_loaders import change_loaders
from boundby.results.interval import interval
from boundby.results.language import tr, trn
from boundby.results.remedy import LoaderFacts, Predicted
from boundby.results.units import format_time

# By what factor work takes longer than its seconds over the cores, where workers and the step's own threads are more
# than the cores: threads that wait for one another wait for the one that has no core. Where they are not, copies of
# batches between processes are what is lost.
CROWDED = interval(1.25, 1.0, 1.5)
ROOMY = interval(1.03, 1.0, 1.15)
LEAST_INPUT = 0.02
# How long to look at what else runs, and how many cores of it are worth a word.
LOOK_S = 0.2
LEAST_OTHERS = 0.3


def the_loader(evidence: Evidence) -> LoaderFacts | NotApplicable:
    """The loader that the step's batches come from, the first one asked where there are several.

    Each epoch may have an iterator of its own; the one whose workers' time is known tells most.
    """
    loaders = evidence.facts.loaders
    if not loaders:
        return NotApplicable(tr("no DataLoader gives the batches"))
    first = loaders[0]
    alike = [
        one
        for one in loaders
        if (one.workers, one.batch_size, one.dataset, one.items)
        == (first.workers, first.batch_size, first.dataset, first.items)
    ]
    return next((one for one in alike if one.worker_cpu_s is not None), first)


def predict_more_workers(evidence: Evidence, loader: LoaderFacts, workers: int, *, change: str) -> Prediction:
    """The step with its input made by ``workers`` processes beside it, where its own process makes it now.

    The step can be no shorter than its own work, than the workers' share of a batch, and than all work over all cores.

    Args:
        evidence: what predictions rest on.
        loader: without workers now.
        workers: how many.
        change: what the user would change.
    """
    report = evidence.report
    step, cores = report.step.time_s.median, evidence.machine.description.usable_cores
    share = report.split.input
    if share.high < LEAST_INPUT:
        return NotApplicable(tr("the step hardly waits for its input"))
    threads = evidence.facts.threads or report.step.threads
    slowed = CROWDED if workers + threads > cores else ROOMY
    others = _cores_of_others() if evidence.probe is not None else 0.0
    others = others if others >= LEAST_OTHERS else 0.0

    def speedup(waits: float, slower: float, busy: float, free: float) -> float:
        making, own = waits * step, (1.0 - waits) * step
        least = max(own, making / workers, (making + own * busy) / max(free, 1.0))
        return step / max(least * slower, 1e-12)

    # Whether other load goes on is not known: half of it in the middle, all of it at the low end, none at the high one.
    value = speedup(share.value, slowed.value, _busy(threads, cores), cores - others / 2)
    low = speedup(share.low, slowed.high, float(min(threads, cores)), cores - others)
    high = speedup(share.high, slowed.low, 1.0, float(cores))
    room = {
        "share": f"{share.value:.0%}",
        "processes": trn("{count} process", "{count} processes", workers),
        "cores": trn("{count} core", "{count} cores", cores),
        "threads": trn("{count} thread", "{count} threads", threads),
    }
    return Predicted(
        speedup=value,
        low=min(value, low),
        high=max(value, high),
        reason=trn(
            "{share} of the step makes its batch, which {processes} would do meanwhile; {cores} for {count} worker and "
            "{threads}, of which other load uses {others} now",
            "{share} of the step makes its batch, which {processes} would do meanwhile; {cores} for {count} workers "
            "and {threads}, of which other load uses {others} now",
            workers,
            **room,
            others=f"{others:.1f}",
        )
        if others
        else trn(
            "{share} of the step makes its batch, which {processes} would do meanwhile; {cores} for {count} worker and "
            "{threads}",
            "{share} of the step makes its batch, which {processes} would do meanwhile; {cores} for {count} workers "
            "and {threads}",
            workers,
            **room,
        ),
        change=change,
        changes_numbers=True,
    )


def _cores_of_others() -> float:
    """How many cores work while this process sleeps for a moment."""
    before = psutil.cpu_times()
    time.sleep(LOOK_S)
    after = psutil.cpu_times()
    spent = [late - early for early, late in zip(before, after, strict=True)]
    idle = after.idle - before.idle + getattr(after, "iowait", 0.0) - getattr(before, "iowait", 0.0)
    total = sum(spent)
    if total <= 0:
        return 0.0
    return float(max(0.0, 1.0 - idle / total) * (psutil.cpu_count() or 1))


def predict_no_workers(evidence: Evidence, loader: LoaderFacts, *, change: str) -> Prediction:
    """The step with its batches made by its own process, where workers make them now.

    Where cores are short, workers and the step's threads take turns on them now, and that ends; the batch's own time
    comes on top.

    Args:
        evidence: what predictions rest on.
        loader: with workers now.
        change: what the user would change.
    """
    if loader.worker_cpu_s is None:
        return CannotTell(tr("what a batch takes its workers is not known: they gave too few"), change=change)
    report = evidence.report
    step, cores = report.step.time_s.median, evidence.machine.description.usable_cores
    threads = evidence.facts.threads or report.step.threads
    making = loader.worker_cpu_s
    waits = report.split.input
    crowded = loader.workers + threads > cores
    ends = []
    for waited, slowed, busy in (
        (waits.value, (CROWDED if crowded else ROOMY).value, _busy(threads, cores)),
        (waits.high, (CROWDED if crowded else ROOMY).high, float(min(threads, cores))),
        (waits.low, (CROWDED if crowded else ROOMY).low, 1.0),
    ):
        own = (1.0 - waited) * step
        if crowded:
            # All that ran in a step, over the cores, less what the workers used.
            own = min(own, max((step * cores / slowed - making) / max(busy, 1.0), own / slowed))
        ends.append(step / max(own + making, 1e-12))
    low, value, high = sorted(ends)
    time = format_time(making)
    return Predicted(
        speedup=value,
        low=low,
        high=high,
        reason=trn(
            "a batch takes {count} worker {time}, which would come on top of the step's own work; they compete for the "
            "cores with it now",
            "a batch takes {count} workers {time}, which would come on top of the step's own work; they compete for "
            "the cores with it now",
            loader.workers,
            time=time,
        )
        if crowded
        else trn(
            "a batch takes {count} worker {time}, which would come on top of the step's own work",
            "a batch takes {count} workers {time}, which would come on top of the step's own work",
            loader.workers,
            time=time,
        ),
        change=change,
        changes_numbers=True,
    )


def _busy(threads: int, cores: int) -> float:
    """How many cores a step's own work keeps busy: between one and as many as it has threads."""
    return math.sqrt(min(threads, cores))


def use_workers(count: int, effects: Effects) -> None:
    """Loaders made from now on have ``count`` workers, where that is possible.

    Args:
        count: 0 or more.
        effects: told of each loader that had another number.
    """

    def change(arguments: dict[str, Any]) -> str | None:
        before = arguments["num_workers"]
        why = _why_not(arguments, count)
        if why is not None:
            effects.cannot(why)
        if before == count or why is not None:
            return None
        arguments["num_workers"] = count
        if count == 0:
            arguments |= {"prefetch_factor": None, "persistent_workers": False, "timeout": 0}
            arguments["multiprocessing_context"] = None
        return trn(
            "a loader with {count} worker in place of {before}",
            "a loader with {count} workers in place of {before}",
            count,
            before=str(before),
        )

    change_loaders(change, effects)


def _why_not(arguments: Mapping[str, Any], count: int) -> str | None:
    from torch.utils.data import IterableDataset

    if count > 1 and isinstance(arguments["dataset"], IterableDataset):
        return tr("each worker would give all of an iterable dataset")
    return None
