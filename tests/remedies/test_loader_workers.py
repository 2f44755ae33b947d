"""More and fewer loader workers: predicted from the input share and the cores, given to loaders from outside."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import textwrap

import psutil
import pytest
from made_up_rows import STEP_S, report_of

from boundby.remedies import workers_0, workers_2
from boundby.remedies.contract import CannotTell, Evidence, NotApplicable
from boundby.remedies.loader_workers import _cores_of_others
from boundby.remedies.turn_results import Seen, Slice, measured
from boundby.results.remedy import LoaderFacts, Predicted, ScriptFacts


def loader(workers: int, **fields) -> LoaderFacts:
    known = {"batch_size": 4, "pinned": False, "prefetch": None, "dataset": "Clips", "items": 100}
    return LoaderFacts(workers=workers, **(known | fields))


@pytest.fixture
def evidence(sample_report):
    def make(*loaders, cores=2, threads=2, input_share=0.5, probe=None) -> Evidence:
        report = report_of(sample_report("input"), input_share=input_share, threads=threads)
        description = dataclasses.replace(report.machine.description, usable_cores=cores)
        machine = dataclasses.replace(report.machine, description=description)
        return Evidence(
            report=report, machine=machine, facts=ScriptFacts(loaders=loaders, threads=threads), probe=probe
        )

    return make


def test_with_cores_to_spare_the_longer_of_step_and_batch_is_left(evidence):
    half = workers_2.predict(evidence(loader(0), cores=8, input_share=0.5))
    assert isinstance(half, Predicted)
    # The step's own half is left; making a batch takes two workers a quarter.
    assert half.high == pytest.approx(2.0)
    assert 1.7 < half.low < half.speedup < 2.0
    most = workers_2.predict(evidence(loader(0), cores=8, input_share=0.9))
    assert most.high == pytest.approx(1 / 0.45)


def test_cores_that_are_short_bound_what_workers_gain(evidence):
    free = workers_2.predict(evidence(loader(0), cores=8, input_share=0.7))
    short = workers_2.predict(evidence(loader(0), cores=2, input_share=0.7))
    alone = workers_2.predict(evidence(loader(0), cores=1, threads=1, input_share=0.7))
    assert alone.speedup < short.speedup < free.speedup
    assert alone.high == pytest.approx(1.0)
    assert short.low < short.speedup < short.high
    assert "2 cores for 2 workers and 2 threads" in short.reason


def test_other_load_takes_cores_from_the_workers(evidence, monkeypatch):
    quiet = workers_2.predict(evidence(loader(0), cores=4, threads=1, input_share=0.7))
    monkeypatch.setattr("boundby.remedies.loader_workers._cores_of_others", lambda: 3.0)
    loaded = workers_2.predict(evidence(loader(0), cores=4, threads=1, input_share=0.7, probe=object()))
    assert loaded.high == quiet.high
    assert loaded.low == pytest.approx(1 / 1.15)
    assert "other load uses 3.0 now" in loaded.reason
    assert "other load" not in quiet.reason


def test_what_else_runs_is_between_nothing_and_all_cores():
    assert 0.0 <= _cores_of_others() <= (psutil.cpu_count() or 1)


def test_a_step_that_does_not_wait_needs_no_workers(evidence):
    assert isinstance(workers_2.predict(evidence(loader(0), input_share=0.001)), NotApplicable)
    assert isinstance(workers_2.predict(evidence(loader(3))), NotApplicable)
    assert isinstance(workers_2.predict(evidence()), NotApplicable)


def test_without_workers_a_batch_comes_on_top(evidence):
    busy = loader(2, worker_cpu_s=0.5 * STEP_S)
    roomy = workers_0.predict(evidence(busy, cores=8, input_share=0.0))
    assert roomy.speedup == pytest.approx(1 / 1.5)
    assert roomy.high == pytest.approx(1 / 1.5)


def test_workers_that_compete_for_the_cores_may_cost_more_than_they_bring(evidence):
    crowded = workers_0.predict(evidence(loader(2, worker_cpu_s=0.1 * STEP_S), cores=2, input_share=0.0))
    assert crowded.low < 1.0 < crowded.high
    assert "compete" in crowded.reason


def test_what_workers_take_must_be_known(evidence):
    assert isinstance(workers_0.predict(evidence(loader(2))), CannotTell)
    assert isinstance(workers_0.predict(evidence(loader(0))), NotApplicable)
    assert isinstance(workers_0.predict(evidence()), NotApplicable)


def test_the_epoch_whose_workers_time_is_known_tells_most(evidence):
    short, evaluation, known = loader(2), loader(0, items=7), loader(2, worker_cpu_s=0.5 * STEP_S)
    found = workers_0.predict(evidence(short, evaluation, known, cores=8, input_share=0.0))
    assert found.speedup == pytest.approx(1 / 1.5)


LOADERS = (
    (0, "DataLoader(ds, 4, num_workers=2, persistent_workers=True, prefetch_factor=3, timeout=5)", 0, "0 workers in"),
    (0, "DataLoader(ds, 4, False, None, None, 1, multiprocessing_context='fork')", 0, "0 workers in place of 1"),
    (0, "DataLoader(ds, 4)", 0, ""),
    (2, "DataLoader(ds, 4)", 2, "2 workers in place of 0"),
    (2, "DataLoader(ds, 4, num_workers=2)", 2, ""),
    (2, "DataLoader(Stream(), 4)", 0, "each worker would give all"),
)


def test_loaders_are_given_so_many_workers():
    code = f"""
        import torch
        from torch.utils.data import DataLoader, IterableDataset, TensorDataset
        from boundby.remedies.contract import Effects
        from boundby.remedies.loader_workers import use_workers
        plain = DataLoader.__init__
        class Stream(IterableDataset):
            def __iter__(self):
                return iter(range(8))
        for count, made in {[(count, made) for count, made, _, _ in LOADERS]!r}:
            DataLoader.__init__ = plain
            effects = Effects()
            use_workers(count, effects)
            ds = TensorDataset(torch.arange(8.0))
            loader = eval(made)
            batches = list(loader)
            print(loader.num_workers, len(batches), effects.text(), sep="|")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for (_, made, workers, says), line in zip(LOADERS, done.stdout.splitlines(), strict=True):
        found, batches, text = line.split("|")
        assert (made, int(found), int(batches)) == (made, workers, 2)
        assert says in text
        assert bool(says) == bool(text)


def test_steps_that_come_in_bursts_are_compared_by_their_mean():
    """Two workers give two batches every 40 ms; without them each takes 30 ms."""
    bursts = Seen(warm=[0.02] * 3, slices=[Slice([0.001, 0.039] * 10) for _ in range(5)])
    even = Seen(warm=[0.03] * 3, slices=[Slice([0.03] * 20) for _ in range(5)])
    assert measured(even, bursts, bursts=True).speedup == pytest.approx(1.5, rel=0.01)
    assert measured(even, bursts, bursts=True).step_s == pytest.approx(0.02, rel=0.01)
    assert workers_0.BURSTS
    assert workers_2.BURSTS
