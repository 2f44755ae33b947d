"""Two loader workers: batches are made while the step runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from boundby.remedies.contract import Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.loader_workers import predict_more_workers, the_loader, use_workers
from boundby.results.language import tr

NAME = "workers-2"
# What a dataset draws at random, it draws from another generator.
CHANGES_NUMBERS = True
GROUP = "workers"
ENVIRONMENT: Mapping[str, str] = {}
TOUCHES = frozenset({"input"})
# Batches of several workers come several at once.
BURSTS = True
WORKERS = 2


def title() -> str:
    """What it does, for people."""
    return tr("two DataLoader workers")


def _change() -> str:
    return tr("pass {first} and {second} to the DataLoader", first="num_workers=2", second="persistent_workers=True")


def predict(evidence: Evidence) -> Prediction:
    """The step with its batches made beside it, as far as cores reach."""
    loader = the_loader(evidence)
    if isinstance(loader, NotApplicable):
        return loader
    if loader.workers > 0:
        return NotApplicable(tr("the loader has workers already"))
    return predict_more_workers(evidence, loader, WORKERS, change=_change())


def apply(effects: Effects) -> None:
    """Loaders made from now on."""
    use_workers(WORKERS, effects)


def wrap(step: Callable[[], Any], effects: Effects) -> None:
    """A callable's loader exists already."""
