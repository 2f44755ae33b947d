"""Kinds of steps: watched steps with the same sequence of ops, and the times of their ops less what watching took."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from boundby.capture.attribute import AttributedStep
from boundby.capture.calibrate import Floats, WatchCost
from boundby.capture.lean import LeanStep
from boundby.capture.profiled import Matched, ProfiledStep, call_name, match_calls, past_call
from boundby.capture.usage import StepUsage
from boundby.capture.watcher import CLEARING

if TYPE_CHECKING:
    from boundby.capture.recorder import Recorded

ENOUGH_CALM = 3
# Steps with the same ops whose op times differ by this factor are steps of different kinds.
UNLIKE = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedTimes:
    """One watched step, seconds: windows and gaps (an entry an op), and the tail; ``watching`` was taken off them.

    A gap may come out slightly negative: between two ops of the autograd engine there is less than the correction.
    ``cleared`` is how much of each gap an optimizer took to clear gradients.
    """

    windows: Floats
    gaps: Floats
    cleared: Floats
    tail: float
    usage: StepUsage
    turn: int
    watching: float

    @property
    def total(self) -> float:
        return float(self.windows.sum() + self.gaps.sum()) + self.tail

    def scaled(self, factor: float) -> WatchedTimes:
        return replace(
            self,
            windows=self.windows * factor,
            gaps=self.gaps * factor,
            cleared=self.cleared * factor,
            tail=self.tail * factor,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsSeen:
    """All watched steps with one sequence of ops."""

    ops: list[Any]
    times: list[WatchedTimes] = field(default_factory=list)
    attributed: list[AttributedStep] = field(default_factory=list)
    watched_s: list[float] = field(default_factory=list)

    @property
    def steps(self) -> int:
        return len(self.times) + len(self.attributed)

    @property
    def digest(self) -> str:
        return hashlib.blake2b("\n".join(map(str, self.ops)).encode(), digest_size=6).hexdigest()


def kinds_of_steps(kept: Recorded, cost: WatchCost, places: Sequence[Hashable]) -> list[StepsSeen]:
    """The watched steps by their ops, and by their shapes where those change how long a step takes.

    Args:
        kept: what was recorded.
        cost: what watching takes.
        places: of each site, all but what its op costs.
    """
    numbers: dict[Any, int] = {}
    found: dict[bytes, StepsSeen] = {}

    def class_of(ops: list[Any]) -> StepsSeen:
        sequence = array("I", [numbers.setdefault(op, len(numbers)) for op in ops])
        key = hashlib.blake2b(sequence.tobytes(), digest_size=16).digest()
        return found.setdefault(key, StepsSeen(ops=ops))

    for attributed in kept.attributed:
        class_of(attributed.ops).attributed.append(attributed)
    for lean in kept.lean:
        class_of(lean.ops).times.append(lean_times(lean, cost.per_op_s or 0.0))
    calls = {
        key: ([call_name(op) for op in one.ops], one.attributed[0].works)
        for key, one in found.items()
        if one.attributed
    }
    for profiled in kept.profiled:
        fits = [(key, match_calls(profiled, *one)) for key, one in calls.items()]
        # Where several classes fit, one is part of another: the longest says most.
        best = max(
            ((key, matched) for key, matched in fits if matched is not None),
            key=lambda one: len(one[1].begins),
            default=None,
        )
        if best is not None:
            found[best[0]].times.append(profiled_times(profiled, best[1], cost.calls_s(profiled)))
    return [part for one in found.values() for part in by_shapes(one, places)]


def by_shapes(seen: StepsSeen, places: Sequence[Hashable]) -> list[StepsSeen]:
    """Steps with the same ops on other shapes, told apart where that changes how long they take.

    Only attributed steps know shapes; each step watched for times goes to the attributed one nearest in length. Sites
    of one place may differ in their costs (the distinct rows of an embedding), which makes no other kind of step.
    """
    variants: dict[tuple[Hashable, ...], list[AttributedStep]] = defaultdict(list)
    for one in seen.attributed:
        variants[tuple(places[site] for site in one.site)].append(one)
    lengths = {key: float(np.median([_length(one) for one in steps])) for key, steps in variants.items()}
    if len(variants) < 2 or max(lengths.values()) < UNLIKE * max(1e-9, min(lengths.values())):
        return [seen]
    parts = {key: StepsSeen(ops=seen.ops, attributed=steps) for key, steps in variants.items()}
    for time in seen.times:
        mine = float(time.windows.sum())
        parts[min(lengths, key=lambda key: abs(math.log(max(mine, 1e-9) / max(lengths[key], 1e-9))))].times.append(time)
    return list(parts.values())


def _length(step: AttributedStep) -> float:
    stamps = np.frombuffer(step.stamps, dtype=np.int64)
    return float((stamps[1::2] - stamps[0::2]).sum()) / 1e9


def choose_kind(classes: Sequence[StepsSeen]) -> StepsSeen | None:
    """The class to explain: the commonest that was watched both ways, else the attributed one of median length."""
    both = [one for one in classes if one.times and one.attributed]
    if both:
        return max(both, key=lambda one: one.steps)
    attributed = sorted((one for one in classes if one.attributed), key=lambda one: len(one.ops))
    return attributed[len(attributed) // 2] if attributed else None


def timed_of_kind(timed_s: Sequence[float], classes: Sequence[StepsSeen], chosen: StepsSeen) -> list[int]:
    """Which timed steps were of the chosen class: nobody watched them, so by the nearest of the classes' own times."""
    expected = [(float(np.median([time.total for time in one.times])), one) for one in classes if one.times]
    if len(expected) < 2:
        return list(range(len(timed_s)))

    def is_chosen(seconds: float) -> bool:
        nearest = min(expected, key=lambda one: abs(math.log(max(seconds, 1e-9) / max(one[0], 1e-9))))
        return nearest[1] is chosen

    mine = [i for i, seconds in enumerate(timed_s) if is_chosen(seconds)]
    return mine or list(range(len(timed_s)))


