"""A batch twice as large: what a step does once, however many samples it has, is shared by twice as many."""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Collection, Mapping
from typing import Any

from boundby.bound.ceilings import Ceilings, Speed
from boundby.remedies.contract import CannotTell, Effects, Evidence, Prediction
from boundby.remedies.data_loaders import change_loaders
from boundby.remedies.freed_memory import LEAST_KEPT, MOST_KEPT, glibc_as_it_comes
from boundby.remedies.in_step import Shape, base_name, tensor_shapes
from boundby.remedies.sums import LEAST_KNOWN, known_share, weighted_sum
from boundby.results.counts import MatmulShape
from boundby.results.interval import Interval, interval
from boundby.results.language import tr
from boundby.results.remedy import Predicted, ScriptFacts
from boundby.results.report import OpRow, Report
from boundby.results.units import format_percent, format_size

NAME = "batch-x2"
CHANGES_NUMBERS = True
ENVIRONMENT: Mapping[str, str] = {}
# A step of the changed script does this many times the work: trials compare the time of a sample.
WORK_FACTOR = 2
WORK = float(WORK_FACTOR)
FURTHER_FACTOR = 4
# By what share the added half may take more or less than the first: larger tensors fall out of caches, or fill them
# better.
ADDED_BAND = 0.12
# glibc keeps freed memory of smaller sizes than this for the next request (its largest dynamic mmap threshold, 4 MiB
# times the size of a long); a larger tensor's pages go back to the system once it is freed, and fault in the next step.
ALWAYS_FRESH_BYTES = 32 << 20
MATVEC_ROWS = 8
ELEMENT_BYTES = 4
PAGE_BYTES = mmap.PAGESIZE
# Less than this is not worth a word.
LEAST_FRESH = 0.01
FIXED, DOUBLED, UNKNOWN = interval(1.0), interval(2.0), interval(1.5, 1.0, 2.0)
# Host code between ops for so many times their dispatch is what running a model from Python takes.
ORDINARY_HOST = 10.0


def title() -> str:
    """What it does, for people."""
    return tr("a batch twice as large (time a sample)")


def predict(evidence: Evidence) -> Prediction:
    """Twice the step's time less what does not grow: overhead, host code, the optimizer, bytes of weights."""
    from_outside = bool(evidence.facts.loaders)
    if known_share(evidence.report) < LEAST_KNOWN:
        return CannotTell(
            tr("too little of the step is accounted for"), change=_change(evidence), from_outside=from_outside
        )
    growth = _Growth(evidence).of_step()
    fixed = interval(2.0 - growth.value, 2.0 - growth.high, 2.0 - growth.low)
    weights = _weight_shapes(evidence.facts)
    fresh, fresher = (fresh_share(evidence.report, weights, factor) for factor in (WORK_FACTOR, FURTHER_FACTOR))
    twice, more = sample_speedup(growth, WORK_FACTOR, fresh), sample_speedup(growth, FURTHER_FACTOR, fresher)
    parts = _fixed_parts(evidence)
    if fresh.value > LEAST_FRESH:
        parts = tr(
            "{parts}; tensors of {size} and more are fresh memory in each step, whose page faults add {share} to it",
            parts=parts,
            size=format_size(ALWAYS_FRESH_BYTES),
            share=format_percent(fresh.value),
        )
    return Predicted(
        speedup=twice.value,
        low=twice.low,
        high=twice.high,
        reason=tr(
            "the time of a sample; {fixed} of the step ({least} to {most}) does not grow with the batch: {parts}; with "
            "four times the batch {more}x ({low}-{high})",
            parts=parts,
            fixed=f"{max(0.0, fixed.value):.0%}",
            least=f"{max(0.0, fixed.low):.0%}",
            most=f"{fixed.high:.0%}",
            more=f"{more.value:.3g}",
            low=f"{more.low:.3g}",
            high=f"{more.high:.3g}",
        ),
        change=_change(evidence)
        if from_outside
        else tr("{change}; boundby try cannot do it, for no DataLoader makes the batches", change=_change(evidence)),
        changes_numbers=CHANGES_NUMBERS,
        from_outside=from_outside,
    )


def _fixed_parts(evidence: Evidence) -> str:
    if any(row.phase == "optimizer" for row in evidence.report.ops):
        return tr("dispatch, host code, the optimizer, reading weights")
    return tr("dispatch, host code, reading weights")


