"""Which events make a step: cycles of optimizers, of outermost modules, and marks made by hand."""

from __future__ import annotations

import random

import pytest
from fake_steps import FakeSteps, play
from hypothesis import example, given, settings
from hypothesis import strategies as st

from boundby.capture.cycle import LONGEST, find_cycle
from boundby.capture.finder import INFERENCE, MARKED, TRAINING, StepFinder
from boundby.capture.schedule import Limits, Role

D, G, X, E = 0, 1, 2, 3


def finder_of(limits: Limits | None = None) -> tuple[StepFinder, FakeSteps, list[str]]:
    steps, kinds = FakeSteps(limits), []
    return StepFinder(steps, kinds.append), steps, kinds


def is_turn_of(events: tuple[int, ...], cycle: list[int]) -> bool:
    """Whether ``events`` are one whole cycle, wherever it is cut."""
    doubled = [*cycle, *cycle]
    return len(events) == len(cycle) and any(doubled[at : at + len(cycle)] == list(events) for at in range(len(cycle)))


def square_free(length: int) -> list[int]:
    """The ternary word without any immediate repetition (Thue): differences of the Thue-Morse word."""
    ones = [bin(i).count("1") % 2 for i in range(length + 1)]
    return [ones[i + 1] - ones[i] + 1 for i in range(length)]


# The cycle alone.


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(3, 5), st.data())
def test_a_repeated_sequence_has_a_period_that_divides_or_undercuts_it(cycle, turns, data):
    prefix = data.draw(st.lists(st.integers(4, 6), max_size=5))
    events = prefix + cycle * turns
    period = find_cycle(events)
    assert period is not None
    assert period <= len(cycle)
    assert events[-period:] == events[-2 * period : -period]


@given(st.lists(st.integers(0, 2), max_size=60))
def test_a_found_period_is_the_smallest_that_holds(events):
    def holds(period: int) -> bool:
        turns = 3 if period <= 3 else 2
        tail = events[len(events) - period * turns :]
        return period * turns <= len(events) and tail == tail[:period] * turns

    expected = next((period for period in range(1, len(events) + 1) if holds(period)), None)
    assert find_cycle(events) == expected


def test_no_period_is_looked_for_beyond_the_longest():
    cycle = list(range(LONGEST + 1))
    assert find_cycle(cycle * 2) is None
    assert find_cycle(cycle[:-1] * 2) == LONGEST


def test_a_word_without_repetition_has_no_period():
    word = square_free(400)
    assert all(find_cycle(word[:length]) is None for length in range(len(word)))


# Optimizers.


def test_one_optimizer_steps_once_a_step():
    finder, steps, kinds = finder_of(Limits(timed=5, watched=3))
    play(finder, steps, TRAINING, [D] * 60)
    assert kinds == [TRAINING]
    assert finder.period == 1
    assert not finder.irregular
    assert steps.done
    assert {step.events for step in steps.steps} == {(D,)}


def test_a_done_plan_hears_no_more_events():
    finder, steps, _ = finder_of(Limits(timed=2, watched=2))
    play(finder, steps, TRAINING, [D] * 100)
    seen = finder.events_seen
    play(finder, steps, TRAINING, [D] * 100)
    assert finder.events_seen == seen < 100


