"""What turns say: the ratio, its interval, the floor, what a longer start costs, how results differ."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.remedies.ranking import FINEST, advice_for, after_trial, no_finer, with_predictions
from boundby.remedies.turn_results import LEAST_FLOOR, Seen, Slice, measured, numerics
from boundby.results.interval import interval
from boundby.results.remedy import WORTH, Predicted, Remedy, ScriptFacts


def seen(*turns: float, steps: int = 10, warm: tuple[float, ...] = (1.0, 1.0, 1.0), settled_s: float = 5.0) -> Seen:
    """Turns of equal steps, the seconds of a step in each."""
    return Seen(warm=list(warm), settled_s=settled_s, slices=[Slice([each] * steps, waited_s=0.0) for each in turns])


def test_the_speedup_is_the_median_over_turns_but_the_first():
    base, changed = seen(9.0, 2.0, 2.0, 2.2, 2.0), seen(1.0, 1.0, 1.0, 1.1, 1.0)
    result = measured(base, changed)
    assert result.speedup == pytest.approx(2.0)
    assert result.turns == 4
    assert result.low <= 2.0 / (1 + LEAST_FLOOR / 2) < 2.0 * (1 + LEAST_FLOOR / 2) <= result.high


def test_a_machine_that_slows_down_for_both_changes_nothing():
    base = seen(*(2.0 * factor for factor in (1, 1, 1.7, 1.7, 1, 1.7)))
    changed = seen(*(1.0 * factor for factor in (1, 1, 1.7, 1.7, 1, 1.7)))
    assert measured(base, changed).speedup == pytest.approx(2.0)


def with_waits(found: Seen, *waited_s: float) -> Seen:
    slices = [dataclasses.replace(one, waited_s=waits) for one, waits in zip(found.slices, waited_s, strict=True)]
    return dataclasses.replace(found, slices=slices)


def test_turns_beside_other_load_are_left_out_where_there_are_others():
    """In two turns of six every step of the changed run waits for a core, as steps of two threads do."""
    changed = with_waits(seen(1.0, 1.0, 9.0, 1.0, 9.0, 1.0, 1.0), 0.0, 0.0, 80.0, 0.0, 80.0, 0.0, 0.0)
    result = measured(seen(*[2.0] * 7), changed)
    assert result.speedup == pytest.approx(2.0)
    assert result.turns == 4
    assert result.waited == 0.0


def test_where_all_turns_are_beside_other_load_the_interval_holds_what_it_would_take_without():
    changed = with_waits(seen(*[10.0] * 6), *[90.0] * 6)  # of 100 s of a turn
    result = measured(seen(*[2.0] * 6), changed)
    assert result.speedup == pytest.approx(0.2)
    assert result.low < 0.2 < 2.0 <= result.high * (1 + 1e-9)
    assert result.waited == pytest.approx(0.9)
    assert advice_for(result) == "unknown"


def test_a_trial_that_was_mostly_waiting_gives_no_advice_however_clear_it_looks():
    """Two threads on contended cores may be a hundred times slower, again and again alike."""
    result = dataclasses.replace(measured(seen(*[2.0] * 6), seen(*[200.0] * 6)), waited=0.8)
    assert advice_for(result) == "skip"
    assert after_trial(Remedy(name="x"), measured=result, failed=None, took_effect=True, effect="").advice == "unknown"


def test_waiting_that_lengthened_single_steps_is_not_in_the_typical_one():
    one = Slice([1.0] * 98 + [11.0] * 2, waited_s=20.0)
    assert one.waited(bursts=False) == 0.0
    assert one.waited(bursts=True) == pytest.approx(20 / 120)
    assert Slice([2.0] * 10, waited_s=10.0).waited(bursts=False) == pytest.approx(0.5)


def test_waiting_that_is_not_told_of_one_turn_is_not_told_of_the_trial():
    base, changed = seen(*[2.0] * 6), seen(*[1.0] * 6)
    assert measured(base, changed).waited == 0.0
    changed.slices[3].waited_s = None
    result = measured(base, changed)
    assert result.waited == 0.0  # the others are enough, and of all of them it is known
    for one in changed.slices:
        one.waited_s = None
    result = measured(base, changed)
    assert result.waited is None
    assert (result.speedup, result.turns) == (pytest.approx(2.0), 5)


@given(st.lists(st.floats(1e-6, 100.0), min_size=1), st.floats(0.0, 1e3), st.booleans())
def test_a_share_of_waiting_is_one(seconds, waited_s, bursts):
    assert 0.0 <= Slice(seconds, waited_s=waited_s).waited(bursts=bursts) < 1.0


def test_twice_the_work_a_step_counts_twice():
    assert measured(seen(1.0, 1.0, 1.0), seen(1.5, 1.5, 1.5), work=2.0).speedup == pytest.approx(2.0 / 1.5)


def test_the_first_steps_of_a_turn_are_left_out():
    cold = Slice([50.0] + [1.0] * 9)
    assert cold.typical == 1.0
    assert Slice([3.0]).typical == 3.0


@pytest.mark.parametrize(
    ("start", "base_start", "step", "paid"), [(20.0, 5.0, 0.5, 30), (5.0, 5.0, 0.5, 0), (20.0, 5.0, 1.5, None)]
)
def test_a_longer_start_is_paid_back_by_shorter_steps(start, base_start, step, paid):
    # Three steps at full speed are no part of the start.
    base = seen(1.0, 1.0, 1.0, settled_s=base_start + 3.0)
    changed = seen(step, step, step, settled_s=start + 3 * step)
    result = measured(base, changed)
    assert (result.base_start_s, result.start_s) == (pytest.approx(base_start), pytest.approx(start))
    assert result.break_even_steps == paid


@given(st.integers(0, 10_000), st.floats(0.0, 0.08), st.integers(6, 14))
def test_the_script_against_itself_is_no_gain_worth_having(seed, noise, turns):
    """Turns that differ by chance alone: the interval holds 1, whatever the noise."""
    chance = random.Random(seed)
    base, changed = (seen(*(math.exp(chance.gauss(0, noise)) for _ in range(turns + 1))) for _ in range(2))
    result = measured(base, changed)
    assert result.low <= result.speedup <= result.high
    assert result.high / result.low >= math.exp(2 * LEAST_FLOOR) * (1 - 1e-9)


def test_the_script_against_itself_says_no_difference_at_least_19_of_20_times():
    chance = random.Random(7)
    wrong = 0
    for _ in range(400):
        base, changed = (seen(*(math.exp(chance.gauss(0, 0.05)) for _ in range(13))) for _ in range(2))
        result = measured(base, changed)
        wrong += not result.low <= 1.0 <= result.high
    assert wrong <= 20


def test_losses_are_compared_step_by_step():
    base = Seen(losses={0: 2.0, 1: 1.0, 2: 0.5})
    changed = Seen(losses={1: 1.1, 2: 0.5, 3: 9.0})
    found = numerics(base, changed)
    assert (found.of, found.steps) == ("loss", 2)
    assert (found.first, found.largest, found.last) == (pytest.approx(0.1), pytest.approx(0.1), 0.0)
    assert (found.base_last, found.remedy_last) == (0.5, 0.5)


def test_outputs_are_compared_where_there_are_no_losses():
    base, changed = Seen(outputs={4: [1.0, -4.0]}), Seen(outputs={4: [1.0, -3.0]})
    found = numerics(base, changed)
    assert (found.of, found.steps, found.largest) == ("output", 1, pytest.approx(0.25))


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [(math.nan, math.nan, 0.0), (1.0, math.nan, math.inf), (math.nan, 1.0, math.inf), (0.0, 0.0, 0.0)],
)
def test_a_loss_that_is_no_number_differs_from_every_number(a, b, apart):
    assert numerics(Seen(losses={0: a}), Seen(losses={0: b})).largest == apart


def test_without_results_in_common_nothing_is_said_of_them():
    assert numerics(Seen(losses={0: 1.0}), Seen(outputs={0: [1.0]})) is None
    assert numerics(Seen(outputs={0: [1.0]}), Seen(outputs={0: [1.0, 2.0]})) is None


# Advice.


def predicted(speedup: float, low: float, high: float) -> Predicted:
    return Predicted(speedup=speedup, low=low, high=high, reason="")


@pytest.mark.parametrize(
    ("low", "high", "advice"),
    [(WORTH, 1.3, "do"), (1.0, 1.3, "unknown"), (0.5, WORTH - 0.01, "skip"), (1.2, 1.2, "do"), (0.9, WORTH, "unknown")],
)
def test_advice_needs_the_whole_interval_on_one_side(low, high, advice):
    assert advice_for(predicted((low + high) / 2, low, high)) == advice


@given(st.floats(0.1, 30.0), st.floats(0.5, 1.0), st.floats(1.0, 2.0))
def test_no_prediction_is_finer_than_a_run_and_itself(value, least, most):
    found = no_finer(predicted(value, least * value, most * value))
    assert found.low <= found.speedup / (1 + FINEST) < found.speedup * (1 + FINEST) <= found.high
    assert found.low <= least * value
    assert found.high >= most * value


def test_of_steps_on_another_device_nothing_is_predicted_which_is_said(sample_report):
    report = sample_report("overhead")
    report = dataclasses.replace(report, step=dataclasses.replace(report.step, device="cuda"), remedies=())
    found = with_predictions(report, ScriptFacts())
    assert found.remedies == ()
    assert found.findings[-1].code == "remedies-not-predicted"
    assert "cuda" in found.findings[-1].message


def test_of_steps_that_took_far_longer_when_watched_nothing_is_predicted_which_is_said(sample_report):
    report = dataclasses.replace(sample_report("overhead"), reconciliation=interval(20.52), remedies=())
    found = with_predictions(report, ScriptFacts())
    assert found.remedies == ()
    assert found.findings[-1].code == "remedies-not-predicted"
    assert "took far longer" in found.findings[-1].message


def test_a_prediction_held_where_the_measured_value_lies_in_it():
    result = measured(seen(2.0, 2.0, 2.0), seen(1.0, 1.0, 1.0))
    remedy = Remedy(name="x", predicted=predicted(1.9, 1.8, 2.1))
    tried = after_trial(remedy, measured=result, failed=None, took_effect=True, effect="")
    assert tried.held is True
    assert tried.advice == "do"
    off = Remedy(name="x", predicted=predicted(1.2, 1.1, 1.9))
    assert after_trial(off, measured=result, failed=None, took_effect=True, effect="").held is False


def test_a_trial_lost_in_other_load_tells_nothing_of_a_prediction():
    result = dataclasses.replace(measured(seen(2.0, 2.0, 2.0), seen(1.0, 1.0, 1.0)), low=0.5, high=8.0)
    remedy = Remedy(name="x", predicted=predicted(2.0, 1.8, 2.1))
    assert after_trial(remedy, measured=result, failed=None, took_effect=True, effect="").held is None


def test_a_change_that_did_not_take_place_is_no_advice():
    result = measured(seen(2.0, 2.0, 2.0), seen(1.0, 1.0, 1.0))
    tried = after_trial(Remedy(name="x"), measured=result, failed=None, took_effect=False, effect="")
    assert tried.advice == "unknown"


def test_a_trial_that_failed_keeps_its_reason_and_gives_no_advice():
    remedy = Remedy(name="x", predicted=predicted(2.0, 1.9, 2.1), advice="do")
    tried = after_trial(remedy, measured=None, failed="no compiler", took_effect=None, effect="")
    assert (tried.advice, tried.failed, tried.measured) == ("unknown", "no compiler", None)
