"""A batch twice as large: predicted from what does not grow, applied to loaders, measured a sample."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import textwrap

import pytest
from made_up_rows import report_of, row

from boundby.capture.script import Target
from boundby.cli.try_ import _tried
from boundby.remedies import allocator, batch_x2
from boundby.remedies.contract import CannotTell, Evidence
from boundby.remedies.trial import Tried, try_once
from boundby.results.interval import interval
from boundby.results.machine import Ceiling
from boundby.results.remedy import LoaderFacts, OptimizerFacts, Remedy, ScriptFacts
from boundby.results.report import OverheadParts, PageFaults

TABLE = (4096, 64)
TABLE_BYTES = 4 * 4096 * 64
SGD = OptimizerFacts(name="SGD", fused=None, foreach=None, shapes=(TABLE, (256, 512)), dtypes=("float32", "float32"))


@pytest.fixture
def evidence(sample_report):
    def make(*rows, optimizers=(SGD,), ceilings=(), **fields) -> Evidence:
        report = report_of(sample_report("overhead"), *rows, **fields)
        machine = dataclasses.replace(report.machine, ceilings=ceilings)
        return Evidence(report=report, machine=machine, facts=ScriptFacts(optimizers=optimizers))

    return make


def speedup(fixed: float) -> float:
    return 2 / (2 - fixed)


def test_host_code_dispatch_and_optimizer_are_fixed_and_work_grows(evidence):
    found = batch_x2.predict(
        evidence(
            row("add", "32x32 32x32", 0.5, overhead=0.1),
            row("add_", "256x512 256x512", 0.2, phase="optimizer"),
            host=0.3,
        )
    )
    assert found.speedup == pytest.approx(speedup(0.1 + 0.2 + 0.3))
    assert found.low < found.speedup < found.high
    assert "60% of the step" in found.reason
    assert "sample" in found.reason


def test_without_a_loader_no_trial_can_double_the_batch_even_where_nothing_is_predicted(evidence):
    found = batch_x2.predict(evidence(row("add", "32x32 32x32", 0.01), host=0.01))
    assert isinstance(found, CannotTell)
    assert not found.from_outside


def test_words_are_those_of_the_steps_kind(evidence, sample_report):
    optimized = row("add_", "256x512 256x512", 0.2, phase="optimizer")
    trained = batch_x2.predict(evidence(row("add", "32x32 32x32", 0.5), optimized, host=0.3))
    assert "the optimizer" in trained.reason
    assert "learning rate" in trained.change
    seen = evidence(row("add", "32x32 32x32", 0.5), host=0.5)
    step = dataclasses.replace(seen.report.step, kind="inference")
    inferred = batch_x2.predict(dataclasses.replace(seen, report=dataclasses.replace(seen.report, step=step)))
    assert "optimizer" not in inferred.reason
    assert "learning rate" not in inferred.change


def test_host_code_far_beyond_what_its_ops_take_may_grow_with_the_batch_or_not(evidence):
    """Metrics in NumPy, loops over samples, waiting: as much of either as one can tell."""
    seen = evidence(row("add", "32x32 32x32", 0.1), host=0.9)
    parts = OverheadParts(dispatch=0.01, host=0.9, allocation=0.0)
    found = batch_x2.predict(dataclasses.replace(seen, report=dataclasses.replace(seen.report, overhead_parts=parts)))
    ordinary = 0.01 * batch_x2.ORDINARY_HOST
    assert found.speedup == pytest.approx(speedup(ordinary + (0.9 - ordinary) / 2))
    assert found.low < 1.05
    assert found.high > 1.8


def test_four_times_the_batch_shares_the_fixed_part_among_more(evidence):
    found = batch_x2.predict(evidence(row("add", "32x32 32x32", 0.5), host=0.5))
    assert "with four times the batch 1.6x" in found.reason
    assert batch_x2.sample_speedup(interval(1.5), 4, interval(0.0)).value == pytest.approx(4 / 2.5)


def test_without_a_loader_it_cannot_be_applied_from_outside_and_says_so(evidence):
    without = batch_x2.predict(evidence(host=1.0))
    assert not without.from_outside
    assert "boundby try cannot" in without.change
    loader = LoaderFacts(workers=0, batch_size=8, pinned=False, prefetch=None, dataset="TensorDataset", items=64)
    some = evidence(host=1.0)
    found = batch_x2.predict(dataclasses.replace(some, facts=dataclasses.replace(some.facts, loaders=(loader,))))
    assert found.from_outside
    assert "cannot" not in found.change


def test_a_step_of_work_alone_gains_nothing_and_one_of_overhead_alone_doubles(evidence):
    work = batch_x2.predict(evidence(row("add", "32x32 32x32", 1.0)))
    assert work.speedup == pytest.approx(1.0)
    assert work.low < 1.0 < work.high
    assert batch_x2.predict(evidence(host=1.0)).speedup == pytest.approx(2.0)


def test_input_grows_item_by_item(evidence):
    assert batch_x2.predict(evidence(host=0.5, input_share=0.5)).speedup == pytest.approx(speedup(0.5))


def test_bytes_of_weights_do_not_grow(evidence):
    """A gradient of a whole table is written, however few rows of it were looked up."""
    dense = row(
        "embedding_dense_backward", "32x64 32", 0.5, bytes_read=8192, bytes_written=TABLE_BYTES, phase="backward"
    )
    found = batch_x2.predict(evidence(dense, host=0.5))
    part = TABLE_BYTES / (TABLE_BYTES + 8192)
    assert found.speedup == pytest.approx(speedup(0.5 + 0.5 * part))
    unknown = batch_x2.predict(evidence(dense, host=0.5, optimizers=()))
    assert unknown.speedup == pytest.approx(speedup(0.5))


def test_what_is_not_known_widens_the_band(evidence):
    known, half = batch_x2.predict(evidence(host=1.0)), batch_x2.predict(evidence(host=0.5))
    assert half.low < known.low
    assert half.high == pytest.approx(known.high)


def test_a_step_of_which_too_little_is_known_is_not_predicted(evidence):
    """As where other load disturbed the run, and no op's time could be had."""
    assert isinstance(batch_x2.predict(evidence(row("add", "32x32 32x32", 0.0))), CannotTell)
    assert isinstance(batch_x2.predict(evidence(host=0.2)), CannotTell)