@pytest.mark.parametrize(
    "cycle",
    [[D, G], [D, D, G], [D] * 5 + [G], [D, G, E], [D, D, G, G, G], [D, D, D, G, G, G], [D] * 9 + [G], [E, D, D, D, G]],
    ids=lambda cycle: "".join("DGXE"[ident] for ident in cycle),
)
def test_several_optimizers_make_one_step_of_a_whole_turn(cycle):
    finder, steps, _ = finder_of(Limits(timed=6, watched=3))
    play(finder, steps, TRAINING, cycle * 60)
    assert finder.period == len(cycle)
    assert steps.done
    assert steps.recorded
    assert all(is_turn_of(step.events, cycle) for step in steps.recorded)


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.sampled_from([TRAINING, INFERENCE]),
    st.integers(1, 8),
    st.integers(2, 6),
)
@example([5, 1], TRAINING, 8, 3)
@example([3, 3], TRAINING, 8, 3)
@settings(max_examples=150, deadline=None)
def test_every_recorded_step_of_a_periodic_stream_is_one_whole_cycle(runs, kind, timed, watched):
    cycle = [ident for ident, times in enumerate(runs) for _ in range(times)]
    if len(runs) == 1:
        cycle = cycle[:1]
    finder, steps, _ = finder_of(Limits(timed=timed, watched=watched))
    play(finder, steps, kind, cycle * 70)
    assert steps.done
    assert not finder.irregular
    # One optimizer seen alone for a while is a natural step until the next one shows up; then all begins again.
    if any(len(step.events) != 1 for step in steps.recorded) or len(runs) == 1:
        assert all(is_turn_of(step.events, cycle) for step in steps.recorded)
    else:
        assert max(runs) + 3 >= sum(1 for step in steps.recorded), "a whole plan was made of parts of a cycle"


@pytest.mark.parametrize("cycle", [[D, G], [D, D, D, D, D, G]], ids=["DG", "DDDDDG"])
def test_parts_of_a_cycle_are_no_measure_of_when_whole_ones_have_settled(cycle):
    """The two optimizers take 10 and 30 ms; whole turns are steady from the first on, so warm-up is short."""
    finder, steps, _ = finder_of(Limits(timed=6, watched=3))
    play(finder, steps, TRAINING, cycle * 40, lasting=(0.01, 0.03))
    whole = [step for step in steps.steps if step.role is Role.WARMUP and is_turn_of(step.events, cycle)]
    assert len(whole) <= 4


def test_pretraining_with_one_optimizer_does_not_hide_the_two_that_follow():
    finder, steps, _ = finder_of(Limits(warmup=30, timed=6, watched=3))
    play(finder, steps, TRAINING, [E] * 20 + [D, G] * 120)
    assert finder.period == 2
    assert steps.restarts >= 1
    assert steps.done
    assert all(is_turn_of(step.events, [D, G]) for step in steps.recorded)


@pytest.mark.parametrize("before", [3, 4, 7, 8])
def test_pretraining_that_ends_early_is_dropped(before):
    finder, steps, _ = finder_of(Limits(timed=6, watched=3))
    play(finder, steps, TRAINING, [D] * before + [D, G] * 80)
    assert finder.period == 2
    assert steps.done
    assert all(is_turn_of(step.events, [D, G]) for step in steps.recorded)


def test_a_cycle_that_changes_among_known_optimizers_is_found_anew():
    """A discriminator that steps once at first and three times from then on."""
    finder, steps, _ = finder_of(Limits(timed=6, watched=3))
    play(finder, steps, TRAINING, [D, G] * 4 + [D, D, D, G] * 100)
    assert steps.done
    assert all(is_turn_of(step.events, [D, D, D, G]) for step in steps.recorded)


def test_a_rare_extra_optimizer_spoils_no_step():
    finder, steps, _ = finder_of(Limits(timed=40, watched=12))
    play(finder, steps, TRAINING, ([D] * 50 + [X]) * 10)
    assert steps.done
    assert finder.period == 1
    assert steps.recorded
    assert all(step.events == (D,) for step in steps.recorded)


def test_a_rare_extra_optimizer_spoils_no_step_of_a_longer_cycle():
    finder, steps, _ = finder_of(Limits(timed=40, watched=12))
    play(finder, steps, TRAINING, ([D, G] * 50 + [X]) * 10)
    assert steps.done
    assert finder.period == 2
    assert all(is_turn_of(step.events, [D, G]) for step in steps.recorded)


def test_no_repeating_order_ends_as_irregular_with_each_event_a_step():
    finder, steps, _ = finder_of(Limits(timed=6, watched=3))
    play(finder, steps, TRAINING, square_free(400))
    assert finder.irregular
    assert steps.done
    assert all(len(step.events) == 1 for step in steps.recorded)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("optimizers", [2, 3])
