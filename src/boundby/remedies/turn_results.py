"""What the turns of a trial say: the ratio of step times with its interval, and how results differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from boundby.results.remedy import Measured, Numerics
from boundby.timing.statistics import median, median_error

# The first steps of a turn bring data back into the caches; they are not counted where there are enough.
UNCOUNTED_SHARE = 0.1
# No trial is believed to a finer difference than this, whatever its turns say.
LEAST_FLOOR = 0.02
# Waiting for a core below this share of a step is any quiet machine's; so many turns without more are enough.
CALM, FEWEST_CALM = 0.03, 4
MOST_WAITED = 0.99


@dataclass(slots=True)
class Slice:
    """The seconds of one turn's steps, and those that threads waited for a core that another process had.

    ``waited_s`` is None where the system does not tell.
    """

    seconds: list[float]
    waited_s: float | None = None

    @property
    def typical(self) -> float:
        """The median step once the turn's first ones are left out."""
        return median(self._counted)

    @property
    def mean(self) -> float:
        """Their mean, for steps that come in bursts, as the batches of several workers do."""
        return sum(self._counted) / len(self._counted)

    @property
    def _counted(self) -> list[float]:
        return self.seconds[math.ceil(UNCOUNTED_SHARE * len(self.seconds)) :] or self.seconds

    def waited(self, *, bursts: bool) -> float | None:
        """The share of a typical step, or with ``bursts`` of all, that may be waiting for a core; None: not told.

        Waiting that lengthened single steps of many is not in the typical one.
        """
        if self.waited_s is None:
            return None
        total = sum(self.seconds)
        elsewhere = 0.0 if bursts else max(0.0, total - self.typical * len(self.seconds))
        return min(MOST_WAITED, max(0.0, self.waited_s - elsewhere) / max(total - elsewhere, 1e-12))


@dataclass(slots=True)
class Seen:
    """What a run told so far."""

    warm: list[float] = field(default_factory=list)
    settled_s: float = 0.0
    slices: list[Slice] = field(default_factory=list)
    losses: dict[int, float] = field(default_factory=dict)
    outputs: dict[int, list[float]] = field(default_factory=dict)
    peak_bytes: int | None = None
    seed: int | None = None
    took_effect: bool = False
    effect: str = ""


def measured(base: Seen, changed: Seen, *, work: float = 1.0, bursts: bool = False) -> Measured:
    """What the turns say.

    Args:
        base: the script as it is.
        changed: the script with the remedy.
        work: how many times as much a step of the changed script does (2 for twice the batch).
        bursts: whether steps of one of them may come in bursts, so that only their mean says how long they take.
    """
    turns = _calm([*zip(base.slices, changed.slices, strict=False)][1:], bursts=bursts)
    base_steps, steps = ([one.mean if bursts else one.typical for one in side] for side in zip(*turns, strict=True))
    pairs = list(zip(base_steps, steps, strict=True))
    waited = _waited(turns, bursts=bursts)
    ratios = sorted(work * a / b for a, b in pairs)
    value = median(ratios)
    error = median_error([math.log(ratio) for ratio in ratios])
    floor = max(LEAST_FLOOR, _noise(base_steps), _noise(steps))
    # All that was waiting may be in one of the two.
    half = max(2.0 * error, floor) - (math.log1p(-waited) if waited is not None and waited > CALM else 0.0)
    base_step, step = median([a for a, _ in pairs]), median([b for _, b in pairs])
    start, base_start = changed.settled_s - len(changed.warm) * step, base.settled_s - len(base.warm) * base_step
    gain = work * base_step - step
    return Measured(
        speedup=value,
        low=value * math.exp(-half),
        high=value * math.exp(half),
        floor=floor,
        turns=len(ratios),
        steps_per_turn=len(base.slices[-1].seconds),
        base_step_s=base_step,
        step_s=step,
        base_start_s=base_start,
        start_s=start,
        break_even_steps=math.ceil(max(0.0, start - base_start) / gain) if gain > 0 else None,
        base_peak_bytes=base.peak_bytes,
        peak_bytes=changed.peak_bytes,
        waited=waited,
    )


def _calm(turns: Sequence[tuple[Slice, Slice]], *, bursts: bool) -> Sequence[tuple[Slice, Slice]]:
    """Those in which other load hardly took part, where they are enough; else all."""
    calm = [
        pair
        for pair in turns
        if all((share := one.waited(bursts=bursts)) is not None and share <= CALM for one in pair)
    ]
    return calm if len(calm) >= FEWEST_CALM else turns


def _waited(turns: Sequence[tuple[Slice, Slice]], *, bursts: bool) -> float | None:
    """The usual share of waiting in the one of the two that waited more; None where a turn's is not told."""
    sides = []
    for side in zip(*turns, strict=True):
        shares = [share for one in side if (share := one.waited(bursts=bursts)) is not None]
        if len(shares) < len(side):
            return None
        sides.append(median(shares))
    return max(sides)


def _noise(turns: Sequence[float]) -> float:
    """By how much a run differs from itself: the error of the median ratio of each turn to the next, in the log."""
    steps = [math.log(a / b) for a, b in pairwise(turns)]
    return 2.0 * median_error(steps) if len(steps) >= 2 else 0.0


def numerics(base: Seen, changed: Seen) -> Numerics | None:
    """How the results of the same steps differ; None where there is nothing to compare, or chance is in it.

    A script that sets no seed begins each run with other numbers, whose results say nothing of a remedy.
    """
    if base.seed != changed.seed:
        return None
    steps = sorted(base.losses.keys() & changed.losses.keys())
    if steps:
        apart = [_relative(base.losses[step], changed.losses[step]) for step in steps]
        return Numerics(
            of="loss",
            steps=len(steps),
            largest=max(apart),
            first=apart[0],
            last=apart[-1],
            base_last=base.losses[steps[-1]],
            remedy_last=changed.losses[steps[-1]],
        )
    steps = sorted(
        step
        for step in base.outputs.keys() & changed.outputs.keys()
        if len(base.outputs[step]) == len(changed.outputs[step])
    )
    if not steps:
        return None
    apart = [_apart(base.outputs[step], changed.outputs[step]) for step in steps]
    return Numerics(of="output", steps=len(steps), largest=max(apart), first=apart[0], last=apart[-1])


def _relative(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return 0.0 if math.isnan(a) and math.isnan(b) else math.inf
    return abs(a - b) / max(abs(a), 1e-12) if a != b else 0.0


def _apart(a: Sequence[float], b: Sequence[float]) -> float:
    scale = max((abs(x) for x in a if math.isfinite(x)), default=0.0) or 1.0
    return max(
        (abs(x - y) / scale if math.isfinite(x - y) else (0.0 if x == y else math.inf))
        for x, y in zip(a, b, strict=True)
    )
