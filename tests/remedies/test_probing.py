"""Probes on a fake clock: turns, their ratio, and what other load does to them."""

from __future__ import annotations

import pytest

from boundby.remedies.probing import FEWEST_TURNS, MOST_TURNS, NoTimeLeft, TurnsProbe


class Machine:
    """A clock that calls move on; where it is busy, some calls take longer and are counted as interrupted.

    ``waits`` are the seconds that a thread of a call waits for a core, without being interrupted itself.
    """

    def __init__(self, *, interrupted=lambda call: False, waits=lambda call: 0.0) -> None:
        self.now, self.calls, self.preemptions, self._interrupted = 0, 0, 0, interrupted
        self.waited_s, self._waits = 0.0, waits

    def takes(self, seconds: float):
        def call() -> None:
            self.calls += 1
            waits = self._waits(self.calls)
            self.waited_s += waits
            self.now += round((seconds + waits) * 1e9)
            if self._interrupted(self.calls):
                self.now += 12_000_000
                self.preemptions += 1

        return call

    def probe(self, budget_s: float = 0.25) -> TurnsProbe:
        return TurnsProbe(
            budget_s=budget_s,
            clock=lambda: self.now,
            interruptions=lambda: self.preemptions,
            waiting=lambda: self.waited_s,
        )


def test_the_ratio_is_that_of_turns():
    machine = Machine()
    done = machine.probe()(machine.takes(2e-3), machine.takes(1e-3))
    assert (done.base_s, done.changed_s) == (pytest.approx(2e-3), pytest.approx(1e-3))
    assert done.ratio.value == done.ratio.low == done.ratio.high == pytest.approx(0.5)


@pytest.mark.parametrize(("seconds", "turns"), [(1.0, FEWEST_TURNS), (1e-3, MOST_TURNS)])
def test_long_calls_are_made_a_few_times_and_short_ones_no_more_than_enough(seconds, turns):
    machine = Machine()
    machine.probe()(machine.takes(seconds), machine.takes(seconds))
    assert machine.calls == 4 + 2 * turns


def test_its_own_budget_may_be_another():
    machine = Machine()
    machine.probe()(machine.takes(5e-3), machine.takes(5e-3), budget_s=0.05)
    assert machine.now * 1e-9 < 0.1


def test_calls_too_short_for_the_clock_are_timed_together():
    machine = Machine()
    done = machine.probe()(machine.takes(1e-6), machine.takes(3e-6))
    assert done.ratio.value == pytest.approx(3.0)
    assert machine.calls > 100 * MOST_TURNS


def test_turns_in_which_a_thread_waited_for_a_core_are_left_out():
    machine = Machine(waits=lambda call: 0.02 if call % 3 == 0 else 0.0)
    done = machine.probe()(machine.takes(2e-3), machine.takes(1e-3))
    assert done.ratio.low == done.ratio.high == pytest.approx(0.5)


def test_where_a_side_waits_in_every_turn_the_band_holds_what_it_would_take_without():
    """Both threads of the changed call have one core between them; the base is one thread."""
    # The order changes from turn to turn: base, changed, changed, base.
    machine = Machine(waits=lambda call: 0.04 if call > 4 and call % 4 in (2, 3) else 0.0)
    done = machine.probe()(machine.takes(2e-3), machine.takes(1e-3))
    assert done.ratio.value > 5
    assert done.ratio.low < 0.6 < done.ratio.high


def test_all_probes_together_take_no_longer_than_they_may():
    machine = Machine()
    probe = TurnsProbe(total_s=0.4, clock=lambda: machine.now, interruptions=lambda: 0, waiting=lambda: None)
    for _ in range(2):
        probe(machine.takes(5e-3), machine.takes(5e-3), budget_s=0.2)
    with pytest.raises(NoTimeLeft):
        probe(machine.takes(5e-3), machine.takes(5e-3))


def test_interrupted_turns_are_left_out():
    machine = Machine(interrupted=lambda call: call % 3 == 0)
    done = machine.probe()(machine.takes(2e-3), machine.takes(1e-3))
    assert done.ratio.low == done.ratio.high == pytest.approx(0.5)


@pytest.mark.parametrize("parity", [0, 1])
def test_where_one_side_is_interrupted_in_every_turn_the_fastest_calls_count(parity):
    # Others take the core at a pace of their own, so that it is always the same side that waits.
    machine = Machine(interrupted=lambda call: call % 2 == parity and call != 6 + parity and call > 4)
    done = machine.probe()(machine.takes(2e-3), machine.takes(1e-3))
    assert 0.4 < done.ratio.value < 0.6
    assert done.ratio.low <= done.ratio.value <= done.ratio.high
