import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from boundby.machine import ranges
from boundby.machine.data import DTYPES, DataSource
from boundby.machine.functions import FUNCTIONS, MAKERS, function_probes
from boundby.machine.probe import Window
from boundby.machine.ranges import (
    FULL_RANGES,
    RANGES,
    denormal_state,
    denormals_flushed,
    flushed_denormals,
    flushed_factors,
    flushing_mends,
    range_arguments,
    range_findings,
    range_probes,
    slow_ceilings,
)
from boundby.machine.rounds import Rounds, read_ceilings
from boundby.results.machine import Ceiling

BY_NAME = {one.name: one for one in FULL_RANGES}


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


@pytest.fixture
def slow_exp(monkeypatch):
    """A processor on which exp takes 30 times as long where its results are denormal, and all else a microsecond."""
    now = [0]

    def make(arguments):
        slow = bool((arguments.x < -87).any() & (arguments.x > -110).any() & (arguments.x.max() <= 0))

        def call() -> None:
            now[0] += 30_000 if slow else 1_000

        return call

    def other(arguments):
        def call() -> None:
            now[0] += 1_000

        return call

    monkeypatch.setattr(ranges, "MAKERS", {"fp32": ("add", "exp")})
    monkeypatch.setattr(ranges, "FUNCTIONS", {"add": other, "exp": make})
    return lambda: now[0]


def numbers_of(name, dtype):
    return BY_NAME[name].numbers(DataSource(), 1024, dtype)


def are_denormal(numbers):
    return (numbers != 0) & (numbers.abs() < torch.finfo(numbers.dtype).tiny)


@pytest.mark.parametrize("dtype", MAKERS)
def test_ranges_hold_the_numbers_that_they_claim(dtype):
    assert are_denormal(numbers_of("denormal", dtype)).all()
    factors = numbers_of("denormal_product", dtype)
    assert not are_denormal(factors).any()
    assert are_denormal(factors * factors.flip(0)).all()
    below = numbers_of("denormal_result", dtype).view(-1, 128)
    assert (below[:, 0] == 0).all()
    exponentials = torch.exp(below[:, 1:].to(torch.float64))
    tiny = torch.finfo(DTYPES[dtype]).tiny
    assert ((exponentials > 0) & (exponentials < 1.2 * tiny)).all()
    # Kernels work on bf16 in fp32.
    softmax = torch.softmax(below.to(torch.float64), 1).to(torch.float64 if dtype == "fp64" else torch.float32)
    assert are_denormal(softmax[:, 1:]).double().mean() > 0.9
    large = numbers_of("large", dtype)
    assert (large.min() >= 99_000) & (large.max() <= 1.01e7)
    assert (numbers_of("negative", dtype) < 0).all()
    assert (numbers_of("zero", dtype) == 0).all()
    assert (numbers_of("masked", dtype) < -9e8).double().mean() == 0.5
    assert torch.isinf(numbers_of("infinite", dtype)).all()
    assert torch.isnan(numbers_of("nan", dtype)).all()


def test_negative_numbers_reach_the_functions_that_have_no_result_for_them():
    arguments = range_arguments(DataSource(), 1024, "fp32", BY_NAME["negative"])
    for name in ("sqrt", "rsqrt", "log", "pow"):
        assert torch.isnan(FUNCTIONS[name](arguments)()).all()
    assert torch.isfinite(FUNCTIONS["exp"](arguments)()).all()


def test_every_function_runs_on_every_range():
    for dtype, names in MAKERS.items():
        for one in FULL_RANGES:
            arguments = range_arguments(DataSource(), 256, dtype, one)
            for name in names:
                FUNCTIONS[name](arguments)()


def test_only_what_looks_slow_gets_a_probe(slow_exp):
    probes = range_probes(DataSource(), threads=1, clock=slow_exp)
    assert [reading.name for reading in probes.readings] == ["exp/denormal_result"]
    (reading,) = probes.readings
    assert reading.dtype == "fp32"
    assert "denormal" in reading.arguments
    assert {probe.key for probe in probes.probes} == set(reading.keys)


def test_a_function_that_this_torch_lacks_is_passed_over(slow_exp, monkeypatch):
    def lacking(arguments):
        def call():
            raise NotImplementedError

        return call

    monkeypatch.setitem(ranges.FUNCTIONS, "add", lacking)
    probes = range_probes(DataSource(), threads=1, clock=slow_exp)
    assert [reading.name for reading in probes.readings] == ["exp/denormal_result"]


def test_of_many_slow_ranges_the_slowest_are_measured(slow_exp, monkeypatch):
    some = [BY_NAME["denormal"], BY_NAME["large"], BY_NAME["denormal_result"]]
    factors = {"denormal": 3.0, "large": 9.0, "denormal_result": 5.0}
    found = [(factors[one.name], "exp", "fp32", one) for one in some]
    monkeypatch.setattr(ranges, "slow_candidates", lambda data, **options: iter(found))
    assert [one.name for one in range_probes(DataSource(), threads=1, most=2).readings] == [
        "exp/large",
        "exp/denormal_result",
    ]
    assert len(range_probes(DataSource(), threads=1, most=None).readings) == 3


def test_probes_have_the_keys_of_the_functions_own_where_they_are_the_same(monkeypatch):
    found = [(5.0, "exp", "fp32", RANGES[0])]
    monkeypatch.setattr(ranges, "slow_candidates", lambda data, **options: iter(found))
    own = {probe.key for probe in function_probes(DataSource(), threads=1).probes}
    keys = {probe.key for probe in range_probes(DataSource(), threads=1).probes}
    assert keys - own == {"exp fp32 denormal"}


