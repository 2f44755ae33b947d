"""No loader workers: batches are made by the script's own process, which has the cores to itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from boundby.remedies.contract import Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.loader_workers import predict_no_workers, the_loader, use_workers
from boundby.results.language import tr

NAME = "workers-0"
# What a dataset draws at random, it draws from another generator.
CHANGES_NUMBERS = True
GROUP = "workers"
ENVIRONMENT: Mapping[str, str] = {}
TOUCHES = frozenset({"input"})
# Batches of several workers come several at once.
BURSTS = True
WORKERS = 0


def title() -> str:
    """What it does, for people."""
    return tr("no DataLoader workers")


def _change() -> str:
    return tr("pass {argument} to the DataLoader", argument="num_workers=0")


def predict(evidence: Evidence) -> Prediction:
    """The step with its batches' making added to it, and the cores to itself."""
    loader = the_loader(evidence)
    if isinstance(loader, NotApplicable):
        return loader
    if loader.workers == 0:
        return NotApplicable(tr("the loader has no workers"))
    return predict_no_workers(evidence, loader, change=_change())


def apply(effects: Effects) -> None:
    """Loaders made from now on."""
    use_workers(WORKERS, effects)


def wrap(step: Callable[[], Any], effects: Effects) -> None:
    """A callable's loader exists already."""
