"""Two loader workers: batches are made while the step runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from boundby.remedies.contract import Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.loader_workers import predict_more_workers, the_loader, use_workers

NAME = "workers-2"
TITLE = "two DataLoader workers"
# What a dataset draws at random, it draws from another generator.
CHANGES_NUMBERS = True
GROUP = "workers"
ENVIRONMENT: Mapping[str, str] = {}
# Batches of several workers come several at once.
BURSTS = True
CHANGE = "pass num_workers=2 and persistent_workers=True to the DataLoader"
WORKERS = 2


def predict(evidence: Evidence) -> Prediction:
    """The step with its batches made beside it, as far as cores reach."""
    loader = the_loader(evidence)
    if isinstance(loader, NotApplicable):
        return loader
    if loader.workers > 0:
        return NotApplicable("the loader has workers already")
    return predict_more_workers(evidence, loader, WORKERS, change=CHANGE)


def apply(effects: Effects) -> None:
    """Loaders made from now on."""
    use_workers(WORKERS, effects)


def wrap(step: Callable[[], Any], effects: Effects) -> None:
    """A callable's loader exists already."""
