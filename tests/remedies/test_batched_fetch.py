"""Whole batches out of memory: probed on items of the script's own shapes, equal to the last bit."""

from __future__ import annotations

import pytest
import torch
from made_up_rows import report_of
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset
from torch.utils.data._utils.fetch import _MapDatasetFetcher

from boundby.capture.facts import FactsSeen, WorkersUsage
from boundby.remedies import batched_fetch
from boundby.remedies.contract import CannotTell, Compared, Effects, Evidence, NotApplicable
from boundby.results.interval import interval


def facts_of(loader: DataLoader):
    seen = FactsSeen()
    iterator = iter(loader)
    seen.loader(iterator)
    next(iterator)
    return seen.facts(inference=False)


DATASET = TensorDataset(torch.arange(40.0).reshape(20, 2), torch.arange(20))


@pytest.fixture
def evidence(sample_report):
    def make(facts, probe=None) -> Evidence:
        report = report_of(sample_report("input"), input_share=0.5)
        return Evidence(report=report, machine=report.machine, facts=facts, probe=probe)

    return make


@pytest.fixture
def applied(monkeypatch):
    monkeypatch.setattr(_MapDatasetFetcher, "fetch", _MapDatasetFetcher.fetch)
    effects = Effects()
    batched_fetch.apply(effects)
    return effects


def test_both_ways_are_probed_on_items_of_these_shapes(evidence):
    facts = facts_of(DataLoader(DATASET, batch_size=5))
    assert facts.loaders[0].item_shapes == ((2,), ())
    assert facts.loaders[0].item_dtypes == ("float32", "int64")
    batches = []

    def probe(base, changed, *, budget_s=None):
        batches.extend((base(), changed()))
        return Compared(base_s=0.05, changed_s=0.005, ratio=interval(0.1))

    found = batched_fetch.predict(evidence(facts, probe))
    assert found.speedup == pytest.approx(0.1 / (0.1 - 0.045))
    assert [[tuple(one.shape) for one in batch] for batch in batches] == [[(5, 2), (5,)]] * 2
    assert "5 items one by one" in found.reason


def test_other_datasets_are_left_alone(evidence):
    for loader in (
        DataLoader(ConcatDataset([DATASET]), batch_size=5),
        DataLoader(DATASET, batch_size=5, collate_fn=lambda items: items),
        DataLoader(DATASET, batch_size=None),
    ):
        assert isinstance(batched_fetch.predict(evidence(facts_of(loader))), NotApplicable)
    assert isinstance(batched_fetch.predict(evidence(facts_of(DataLoader(DATASET, batch_size=5)))), CannotTell)


def test_batches_are_equal_to_the_last_bit(applied):
    loader = DataLoader(DATASET, batch_size=6, shuffle=True, generator=torch.Generator().manual_seed(3))
    at_once = list(loader)
    assert applied.seen == {"batches fetched at once": 4}
    loader.generator.manual_seed(3)
    one_by_one = list(DataLoader(DATASET, batch_size=6, shuffle=True, generator=loader.generator, collate_fn=_plain))
    assert applied.seen == {"batches fetched at once": 4}
    for ours, plain in zip(at_once, one_by_one, strict=True):
        assert type(ours) is type(plain)
        assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(ours, plain, strict=True))


def _plain(items):
    return torch.utils.data.default_collate(items)


class Worker:
    def __init__(self, pid: int) -> None:
        self.pid = pid


def test_the_processor_time_of_workers_is_read_now_and_then(monkeypatch):
    readings = iter([1.0, 1.4, 5.0])
    asked = []
    monkeypatch.setattr("boundby.capture.facts._cpu_seconds", lambda pids: asked.append(pids) or next(readings))
    usage = WorkersUsage()
    for _ in range(8):
        usage.batch([Worker(1), Worker(2)])
    assert asked == [(1, 2)] * 2
    assert usage.cpu_s == pytest.approx(0.4 / 4)
    for _ in range(8):
        usage.batch([Worker(3), Worker(4)])
    assert usage.cpu_s == pytest.approx(0.4 / 4)


def test_workers_that_have_ended_are_no_error():
    usage = WorkersUsage()
    for _ in range(16):
        usage.batch([Worker(2**22 + 1)])
    assert usage.cpu_s is None
