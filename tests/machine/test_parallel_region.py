from collections.abc import Callable

import pytest
import torch

from boundby.machine.one_thread import at_one_thread
from boundby.machine.probe import Probe
from boundby.machine.regions import (
    GRAIN_ELEMENTS,
    MOST_REGIONS,
    NAME,
    SHARE_KEY,
    SHARED_KEY,
    _fills,
    region_probes,
    regions_entered,
)
from boundby.machine.rounds import Rounds, read_ceilings, take_rounds


class FakeMachine:
    """A clock on which a region costs so much, where torch is set to more than one thread."""

    def __init__(self, region_ns: int) -> None:
        self.region_ns = region_ns
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def op(self, own_ns: int, regions: int):
        def call() -> None:
            self.now_ns += own_ns + (regions * self.region_ns if torch.get_num_threads() > 1 else 0)

        return call


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_one_thread_has_no_parallel_region():
    assert region_probes(1).readings == region_probes(1).probes == ()
    assert regions_entered([Probe(key="a", call=lambda: None)], threads=1) == {}


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_each_thread_of_the_shared_fill_does_what_one_does_alone(threads):
    shared, share = (probe.call for probe in region_probes(threads).probes)
    assert shared().numel() == threads * share().numel() == threads * GRAIN_ELEMENTS
    assert shared().dtype == share().dtype
    assert bool((shared() == 1).all())


def test_a_region_is_what_the_shared_fill_takes_more():
    probes = region_probes(2)
    machine = FakeMachine(2_500)
    calls = {SHARED_KEY: 3_700, SHARE_KEY: 1_200}

    def fake(own_ns: int):
        def call() -> None:
            machine.now_ns += own_ns

        return call

    rounds = take_rounds(
        [Probe(key=key, call=fake(own_ns)) for key, own_ns in calls.items()],
        deadline_ns=10**9,
        clock=machine,
        faults=lambda: 0,
    )
    (region,) = read_ceilings(probes.readings, rounds, threads=2)
    assert (region.kind, region.name, region.unit, region.threads) == ("overhead", NAME, "s", 2)
    assert region.value == pytest.approx(2.5e-6)


def test_a_region_that_cannot_be_told_is_left_out():
    (reading,) = region_probes(2).readings
    same = Rounds(windows={}, rounds=1, dropped=0)
    assert read_ceilings([reading], same, threads=2) == ()


def test_regions_are_counted_by_what_ops_take_longer_with_all_threads(two_threads, monkeypatch):
    machine = FakeMachine(2_000)
    fills = (machine.op(1_000, 1), machine.op(1_000, 0))
    monkeypatch.setattr("boundby.machine.regions._fills", lambda threads: fills)

    def broken() -> None:
        raise RuntimeError("not here")

    ops = {"none": (700, 0), "one": (2_000, 1), "three": (9_000, 3)}
    probes = [Probe(key=key, call=machine.op(*costs)) for key, costs in ops.items()]
    found = regions_entered([*probes, Probe(key="broken", call=broken)], threads=2, clock=machine)
    assert found == {"one": 1, "three": 3}
    assert torch.get_num_threads() == 2


def test_where_threads_wait_for_a_core_the_look_is_cut_short(two_threads, monkeypatch):
    """A region of 20 ms: a hundred ops of three would take a minute."""
    machine = FakeMachine(20_000_000)
    fills = (machine.op(1_000, 1), machine.op(1_000, 0))
    monkeypatch.setattr("boundby.machine.regions._fills", lambda threads: fills)
    probes = [Probe(key=str(place), call=machine.op(2_000, 3)) for place in range(100)]
    found = regions_entered(probes, threads=2, clock=machine)
    assert set(found.values()) == {3}
    assert 0 < len(found) < 20
    assert machine.now_ns < 10**9


def test_no_op_is_believed_to_enter_any_number_of_regions(two_threads, monkeypatch):
    machine = FakeMachine(2_000)
    fills = (machine.op(1_000, 1), machine.op(1_000, 0))
    monkeypatch.setattr("boundby.machine.regions._fills", lambda threads: fills)
    found = regions_entered([Probe(key="stalled", call=machine.op(1_000, 5_000))], threads=2, clock=machine)
    assert found == {"stalled": MOST_REGIONS}


class RegionsCounted:
    """A clock that advances by what torch really does: so much a call, and more where more than one thread does it.

    The times of real threads depend on who else is on the machine; how many threads torch is set to while a real op
    runs does not, on one core as on many.
    """

    def __init__(self) -> None:
        self.now_ns = 0
        self.threads: set[int] = set()

    def __call__(self) -> int:
        return self.now_ns

    def real(self, call: Callable[[], torch.Tensor], least: int) -> Callable[[], torch.Tensor]:
        def timed() -> torch.Tensor:
            result = call()
            self.threads.add(torch.get_num_threads())
            self.now_ns += 1_000 + (2_000 if torch.get_num_threads() > 1 and result.numel() > least else 0)
            return result

        return timed


def test_real_ops_are_looked_at_and_the_threads_put_back(two_threads, monkeypatch):
    clock = RegionsCounted()
    small, large = torch.randn(8), torch.randn(4 * GRAIN_ELEMENTS)
    shared, share = _fills(2)
    fills = (clock.real(shared, GRAIN_ELEMENTS), clock.real(share, GRAIN_ELEMENTS))
    monkeypatch.setattr("boundby.machine.regions._fills", lambda threads: fills)
    probes = [
        Probe(key="small", call=clock.real(lambda: torch.add(small, small), GRAIN_ELEMENTS)),
        Probe(key="large", call=clock.real(lambda: torch.add(large, large), GRAIN_ELEMENTS)),
    ]
    assert regions_entered(probes, threads=2, clock=clock) == {"large": 1}
    assert clock.threads == {1, 2}, "each op is run with all threads and with one"
    assert torch.get_num_threads() == 2
    at_one_thread(lambda: None, 2)()
    assert torch.get_num_threads() == 2
