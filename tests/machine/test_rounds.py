from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boundby.machine.probe import (
    Probe,
    ProbeSet,
    Reading,
    Window,
    fixed_part,
    join,
    median_of,
    per_element,
    rate_of,
    seconds_of,
    slope,
)
from boundby.machine.rounds import (
    FEWEST_TO_CONFIRM,
    MOST_SAMPLES,
    Rounds,
    read_ceilings,
    take_rounds,
    unconfirmed_readings,
)


class FakeMachine:
    """A clock and calls of known cost; ``slowness`` is what everything takes longer now."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.slowness = 1.0
        self.order: list[str] = []

    def __call__(self) -> int:
        return self.now_ns

    def probe(self, key: str, cost_ns: float) -> Probe:
        def call() -> None:
            self.now_ns += round(cost_ns * self.slowness)
            if not self.order or self.order[-1] != key:
                self.order.append(key)

        return Probe(key=key, call=call)


def reading(keys: tuple[str, ...], formula: Callable, unit: str = "s", **more) -> Reading:
    return Reading(kind="overhead", name="x", keys=keys, formula=formula, unit=unit, **more)


def test_probes_take_turns_and_stop_at_the_deadline():
    machine = FakeMachine()
    probes = [machine.probe(key, cost) for key, cost in (("a", 1_000), ("b", 50_000), ("c", 5_000_000))]
    rounds = take_rounds(probes, deadline_ns=1_000_000_000, clock=machine, faults=lambda: 0, max_rounds=10_000)
    assert machine.order[:9] == list("abcabcabc")
    assert rounds.rounds > 3
    assert machine.now_ns <= 1_000_000_000 + 20_000_000


def test_rounds_end_as_soon_as_every_value_is_confirmed():
    machine = FakeMachine()
    probes = [machine.probe("a", 100_000), machine.probe("b", 200_000)]
    rounds = take_rounds(probes, deadline_ns=10**12, clock=machine, faults=lambda: 0)
    assert rounds.rounds == FEWEST_TO_CONFIRM
    assert rounds.unconfirmed == frozenset()
    assert machine.now_ns < 10**9


def test_a_value_that_goes_on_moving_keeps_the_rounds_going_to_their_bound():
    machine = FakeMachine()
    calls = [0]

    def getting_faster() -> None:
        calls[0] += 1
        machine.now_ns += 300_000_000 // calls[0]

    probes = [Probe(key="moving", call=getting_faster), machine.probe("steady", 5_000_000)]
    rounds = take_rounds(probes, deadline_ns=10**12, clock=machine, faults=lambda: 0, max_rounds=12)
    assert rounds.rounds == 12
    assert rounds.unconfirmed == {"moving"}
    readings = [reading((key,), lambda windows: windows[0].seconds) for key in ("moving", "steady")]
    assert unconfirmed_readings(readings, rounds) == 1


def test_ceilings_keep_their_samples_and_say_whether_they_were_steady():
    windows = {
        "steady": [Window(seconds=s) for s in (1.0, 1.1, 1.05)],
        "unsteady": [Window(seconds=s) for s in (1.0, 1.4, 1.3)],
        "tiny": [Window(seconds=0.5)],
    }
    rounds = Rounds(windows=windows, rounds=3, dropped=0)
    readings = [reading((key, "tiny"), rate_of(6.0), "flop/s") for key in ("steady", "unsteady")]
    steady, unsteady = read_ceilings(readings, rounds, threads=1)
    assert (steady.unsteady, unsteady.unsteady) == (False, True)
    assert steady.windows == unsteady.windows == 3
    assert steady.samples == (12.0, 10.0, 10.91)


def test_of_several_ops_most_have_to_be_unsteady():
    windows = {
        key: [Window(seconds=s) for s in (1.0, last, last)] for key, last in (("a", 1.0), ("b", 2.0), ("c", 1.1))
    }
    rounds = Rounds(windows=windows, rounds=1, dropped=0)
    (ceiling,) = read_ceilings([reading(("a", "b", "c"), median_of, span=True)], rounds, threads=1)
    assert not ceiling.unsteady
    (ceiling,) = read_ceilings([reading(("b",), median_of, span=True)], rounds, threads=1)
    assert ceiling.unsteady


@given(st.lists(st.floats(1e-9, 1e-2), min_size=1, max_size=200))
def test_samples_are_bounded_hold_the_ends_and_keep_quantiles(seconds):
    rounds = Rounds(windows={"a": [Window(seconds=s) for s in seconds]}, rounds=1, dropped=0)
    (ceiling,) = read_ceilings([reading(("a",), seconds_of)], rounds, threads=1)
    assert len(ceiling.samples) == min(len(seconds), MOST_SAMPLES)
    assert min(ceiling.samples) == pytest.approx(min(seconds), rel=1e-3)
    assert max(ceiling.samples) == pytest.approx(max(seconds), rel=1e-3)
    below = sum(one <= sorted(ceiling.samples)[len(ceiling.samples) // 2] * 1.001 for one in seconds) / len(seconds)
    assert below >= 0.45
    if len(seconds) <= MOST_SAMPLES:
        assert ceiling.samples == pytest.approx(seconds, rel=1e-3)


def test_one_round_is_taken_even_if_the_deadline_has_passed():
    machine = FakeMachine()
    rounds = take_rounds([machine.probe("slow", 10**9)], deadline_ns=0, clock=machine, faults=lambda: 0)
    assert rounds.rounds == 1
    assert rounds.windows["slow"][0].seconds == pytest.approx(1.0)


@settings(deadline=None)
@given(st.floats(100, 1e7))
def test_steady_costs_are_found_exactly(cost_ns):
    machine = FakeMachine()
    rounds = take_rounds([machine.probe("a", round(cost_ns))], deadline_ns=10**9, clock=machine, faults=lambda: 0)
    (ceiling,) = read_ceilings([reading(("a",), lambda windows: windows[0].seconds)], rounds, threads=1)
    assert ceiling.value == pytest.approx(round(cost_ns) * 1e-9)
    assert ceiling.low == pytest.approx(ceiling.high)


def test_a_machine_that_is_slow_for_a_while_slows_all_ceilings_alike():
    machine = FakeMachine()
    probes = [machine.probe("a", 10_000), machine.probe("b", 20_000)]

    def between() -> None:
        machine.slowness = 1.7 if 3 * 10**8 < machine.now_ns < 8 * 10**8 else 1.0

    rounds = take_rounds(probes, deadline_ns=10**9, clock=machine, faults=lambda: 0, between=between, max_rounds=10_000)
    first, second = read_ceilings(
        [reading((key,), lambda windows: windows[0].seconds) for key in "ab"], rounds, threads=1
    )
    assert second.value / first.value == pytest.approx(2.0, rel=0.01)
    assert first.value == pytest.approx(1e-5, rel=0.01)
    assert first.high >= first.value


def test_a_disturbed_visit_is_cut_short():
    machine = FakeMachine()
    stalled = machine.probe("a", 10_000)
    machine.slowness = 1.0

    def between() -> None:
        machine.slowness = 1000.0

    take_rounds([stalled], deadline_ns=10**8, clock=machine, faults=lambda: 0, between=between, max_rounds=1)
    # 50 calls of 10 us make a window; stalled a thousandfold, one window takes half a second, and four would take two.
    assert machine.now_ns < 600_000_000


def test_a_probe_whose_fastest_window_stands_alone_is_visited_again():
    machine = FakeMachine()
    costs = iter([0, 0, 5_000_000, 4_000_000, 3_000_000, 2_000_000])

    def call() -> None:
        machine.now_ns += next(costs, 1_000_000)

    steady = machine.probe("steady", 1_000_000)
    rounds = take_rounds(
        [Probe(key="falling", call=call), steady], deadline_ns=10**9, clock=machine, faults=lambda: 0, max_rounds=1
    )
    assert len(rounds.windows["falling"]) > len(rounds.windows["steady"])
    fastest = sorted(window.seconds for window in rounds.windows["falling"])[:2]
    assert fastest == pytest.approx([1e-3, 1e-3])


def test_one_good_window_among_disturbed_ones_is_the_value():
    windows = [Window(seconds=seconds) for seconds in (8e-3, 1e-5, 9e-3)]
    rounds = Rounds(windows={"a": windows}, rounds=3, dropped=0)
    (ceiling,) = read_ceilings([reading(("a",), lambda taken: taken[0].seconds)], rounds, threads=1)
    assert ceiling.value == 1e-5
    assert ceiling.high == 8e-3


def test_windows_of_a_clock_that_steps_back_are_dropped_and_counted():
    machine = FakeMachine()
    steps = iter([1] * 10 + [-1] * 3)

    def call() -> None:
        machine.now_ns += 30_000_000 * next(steps, 1)

    rounds = take_rounds(
        [Probe(key="a", call=call)], deadline_ns=10**12, clock=machine, faults=lambda: 0, max_rounds=60
    )
    assert rounds.dropped == 3
    assert all(window.seconds > 0 for window in rounds.windows["a"])


def test_a_probe_that_raises_is_named_and_the_others_go_on():
    machine = FakeMachine()

    def broken() -> None:
        raise RuntimeError("not on this machine\nmore")

    rounds = take_rounds(
        [Probe(key="no", call=broken), machine.probe("yes", 1000)],
        deadline_ns=10**8,
        clock=machine,
        faults=lambda: 0,
    )
    assert rounds.broken == (("no", "not on this machine"),)
    assert set(rounds.windows) == {"yes"}
    readings = [reading(("no",), lambda windows: 1.0), reading(("yes",), lambda windows: windows[0].seconds)]
    assert len(read_ceilings(readings, rounds, threads=1)) == 1


@given(
    st.lists(st.floats(1e-9, 1e-2), min_size=1, max_size=30),
    st.lists(st.floats(1e-9, 1e-2), min_size=1, max_size=30),
)
def test_a_band_always_holds_its_value(own, tiny):
    rounds = Rounds(
        windows={"own": [Window(seconds=s) for s in own], "tiny": [Window(seconds=s) for s in tiny]},
        rounds=1,
        dropped=0,
    )
    readings = [reading(("own", "tiny"), rate_of(1e6), "flop/s"), reading(("own", "tiny"), per_element(7))]
    for ceiling in read_ceilings(readings, rounds, threads=1):
        assert 0 < ceiling.low <= ceiling.value <= ceiling.high


def test_formulas():
    def windows(*seconds: float) -> list[Window]:
        return [Window(seconds=one) for one in seconds]

    assert rate_of(100.0)(windows(3.0, 1.0)) == 50.0
    assert rate_of(100.0)(windows(1.1, 1.0)) is None
    assert per_element(4)(windows(3.0, 1.0)) == 0.5
    assert slope(2)(windows(5.0, 1.0)) == 2.0
    assert slope(2, less=True)(windows(5.0, 1.0, 2.0, 1.0)) == 1.5
    assert fixed_part(2, 4)(windows(5.0, 9.0)) == 1.0


def test_the_span_of_several_ops_is_their_band_and_missing_ones_are_left_out():
    rounds = Rounds(
        windows={key: [Window(seconds=s)] for key, s in (("a", 1.0), ("b", 2.0), ("c", 9.0))}, rounds=1, dropped=0
    )
    spanning = reading(
        ("a", "b", "c", "gone"), lambda windows: sorted(w.seconds for w in windows)[len(windows) // 2], span=True
    )
    (ceiling,) = read_ceilings([spanning], rounds, threads=1)
    assert (ceiling.low, ceiling.value, ceiling.high) == (1.0, 2.0, 9.0)


def test_of_several_ways_to_do_the_same_the_fastest_counts():
    rounds = Rounds(
        windows={
            "slow": [Window(seconds=4.0)] * 3,
            "fast": [Window(seconds=s) for s in (2.0, 2.0, 2.5)],
            "tiny": [Window(seconds=1.0)],
        },
        rounds=1,
        dropped=0,
        unconfirmed=frozenset({"slow"}),
    )
    one = reading(("slow", "tiny"), rate_of(6.0), "flop/s", other_ways=("gone", "fast"))
    (ceiling,) = read_ceilings([one], rounds, threads=1)
    assert (ceiling.value, ceiling.windows, ceiling.samples) == (6.0, 3, (6.0, 6.0, 4.0))
    assert unconfirmed_readings([one], rounds) == 0
    assert unconfirmed_readings([reading(("slow",), seconds_of)], rounds) == 1


def test_a_band_reaches_to_what_a_probe_takes_at_times():
    windows = {
        "own": [Window(seconds=s) for s in (2.0, 2.0, 2.1)],
        "bad": [Window(seconds=3.0)],
        "tiny": [Window(seconds=1.0)],
    }
    rounds = Rounds(windows=windows, rounds=1, dropped=0)
    ceilings = read_ceilings(
        [
            reading(("own", "tiny"), per_element(1), at_times="bad"),
            reading(("own", "tiny"), rate_of(6.0), "flop/s", at_times="bad"),
            reading(("own", "tiny"), per_element(1), at_times="gone"),
        ],
        rounds,
        threads=1,
    )
    assert [(one.low, one.value, one.high) for one in ceilings] == [(1.0, 1.0, 2.0), (3.0, 6.0, 6.0), (1.0, 1.0, 1.0)]


def test_joining_keeps_one_probe_of_a_key():
    first, second = Probe(key="a", call=lambda: 1), Probe(key="a", call=lambda: 2)
    both = join([ProbeSet(probes=(first,)), ProbeSet(probes=(second,), readings=(reading(("a",), lambda w: 1.0),))])
    assert both.probes == (first,)
    assert len(both.readings) == 1
