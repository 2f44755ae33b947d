"""What an optimizer takes to clear gradients, as both ways of watching a step for times see it."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from torch import nn

from boundby.capture.lean import LeanStep, LeanWatcher
from boundby.capture.profiled import match_calls, profile_once
from boundby.capture.step_kinds import lean_times, profiled_times

HELD_S = 2e-3


class Slow(torch.optim.SGD):
    """Takes at least ``HELD_S`` more to clear gradients, in the range that torch marks."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        with torch.autograd.profiler.record_function("Optimizer.zero_grad#Slow.zero_grad"):
            with torch.autograd.profiler.record_function("inner"):
                time.sleep(HELD_S)
            super().zero_grad(set_to_none)


def stepped(set_to_none: bool):
    model = nn.Linear(8, 8)
    optimizer = Slow(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad(set_to_none)
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()

    step()
    return step


@pytest.mark.parametrize("set_to_none", [True, False])
def test_the_lean_watcher_notes_clearing_that_ran_no_op(set_to_none):
    step, watcher = stepped(set_to_none), LeanWatcher()
    begin = time.perf_counter_ns()
    with watcher:
        step()
    lean = LeanStep(watcher.ops, watcher.stamps, begin, time.perf_counter_ns(), [], clearing_at=watcher.clearings)
    cleared = lean_times(lean, 0.0).cleared
    assert len(cleared) == len(watcher.ops)
    assert bool(cleared[0] >= HELD_S) == set_to_none
    assert cleared[1:].sum() == 0
    assert not any("profiler" in str(op) for op in watcher.ops)


def test_the_profiler_sees_clearing_that_ran_no_op():
    model, x = nn.Linear(8, 8), torch.ones(8)
    optimizer = Slow(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        x.exp()

    seen = profile_once(step)
    matched = match_calls(seen, ["aten::exp"], [1])
    assert matched is not None
    (cleared,) = profiled_times(seen, matched, np.zeros(len(seen.names))).cleared
    # The range that torch marks inside this one is part of it.
    assert HELD_S <= cleared < (seen.end - seen.begin) / 1e9


def test_ranges_of_other_names_are_no_clearing():
    watcher = LeanWatcher()
    with watcher, torch.autograd.profiler.record_function("Optimizer.step#SGD.step"):
        time.sleep(HELD_S)
    assert watcher.clearings == []
