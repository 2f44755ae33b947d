"""Compiled regions stand in a step's sequence, so that what runs in them is neither host code nor input."""

from __future__ import annotations

import pytest
import torch

from boundby.capture.attribute import AttributingWatcher
from boundby.capture.lean import LeanWatcher
from boundby.capture.regions import REGION, CompiledCalls


@pytest.fixture(scope="module")
def compiled():
    layer = torch.nn.Linear(8, 8)

    @torch.compile
    def work(x):
        return torch.tanh(layer(x)) * 2

    x = torch.ones(4, 8)
    with torch.no_grad():
        work(x)
    return lambda: work(x)


def test_a_region_is_one_op_of_the_step_and_not_modelled(compiled):
    watcher = AttributingWatcher(lambda: False)
    watcher.start()
    with torch.no_grad():
        compiled().add_(1)
    watcher.stop()
    step = watcher.take()
    keys = list(watcher.sites)
    assert step.ops.count(REGION) == 1
    region = next(key for key in keys if key[0] is REGION)
    assert not region[1].modelled
    assert region[1].matmul_flops in (0, 2 * 4 * 8 * 8)  # seen where inductor calls the usual kernel for it
    assert [str(op) for op in step.ops][-1].startswith("aten.add_")


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
