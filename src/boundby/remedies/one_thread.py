"""One thread: no waiting for each other in ops that are too short to share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from boundby.remedies.contract import Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.thread_counts import Threads, predict_threads, use_threads, wrapped
from boundby.results.language import tr

NAME = "one-thread"
# Sums are added up in another order.
CHANGES_NUMBERS = True
GROUP = "threads"
ENVIRONMENT: Mapping[str, str] = {"OMP_NUM_THREADS": "1"}


def title() -> str:
    """What it does, for people."""
    return tr("one thread")


def _change() -> str:
    return tr("call {call}, or set {variable}", call="torch.set_num_threads(1)", variable="OMP_NUM_THREADS=1")


def predict(evidence: Evidence) -> Prediction:
    """Every op's work at one thread, by probes of the script's products and the ceilings at both counts."""
    now = evidence.facts.threads or evidence.report.step.threads
    if now <= 1:
        return NotApplicable(tr("the script runs on one thread already"))
    return predict_threads(evidence, Threads(now=now, then=1), change=_change())


def apply(effects: Effects) -> None:
    """torch at one thread; the environment saw to what else reads it."""
    use_threads(1, effects)


def wrap(step: Callable[[], Any], effects: Effects) -> Callable[[], Any]:
    """The step at one thread."""
    return wrapped(step, 1, effects)