def calm_steps(times: Sequence[WatchedTimes]) -> Sequence[WatchedTimes]:
    """The steps that were never interrupted, if there are enough of them."""
    calm = [one for one in times if one.usage.preemptions == 0]
    return calm if len(calm) >= ENOUGH_CALM else times


def lean_times(step: LeanStep, cost: float) -> WatchedTimes:
    """An op is dispatched a second time inside its window, which stands for the first time: the cost is the gap's."""
    stamps = np.frombuffer(step.stamps, dtype=np.int64)
    begins, ends = stamps[0::2], stamps[1::2]
    gaps = (begins - np.concatenate(([step.begin], ends[:-1]))) / 1e9 - cost if len(begins) else np.zeros(0)
    tail = (step.end - (int(ends[-1]) if len(ends) else step.begin)) / 1e9
    for at, spent in step.input_at:
        if at < len(gaps):
            gaps[at] -= spent / 1e9
        else:
            tail -= spent / 1e9
    cleared = np.zeros(len(gaps))
    for at, spent in step.clearing_at:
        if at < len(gaps):
            cleared[at] += spent / 1e9
    windows = (ends - begins) / 1e9
    return WatchedTimes(
        windows=windows,
        gaps=gaps,
        cleared=cleared,
        tail=tail,
        usage=step.usage,
        turn=step.turn,
        watching=cost * len(windows),
    )


