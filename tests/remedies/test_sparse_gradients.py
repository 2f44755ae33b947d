"""Sparse gradients: predicted from a step on one table, applied to embeddings and the optimizers that hold them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up_rows import FixedProbe, applied, bare_row, evidence_of, filled_report, optimizer

from boundby.remedies import sparse_gradients
from boundby.remedies.contract import CannotTell, NotApplicable
from boundby.remedies.probing import TurnsProbe
from boundby.results.remedy import Predicted
from boundby.results.report import PageFaults

TABLE = (20_000, 32)
ROWS = (
    bare_row("embedding", "20000x32 16x4", 0.02),
    bare_row("embedding_dense_backward", "16x4x32 16x4", 0.18, phase="backward"),
    bare_row("addcdiv_", "20000x32 20000x32 20000x32", 0.6, phase="optimizer"),
)


@pytest.fixture
def evidence(sample_report):
    def make(*optimizers, rows=ROWS, probe=None):
        return evidence_of(filled_report(sample_report("memory"), rows), probe=probe, optimizers=optimizers)

    return make


def test_the_tables_gradient_and_their_part_of_the_optimizer_go(evidence):
    # 0.18 backward, and of the optimizer's 0.6 the table's two thirds.
    probe = FixedProbe(0.0)
    found = sparse_gradients.predict(evidence(optimizer("Adam", TABLE, (10_000, 32)), probe=probe))
    assert isinstance(found, Predicted)
    assert found.speedup == pytest.approx(1 / (1 - 0.58))
    assert found.low < found.speedup < found.high
    assert "64 of 20,000" in found.reason
    assert "SparseAdam" in found.change


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_a_step_on_a_table_is_quicker_where_it_writes_few_rows(evidence, kind):
    found = sparse_gradients.predict(evidence(optimizer(kind, TABLE), probe=TurnsProbe(budget_s=0.03)))
    assert isinstance(found, Predicted | CannotTell)  # undecided where the machine is busy
    if isinstance(found, Predicted):
        assert found.speedup > 1.5


def test_giving_back_the_fresh_memory_of_dense_gradients_may_be_theirs_too(evidence):
    def found(faults):
        seen = evidence(optimizer("Adam", TABLE), rows=(*ROWS[:1], replace(ROWS[1], faults=faults), *ROWS[2:]))
        each = PageFaults(per_step=faults, seconds_each=1e-6, time_s=faults * 1e-6)
        return sparse_gradients.predict(
            replace(seen, report=replace(seen.report, page_faults=each), probe=FixedProbe(0.0))
        )

    # Giving back takes no more than a quarter of what touching did, nor than there is between ops: 20 ms.
    none, some, all_of_it = found(0), found(4_000), found(10**6)
    assert none.speedup == pytest.approx(1 / (1 - 0.78))
    assert some.speedup == pytest.approx(1 / (1 - 0.78 - 0.04 / 4))
    assert all_of_it.speedup == pytest.approx(1 / (1 - 0.78 - 0.2))
    assert none.high < some.high <= all_of_it.high


@pytest.mark.parametrize("tables", [1, 3])
def test_what_is_sparse_takes_as_long_as_its_probe_however_long_the_dense_step_takes(evidence, tables):
    # A table of ten million rows takes 90 ms inside the step; the probe's part of it takes 10 ms, and sparse 0.4 ms.
    large = (10_000_000, 32)
    rows = (bare_row("embedding", "10000000x32 16x4", 0.1), bare_row("lerp_", "10000000x32", 0.9, phase="optimizer"))
    optimized = optimizer("Adam", *[large] * tables)
    found = sparse_gradients.predict(
        evidence(optimized, rows=rows, probe=FixedProbe(0.04 * sparse_gradients.SPARSE_CALLS))
    )
    assert isinstance(found, Predicted)
    assert found.speedup == pytest.approx(100 / (10 + tables * 0.4))


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (optimizer("RMSprop", TABLE), "RMSprop takes no sparse gradients"),
        (optimizer("AdamW", TABLE, weight_decay=0.01), "AdamW with weight decay"),
        (optimizer("Adam", TABLE, amsgrad=True), "amsgrad"),
        (optimizer("SGD", TABLE, fused=True), "fused SGD"),
        (optimizer("Adam", (8, 8)), "no optimizer steps the embeddings"),
    ],
)
def test_an_optimizer_that_cannot_is_named(evidence, held, why):
    found = sparse_gradients.predict(evidence(held, probe=FixedProbe(0.0)))
    assert isinstance(found, NotApplicable)
    assert why in found.reason


def test_small_tables_and_steps_without_an_optimizer_are_left_alone(evidence):
    small = (bare_row("embedding", "100x32 16x4", 0.5),)
    assert isinstance(sparse_gradients.predict(evidence(optimizer("Adam", (100, 32)), rows=small)), NotApplicable)
    assert isinstance(sparse_gradients.predict(evidence()), NotApplicable)


def test_without_probes_it_cannot_be_told(evidence):
    assert isinstance(sparse_gradients.predict(evidence(optimizer("Adam", TABLE))), CannotTell)


def test_applied_each_optimizer_steps_what_was_looked_up_and_others_get_dense_gradients_back():
    found = applied(
        "sparse_gradients",
        """
        from torch.nn.utils import clip_grad_norm_

        def train(make, clip=False, embedding=torch.nn.Embedding, **options):
            net = embedding(20000, 32, **options)
            start = net.weight.detach().clone()
            head = torch.nn.Linear(32, 1)
            optimizer = make([*net.parameters(), *head.parameters()])
            scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
            for _ in range(2):
                optimizer.zero_grad()
                head(net(torch.tensor([[1, 2], [2, 3]]))).square().mean().backward()
                if clip:
                    clip_grad_norm_(net.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
            changed = (net.weight != start).any(1).nonzero().flatten().tolist()
            return changed, bool(net.weight.grad.is_sparse), net.sparse

        found["adam"] = train(lambda p: torch.optim.Adam(p, lr=0.1))
        found["bag"] = train(lambda p: torch.optim.Adam(p, lr=0.1), embedding=torch.nn.EmbeddingBag)
        found["max"] = train(lambda p: torch.optim.Adam(p, lr=0.1), embedding=torch.nn.EmbeddingBag, mode="max")
        found["sgd"] = train(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
        emb, out = torch.nn.Embedding(20000, 32), torch.nn.Linear(32, 20000, bias=False)
        out.weight = emb.weight
        optimizer = torch.optim.Adam(out.parameters(), lr=0.1)
        out(emb(torch.tensor([1, 2]))).square().mean().backward()
        optimizer.step()
        found["tied"] = bool(emb.weight.grad.is_sparse)
        found["seen_by_then"] = sum(effects.seen.values())
        found["clipped"] = train(lambda p: torch.optim.Adam(p, lr=0.1), clip=True)
        found["after"] = train(lambda p: torch.optim.RMSprop(p, lr=0.1))
        """,
    )
    assert found["adam"] == [[1, 2, 3], True, True]
    assert found["bag"] == [[1, 2, 3], True, True]
    assert found["max"][1:] == [False, False]
    assert found["sgd"] == [[1, 2, 3], True, True]
    assert found["tied"] is False
    assert found["seen_by_then"] == 6
    assert set(found["seen"]) == {"sparse gradients stepped by SparseAdam", "sparse gradients stepped by SGD"}
    assert found["clipped"] == [[1, 2, 3], False, False]
    assert found["refused"] == ["clip_grad_norm_ takes no sparse gradients"]
    assert found["after"] == [[1, 2, 3], False, False]


def test_applied_an_optimizer_without_sparse_gradients_steps_dense_ones():
    found = applied(
        "sparse_gradients",
        """
        net = torch.nn.Embedding(20000, 32)
        optimizer = torch.optim.RMSprop(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.tensor([1, 2])).square().sum().backward()
            optimizer.step()
        found["sparse"] = bool(net.weight.grad.is_sparse)
        """,
    )
    assert found["sparse"] is False
    assert found["refused"] == ["RMSprop takes no sparse gradients"]
    assert found["seen"] == {}