def ceiling(name: str, shape: tuple[int, ...], value: float, unit: str) -> Ceiling:
    return Ceiling(
        kind="matmul", name=name, dtype="fp32", shape=shape, value=value, low=value, high=value, unit=unit, threads=2
    )


def test_a_product_of_few_rows_is_read_by_ceilings(evidence):
    """One row reads its weights at 20 GB/s, two rows at 15 GB/s: a third longer for twice the samples."""
    rates = tuple(ceiling("mv", (1, rows, 512, 512), value, "byte/s") for rows, value in ((1, 20e9), (2, 15e9)))
    product = row("mm", "1x512 512x512", 1.0, matmul_flops=2 * 512 * 512, bytes_read=4 * 512 * 512, phase="other")
    found = batch_x2.predict(evidence(product, ceilings=rates, optimizers=()))
    assert found.speedup == pytest.approx(2 / (4 / 3))


def test_twice_the_rows_of_a_product_may_run_nearer_to_the_peak(evidence):
    rates = tuple(ceiling("mm", (1, rows, 256, 512), value, "flop/s") for rows, value in ((64, 50e9), (128, 100e9)))
    product = row("mm", "64x512 512x256", 1.0, bound="matmul", matmul_flops=2 * 64 * 512 * 256)
    found = batch_x2.predict(evidence(product, ceilings=rates))
    assert 1.5 < found.speedup <= 2.0
    weight = row("mm", "256x64 64x512", 1.0, bound="matmul", matmul_flops=2 * 64 * 512 * 256, phase="backward")
    assert 0.9 < batch_x2.predict(evidence(weight, ceilings=rates)).speedup <= 2.0


LOADERS = (
    ("DataLoader(ds, batch_size=4)", 8, "batches of 8 in place of 4"),
    ("DataLoader(ds, 4, True, drop_last=True)", 8, "batches of 8 in place of 4"),
    ("DataLoader(ds)", 2, "batches of 2 in place of 1"),
    ("DataLoader(ds, batch_size=20)", 20, "30 items is not twice the batch"),
    ("DataLoader(ds, batch_size=None)", None, "one by one"),
    ("DataLoader(ds, batch_sampler=[[0, 1], [2, 3]])", None, "sampler of the script's own"),
    ("DataLoader(Stream(), batch_size=3)", 6, "batches of 6 in place of 3"),
    ("Own(ds, batch_size=4)", 8, "batches of 8 in place of 4"),
    ("DataLoader(ds, batch_size=DataLoader(ds, batch_size=4).batch_size)", 8, "batches of 8 in place of 4"),
)


