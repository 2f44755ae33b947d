"""The statistics of the benchmarks of ceilings, on made-up answers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from boundby.results.machine import Ceiling

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "ceilings"))

from compare import Comparison, best_of
from repeats import Repeated, kind_of, share


def compared(*turns, unit="byte/s", limit=0.05) -> Comparison:
    one = Comparison(label="x", unit=unit, limit=limit, independent=[], own=[])
    one.answers.extend(turns)
    return one


def test_the_best_form_is_the_one_with_the_largest_median_and_not_the_best_of_each_turn():
    assert best_of([[1.0, 9.0], [5.0, 2.0], [5.0, 2.0]]) == [1.0, 5.0, 5.0]
    assert best_of([[None, 1.0], [5.0, 2.0], [5.0, 2.0]]) == []
    assert best_of([[None, 1.0], [None, 2.0]]) == [1.0, 2.0]
    assert best_of([]) == []


def test_a_row_holds_the_median_of_the_ratios_of_the_turns_against_the_limit():
    near = compared(([100.0, 1.0], [104.0]), ([200.0, 1.0], [206.0]), ([300.0, 1.0], [150.0]))
    assert near.row()[3:] == ["1.030", "0.500 to 1.040", "5%", "yes"]
    assert compared(([100.0], [110.0])).row()[-1] == "NO"
    assert compared(([None], [110.0])).row()[-1] == compared(([100.0], [None])).row()[-1] == "NO ANSWER"


def ceiling(value: float, *, low: float | None = None, high: float | None = None, **more) -> Ceiling:
    fields = {"kind": "function", "name": "exp", "threads": 2, "unit": "s", **more}
    return Ceiling(value=value, low=value if low is None else low, high=value if high is None else high, **fields)


def test_how_well_a_ceiling_repeats():
    values = [1.0] * 5 + [1.02] * 4 + [2.0]
    found = Repeated([ceiling(value, low=0.99, high=1.03) for value in values])
    assert found.median == pytest.approx(1.01)
    assert found.typical == pytest.approx(0.01, abs=1e-4)
    # Nine of the ten runs, and not the worst.
    assert found.far == pytest.approx(0.01, abs=1e-4)
    assert found.holds_median == 1.0
    # Of the ten runs the last one's value is held by none, its own band holds all others'.
    assert found.holds_others == pytest.approx((9 * 8 + 9) / 90)


def test_nothing_known_is_nothing_held():
    assert share([]) == 0.0
    assert share([True, False]) == 0.5


@pytest.mark.parametrize(
    ("one", "kind"),
    [
        (ceiling(1.0), "functions, 2 thr."),
        (ceiling(1.0, kind="overhead", name="view"), "overhead"),
        (ceiling(1.0, kind="bandwidth", unit="byte/s", size_bytes=1 << 28), "main memory, 2 thr."),
        (
            ceiling(1.0, kind="bandwidth", unit="byte/s", size_bytes=1 << 20, stack="native"),
            "native streams in caches, 2 thr.",
        ),
        (ceiling(1.0, kind="matmul", name="fma", unit="flop/s", stack="native"), "native multiply-adds"),
        (ceiling(1.0, kind="matmul", name="conv", unit="flop/s", threads=1), "convolutions, attention, 1 thr."),
    ],
)
def test_ceilings_are_counted_by_kind(one, kind):
    assert kind_of(one) == kind
