"""Another number of threads: what it does to each op of a step, and how it is set from outside."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from boundby.machine.one_thread import at_one_thread
from boundby.remedies.contract import CannotTell, Effects, Evidence, Prediction
from boundby.remedies.in_step import SLACK, base_name, tensor_shapes
from boundby.remedies.predicting import PROBE_BAND, WIDEST_RATIO, predicted_from_saving
from boundby.remedies.replayed import PRODUCTS, PRODUCTS_BACKWARD, kinds_of, product_replay, timed_call
from boundby.remedies.sums import LEAST_KNOWN, known_share, weighted_sum
from boundby.results.interval import Interval, interval
from boundby.results.language import tr, trn
from boundby.results.machine import Ceiling, Machine
from boundby.results.report import OpRow
from boundby.results.units import format_time
from boundby.scaling.serial_shares import serial_shares

# torch shares out a pointwise op among threads where it has more elements than this (at::internal::GRAIN_SIZE).
GRAIN_ELEMENTS = 32768
# Some other ops, such as softmax, are shared out at fewer: they gain at most this part of what long ones do.
SHORT_PART = 0.3
# Products that take the most, each probed at both thread counts, until this share of all products is known.
MOST_PROBES, PROBED_SHARE = 4, 0.8
PROBE_S = 0.06
PROBED_FLOPS = 300_000_000
LEAST_SHARE = 0.02
# Where threads fault at the same time, each fault may take so many times its ceiling more.
MOST_WAITING = 3.0
UNCHANGED = interval(1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """From how many threads to how many."""

    now: int
    then: int

    def pair(self, call: Callable[[], object]) -> tuple[Callable[[], object], Callable[[], object]]:
        """The call at both counts; each puts torch back to the first."""
        return at_count(call, self.now, self.now), at_count(call, self.then, self.now)


def at_count(call: Callable[[], object], count: int, back: int) -> Callable[[], object]:
    """``call`` with torch at ``count`` threads, and at ``back`` again after it."""
    import torch

    if count == 1:
        return at_one_thread(call, back)

    def counted() -> None:
        torch.set_num_threads(count)
        try:
            call()
        finally:
            torch.set_num_threads(back)

    return counted


def predict_threads(evidence: Evidence, threads: Threads, *, change: str) -> Prediction:
    """The step with every op's work at another thread count, its overhead and all host code as they are.

    Products are probed in their own shapes; what memory or functions bound is scaled as this machine's ceilings are at
    both counts, or by a probe of an addition where one of them is not known. Page faults wait for one another in the
    kernel: they gain from threads anything between nothing and the count, and so does what nothing else explains of
    their ops.

    Args:
        evidence: what predictions rest on.
        threads: from how many to how many.
        change: what the user would change.
    """
    report = evidence.report
    step = report.step.time_s.median
    if known_share(report) < LEAST_KNOWN:
        return CannotTell(tr("too little of the step is accounted for"), change=change)
    products = [row for row in report.ops if _is_product(row)]
    others = [row for row in report.ops if not _is_product(row)]
    parts: list[tuple[float, Interval]] = []
    share = sum(row.share for row in products)
    if share > 0:
        ratio = _products_ratio(evidence, threads, products) if share >= LEAST_SHARE else _widest(threads)
        if isinstance(ratio, CannotTell):
            return CannotTell(ratio.reason, change=change)
        parts += [(_work_s(row, step), ratio) for row in products]
    long = [row for row in others if _elements(row) >= GRAIN_ELEMENTS]
    fault_s = report.page_faults.seconds_each if report.page_faults is not None else None
    by_ceilings = _CeilingRatios(evidence.machine, threads)
    addition = None
    if not by_ceilings.known and sum(row.share for row in long) >= LEAST_SHARE:
        found = _addition_ratio(evidence, threads, long)
        if isinstance(found, CannotTell):
            return CannotTell(found.reason, change=change)
        addition = found
    for row in others:
        scaled = _no_more_than_counts(addition or by_ceilings.ratio(row) or _widest(threads), threads)
        seconds = _work_s(row, step)
        faulting = min(seconds, row.faults * (fault_s or 0.0))
        explained = seconds - faulting
        if _elements(row) < GRAIN_ELEMENTS:
            scaled = interval(1.0, *sorted((1.0, 1.0 + SHORT_PART * (scaled.value - 1.0))))
        elif faulting and by_ceilings.known:
            # Faults cost more where threads wait for one another at them: what no ceiling explains may be theirs.
            unexplained = explained - SLACK * max(row.floors.memory_s, row.floors.pointwise_s)
            explained -= min(max(0.0, unexplained), MOST_WAITING * faulting)
        parts += [(explained, scaled), (seconds - explained, _widest(threads))]
    work, after = sum(seconds for seconds, _ in parts), weighted_sum(parts)
    saved, least, most = work - after.value, work - after.high, work - after.low
    moved = sum(seconds for seconds, ratio in parts if ratio.value != 1.0)
    told = {
        "then": trn("{count} thread", "{count} threads", threads.then),
        "now": trn("{count} thread", "{count} threads", threads.now),
        "part": _ms(moved),
        "step": _ms(step),
    }
    if moved:
        reason = tr(
            "at {then} what {now} now share, {part} of the step's {step}, would take {left}",
            **told,
            left=_ms(moved - saved),
        )
    else:
        reason = tr("at {then} what {now} now share, {part} of the step's {step}, is too little to matter", **told)
    return predicted_from_saving(
        report,
        saved,
        least - PROBE_BAND * abs(least),
        most + PROBE_BAND * abs(most),
        reason=reason,
        change=change,
        changes_numbers=True,
    )


def _ms(seconds: float) -> str:
    return format_time(seconds)


def _is_product(row: OpRow) -> bool:
    name = base_name(row.op)
    return row.matmul_flops > 0 or name in PRODUCTS or name in PRODUCTS_BACKWARD


def _elements(row: OpRow) -> int:
    return max((math.prod(shape) for shape in tensor_shapes(row)), default=0)


def _work_s(row: OpRow, step_s: float) -> float:
    """Seconds of the step that the row's ops take beyond their dispatch."""
    if row.time_s <= 0:
        return 0.0
    return row.share * step_s * max(0.0, 1.0 - row.floors.overhead_s / row.time_s)


