"""A compiled training step: counted forward and backward, and as fast after watching as before."""

from __future__ import annotations

import statistics
import time

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters
from torch.utils.checkpoint import checkpoint

from boundby.capture.attribute import AttributingWatcher
from boundby.capture.lean import LeanWatcher
from boundby.capture.regions import REGION
from boundby.results.counts import eager_equivalent

BATCH, LENGTH, WIDTH, WORDS = 2, 16, 32, 5000


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, tokens):
        x = self.table(tokens)
        q, k, v = (
            one.view(BATCH, LENGTH, 2, WIDTH // 2).transpose(1, 2) for one in self.qkv(self.norm(x)).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)
        return x + checkpoint(self.out, mixed, use_reentrant=False)


@pytest.fixture(scope="module")
def training():
    torch.manual_seed(0)
    model = Model()
    compiled = torch.compile(model)
    tokens = torch.randperm(WORDS)[: BATCH * LENGTH].view(BATCH, LENGTH)  # no row twice: an equivalent cannot know

    def step(forward=compiled):
        model.zero_grad()
        forward(tokens).square().mean().backward()

    step()
    return step, model


def watch(step):
    watcher = AttributingWatcher(lambda: False)
    watcher.start()
    step()
    watcher.stop()
    seen = watcher.take()
    sites = list(watcher.sites)
    return [sites[at] for at in seen.site]


def test_forward_and_backward_regions_are_counted(training):
    step, model = training
    sites = watch(step)
    regions = [(site[6], site[1]) for site in sites if site[0] is REGION]
    assert [phase for phase, _ in regions] == ["forward", "backward"]
    assert all(cost.modelled for _, cost in regions)
    eager = watch(lambda: step(model))
    for phase, cost in regions:
        alone = [site[1] for site in eager if site[6] == phase]
        assert cost.matmul_flops == sum(one.matmul_flops for one in alone) > 0
        assert cost.launches < sum(one.launches for one in alone)
        assert cost.bytes_written < sum(one.bytes_written for one in alone)
    table = WORDS * WIDTH * 4
    assert (
        regions[0][1].bytes_read < table < regions[1][1].bytes_written
    )  # rows are read, the whole gradient is written


def test_the_equivalent_of_the_step_is_the_eager_step(training):
    step, model = training
    costs = [(site[1], 1) for site in watch(step)]
    found = eager_equivalent(costs, regions=2)
    eager = [site[1] for site in watch(lambda: step(model))]
    assert found is not None
    assert found.matmul_flops == sum(one.matmul_flops for one in eager)
    assert found.causal_matmul_flops == sum(one.causal_matmul_flops for one in eager)
    assert found.pointwise_flops == sum(one.pointwise_flops for one in eager)
    assert found.launches == sum(one.launches for one in eager)
    assert found.bytes_read == sum(one.bytes_read for one in eager)
    assert found.bytes_written == sum(one.bytes_written for one in eager)


def test_watching_leaves_results_gradients_and_random_numbers_as_they_are(training):
    step, model = training
    state = torch.get_rng_state()
    step()
    plain = [one.grad.clone() for one in model.parameters()]
    watch(step)
    assert all(torch.equal(one, other.grad) for one, other in zip(plain, model.parameters(), strict=True))
    assert torch.equal(state, torch.get_rng_state())


def test_a_compiled_step_keeps_its_compiled_speed_after_watching(training):
    step, _ = training
    step()
    before = {name: dict(each) for name, each in counters.items()}

    def seconds(run):
        begin = time.perf_counter()
        run()
        return time.perf_counter() - begin

    watched = AttributingWatcher(lambda: False), LeanWatcher()
    unwatched = [seconds(step) for _ in range(30)]
    after = []
    for turn in range(30):
        watcher = watched[turn % 2]
        watcher.start()
        step()
        watcher.stop()
        after.append(seconds(step))
    assert {name: dict(each) for name, each in counters.items()} == before  # nothing was compiled, or run eagerly
    # The machine may be busy; what a fallback to eager or a recompilation costs is far beyond.
    assert statistics.median(after) < 3 * statistics.median(unwatched)
