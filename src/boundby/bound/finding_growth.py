"""Steps that take longer, or hold more memory, from one to the next: what grows, who holds it, and by how much."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from boundby.bound.ceilings import speed_moved
from boundby.bound.drift import steadied
from boundby.bound.step_view import whereabouts
from boundby.results.habits import GrowingLine, Habits, Held, TimedStep
from boundby.results.interval import Interval, interval
from boundby.results.language import tr
from boundby.results.machine import Finding
from boundby.results.trace import Trace
from boundby.results.units import format_count, format_percent, format_size, format_time
from boundby.timing.growth import Trend, trend
from boundby.timing.statistics import median

# Fewer timed steps than these show no trend.
FEWEST_STEPS, FEWEST_ROUNDS = 12, 3
# Kendall's statistic from which on the sign is no chance: where a line is seen to do more each time, and where time
# alone says so. Neighbouring steps are not independent, so both are far beyond what independent samples would need.
SURE_WITH_LINE, SURE_ALONE = 3.0, 5.0
# Watched steps in which a line did more each time, to believe it where it names nothing that grows.
SURE_STEPS = 3
# By what share of the step it must have grown over the run.
LEAST_WITH_LINE, LEAST_ALONE = 0.05, 0.2
# A machine that slows down does so in its probes too: the growth must be more than so many times what they moved by.
OVER_PROBES = 2.0
# Bytes a step below which memory that is held is no matter, and resident memory does not show it.
LEAST_HELD, LEAST_RESIDENT = 16 << 10, 64 << 10
# Of the timed steps, the share that must have gained memory where nobody is found to hold it.
MOST_GAIN = 0.6


def growth_findings(trace: Trace) -> Iterator[Finding]:
    """What grows from step to step.

    Args:
        trace: with the timed steps and what was seen to be held.
    """
    yield from _time(trace)
    yield from _memory(trace)


def _time(trace: Trace) -> Iterator[Finding]:
    habits = trace.habits
    steps = habits.steps
    if len(steps) < FEWEST_STEPS or len({one.round for one in steps}) < FEWEST_ROUNDS:
        return
    line = next((one for one in habits.growing if _is_sure(one, habits)), None)
    # A machine that comes under load looks the same: its own probes tell. Which of them is like the step is not known,
    # so that the growth must be there by each.
    courses = steadied(steps, trace.anchors)
    if not all(_grows(steps, one, trace, alone=line is None) for one in courses):
        return
    found = trend([float(one.number) for one in steps], courses[0])
    assert found is not None
    middle = median(courses[0])
    span = steps[-1].number - steps[0].number
    holder = _holder(habits, line)
    place = line.place if line is not None else holder.place if holder is not None else None
    yield Finding(
        code="step-time-grows",
        message=tr(
            "{where}each step takes {slope} longer than the one before ({low} to {high}), {share} over the {steps} "
            "steps that were looked at{why}",
            where=whereabouts(place.path, place.line) if place is not None else "",
            slope=format_time(found.slope),
            low=format_time(found.low),
            high=format_time(found.high),
            share=format_percent(found.slope * span / middle),
            steps=f"{span:,}",
            why=_why(line, holder),
        ),
        advice=tr(
            "Keep no history in what the step goes through: detach() what is carried on, and clear what is done with."
        ),
        path=place.path if place is not None else None,
        line=place.line if place is not None else None,
        time_s=_cost(found, steps),
    )


def _grows(steps: Sequence[TimedStep], seconds: Sequence[float], trace: Trace, *, alone: bool) -> bool:
    """Whether these times of steps go up for certain; ``alone`` where no line was seen to do more and more."""
    found = trend([float(one.number) for one in steps], seconds)
    middle = median(seconds)
    if found is None or found.low <= 0.0 or middle <= 0.0:
        return False
    grown = found.low * (steps[-1].number - steps[0].number) / middle
    if not alone:
        return found.z >= SURE_WITH_LINE and grown >= LEAST_WITH_LINE
    # Load does not come step by step, and may move the step by more than the probes.
    steady = all(before < after for before, after in pairwise(median(one) for one in _by_round(steps, seconds)))
    moved = OVER_PROBES * (speed_moved(trace.anchors) - 1.0)
    return found.z >= SURE_ALONE and grown >= max(LEAST_ALONE, moved) and steady


def _is_sure(line: GrowingLine, habits: Habits) -> bool:
    """Whether a line does more and more, or did so once: batches of lengths of their own do that by chance."""
    return line.steps >= SURE_STEPS or bool(_named(habits, line))


def _named(habits: Habits, line: GrowingLine | None) -> list[Held]:
    """What grows and is named by a line."""
    code = (line.place.code or "") if line is not None else ""
    words = set(re.findall(r"\w+", code))
    return [one for one in habits.held if one.name and one.name.partition("[")[0].rpartition(".")[2] in words]


def _holder(habits: Habits, line: GrowingLine | None) -> Held | None:
    """What the step goes through: what the line names, or else what gains most elements."""
    return max(_named(habits, line) or habits.held, key=lambda one: one.per_step, default=None)


def _by_round(steps: Sequence[TimedStep], seconds: Sequence[float]) -> list[list[float]]:
    rounds: dict[int, list[float]] = {}
    for one, second in zip(steps, seconds, strict=True):
        rounds.setdefault(one.round, []).append(second)
    return [rounds[number] for number in sorted(rounds)]


def _cost(found: Trend, steps: Sequence[TimedStep]) -> Interval:
    """Seconds that the middle one of the steps takes beyond the first."""
    half = (steps[-1].number - steps[0].number) / 2.0
    return interval(found.slope * half, found.low * half, found.high * half)


def _why(line: GrowingLine | None, holder: Held | None) -> str:
    parts = ""
    if line is not None and line.ops[1] > line.ops[0]:
        parts = tr(
            "; this line went from {before} to {after} ops a step", before=str(line.ops[0]), after=str(line.ops[1])
        )
    elif line is not None:
        parts = tr(
            "; this line's ops went through {before} a step at first, and {after} at last",
            before=format_size(line.bytes[0]),
            after=format_size(line.bytes[1]),
        )
    if holder is not None and holder.name is not None:
        parts += tr("; {name} gains {elements}", name=holder.name, elements=_elements(holder))
    return parts


def _memory(trace: Trace) -> Iterator[Finding]:
    habits = trace.habits
    gain = _resident_gain(habits.steps)
    told = False
    for one in habits.held:
        if one.kind == "plain":
            continue
        if one.graphs:
            told = True
            yield _graph_held(one, habits, gain)
        elif (one.bytes_per_step or 0.0) >= LEAST_HELD:
            told = True
            yield _tensors_held(one, gain)
    if not told and gain is not None and gain.low >= LEAST_RESIDENT:
        yield Finding(
            code="memory-grows",
            message=tr(
                "the memory of the process grows by {size} a step ({low} to {high}), and no variable was found that "
                "holds it",
                size=format_size(gain.value),
                low=format_size(gain.low),
                high=format_size(gain.high),
            ),
            advice=tr("Look for what keeps tensors or data of past steps: caches, closures, objects in cycles."),
        )


def _graph_held(held: Held, habits: Habits, gain: Interval | None) -> Finding:
    growth = (
        tr("gains {tensors} a step", tensors=_tensors(held))
        if held.kind == "container"
        else tr("gains {count} nodes of autograd's graph a step", count=format_count(held.per_step))
    )
    return Finding(
        code="graph-held",
        message=_graph_text(held, growth, _memory_text(gain)),
        advice=tr("Keep the number or the bare values: loss.item() or loss.detach()."),
        path=held.place.path,
        line=held.place.line,
    )


def _graph_text(held: Held, growth: str, memory: str) -> str:
    where, name = whereabouts(held.place.path, held.place.line), held.name or tr("a tensor")
    if held.saved:
        return tr(
            "{where}{name} {growth}; the graph behind stays with all that it saved, and its memory is never given "
            "back{memory}",
            where=where,
            name=name,
            growth=growth,
            memory=memory,
        )
    if held.saved is False:
        return tr(
            "{where}{name} {growth}; the nodes of the graph behind stay, and are never given back (what they saved was "
            "freed by backward){memory}",
            where=where,
            name=name,
            growth=growth,
            memory=memory,
        )
    return tr(
        "{where}{name} {growth}; the graph behind stays, and is never given back{memory}",
        where=where,
        name=name,
        growth=growth,
        memory=memory,
    )


def _tensors_held(held: Held, gain: Interval | None) -> Finding:
    return Finding(
        code="tensors-held",
        message=tr(
            "{where}{name} gains {tensors} of {size} a step{memory}",
            where=whereabouts(held.place.path, held.place.line),
            name=held.name or tr("a container"),
            tensors=_tensors(held),
            size=format_size(held.bytes_per_step),
            memory=_memory_text(gain),
        ),
        advice=tr("If all of them are needed, write them out or into one tensor made beforehand; else drop old ones."),
        path=held.place.path,
        line=held.place.line,
    )


# A step that was taken for two, or missed, makes a little more or less of one element a step.
ABOUT_ONE = 0.1


def _elements(held: Held) -> str:
    if abs(held.per_step - 1.0) < ABOUT_ONE:
        return tr("an element a step")
    return tr("{count} elements a step", count=format_count(held.per_step))


def _tensors(held: Held) -> str:
    """How many elements a step adds; each is, or holds, a tensor."""
    if abs(held.per_step - 1.0) < ABOUT_ONE:
        return tr("a tensor")
    return tr("{count} tensors", count=format_count(held.per_step))


def _memory_text(gain: Interval | None) -> str:
    if gain is None:
        return ""
    return tr("; the process grows by {size} a step", size=format_size(gain.value))


def _resident_gain(steps: Sequence[TimedStep]) -> Interval | None:
    """Bytes that the process gains with a step: the mean over rounds that all gained; None where it is not so clear."""
    rounds: dict[int, list[int]] = {}
    for one in steps:
        if one.resident_bytes is not None:
            rounds.setdefault(one.round, []).append(one.resident_bytes)
    gains = [sum(one) / len(one) for one in rounds.values()]
    every = [size for one in rounds.values() for size in one]
    if len(gains) < FEWEST_ROUNDS or len(every) < FEWEST_STEPS:
        return None
    if min(gains) <= 0 or sum(size > 0 for size in every) < MOST_GAIN * len(every):
        return None
    return interval(sum(every) / len(every), min(gains), max(gains))
