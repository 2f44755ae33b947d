"""Remedies on a step given as a callable: as it is and with the remedy, in turns, in this process."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from boundby.remedies.contract import Effects
from boundby.remedies.ranking import after_trial
from boundby.remedies.registry import remedy_named
from boundby.remedies.results_compared import COMPARED_STEPS, first_numbers
from boundby.remedies.trial import FEWEST_TURNS, MOST_STEPS_A_TURN, MOST_TURNS, TURN_S
from boundby.remedies.turn_results import Seen, Slice, measured, numerics
from boundby.results.language import tr
from boundby.results.remedy import Remedy

WARM_UP = 3
FEWEST_STEPS_A_TURN = 2


def try_callable(
    step: Callable[[], Any], remedies: Sequence[Remedy], *, budget_s: float, clock: Callable[[], float] = time.monotonic
) -> tuple[Remedy, ...]:
    """Each remedy that can wrap a callable, measured; the others as they were, saying why not.

    Args:
        step: called without arguments; what it returns is compared where it holds a tensor.
        remedies: as predicted.
        budget_s: seconds of turns for each.
        clock: seconds.
    """
    found = []
    for remedy in remedies:
        effects = Effects()
        changed = remedy_named(remedy.name).wrap(step, effects)
        if changed is None:
            why = tr("it is tried on scripts only: boundby try")
            found.append(
                replace(remedy, why=tr("{reason}; {more}", reason=remedy.why, more=why) if remedy.why else why)
            )
            continue
        base_seen, seen = Seen(), Seen()
        try:
            _take_turns(((step, base_seen), (changed, seen)), budget_s, clock)
        except Exception as error:  # what a remedy may break is the step itself, in any way
            failed = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            found.append(after_trial(remedy, measured=None, failed=failed, took_effect=None, effect=effects.text()))
            continue
        tried = after_trial(
            remedy,
            measured=measured(base_seen, seen),
            failed=None,
            took_effect=effects.took_effect,
            effect=effects.text(),
        )
        found.append(replace(tried, numerics=numerics(base_seen, seen)))
    return tuple(found)


def _take_turns(sides: Sequence[tuple[Callable[[], Any], Seen]], budget_s: float, clock: Callable[[], float]) -> None:
    for call, seen in sides:
        began = clock()
        for number in range(WARM_UP):
            seen.warm.append(_one(call, seen, number, clock))
        seen.settled_s = clock() - began
    slowest = max(min(seen.warm) for _, seen in sides)
    steps = max(FEWEST_STEPS_A_TURN, min(MOST_STEPS_A_TURN, math.ceil(TURN_S / max(slowest, 1e-6) / 2)))
    began = clock()
    for turn in range(MOST_TURNS):
        for call, seen in sides if turn % 2 == 0 else reversed(sides):
            number = WARM_UP + turn * steps
            seen.slices.append(Slice([_one(call, seen, number + at, clock) for at in range(steps)]))
        if turn + 1 >= FEWEST_TURNS and clock() - began > budget_s:
            return


def _one(call: Callable[[], Any], seen: Seen, number: int, clock: Callable[[], float]) -> float:
    before = clock()
    result = call()
    seconds = clock() - before
    if number < COMPARED_STEPS:
        numbers = first_numbers(result)
        if numbers is not None:
            seen.outputs[number] = numbers
    return seconds
