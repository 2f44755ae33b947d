"""Real runs through `boundby.explain`: a workload with itself does not differ, one that does far more does.

How often a workload does not differ from itself, and whether 1.3x is found, is shown in benchmarks/comparison.py on a
quiet machine. On one that others use at the same time steps of 0.2 ms do change by a third from one half second to the
next, which no comparison can tell from a change of the code; what is held here is what stays true then.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from made_up import round_machine

import boundby
from boundby.bound.compare import compare_reports
from boundby.results.comparison import TimeChange
from boundby.results.report import Report

PAIRS = 20
MACHINE = round_machine()
SQUARE = torch.full((96, 96), 0.01)


def small_step() -> None:
    for _ in range(6):
        torch.mm(SQUARE, SQUARE).add_(1.0)


def large_step() -> None:
    for _ in range(5):
        small_step()


def explained(large: bool) -> Report:
    return boundby.explain(large_step if large else small_step, machine=MACHINE, warmup=3, steps=24, watch=2)


def time_change(a: Report, b: Report) -> TimeChange:
    found = compare_reports(a, b, name_a="a", name_b="b")
    assert found.counts_equal == (a.counts == b.counts)
    assert found.time is not None
    return found.time


def test_most_runs_do_not_differ_from_the_one_before_and_five_times_the_work_does() -> None:
    runs, larger = [explained(large=False)], []
    for turn in range(PAIRS):
        runs.append(explained(large=False))
        if turn % 5 == 0:
            larger.append((runs[-1], explained(large=True)))
    alike = [time_change(a, b) for a, b in pairwise(runs)]
    assert sum(one.differs is False for one in alike) >= 0.7 * PAIRS, [one.ratio for one in alike]
    unlike = [time_change(a, b) for a, b in larger]
    assert sum(one.differs is True for one in unlike) >= len(unlike) - 1, [one.ratio for one in unlike]
