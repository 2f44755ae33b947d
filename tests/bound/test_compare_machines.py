"""Two machines side by side, whose truth is known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import bandwidth, overhead, product, round_machine

from boundby.bound.compare_machines import BETWEEN_MEASURINGS, compare_machines
from boundby.results.comparison import CeilingChange, MachineComparison, encode_comparison
from boundby.results.machine import Ceiling, Finding, Machine

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


@given(st.floats(0.1, 10), st.floats(0, 0.3))
def test_a_limit_differs_beyond_both_bands_and_what_two_measurings_leave(factor: float, spread: float) -> None:
    a = bandwidth("copy", 1 << 20, 1e9, spread=spread)
    b = bandwidth("copy", 1 << 20, factor * 1e9, spread=spread)
    (change,) = compared(only(a), only(b)).ceilings
    # The two bands and the allowance are of independent causes.
    band = math.exp(math.hypot(math.log1p(spread), math.log1p(-spread), math.log1p(BETWEEN_MEASURINGS)))
    assert change.ratio.value == pytest.approx(factor)
    assert change.ratio.high == pytest.approx(factor * band)
    assert change.differs == (factor > band * (1 + 1e-12) or factor < 1 / band * (1 - 1e-12))
    (back,) = compared(only(b), only(a)).ceilings
    assert back.differs == change.differs
    assert back.ratio.low == pytest.approx(1 / change.ratio.high)


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
