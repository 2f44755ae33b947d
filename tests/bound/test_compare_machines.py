"""Two machines side by side, whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import bandwidth, overhead, product, round_machine

from boundby.bound.compare_machines import BETWEEN_MEASURINGS, compare_machines
from boundby.results.comparison import CeilingChange, MachineComparison, encode_comparison
from boundby.results.machine import Ceiling, Finding, Machine, Measuring

MACHINE = round_machine()


def compared(a: Machine, b: Machine) -> MachineComparison:
    return compare_machines(a, b, name_a="a.json", name_b="b.json")


def only(*ceilings: Ceiling, **description: object) -> Machine:
    return Machine(description=replace(MACHINE.description, **description), ceilings=ceilings)


def named(changes: tuple[CeilingChange, ...]) -> list[tuple[str, str | None]]:
    return [(one.name, one.dtype) for one in changes]


def test_a_machine_does_not_differ_from_itself() -> None:
    found = compared(MACHINE, MACHINE)
    assert not any(one.differs for one in (*found.main, *found.ceilings))
    assert (found.only_a, found.only_b, found.description) == (0, 0, ())
    assert found.sentence.startswith("No difference between a.json and b.json in any of ")
    assert all(one.kind != "anchor" for one in found.ceilings)
    assert encode_comparison(found).startswith(b'{\n  "schema": "boundby.comparison"')


def rates(
    factor: float, spread_a: float, spread_b: float
) -> tuple[CeilingChange, CeilingChange, tuple[Ceiling, Ceiling]]:
    """The change from a rate to that many times as much, each with its band, and the same turned round."""
    a = bandwidth("copy", 1 << 20, 1e9, spread=spread_a)
    b = bandwidth("copy", 1 << 20, factor * 1e9, spread=spread_b)
    (change,), (back,) = compared(only(a), only(b)).ceilings, compared(only(b), only(a)).ceilings
    return change, back, (a, b)


@pytest.mark.parametrize(
    ("factor", "spread_a", "spread_b", "differs"),
    [
        pytest.param(1.05, 0.0, 0.0, False, id="both exact: two measurings of one machine differ by this"),
        pytest.param(1.07, 0.0, 0.0, True, id="both exact: and not by this"),
        pytest.param(1.18, 0.2, 0.0, False, id="one exact, within the other's band"),
        pytest.param(1.18, 0.0, 0.2, False, id="the other one exact"),
        pytest.param(1.28, 0.2, 0.0, True, id="one exact, beyond the other's band and what two measurings leave"),
        pytest.param(1.19, 0.2, 0.2, False, id="each within the other's band"),
        pytest.param(1.28, 0.2, 0.2, False, id="each beyond the other's band, and the bands overlap by much"),
        pytest.param(1.5, 0.2, 0.2, True, id="bands that touch: both would be at their ends at once"),
        pytest.param(2.0, 0.2, 0.2, True, id="bands that lie apart"),
    ],
)
def test_a_limit_differs_beyond_what_chance_leaves(
    factor: float, spread_a: float, spread_b: float, differs: bool
) -> None:
    change, back, _ = rates(factor, spread_a, spread_b)
    assert change.differs is back.differs is differs


@given(st.floats(0.1, 10), st.floats(0, 0.3), st.floats(0, 0.3), st.floats(0, 0.3))
def test_what_bands_say_of_two_limits_whichever_comes_first(
    factor: float, spread_a: float, spread_b: float, wider: float
) -> None:
    change, back, (a, b) = rates(factor, spread_a, spread_b)
    assert change.ratio.value == pytest.approx(factor)
    assert change.ratio.low <= change.ratio.value <= change.ratio.high
    assert back.differs == change.differs
    assert (back.ratio.low, back.ratio.high) == pytest.approx((1 / change.ratio.high, 1 / change.ratio.low))
    low, high = sorted((a, b), key=lambda one: one.value)
    if low.high * (1 + BETWEEN_MEASURINGS) * (1 + 1e-9) < high.low:
        assert change.differs, "the bands lie apart by more than two measurings do"
    if low.high >= high.value or high.low <= low.value:
        assert not change.differs, "one lies in the other's band"
    if not change.differs:
        assert not rates(factor, spread_a + wider, spread_b)[0].differs, "a wider band tells no more"


def test_less_time_is_faster() -> None:
    (time,) = compared(only(overhead("view", 2e-6)), only(overhead("view", 1e-6))).ceilings
    (rate,) = compared(only(product((1, 8, 8, 8), 1e9)), only(product((1, 8, 8, 8), 2e9))).ceilings
    assert (time.ratio.value, time.faster.value) == (0.5, 2.0)
    assert (rate.ratio.value, rate.faster.value) == (2.0, 2.0)


def test_the_main_limits_come_first_and_the_others_by_their_difference() -> None:
    a = only(
        product((1, 64, 64, 64), 1e9),
        product((1, 512, 512, 512), 4e9),
        product((1, 512, 512, 512), 9e9, dtype="bf16"),
        bandwidth("copy", 1 << 16, 90e9),
        bandwidth("copy", 1 << 28, 10e9),
        overhead("pointwise", 1e-6),
    )
    b = only(
        product((1, 64, 64, 64), 1e9),
        product((1, 512, 512, 512), 12e9),
        product((1, 512, 512, 512), 9e9, dtype="bf16"),
        bandwidth("copy", 1 << 16, 18e9),
        bandwidth("copy", 1 << 30, 10e9),
        overhead("pointwise", 2e-6),
    )
    found = compared(a, b)
    assert named(found.main) == [("mm", "fp32"), ("mm", "bf16"), ("copy", None), ("pointwise", None)]
    assert found.main[2].size_bytes is None, "main memory is compared at the largest size of each"
    assert [one.faster.value for one in found.ceilings[:3]] == pytest.approx([0.2, 3.0, 0.5])
    assert (found.only_a, found.only_b) == (1, 1)
    assert found.sentence == (
        "Beside a.json, b.json multiplies fp32 matrices 3.00x faster and starts an op 2.00x slower."
    )


def test_other_thread_counts_are_compared_each_at_its_own_and_told_of() -> None:
    a = only(overhead("view", 1e-6, threads=1), threads=1)
    b = only(overhead("view", 3e-6, threads=8), overhead("view", 9e-6, threads=4), threads=8)
    found = compared(a, b)
    assert [one.ratio.value for one in found.ceilings] == [pytest.approx(3.0)]
    assert [one.code for one in found.findings] == ["settings-differ"]
    shared = compared(only(overhead("view", 1e-6, threads=4), threads=4), b)
    assert [one.ratio.value for one in shared.ceilings] == [pytest.approx(9.0)]


def test_an_unsteady_side_and_what_is_not_the_same_are_told_of() -> None:
    b = replace(
        MACHINE,
        description=replace(MACHINE.description, cpu="another", torch="2.9"),
        findings=(Finding(code="machine-busy", message="busy"),),
    )
    found = compared(MACHINE, b)
    assert [(one.name, one.a, one.b) for one in found.description] == [
        ("cpu", "made up", "another"),
        ("torch", None, "2.9"),
    ]
    assert [one.code for one in found.findings] == ["unsteady-side"]
    assert not found.same_machine


def test_nothing_in_common() -> None:
    found = compared(only(overhead("view", 1e-6)), only(product((1, 8, 8, 8), 1e9)))
    assert found.sentence == "a.json and b.json have no limit in common."
    assert (found.main, found.ceilings, found.only_a, found.only_b) == ((), (), 1, 1)


def test_two_states_of_a_machine_are_told_apart_by_what_a_parallel_region_costs() -> None:
    a, b = (only(overhead("parallel_region", cost)) for cost in (1.0e-6, 2.6e-6))
    found = compared(a, b)
    assert [(one.name, one.differs) for one in found.main] == [("parallel_region", True)]
    assert found.sentence == "Beside a.json, b.json shares an op out among its threads 2.60x slower."
    assert "shares an op out among its threads 2.60x faster" in compared(b, a).sentence


def test_machines_that_different_probes_measured_are_told_of() -> None:
    measuring = Measuring(mode="default", seconds=18.0, rounds=9, unconfirmed=0, peak_memory_bytes=None, probes=7)
    known, other, before = (
        replace(MACHINE, measuring=one)
        for one in (measuring, replace(measuring, probes=6), replace(measuring, probes=None))
    )
    assert compared(known, known).findings == compared(before, MACHINE).findings == ()
    (found,) = compared(known, other).findings
    assert (found.code, found.message) == (
        "settings-differ", "a.json and b.json were measured with different probes (7 and 6)",
    )  # fmt: skip
    (found,) = compared(before, known).findings
    assert "(unknown and 7)" in found.message