def profiled_times(step: ProfiledStep, matched: Matched, cost: Floats) -> WatchedTimes:
    """A call costs half before and half after the moment that it notes, a nested call all inside its op's window.

    Args:
        step: the profiled step.
        matched: its calls laid beside the ops.
        cost: seconds that the profiler took for each call.
    """
    begins, ends = np.frombuffer(matched.begins, dtype=np.int64), np.frombuffer(matched.ends, dtype=np.int64)
    calls = np.frombuffer(matched.calls, dtype=np.uint32).astype(np.int64)
    past = np.cumsum(np.frombuffer(matched.before, dtype=np.uint32).astype(np.int64) + calls)
    at_call = past - calls
    spent = np.concatenate(([0.0], np.cumsum(cost)))
    own = np.where(calls > 0, 0.5 * np.append(cost, 0.0)[at_call], 0.0)
    windows = (ends - begins) / 1e9 - (spent[past] - spent[at_call] - own)
    before = np.concatenate(([0], past[:-1])) if len(past) else past
    gaps = (begins - np.concatenate(([step.begin], ends[:-1]))) / 1e9 - (spent[at_call] - spent[before] + own)
    tail = (step.end - (int(ends[-1]) if len(ends) else step.begin)) / 1e9
    tail -= float(spent[-1] - spent[past[-1] if len(past) else 0])
    for begin, end in step.waits:
        at = int(np.searchsorted(begins, begin))
        if at < len(gaps):
            gaps[at] -= (end - begin) / 1e9
        else:
            tail -= (end - begin) / 1e9
    cleared = np.zeros(len(gaps))
    last = 0
    for name, begin, end in zip(step.names, step.begins, step.ends, strict=True):
        if name.startswith(CLEARING) and begin >= last:  # one in another is part of it
            last = end
            at = int(np.searchsorted(begins, begin))
            if at < len(gaps) and end <= begins[at]:
                cleared[at] += (end - begin) / 1e9
    return WatchedTimes(
        windows=windows,
        gaps=gaps,
        cleared=cleared,
        tail=tail,
        usage=step.usage,
        turn=step.turn,
        watching=float(cost.sum()),
    )


def seconds_by_name(steps: Sequence[ProfiledStep], names: frozenset[str], cost: WatchCost) -> dict[str, float]:
    """Mean seconds of the calls that bear each of some names, over profiled steps that need not be alike.

    Args:
        steps: the profiled steps.
        names: names of ops as calls bear them; calls inside one of theirs are part of it.
        cost: what the profiler took.
    """
    seconds: dict[str, list[float]] = defaultdict(list)
    for step in steps:
        spent = np.concatenate(([0.0], np.cumsum(cost.calls_s(step))))
        at = 0
        while at < len(step.names):
            name = step.names[at]
            if name not in names:
                at += 1
                continue
            past = past_call(step, at)
            watching = spent[past] - spent[at] - 0.5 * (spent[at + 1] - spent[at])
            seconds[name].append((step.ends[at] - step.begins[at]) / 1e9 - float(watching))
            at = past
    return {name: max(0.0, float(np.mean(each))) for name, each in seconds.items()}


def windows_by_name(step: AttributedStep, known: dict[str, float]) -> Floats:
    """Windows (seconds) of an attributed step whose ops no other step has in this order.

    Its own windows hold what its dispatch mode took and the slower paths it made torch take, so those of each name are
    scaled to the mean that such calls take in steps under the profiler. Ops without work that no such step calls are
    the mode's own, and take nothing.

    Args:
        step: the attributed step.
        known: mean seconds a call by name, from ``seconds_by_name``; empty where no step was profiled.
    """
    stamps = np.frombuffer(step.stamps, dtype=np.int64)
    windows = (stamps[1::2] - stamps[0::2]) / 1e9
    if not known:
        return windows
    places: dict[str, list[int]] = defaultdict(list)
    for at, op in enumerate(step.ops):
        places[call_name(op)].append(at)
    for name, mine in places.items():
        own = float(windows[mine].mean())
        if name in known:
            windows[mine] *= known[name] / own if own > 0 else 1.0
        elif not any(step.works[at] for at in mine):
            windows[mine] = 0.0
    return windows