def test_loaders_give_twice_as_many_where_they_can():
    code = f"""
        import torch
        from torch.utils.data import DataLoader, IterableDataset, TensorDataset
        from boundby.remedies import batch_x2
        from boundby.remedies.contract import Effects
        plain = DataLoader.__init__
        class Stream(IterableDataset):
            def __iter__(self):
                return iter(range(30))
        class Own(DataLoader):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
        for made in {[made for made, _, _ in LOADERS]!r}:
            DataLoader.__init__ = plain
            effects = Effects()
            batch_x2.apply(effects)
            ds = TensorDataset(torch.arange(30.0))
            loader = eval(made)
            next(iter(loader))
            print(loader.batch_size, "|", effects.text())
        try:
            DataLoader(ds, batch_size=4, no_such_thing=1)
        except TypeError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *lines, mistake = done.stdout.splitlines()
    for (made, size, says), line in zip(LOADERS, lines, strict=True):
        found, _, text = line.partition(" | ")
        assert (made, found) == (made, str(size))
        assert says in text
    assert "no_such_thing" in mistake


SCRIPT = """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(4096, 4)), batch_size=4)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(10**6):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
"""


def test_a_trial_compares_the_time_of_a_sample_and_no_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "train.py").write_text(SCRIPT)
    target = Target(name="train.py", is_module=False)
    done = try_once(target, ["batch-x2"], environment={}, budget_s=0.5, work=batch_x2.WORK)
    assert done.took_effect is True
    assert "batches of 8 in place of 4" in done.effect
    assert done.numerics is None
    # A step of so little is all overhead, but for fetching items.
    assert done.measured.speedup == pytest.approx(2.0 * done.measured.base_step_s / done.measured.step_s, rel=0.3)


def test_the_command_knows_how_much_a_step_does_and_how_steps_come(monkeypatch):
    asked = []

    def try_once(target, names, **options):
        asked.append((options["work"], options["bursts"]))
        return Tried(measured=None, numerics=None, took_effect=None, effect="", failed="not now")

    monkeypatch.setattr("boundby.remedies.trial.try_once", try_once)
    target = Target(name="train.py", is_module=False)
    for names in (["one-thread"], ["batch-x2"], ["workers-2", "batch-x2"]):
        _tried(Remedy(name="+".join(names)), target, names, 1.0, "")
    assert asked == [(1.0, False), (2.0, False), (2.0, True)]


def test_tensors_that_become_too_large_to_be_kept_fault_in_each_step(evidence, monkeypatch):
    for name in ("LD_PRELOAD", "GLIBC_TUNABLES", *allocator.ENVIRONMENT):
        monkeypatch.delenv(name, raising=False)
    large = row("relu", "64x64x32x32", 0.5, bytes_read=16 << 20, bytes_written=16 << 20)
    seen = evidence(large, row("relu_", "64x64x32x32", 0.4, bytes_written=16 << 20), host=0.1)
    faults = PageFaults(per_step=0.0, seconds_each=1e-6, time_s=0.0)
    seen = dataclasses.replace(seen, report=dataclasses.replace(seen.report, page_faults=faults))
    found = batch_x2.predict(seen)
    # Twice 16 MiB is 8,192 pages of 1 us in a step of 100 ms; what works in place takes no memory.
    assert found.speedup == pytest.approx(2 / (1.9 + 8192e-6 / 0.1))
    assert "fresh memory" in found.reason
    halves = dataclasses.replace(large, bytes_written=8 << 20)
    seen = dataclasses.replace(seen, report=dataclasses.replace(seen.report, ops=(halves,)))
    assert batch_x2.fresh_share(seen.report, [], 2).value == 0.0
    assert batch_x2.fresh_share(seen.report, [], 4).value == pytest.approx(8192e-6 / 0.1)
    assert batch_x2.fresh_share(seen.report, [(2 << 20,)], 4).value == 0.0  # a weight's gradient does not grow
    monkeypatch.setenv("LD_PRELOAD", "libjemalloc.so")
    assert batch_x2.fresh_share(seen.report, [], 4).value == 0.0


def test_page_faults_and_unexplained_work_on_data_grow_with_the_batch(evidence):
    # Starting the op is a hundredth of it, and less than reading its data takes: the rest is work on data.
    made = row("mul", "1024x64 1024x64", 1.0, bytes_read=1 << 19, bytes_written=1 << 18, faults=96)
    floors = dataclasses.replace(made.floors, overhead_s=1e-3, memory_s=4e-3, bound="overhead")
    found = batch_x2.predict(evidence(dataclasses.replace(made, floors=floors)))
    assert found.speedup == pytest.approx(speedup(0.01))
