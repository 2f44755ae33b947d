"""Whole batches out of a dataset that is in memory, in place of items one by one that are stacked again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.in_step import at_line
from boundby.remedies.predicting import replaced_part
from boundby.results.language import tr
from boundby.results.remedy import LoaderFacts

NAME = "batched-fetch"
CHANGES_NUMBERS = False
ENVIRONMENT: Mapping[str, str] = {}
TOUCHES = frozenset({"input"})
# Of the probe's own dataset; indices are spread over it, as shuffled ones are.
MOST_ITEMS, MOST_BYTES = 4096, 32 << 20


def title() -> str:
    """What it does, for people."""
    return tr("whole batches out of an in-memory dataset")


def _change(loader: LoaderFacts) -> str:
    change = tr(
        "index the tensors with a batch of indices, as {code}", code="[tensor[indices] for tensor in dataset.tensors]"
    )
    where = at_line(loader.path, loader.line)
    return f"{where}: {change}" if where else change


def predict(evidence: Evidence) -> Prediction:
    """The batch by a probe on a dataset of such items, one by one and at once."""
    loaders = [one for one in evidence.facts.loaders if one.item_shapes and one.plain_collate and one.batch_size]
    if not loaders:
        return NotApplicable(tr("no loader fetches items of a TensorDataset"))
    loader = loaders[0]
    if loader.workers:
        return NotApplicable(tr("worker processes fetch the items"))
    if evidence.probe is None:
        return CannotTell(tr("it takes a probe of fetching items"), change=_change(loader))
    one_by_one, at_once = _fetches(loader)
    return replaced_part(
        evidence.report,
        [evidence.probe(one_by_one, at_once)],
        what=tr("fetching {items} items one by one and stacking them", items=str(loader.batch_size)),
        change=_change(loader),
        changes_numbers=CHANGES_NUMBERS,
    )


def _fetches(loader: LoaderFacts) -> tuple[Callable[[], object], Callable[[], object]]:
    import torch
    from torch.utils.data import TensorDataset, default_collate

    size = loader.batch_size or 1
    item_bytes = sum(8 * max(1, torch.Size(shape).numel()) for shape in loader.item_shapes)
    items = max(size, min(MOST_ITEMS, MOST_BYTES // item_bytes, loader.items or MOST_ITEMS))
    dataset = TensorDataset(
        *(
            torch.zeros((items, *shape), dtype=getattr(torch, dtype))
            for shape, dtype in zip(loader.item_shapes, loader.item_dtypes, strict=True)
        )
    )
    indices = torch.randperm(items, generator=torch.Generator().manual_seed(1))[:size].tolist()
    return (
        lambda: default_collate([dataset[index] for index in indices]),
        lambda: [tensor[indices] for tensor in dataset.tensors],
    )


def apply(effects: Effects) -> None:
    """Loaders of a TensorDataset whose batches torch's own function makes fetch a batch at once."""
    from torch.utils.data import TensorDataset, default_collate
    from torch.utils.data._utils.fetch import _MapDatasetFetcher

    plain: Any = _MapDatasetFetcher.fetch

    def fetch(self: Any, indices: Any) -> Any:
        if not self.auto_collation or type(self.dataset) is not TensorDataset or self.collate_fn is not default_collate:
            return plain(self, indices)
        effects.saw(tr("batches fetched at once"))
        return [tensor[list(indices)] for tensor in self.dataset.tensors]

    vars_of: Any = _MapDatasetFetcher
    vars_of.fetch = fetch


def wrap(step: Callable[[], Any], effects: Effects) -> None:
    """A callable fetches as it does."""
