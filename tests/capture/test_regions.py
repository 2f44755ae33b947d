"""Compiled regions stand in a step's sequence and are counted as what they run, with their eager equivalent beside."""

from __future__ import annotations

import pytest
import torch

from boundby.capture.attribute import AttributingWatcher
from boundby.capture.lean import LeanWatcher
from boundby.capture.regions import REGION, CompiledCalls

ROWS, WIDTH = 5, 24


@pytest.fixture(scope="module")
def compiled():
    layer = torch.nn.Linear(WIDTH, WIDTH)

    @torch.compile
    def work(x):
        return torch.tanh(layer(x)) * 2

    x = torch.ones(ROWS, WIDTH)
    with torch.no_grad():
        work(x)
    return lambda: work(x)


def watch(call):
    watcher = AttributingWatcher(lambda: False)
    watcher.start()
    with torch.no_grad():
        call()
    watcher.stop()
    step = watcher.take()
    keys = list(watcher.sites)
    return step, [keys[at] for at in step.site]


def test_a_region_is_one_op_counted_as_it_runs_after_fusion(compiled):
    step, sites = watch(lambda: compiled().add_(1))
    assert step.ops.count(REGION) == 1
    assert [str(op) for op in step.ops][-1].startswith("aten.add_")
    cost = next(site[1] for site in sites if site[0] is REGION)
    elements = ROWS * WIDTH
    assert cost.modelled
    assert cost.launches == 2  # the product by its usual kernel, tanh and the multiplication in one of inductor's
    assert cost.matmul_flops == 2 * ROWS * WIDTH * WIDTH
    assert cost.pointwise_flops == 2 * elements
    assert cost.bytes_read == 4 * (elements + WIDTH * WIDTH + WIDTH) + 4 * elements
    assert cost.bytes_written == 4 * 2 * elements


def test_beside_it_is_what_it_would_be_op_by_op(compiled):
    _, sites = watch(compiled)
    eager = next(site[1] for site in sites if site[0] is REGION).eager
    elements = ROWS * WIDTH
    assert eager is not None
    assert (eager.ops, eager.launches) == (4, 3)  # t, addmm, tanh, mul
    assert eager.matmul_flops == 2 * ROWS * WIDTH * WIDTH
    assert eager.pointwise_flops == 2 * elements
    assert eager.bytes_written == 4 * 3 * elements


def test_lean_and_attributed_steps_have_the_same_sequence(compiled):
    attributing = AttributingWatcher(lambda: False)
    lean = LeanWatcher()
    for watcher in (attributing, lean):
        watcher.start()
        with torch.no_grad():
            compiled().add_(1)
        watcher.stop()
    assert lean.ops == attributing.take().ops
    assert len(lean.stamps) == 2 * len(lean.ops)


def test_the_patch_is_gone_after_watching(compiled):
    from torch._inductor.output_code import CompiledFxGraph

    before = CompiledFxGraph.__call__
    calls = CompiledCalls(lambda call: call())
    calls.open()
    assert CompiledFxGraph.__call__ is not before
    calls.close()
    assert CompiledFxGraph.__call__ is before