def _widest(threads: Threads) -> Interval:
    """What is known without looking: at best as the counts, at worst nothing."""
    most = threads.now / threads.then
    return interval(math.sqrt(most), min(1.0, most), max(1.0, most))


def _no_more_than_counts(ratio: Interval, threads: Threads) -> Interval:
    """No thread does more than its part of the work: what goes beyond that in a ceiling is its data in more caches.

    A step's tensors come one after the other and are rarely in those caches, so the value stops at the counts; the band
    holds what the ceiling says.
    """
    most = threads.now / threads.then
    value = min(ratio.value, most) if most > 1.0 else max(ratio.value, most)
    return interval(value, min(ratio.low, value), max(ratio.high, value))


# By probes.


def _products_ratio(evidence: Evidence, threads: Threads, products: Sequence[OpRow]) -> Interval | CannotTell:
    """Seconds of all products at the other count over those now."""
    if evidence.probe is None:
        return _CeilingRatios(evidence.machine, threads).products() or CannotTell(
            tr("it takes a probe of its products")
        )
    gradients = any(row.phase == "backward" for row in products)
    kinds = kinds_of(products, PRODUCTS)
    total = sum(one.share for one in kinds)
    found: list[tuple[float, Interval]] = []
    known = 0.0
    for kind in kinds[:MOST_PROBES]:
        replay = product_replay(kind, most_flops=PROBED_FLOPS)
        if replay is None:
            continue
        call = timed_call(replay, ("float32",) * len(replay.shapes), gradients=gradients)
        ratio = evidence.probe(*threads.pair(call), budget_s=PROBE_S).ratio
        if ratio.high > WIDEST_RATIO * ratio.low:
            return CannotTell(tr("the machine was not quiet enough for its probe"))
        found.append((kind.share, ratio))
        known += kind.share
        if known >= PROBED_SHARE * total:
            break
    if not found:
        return _CeilingRatios(evidence.machine, threads).products() or CannotTell(
            tr("its products cannot be made again")
        )
    return _mean(found)


def _addition_ratio(evidence: Evidence, threads: Threads, rows: Sequence[OpRow]) -> Interval | CannotTell:
    """An addition of as many elements as the costliest row's, at both counts."""
    import torch

    if evidence.probe is None:
        return CannotTell(tr("its ceilings at another number of threads are not known"))
    elements = min(_elements(max(rows, key=lambda row: row.share)), 16 << 20)
    a, b, c = (torch.ones(elements) for _ in range(3))
    ratio = evidence.probe(*threads.pair(lambda: torch.add(a, b, out=c)), budget_s=PROBE_S).ratio
    if ratio.high > WIDEST_RATIO * ratio.low:
        return CannotTell(tr("the machine was not quiet enough for its probe"))
    return ratio