def _change(evidence: Evidence) -> str:
    if evidence.report.step.kind != "training":
        return tr("double the batch size")
    return tr(
        "double the batch size; steps are others then, so learning rate and number of steps are to be chosen anew"
    )


def sample_speedup(growth: Interval, factor: int, fresh: Interval) -> Interval:
    """How many times as fast a sample is with ``factor`` times the batch, if each further batch adds as much time.

    Args:
        growth: how many times as long a step with twice the batch takes, 1 to 2.
        factor: 2 or more.
        fresh: what page faults add beyond that, as a share of the step as it is.
    """

    def speedup(growth: float, added: float, fresh: float) -> float:
        return factor / (1.0 + (factor - 1) * (growth - 1.0) * added + fresh)

    return interval(
        speedup(growth.value, 1.0, fresh.value),
        speedup(growth.high, 1.0 + ADDED_BAND, fresh.high),
        speedup(growth.low, 1.0 - ADDED_BAND, fresh.low),
    )


def fresh_share(report: Report, weights: Collection[Shape], factor: int) -> Interval:
    """What the page faults of tensors that become too large to be kept add to a step, as a share of it as it is.

    A larger batch makes results of ``factor`` times the size. Those that glibc then hands back when they are freed
    fault anew in each step; the faults that a step has already are in the time that grows with the batch.

    Args:
        report: the report.
        weights: shapes of what an optimizer holds, whose gradients do not grow.
        factor: how many times the batch.

    Source: malloc's documentation of M_MMAP_THRESHOLD (mallopt(3)): it grows with what is freed, up to 32 MiB.
    """
    faults = report.page_faults
    if faults is None or faults.seconds_each is None or not glibc_as_it_comes():
        return interval(0.0)
    gradients = {ELEMENT_BYTES * math.prod(shape) for shape in weights}
    pages = 0.0
    for row in report.ops:
        each = row.bytes_written / max(row.calls, 1)
        if row.phase == "optimizer" or base_name(row.op).endswith("_") or each in gradients:
            continue
        if each < ALWAYS_FRESH_BYTES <= factor * each:
            pages += factor * max(0.0, row.bytes_written / PAGE_BYTES - row.faults)
    share = pages * faults.seconds_each / report.step.time_s.median
    return interval(share, LEAST_KEPT * share, MOST_KEPT * share)


