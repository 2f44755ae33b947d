"""What is said of a remedy, in words: its advice, speed-ups, costs, numerical difference, and what to change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from boundby.results.interval import Interval
from boundby.results.language import tr, trn
from boundby.results.remedy import WORTH, Measured, Numerics, Predicted, Remedy, is_worth_a_trial
from boundby.results.units import format_number, format_time

# Shorter differences in starting are not worth a word (s), nor are smaller ones in memory, or less waiting for a core.
_LONGER_START_S = 1.0
_SAME_MEMORY = (0.9, 1.1)
_MUCH_WAITED = 0.05
# An interval whose ends are further apart than this holds no figure worth telling.
_UNCLEAR = 3.0
# One whose ends are further apart than this, on both sides of no change, is no result at all.
_NO_RESULT = 10.0
_LEAST_RATIO = 0.01
# Relative differences below this are the last bits of fp32, whatever their figure.
_LEAST_DIFFERENCE = 1e-6


def advice(remedy: Remedy) -> str:
    """What to make of a remedy, in a word."""
    if remedy.failed:
        return tr("failed")
    if remedy.took_effect is False:
        return tr("no change")
    if remedy.advice == "unknown" and is_dismissed(remedy):
        return tr("unlikely")
    if remedy.advice == "unknown":
        return tr("unclear") if remedy.measured is not None else tr("try")
    return tr("do") if remedy.advice == "do" else tr("skip")


def is_tried(remedy: Remedy) -> bool:
    """Whether there was a trial, with a result or without."""
    return remedy.measured is not None or remedy.failed is not None


def is_dismissed(remedy: Remedy) -> bool:
    """Whether no more need be said of a remedy than what is predicted: it is not worth a trial."""
    return not is_tried(remedy) and not is_worth_a_trial(remedy)


def tried_title(remedies: Sequence[Remedy]) -> str:
    """What stands above remedies that were tried; they helped only where a clear result says so."""
    helped = any(one.advice == "do" and one.measured is not None for one in remedies)
    return tr("What helped") if helped else tr("What was tried")


def trials_sentence(remedies: Sequence[Remedy]) -> str:
    """What trials showed, in one sentence: the best that was measured, or that none was clear; empty without trials."""
    tried = [one for one in remedies if is_tried(one)]
    if not tried:
        return ""
    best = max(
        (one for one in tried if one.advice == "do" and one.measured is not None),
        key=lambda one: one.measured.speedup if one.measured is not None else 0.0,
        default=None,
    )
    count = len(tried)
    if best is not None:
        return tr("Measured best: {name}, {times} as fast.", name=best.name, times=times(best.measured))
    results = [
        one
        for one in tried
        if one.measured is not None and one.took_effect is not False and not is_without_result(one.measured)
    ]
    unclear = sum(one.advice == "unknown" for one in results)
    if not results:
        return trn("The trial gave no result.", "None of {count} trials gave a result.", count)
    if unclear == count:
        return trn("The trial was unclear.", "None of {count} trials was clear.", count)
    if unclear:
        return tr(
            "None of {count} trials shows a gain; unclear: {unclear}.", count=f"{count:,}", unclear=f"{unclear:,}"
        )
    return trn("The trial shows no gain.", "None of {count} trials shows a gain.", count)


def threshold() -> str:
    """From which gain on a change is worth it, and what the words of advice mean by that."""
    return tr(
        "do: even the low end is {worth}x or more; skip: not even the high end is; unlikely: the middle is below 1x; "
        "else only a trial can tell.",
        worth=f"{WORTH:.3g}",
    )


def times(speed: Predicted | Measured | None) -> str:
    """How many times as fast, with the interval: ``1.31x (1.22-1.40)``."""
    if speed is None:
        return tr("unknown")
    value, low, high = (_ratio(one) for one in (speed.speedup, speed.low, speed.high))
    if is_without_result(speed):
        return tr("no result") if isinstance(speed, Measured) else tr("unclear")
    if is_unclear(speed):
        return tr("unclear ({low}-{high}x)", low=low, high=high)
    return f"{value}x ({low}-{high})"


def is_unclear(speed: Predicted | Measured | Interval) -> bool:
    """Whether the interval is so wide that a figure within it would only mislead."""
    return speed.high > _UNCLEAR * speed.low


def is_without_result(speed: Predicted | Measured | Interval) -> bool:
    """Whether the interval is so wide, from far slower to far faster, that not even its ends are worth telling."""
    return speed.low < 1.0 < speed.high and speed.high > _NO_RESULT * speed.low


def _ratio(value: float) -> str:
    if value < _LEAST_RATIO:
        return f"<{_LEAST_RATIO}"
    return f"{value:#.3g}".rstrip(".") if value < 100 else f"{value:,.0f}"


def measured_parts(remedy: Remedy, measured: Measured, *, unicode: bool = True) -> Iterator[str]:
    """What a trial says beside the speed-up itself: disturbances, costs, numerical difference, what to change.

    Args:
        remedy: what was tried.
        measured: its result.
        unicode: whether ``µs`` may be written.
    """
    if measured.waited is not None and measured.waited > _MUCH_WAITED:
        share = f"{measured.waited:.0%}"
        yield tr("other load held the cores for up to {share} of it: try again on a quieter machine", share=share)
    yield from _costs(remedy, measured, unicode=unicode)
    yield from effect(remedy)
    if remedy.numerics is not None:
        yield difference(remedy.numerics)
    elif remedy.took_effect is not False:
        yield tr("results not compared: the script sets no seed, shows none, or does other work")
    if remedy.took_effect is not False:
        yield from to_do(remedy)


def effect(remedy: Remedy) -> Iterator[str]:
    """That a change did not take place, and why where that is known."""
    if remedy.took_effect is not False:
        return
    if remedy.effect:
        yield tr("the change did not take place: {why}", why=remedy.effect)
    else:
        yield tr("the change did not take place: the script has nothing that it would change")


def to_do(remedy: Remedy) -> Iterator[str]:
    """What the user would change, unless that is advised against."""
    change = remedy.predicted.change if remedy.predicted is not None else ""
    if change and remedy.advice != "skip":
        yield tr("to do: {change}", change=change)


def difference(numerics: Numerics) -> str:
    """How far results with a remedy lie from those without."""
    what = tr("losses") if numerics.of == "loss" else tr("outputs")
    if numerics.largest == 0:
        return trn(
            "{what} equal to the last bit over {count} step",
            "{what} equal to the last bit over {count} steps",
            numerics.steps,
            what=what,
        )
    largest, last = _apart(numerics.largest), _apart(numerics.last)
    if numerics.first is None or numerics.steps < 2:
        return trn(
            "{what} differ by at most {largest} over {count} step, {last} in the last",
            "{what} differ by at most {largest} over {count} steps, {last} in the last",
            numerics.steps,
            what=what,
            largest=largest,
            last=last,
        )
    if numerics.first == 0:
        return trn(
            "{what} equal in the first step; they differ by at most {largest} over {count} step, {last} in the last",
            "{what} equal in the first step; they differ by at most {largest} over {count} steps, {last} in the last",
            numerics.steps,
            what=what,
            largest=largest,
            last=last,
        )
    return trn(
        "{what} differ by {first} in the first step, at most {largest} over {count} step, {last} in the last",
        "{what} differ by {first} in the first step, at most {largest} over {count} steps, {last} in the last",
        numerics.steps,
        what=what,
        first=_apart(numerics.first),
        largest=largest,
        last=last,
    )


def _apart(difference: float) -> str:
    """A relative difference in percent, to one digit."""
    if 0 < difference < _LEAST_DIFFERENCE:
        return f"<{100 * _LEAST_DIFFERENCE:.4f}%"
    places = max(0, -math.floor(math.log10(100 * difference))) if difference > 0 else 0
    return f"{100 * difference:,.{places}f}%"


def _costs(remedy: Remedy, measured: Measured, *, unicode: bool) -> Iterator[str]:
    """What a longer start and other memory use say, where they say something."""
    longer = measured.start_s - measured.base_start_s
    if longer > _LONGER_START_S:
        seconds = format_time(longer, unicode=unicode)
        paid = measured.break_even_steps
        if remedy.advice == "unknown":
            # Whether the steps are faster at all is not known, so neither is when that pays.
            yield tr("starting takes {seconds} longer", seconds=seconds)
        elif paid is None:
            yield tr("starting takes {seconds} longer, never paid back", seconds=seconds)
        else:
            yield trn(
                "starting takes {seconds} longer, paid back after {count} step",
                "starting takes {seconds} longer, paid back after {count} steps",
                paid,
                seconds=seconds,
            )
    if measured.peak_bytes and measured.base_peak_bytes:
        ratio = measured.peak_bytes / measured.base_peak_bytes
        if not _SAME_MEMORY[0] < ratio < _SAME_MEMORY[1]:
            yield tr("peak memory {ratio} times as much", ratio=format_number(ratio, digits=2))