def _mean(parts: Sequence[tuple[float, Interval]]) -> Interval:
    return weighted_sum(parts).scaled(1.0 / sum(weight for weight, _ in parts))


# By ceilings.


class _CeilingRatios:
    """Seconds at one count over those at another, ceiling by ceiling; nothing is known unless one of them is 1."""

    def __init__(self, machine: Machine, threads: Threads) -> None:
        many = max(threads.now, threads.then)
        wanted = min(threads.now, threads.then) == 1
        shares = [one for one in serial_shares(machine.ceilings) if one.many.threads == many] if wanted else []
        self._fewer = threads.then < threads.now
        self._pairs = [(one.one, one.many) for one in shares]

    @property
    def known(self) -> bool:
        """Whether both counts were measured."""
        return any(many.kind in ("bandwidth", "function") for _, many in self._pairs)

    def products(self) -> Interval | None:
        """Of the largest fp32 product."""
        known = [pair for pair in self._pairs if pair[1].kind == "matmul" and pair[1].dtype == "fp32"]
        return self._ratio(*max(known, key=lambda pair: pair[1].value)) if known else None

    def ratio(self, row: OpRow) -> Interval | None:
        """Of what binds the row: its function, else bandwidth over as many bytes as it moves."""
        if row.floors.bound == "pointwise":
            functions = [pair for pair in self._pairs if pair[1].kind == "function"]
            own = [pair for pair in functions if pair[1].name in base_name(row.op)]
            if own or functions:
                ratios = [self._ratio(*pair) for pair in own[:1] or functions]
                return _between(ratios)
        curves = [pair for pair in self._pairs if pair[1].kind == "bandwidth" and pair[1].size_bytes]
        if not curves:
            return None
        moved = max(1.0, (row.bytes_read + row.bytes_written) / max(row.calls, 1))

        def unlike(pair: tuple[Ceiling, Ceiling]) -> float:
            return abs(math.log((pair[1].size_bytes or 1) / moved))

        nearest = min(unlike(pair) for pair in curves)
        return _between([self._ratio(*pair) for pair in curves if unlike(pair) <= nearest + 1e-9])

    def _ratio(self, one: Ceiling, many: Ceiling) -> Interval:
        """The bands of both ceilings, as independent."""
        per_second = many.unit != "s"
        value = many.value / one.value if per_second else one.value / many.value
        value = value if self._fewer else 1.0 / value
        apart = math.hypot(*(0.5 * (ceiling.high - ceiling.low) / ceiling.value for ceiling in (one, many)))
        return interval(value, value / (1.0 + apart), value * (1.0 + apart))


def _between(ratios: Sequence[Interval]) -> Interval:
    """The middle one, with the band that holds all."""
    return interval(
        median(one.value for one in ratios),
        min(one.low for one in ratios),
        max(one.high for one in ratios),
    )


# From outside.


def use_threads(count: int, effects: Effects) -> None:
    """torch at ``count`` threads from now on, unless the script chooses for itself.

    Args:
        count: at least 1.
        effects: told of it; a choice of the script's own takes it back.
    """
    import torch

    plain = torch.set_num_threads
    what, home = trn("torch at {count} thread", "torch at {count} threads", count), threading.get_ident()
    plain(count)
    effects.saw(what)

    def choose(number: int) -> None:
        plain(number)
        # Loaders' own threads set a count for themselves.
        if number != count and threading.get_ident() == home:
            effects.seen.pop(what, None)
            effects.cannot(
                trn("the script itself chooses {count} thread", "the script itself chooses {count} threads", number)
            )

    torch.set_num_threads = choose  # type: ignore[assignment]  # what applying from outside means


def wrapped(step: Callable[[], Any], count: int, effects: Effects) -> Callable[[], Any]:
    """The step with torch at ``count`` threads inside it alone."""
    import torch

    before = torch.get_num_threads()

    def run() -> Any:
        torch.set_num_threads(count)
        try:
            result = step()
        finally:
            torch.set_num_threads(before)
        effects.saw(trn("step at {count} thread", "step at {count} threads", count))
        return result

    return run
