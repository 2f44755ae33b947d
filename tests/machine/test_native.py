import os
import subprocess
import sys
from itertools import cycle, pairwise, product
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from boundby.machine import native
from boundby.machine.bandwidth import PIECE_BYTES, working_sets
from boundby.machine.data import DataSource
from boundby.machine.native import LEAST_STREAMED_BYTES, STREAMS, NativeLoops, native_probes, torch_team
from boundby.machine.native_build import NativeUnavailableError, native_library
from boundby.machine.probe import Window
from boundby.machine.rounds import read_ceilings, take_rounds

# The smallest size that a vector may have for any number of threads below.
UNIT = 16 * 6


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    try:
        return native_library(folder=tmp_path_factory.mktemp("native"))
    except NativeUnavailableError as unavailable:
        if unavailable.finding.code == "no-compiler":
            pytest.skip(unavailable.finding.message)
        raise


def loops_of(library: Path, threads: int, *, own: bool = False) -> NativeLoops:
    return NativeLoops(library, threads=threads, team=torch_team() if threads > 1 and not own else None)


def vectors_of(count: int, elements: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    return [torch.rand(elements, generator=generator) + 0.5 for _ in range(count)]


def expected(name: str, before: list[torch.Tensor], factor: float) -> list[torch.Tensor]:
    after = [one.clone() for one in before]
    kind = name.removesuffix("_nt")
    if kind == "write":
        after[0][:] = factor
    elif kind == "copy":
        after[1] = before[0]
    elif kind == "inplace":
        after[0] = before[0] * factor
    elif kind == "triad":
        after[2] = before[0] + factor * before[1]
    return after


@pytest.mark.parametrize("own", [False, True], ids=["torch's threads", "own threads"])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", STREAMS)
def test_a_loop_does_what_its_name_says_on_all_of_its_memory_and_nothing_else(library, name, threads, own):
    loops = loops_of(library, threads, own=own)
    if STREAMS[name].streaming and not loops.has_streaming_stores:
        pytest.skip("this processor or compiler has no non-temporal stores")
    for elements, form, apart in product((UNIT, UNIT * 7, UNIT * 64), range(loops.forms), (0, 48)):
        whole = elements + apart * (threads - 1)
        around = torch.full((4, whole + 32), 9.0)
        vectors = [row[:whole] for row in around[: STREAMS[name].vectors]]
        for vector, fresh in zip(vectors, vectors_of(len(vectors), whole), strict=True):
            vector.copy_(fresh)
        part = elements // threads
        worked = torch.arange(whole) % (part + apart) < part
        if any(vector.data_ptr() % 64 for vector in vectors):
            pytest.fail("torch no longer starts tensors at multiples of 64 bytes")
        before = [vector.clone() for vector in vectors]
        results = loops.stream(name, vectors, form=form, factor=1.25, apart=apart)()
        for got, had, want in zip(vectors, before, expected(name, before, 1.25), strict=True):
            torch.testing.assert_close(got[worked], want[worked], rtol=1e-6, atol=0)
            assert bool((got[~worked] == had[~worked]).all())
        assert bool((around[:, whole:] == 9.0).all())
        if name == "read":
            assert sum(results) == pytest.approx(float(before[0][worked].double().sum()), rel=1e-5)


@settings(deadline=None, max_examples=40)
@given(units=st.integers(1, 200), repeats=st.integers(1, 3), form=st.integers(0, 8))
def test_every_element_is_done_as_often_as_asked(library, units, repeats, form):
    (vector,) = vectors_of(1, units * 16)
    vector.fill_(1.0)
    loops = loops_of(library, 1)
    form %= loops.forms
    loops.stream("inplace", [vector], form=form, repeats=repeats, factor=2.0)()
    assert bool((vector == 2.0**repeats).all())
    (total,) = loops.stream("read", [vector], form=form, repeats=repeats)()
    assert total == vector.numel() * 2.0**repeats * repeats


def test_memory_that_would_be_missed_is_refused(library):
    loops = loops_of(library, 2)
    with pytest.raises(ValueError, match="multiple of 32 elements"):
        loops.stream("read", [torch.ones(48)])
    with pytest.raises(ValueError, match="multiples of 64 bytes"):
        loops.stream("read", [torch.ones(64)[1:33]])


@pytest.mark.parametrize(("dtype", "scalar"), [("fp32", torch.float32), ("fp64", torch.float64)])
def test_the_multiply_adds_compute_what_they_claim_on_every_thread(library, dtype, scalar):
    loops = loops_of(library, 2)
    item = torch.empty(0, dtype=scalar).element_size()
    per_thread = loops.fma_flops(dtype) // 2
    lanes = next(
        bytes_ // item for bytes_ in (64, 32, 16) if per_thread in (4 * 24 * bytes_ // item, 4 * 10 * bytes_ // item)
    )
    accumulators = per_thread // (4 * lanes)
    lane = torch.arange(lanes, dtype=torch.float64)
    up, addend = 1.2345678901 + 0.0123456789 * lane, 0.7182818284 + 0.0271828182 * lane
    down, other = 0.9 / up, -0.3141592653 - 0.0314159265 * lane
    values = torch.stack([addend * (1 + 0.01 * k) for k in range(accumulators)])
    for _ in range(50):
        values = (values * up + addend) * down + other
    results = loops.fma(dtype, iterations=50)()
    assert results == pytest.approx([float(values.sum())] * 2, rel=1e-4 if dtype == "fp32" else 1e-6)


def test_the_multiply_adds_stay_normal_numbers_however_long_they_run(library):
    loops = loops_of(library, 1)
    for dtype in ("fp32", "fp64"):
        (long,), (longer,) = loops.fma(dtype, iterations=5_000)(), loops.fma(dtype, iterations=50_000)()
        assert 1 < abs(long) < 1e6
        assert longer == pytest.approx(long, rel=1e-3)


def test_the_probes_give_native_ceilings_that_fit_each_other(tmp_path, library):
    memory = 4 << 20
    probes, findings = native_probes(DataSource(), threads=1, memory_bytes=memory, folder=tmp_path)
    assert findings == ()
    rounds = take_rounds(probes.probes, deadline_ns=0)
    assert rounds.broken == ()
    ceilings = read_ceilings(probes.readings, rounds, threads=1)
    assert {ceiling.stack for ceiling in ceilings} == {"native"}
    fma = {one.dtype: one for one in ceilings if one.name == "fma"}
    assert {(one.kind, one.unit, one.size_bytes) for one in fma.values()} == {("matmul", "flop/s", None)}
    assert set(fma) == {"fp32", "fp64"}
    streams = [one for one in ceilings if one.kind == "bandwidth"]
    assert {one.size_bytes for one in streams if one.name == "read"} <= set(working_sets(memory))
    assert all(one.size_bytes >= LEAST_STREAMED_BYTES for one in streams if one.name.endswith("_nt"))
    assert all(0 < one.low <= one.value <= one.high for one in ceilings)


@pytest.mark.parametrize(("threads", "memory"), [(1, 4 * PIECE_BYTES), (5, 4 * PIECE_BYTES), (64, 1 << 20)])
def test_what_is_counted_is_what_is_passed_over(library, monkeypatch, threads, memory):
    moved: list[int] = []

    def stream(self, name, vectors, *, form=0, repeats=1, factor=1.0, apart=0):
        kind = STREAMS[name]
        assert len(vectors) == kind.vectors
        assert kind.counted == {"copy": 2, "inplace": 2, "triad": 3}.get(name.removesuffix("_nt"), 1)
        elements = vectors[0].numel() - apart * (threads - 1)
        assert all(vector.data_ptr() % 64 == 0 and elements % (16 * threads) == 0 for vector in vectors)
        assert {vector.numel() for vector in vectors} == {vectors[0].numel()}
        # Where one piece is gone over again and again, no core's prefetchers reach into another core's part.
        assert apart == native._APART or elements * 4 * kind.vectors > PIECE_BYTES // 2
        # The vectors of one call never overlap.
        spans = sorted((one.data_ptr(), one.data_ptr() + 4 * one.numel()) for one in vectors)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        return lambda: moved.append(kind.counted * 4 * elements * repeats)

    monkeypatch.setattr(NativeLoops, "stream", stream)
    found, _ = native_probes(DataSource(), threads=threads, memory_bytes=memory, folder=library.parent)
    probes = {probe.key: probe for probe in found.probes}
    streams = [reading for reading in found.readings if reading.kind == "bandwidth"]
    assert max(reading.size_bytes for reading in streams) == working_sets(memory)[-1]
    for reading in streams:
        for way in (reading.keys[0], *reading.other_ways):
            probes[way].call()
            # One second for the pass and none for its tiny twin: the formula's answer is the bytes counted.
            assert reading.formula([Window(seconds=1.0), Window(seconds=0.0)]) == moved[-1]


class FakeClock:
    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def call(self, *costs_ns: int):
        turns = cycle(costs_ns)

        def call() -> None:
            self.now_ns += next(turns)

        return call


def test_the_fastest_form_is_found_though_a_try_was_disturbed():
    clock = FakeClock()
    forms = [[clock.call(700)], [clock.call(9_000_000, 500, 500, 500)], [clock.call(600)]]
    assert native.fastest_forms(forms, clock, deadline_ns=10**9) == [1]


def test_each_try_is_on_another_piece():
    clock = FakeClock()
    tried: list[int] = []
    forms = [[lambda piece=piece: tried.append(piece) for piece in range(5)] for _ in range(3)]
    native.fastest_forms(forms, clock, deadline_ns=1)
    assert tried == [number % 5 for number in range(len(tried))]
    assert len(tried) > 5


def test_forms_that_are_near_each_other_are_tried_more_often_than_the_slow_ones():
    clock = FakeClock()
    counts = [0] * 9

    def counted(number, call):
        def run() -> None:
            counts[number] += 1
            call()

        return run

    durations = [900, 510, 900, 900, 500, 900, 900, 520, 900]
    forms = [[counted(number, clock.call(ns, ns + 300))] for number, ns in enumerate(durations)]
    assert native.fastest_forms(forms, clock, deadline_ns=10**9) == [4]
    assert min(counts[4], counts[1]) >= 2 * counts[0] == 4 * counts[8]


def test_as_many_forms_are_left_as_are_wanted_the_fastest_first():
    clock = FakeClock()
    forms = [[clock.call(ns)] for ns in (900, 510, 900, 800, 500, 900, 900, 520, 900)]
    assert native.fastest_forms(forms, clock, deadline_ns=10**9, count=2) == [4, 1]
    assert native.fastest_forms(forms, clock, deadline_ns=10**9, count=3) == [4, 1, 7]


def test_past_the_first_caches_two_forms_of_each_loop_are_measured(library):
    probes, findings = native_probes(
        DataSource(), threads=1, memory_bytes=16 << 20, folder=library.parent, clock=lambda: 0
    )
    assert findings == ()
    keys = {probe.key for probe in probes.probes}
    for one in probes.readings:
        if one.kind == "bandwidth":
            assert len(one.other_ways) == (1 if one.size_bytes >= LEAST_STREAMED_BYTES else 0), one
            assert {*one.keys, *one.other_ways} <= keys


def test_trying_ends_at_the_deadline_with_the_best_so_far():
    clock = FakeClock()
    forms = [[clock.call(10**6)] for _ in range(6)]
    forms[1] = [clock.call(10**5)]
    assert native.fastest_forms(forms, clock, deadline_ns=5_250_000) == [1]
    assert clock.now_ns < 7 * 10**6
    assert native.fastest_forms(forms, clock, deadline_ns=0) == [3]


def test_at_the_deadline_no_more_forms_are_named_than_were_tried():
    clock = FakeClock()
    forms = [[clock.call(10**6)] for _ in range(6)]
    # One untimed call and four timed ones of the first form, and one of the second.
    assert native.fastest_forms(forms, clock, deadline_ns=6 * 10**6, count=2) == [0]
    clock.now_ns = 0
    assert native.fastest_forms(forms, clock, deadline_ns=8 * 10**6, count=2) == [0, 1]


def test_however_slow_the_memory_trying_ends_in_time(library, monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr(NativeLoops, "stream", lambda *_, **__: clock.call(20_000_000))
    native_probes(DataSource(), threads=1, memory_bytes=64 << 20, folder=library.parent, clock=clock)
    assert clock.now_ns <= int(native._TRYING_S * 1e9) + 20_000_000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only on Linux are torch's threads to be found")
def test_several_threads_are_torchs_own(library):
    code = """
import os, sys, torch
from pathlib import Path
from boundby.machine.native import NativeLoops, torch_team
torch.set_num_threads(2)
torch.ones(1 << 20).mul_(1.0)
before = set(os.listdir("/proc/self/task"))
loops = NativeLoops(Path(sys.argv[1]), threads=2, team=torch_team())
vector = torch.ones(1 << 20)
total = sum(loops.stream("read", [vector])())
print(total == 1 << 20, set(os.listdir("/proc/self/task")) == before)
"""
    environ = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(library)], capture_output=True, text=True, check=True, env=environ
    )
    assert done.stdout.split() == ["True", "True"]