class _Growth:
    """How many times as long parts of a step take with twice the samples: 1 is fixed, 2 is all of it grows."""

    def __init__(self, evidence: Evidence) -> None:
        self._report = report = evidence.report
        self._weights = _weight_shapes(evidence.facts)
        self._weight_bytes = {ELEMENT_BYTES * math.prod(shape) for shape in self._weights}
        self._ceilings = Ceilings(evidence.machine, Speed.unknown(), threads=report.step.threads)

    def of_step(self) -> Interval:
        """Of the step; what is neither an op, host code nor input grows as the known part does, or not, or fully."""
        report = self._report
        parts = [part for row in report.ops for part in self._of_row(row)]
        # Python starts the same ops whatever the batch. What it does far beyond that (metrics in NumPy, loops over
        # samples, waiting) may grow with the batch or not.
        host = report.overhead_parts.host
        ordinary = min(host, ORDINARY_HOST * report.overhead_parts.dispatch)
        parts += [(ordinary, FIXED), (host - ordinary, UNKNOWN), (report.split.input.value, DOUBLED)]
        known = sum(share for share, _ in parts)
        growth = weighted_sum(parts).scaled(1.0 / known)
        rest = max(0.0, 1.0 - known)
        return interval(growth.value, (1.0 - rest) * growth.low + rest, (1.0 - rest) * growth.high + 2.0 * rest)

    def _of_row(self, row: OpRow) -> list[tuple[float, Interval]]:
        """The row's dispatch and its work, each with its share of the step."""
        overhead = min(1.0, row.floors.overhead_s / row.time_s) if row.time_s > 0 else 1.0
        return [(row.share * overhead, FIXED), (row.share * (1.0 - overhead), self._of_work(row))]

    def _of_work(self, row: OpRow) -> Interval:
        if row.phase == "optimizer":
            return FIXED
        if base_name(row.op) in ("mm", "addmm"):
            growth = self._of_product(row)
            if growth is not None:
                return growth
        if row.floors.bound == "memory" or not row.matmul_flops:
            fixed = self._weights_part(row)
            if fixed > 0:
                return interval(2.0 - fixed, 1.0 if fixed > 0.5 else 2.0 - fixed, 2.0)
        if row.floors.overhead_s >= max(row.floors.memory_s, row.floors.pointwise_s, row.floors.matmul_s):
            # More than such ops take on almost no data: slower dispatch, or work on little data.
            return UNKNOWN
        return DOUBLED

    def _weights_part(self, row: OpRow) -> float:
        """The part of a row's bytes that are weights', or of their shape: gradients, tables that are filled anew."""
        moved = row.bytes_read + row.bytes_written
        if moved <= 0 or not self._weights:
            return 0.0
        calls = max(row.calls, 1)
        read = sum(ELEMENT_BYTES * math.prod(shape) for shape in tensor_shapes(row) if shape in self._weights)
        written = row.bytes_written / calls if round(row.bytes_written / calls) in self._weight_bytes else 0.0
        return min(1.0, (min(read, row.bytes_read / calls) + written) * calls / moved)

    def _of_product(self, row: OpRow) -> Interval | None:
        """By the ceilings of the product and of that with twice the rows; for a weight's gradient, twice the depth."""
        shapes = [shape for shape in tensor_shapes(row) if len(shape) == 2]
        if len(shapes) != 2:
            return None
        (m, k), (_, n) = shapes
        of_weight = (m, n) in self._weights or (n, m) in self._weights
        deep = of_weight and not any(shape in self._weights or shape[::-1] in self._weights for shape in shapes)
        if not deep and row.phase != "backward" and 2 * m <= MATVEC_ROWS:
            moved = (row.bytes_read + row.bytes_written) / max(row.calls, 1)
            now, then = (self._ceilings.matvec("fp32", rows, k, max(moved, 1.0)) for rows in (m, 2 * m))
            return _between(1.0, now, then)
        after = MatmulShape(batch=1, m=m if deep else 2 * m, n=n, k=2 * k if deep else k)
        now = self._ceilings.matmul("fp32", MatmulShape(batch=1, m=m, n=n, k=k))
        return _between(2.0, now, self._ceilings.matmul("fp32", after))


def _between(work: float, now: Interval | None, then: Interval | None) -> Interval | None:
    """So many times the work, at other rates; between no change of the rate and twice the change that ceilings tell."""
    if now is None or then is None:
        return None
    value = min(max(work * now.value / then.value, 1.0), 2.0)
    return interval(value, max(1.0, value * value / work), min(2.0, max(work, value)))


def _weight_shapes(facts: ScriptFacts) -> frozenset[Shape]:
    return frozenset(shape for one in facts.optimizers for shape in one.shapes)


def apply(effects: Effects) -> None:
    """Loaders made from now on give twice as many samples at once, where they make batches and have that many."""
    # A loader may be made anew from another one's settings; its batches are doubled once.
    doubled: dict[int, int] = {}

    def change(arguments: dict[str, Any]) -> str | None:
        size: Any = arguments.get("batch_size")
        why = _why_not(arguments, size)
        if why:
            effects.cannot(why)
            return None
        if doubled.get(id(arguments["dataset"])) == size:
            return None
        arguments["batch_size"] = WORK_FACTOR * size
        doubled[id(arguments["dataset"])] = WORK_FACTOR * size
        return tr("batches of {size} in place of {before}", size=str(WORK_FACTOR * size), before=str(size))

    change_loaders(change, effects)


def _why_not(arguments: Mapping[str, Any], size: Any) -> str | None:
    if arguments.get("batch_sampler") is not None:
        return tr("a loader's batches are made by a sampler of the script's own")
    if not isinstance(size, int):
        return tr("a loader gives samples one by one")
    try:
        items = len(arguments["dataset"])
    except TypeError:  # an iterable dataset has no length
        return None
    if items < WORK_FACTOR * size:
        return tr("a dataset of {items} items is not twice the batch", items=str(items))
    return None


def wrap(step: Callable[[], Any], effects: Effects) -> None:
    """A callable's batch is made by whoever wrote it."""
