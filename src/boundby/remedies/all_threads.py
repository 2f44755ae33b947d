"""As many threads as there are usable cores, where the script has fewer, or so many that they take turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from boundby.machine.describe import process_affinity, usable_cores
from boundby.remedies.contract import Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.thread_counts import Threads, predict_threads, use_threads, wrapped
from boundby.results.language import tr

NAME = "all-threads"
# Sums are added up in another order.
CHANGES_NUMBERS = True
GROUP = "threads"
CORES = usable_cores(affinity=process_affinity())
ENVIRONMENT: Mapping[str, str] = {"OMP_NUM_THREADS": str(CORES)}


def title() -> str:
    """What it does, for people."""
    return tr("as many threads as usable cores")


def _change() -> str:
    return tr(
        "call {call}, or set {variable}", call=f"torch.set_num_threads({CORES})", variable=f"OMP_NUM_THREADS={CORES}"
    )


def predict(evidence: Evidence) -> Prediction:
    """Every op's work at as many threads as cores, by probes and where they are known by ceilings."""
    now = evidence.facts.threads or evidence.report.step.threads
    if now == CORES:
        return NotApplicable(tr("the script has a thread for each usable core"))
    if CORES == 1:
        return NotApplicable(tr("there is one usable core: one-thread is the same"))
    return predict_threads(evidence, Threads(now=now, then=CORES), change=_change())


def apply(effects: Effects) -> None:
    """torch at as many threads as cores; the environment saw to what else reads it."""
    use_threads(CORES, effects)


def wrap(step: Callable[[], Any], effects: Effects) -> Callable[[], Any]:
    """The step at as many threads as cores."""
    return wrapped(step, CORES, effects)