def test_a_random_order_of_optimizers_still_gives_steps(seed, optimizers):
    """Chance repeats a short order now and then; that must not keep watching from ever getting anywhere."""
    draw = random.Random(seed)
    finder, steps, _ = finder_of(Limits(timed=6, watched=3))
    play(finder, steps, TRAINING, [draw.randrange(optimizers) for _ in range(2000)])
    assert steps.done
    assert finder.irregular or len({tuple(sorted(step.events)) for step in steps.recorded}) == 1


# Outermost modules.


def test_one_module_called_again_and_again():
    finder, steps, kinds = finder_of(Limits(timed=4, watched=2))
    play(finder, steps, INFERENCE, [D] * 60)
    assert kinds == [INFERENCE]
    assert steps.done
    assert {step.events for step in steps.recorded} == {(D,)}


def test_an_encoder_and_a_decoder_make_one_inference_step_from_the_encoder_on():
    finder, steps, _ = finder_of(Limits(timed=4, watched=2))
    play(finder, steps, INFERENCE, [E, D] * 60)
    assert steps.done
    assert {step.events for step in steps.recorded} == {(E, D)}


def test_a_decoder_called_for_each_token_belongs_to_its_encoder():
    finder, steps, _ = finder_of(Limits(timed=4, watched=2))
    play(finder, steps, INFERENCE, ([E] + [D] * 7) * 60)
    assert steps.done
    assert {step.events for step in steps.recorded} == {(E,) + (D,) * 7}


# Stronger signs take over.


def test_optimizers_take_over_from_modules_and_drop_what_was_recorded():
    finder, steps, kinds = finder_of(Limits(timed=40, watched=10))
    play(finder, steps, INFERENCE, [E] * 20)
    assert steps.recorded
    play(finder, steps, TRAINING, [D])
    assert kinds == [INFERENCE, TRAINING]
    assert not steps.steps
    assert finder.events_seen == 1
    for _ in range(100):
        play(finder, steps, INFERENCE, [E])
        steps.heard.pop()  # no longer an event
        play(finder, steps, TRAINING, [D])
    assert steps.done
    assert {step.events for step in steps.recorded} == {(D,)}


def test_marks_take_over_from_optimizers():
    finder, steps, kinds = finder_of(Limits(timed=4, watched=2))
    play(finder, steps, TRAINING, [D] * 8)
    for _ in range(60):
        steps.now += 10_000_000
        finder.mark(begin=True, now=steps.now)
        steps.now += 10_000_000
        play(finder, steps, TRAINING, [D])
        finder.mark(begin=False, now=steps.now)
    assert kinds == [TRAINING, MARKED]
    assert steps.restarts == 1
    assert steps.done
    assert {step.events for step in steps.recorded} == {(D,)}
    # What passes between two marks is no part of a step.
    assert all(step.end - step.begin == 20_000_000 for step in steps.recorded)


def test_an_end_without_a_begin_is_no_step():
    finder, steps, _ = finder_of()
    finder.mark(begin=False, now=5)
    assert not steps.steps
    assert finder.events_seen == 0


def test_a_mark_that_never_ended_is_left_out():
    finder, steps, _ = finder_of()
    finder.mark(begin=True, now=0)
    steps.now = 5_000_000_000
    finder.mark(begin=True, now=steps.now)
    finder.mark(begin=False, now=steps.now + 1_000_000)
    assert [step.end - step.begin for step in steps.steps] == [1_000_000]


def test_one_stranger_after_a_long_time_makes_nothing_irregular():
    finder, steps, _ = finder_of(Limits(warmup=1000))
    play(finder, steps, TRAINING, [D] * 250 + [G] + [D] * 50)
    assert not finder.irregular
    assert finder.period == 1


@pytest.mark.parametrize("length", [120, LONGEST])
def test_a_cycle_of_many_modules_is_found(length):
    finder, steps, _ = finder_of(Limits(warmup=3000))
    play(finder, steps, INFERENCE, list(range(length)) * 3)
    assert finder.period == length
    assert not finder.irregular
