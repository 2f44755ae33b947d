from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.machine.consistency import checked, contradictions
from boundby.results.machine import Ceiling, Machine, MachineDescription

ABOUT = MachineDescription(
    cpu="a processor",
    usable_cores=2,
    logical_cores=2,
    memory_bytes=8 << 30,
    memory_limit_bytes=None,
    os="Linux",
    python="3.12",
    torch="2.9",
    threads=2,
    affinity=(0, 1),
)


def machine(*ceilings: Ceiling) -> Machine:
    return Machine(description=ABOUT, ceilings=ceilings)


def product(rate: float, *, dtype: str = "fp32", name: str = "mm", band: float = 0.02, **more) -> Ceiling:
    low, high = rate * (1 - band), rate * (1 + band)
    return Ceiling(
        kind="matmul", name=name, dtype=dtype, threads=2, value=rate, low=low, high=high, unit="flop/s", **more
    )


def stream(rate: float, size: int, *, name: str = "triad", band: float = 0.02, **more) -> Ceiling:
    low, high = rate * (1 - band), rate * (1 + band)
    return Ceiling(
        kind="bandwidth",
        name=name,
        dtype="fp32",
        threads=2,
        size_bytes=size,
        value=rate,
        low=low,
        high=high,
        unit="byte/s",
        **more,
    )


def function(seconds: float, *, dtype: str = "fp32") -> Ceiling:
    return Ceiling(
        kind="function", name="neg", dtype=dtype, threads=2, value=seconds, low=seconds, high=seconds, unit="s"
    )


def test_a_roof_twice_the_datasheets_is_reported_and_not_clipped():
    measured = product(400e9)
    result = checked(machine(product(200e9, source="datasheet"), measured))
    assert [one.value for one in result.ceilings] == [200e9, 400e9]
    assert [one.contradicted for one in result.ceilings] == [False, True]
    (finding,) = result.findings
    assert finding.code == "ceilings-contradict"
    assert "400 GFLOP/s" in finding.message
    assert "200 GFLOP/s" in finding.message


def test_a_roof_twice_the_hardwares_is_reported():
    (found,) = contradictions(machine(product(115e9, name="fma", stack="native"), product(230e9)))
    assert found.ceiling.value == 230e9
    assert found.limit.stack == "native"


def test_other_types_have_units_of_their_own():
    native = product(115e9, name="fma", stack="native")
    assert contradictions(machine(native, product(400e9, dtype="bf16"), product(110e9))) == ()


def test_a_stream_above_the_native_one_of_its_size_is_reported():
    native = (stream(30e9, 256 << 20, stack="native"), stream(35e9, 256 << 20, name="triad_nt", stack="native"))
    assert contradictions(machine(*native, stream(34e9, 256 << 20))) == ()
    assert contradictions(machine(*native, stream(150e9, 1 << 20))) == ()
    (found,) = contradictions(machine(*native, stream(60e9, 256 << 20)))
    assert found.limit.name == "triad_nt"


def test_a_bandwidth_that_falls_and_rises_again_is_reported_at_the_rise():
    sizes = (2 << 20, 8 << 20, 32 << 20, 128 << 20)
    falling = [stream(rate, size) for rate, size in zip((200e9, 150e9, 60e9, 55e9), sizes, strict=True)]
    assert contradictions(machine(*falling)) == ()
    (found,) = contradictions(machine(*falling[:3], stream(150e9, sizes[3])))
    assert found.ceiling.size_bytes == sizes[3]
    assert found.limit.size_bytes == sizes[2]


def test_small_sets_that_one_thread_works_on_may_be_slower():
    sizes = (64 << 10, 256 << 10, 1 << 20, 4 << 20)
    curve = [stream(rate, size) for rate, size in zip((110e9, 60e9, 130e9, 180e9), sizes, strict=True)]
    assert contradictions(machine(*curve)) == ()


def test_products_of_fp64_above_fp32_are_reported():
    assert contradictions(machine(product(200e9), product(90e9, dtype="fp64"))) == ()
    (found,) = contradictions(machine(product(200e9), product(300e9, dtype="fp64")))
    assert found.ceiling.dtype == "fp64"


def test_a_function_faster_than_any_stream_is_reported():
    fast = stream(200e9, 1 << 20)
    assert contradictions(machine(fast, function(4 / 150e9))) == ()
    (found,) = contradictions(machine(fast, function(4 / 900e9)))
    assert "would move 900 GB/s" in found.message


def test_bands_that_overlap_and_few_windows_contradict_nothing():
    native = product(115e9, name="fma", stack="native")
    assert contradictions(machine(native, product(150e9, band=0.3))) == ()
    assert contradictions(machine(native, product(300e9, windows=1))) == ()


def test_other_thread_counts_are_apart():
    one = replace(product(115e9, name="fma", stack="native"), threads=1)
    assert contradictions(machine(one, product(220e9))) == ()


@given(st.lists(st.tuples(st.floats(1e6, 1e14), st.sampled_from(["fp32", "fp64", "bf16"])), max_size=8))
def test_checking_changes_no_value_and_marks_what_it_tells(rates):
    before = machine(*(product(rate, dtype=dtype) for rate, dtype in rates))
    after = checked(before)
    assert tuple(replace(one, contradicted=False) for one in after.ceilings) == before.ceilings
    assert any(one.contradicted for one in after.ceilings) == bool(after.findings)


@pytest.mark.parametrize("count", [1, 5])
def test_the_finding_names_a_few_and_counts_the_rest(count):
    native = product(100e9, name="fma", stack="native")
    (finding,) = checked(machine(native, *(product(300e9 + place) for place in range(count)))).findings
    assert f"{count} ceiling" in finding.message
    assert ("and 2 more" in finding.message) == (count == 5)