def test_trying_leaves_threads_and_flushing_as_they_were():
    threads = torch.get_num_threads()
    range_probes(DataSource(), threads=1)
    assert torch.get_num_threads() == threads
    assert not denormals_flushed()


def ceiling(name, value, *, low=None, high=None, arguments=None, **more):
    low, high = (value if one is None else one for one in (low, high))
    given = {"kind": "function", "dtype": "fp32", "unit": "s", "windows": 8} | more
    return Ceiling(name=name, value=value, low=low, high=high, arguments=arguments, **given)


def test_findings_name_function_type_and_factor_a_range_each():
    found = range_findings(
        (
            ceiling("exp", 1e-9),
            ceiling("sin", 1e-9),
            ceiling("exp", 2e-9, dtype="bf16"),
            ceiling("exp/denormal_result", 30e-9, arguments="small results"),
            ceiling("exp/denormal_result", 5e-9, arguments="small results", dtype="bf16"),
            ceiling("sin/large", 9.97e-9, arguments="large numbers"),
        )
    )
    assert [one.code for one in found] == ["slow-arguments"] * 2
    assert found[0].message == (
        "Functions that are slower on small results: exp in fp32 (30 times), exp in bf16 (2.5 times)."
    )
    assert found[1].message == "Functions that are slower on large numbers: sin in fp32 (10 times)."


def test_a_range_is_compared_with_the_same_threads_and_stack_only():
    slow = ceiling("exp/large", 30e-9, arguments="large numbers")
    for other in ({"threads": 2}, {"stack": "torch.compile"}, {"dtype": "fp64"}, {"kind": "overhead"}):
        assert slow_ceilings((ceiling("exp", 1e-9, **other), slow)) == []
    assert len(slow_ceilings((ceiling("exp", 1e-9), slow))) == 1


def test_what_rests_on_too_few_windows_is_not_told():
    usual, slow = ceiling("exp", 1e-9), ceiling("exp/large", 30e-9, arguments="large numbers")
    for few in ({"windows": 3}, {"windows": 1}):
        assert slow_ceilings((usual, replace(slow, **few))) == []
        assert slow_ceilings((replace(usual, **few), slow)) == []


@given(
    own=st.tuples(*[st.floats(1e-10, 1e-8)] * 3).map(sorted),
    ranged=st.tuples(*[st.floats(1e-10, 1e-8)] * 3).map(sorted),
)
def test_what_is_told_is_slower_by_the_value_and_by_the_bands(own, ranged):
    low, value, high = own
    usual = ceiling("exp", value, low=low, high=high)
    low, value, high = ranged
    slow = ceiling("exp/large", value, low=low, high=high, arguments="large numbers")
    told = slow_ceilings((usual, slow))
    assert bool(told) == (slow.value / usual.value >= 2 and slow.low >= 1.5 * usual.high)
    if told:
        assert told == [(slow, slow.value / usual.value)]


def test_the_ceiling_of_a_range_says_what_the_function_was_given():
    probes = range_probes(DataSource(), threads=1, ranges=(BY_NAME["denormal_result"],), most=1)
    for reading in probes.readings:
        windows = {reading.keys[0]: [Window(seconds=1e-3)], reading.keys[1]: [Window(seconds=1e-6)]}
        (one,) = read_ceilings([reading], Rounds(windows=windows, rounds=1, dropped=0), threads=1)
        assert one.arguments == reading.arguments
        assert one.name.endswith("/denormal_result")


def test_denormals_are_kept_then_flushed_then_kept():
    assert denormal_state() == "kept"
    with flushed_denormals() as can:
        assert denormals_flushed() == can
    assert not denormals_flushed()
    try:
        torch.set_flush_denormal(True)
        with flushed_denormals():
            pass
        assert denormals_flushed() == can
    finally:
        torch.set_flush_denormal(False)
    assert denormal_state() == "kept"


def test_a_setting_that_reached_one_thread_of_two_is_seen():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert denormal_state() == "kept"
        with flushed_denormals() as can:
            assert denormal_state() == ("mixed" if can else "kept")
    finally:
        torch.set_num_threads(before)


def test_flushing_is_advised_for_what_it_mends():
    slow = [ceiling(f"{name}/denormal", 9e-9, arguments="denormal numbers") for name in ("mul", "sqrt")]
    usual = [ceiling("mul", 1e-9), ceiling("sqrt", 1e-9)]
    (some,) = range_findings([*usual, *slow], flushed={("mul/denormal", "fp32"): 1.0, ("sqrt/denormal", "fp32"): 9.0})
    assert "mends mul (fp32)." in some.advice
    assert "Keep such arguments from sqrt (fp32), by" in some.advice
    assert "does not mend" in some.advice
    (unasked,) = range_findings([*usual, *slow])
    assert "flush" not in unasked.advice.lower()


@pytest.mark.parametrize(
    ("factor", "flushed", "mends"), [(30.0, 1.2, True), (30.0, 5.0, True), (30.0, 20.0, False), (3.0, 1.6, False)]
)
def test_flushing_mends_what_is_mostly_gone_with_it(factor, flushed, mends):
    assert flushing_mends(factor, flushed) is mends


def test_what_flushing_does_is_tried_for_ranges_with_denormal_numbers():
    usual = ceiling("exp", 1e-9)
    slow = ceiling("exp/denormal_result", 30e-9, arguments="small results")
    large = ceiling("exp/large", 30e-9, arguments="large numbers")
    factors = flushed_factors(DataSource(), (usual, slow, large))
    assert set(factors) <= {("exp/denormal_result", "fp32")}
    assert all(math.isfinite(one) and one > 0 for one in factors.values())
    assert not denormals_flushed()
