"""Whether a machine's ceilings can all be true: values above what another ceiling allows are told, never clipped.

Pure functions of a machine; no torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from boundby.results.language import tr, trn
from boundby.results.machine import Ceiling, Finding, Machine
from boundby.results.units import format_rate, format_size

# Ceilings are measured by short windows; within this of each other, bands apart or not, they do not contradict.
SLACK = 1.1
# torch leaves small work to one thread, so that a bandwidth may rise with the working set up to this size a thread.
_SHARED_OUT_BYTES = 512 << 10
# Working sets of native streams this near in size are of the same level of memory.
_SAME_SIZE = 2.0
_SHOWN = 3
# The band of fewer windows says nothing of what the ceiling might be.
_FEWEST_WINDOWS = 5
_ITEM_BYTES = {"fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2, "int64": 8}
_NATIVE = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """A ceiling that is above what ``limit``, another one, allows; ``message`` says so in a clause."""

    ceiling: Ceiling
    limit: Ceiling
    message: str


def contradictions(machine: Machine) -> tuple[Contradiction, ...]:
    """All ceilings of a machine that another one forbids, bands and a tenth allowed for; one entry a ceiling.

    A bandwidth that falls with the working set and rises again; a stack above native code, in streams or in
    multiply-adds; products of fp64 above those of fp32; a function that would move its elements faster than any
    stream; anything above the datasheet.

    Args:
        machine: the ceilings.
    """
    found: dict[int, Contradiction] = {}
    for one in _all_rules(machine.ceilings):
        found.setdefault(id(one.ceiling), one)
    return tuple(found.values())


def checked(machine: Machine) -> Machine:
    """The machine with its contradicted ceilings marked and told in a finding; the same where there are none.

    Args:
        machine: the ceilings, as measured.
    """
    found = contradictions(machine)
    if not found:
        return machine
    wrong = {id(one.ceiling) for one in found}
    return replace(
        machine,
        ceilings=tuple(replace(one, contradicted=True) if id(one) in wrong else one for one in machine.ceilings),
        findings=(_finding(found), *machine.findings),
    )


def _finding(found: Sequence[Contradiction]) -> Finding:
    told = "; ".join(one.message for one in found[:_SHOWN])
    if len(found) > _SHOWN:
        told = tr("{told}; and {rest} more", told=told, rest=len(found) - _SHOWN)
    return Finding(
        code="ceilings-contradict",
        message=trn(
            "{count} ceiling is above what another one allows, so one of each two is wrong: {told}.",
            "{count} ceilings are above what another one allows, so one of each two is wrong: {told}.",
            len(found),
            told=told,
        ),
        advice=tr("Measure again when it is quiet: boundby machine --again."),
    )


def _all_rules(ceilings: Sequence[Ceiling]) -> Iterator[Contradiction]:
    for threads in dict.fromkeys(one.threads for one in ceilings):
        mine = [one for one in ceilings if one.threads == threads and not 0 < one.windows < _FEWEST_WINDOWS]
        yield from _rising_again(mine, threads)
        yield from _streams_above_native(mine)
        yield from _products_above_native(mine)
        yield from _wide_above_narrow(mine)
        yield from _functions_above_streams(mine)
    yield from _above_datasheet(ceilings)


def _above(one: Ceiling, limit: Ceiling) -> bool:
    """Whether the rate is above the other's, whatever the bands allow."""
    return one.low > limit.high * SLACK


def _told(one: Ceiling) -> str:
    """A ceiling's name, size and value: ``fp32 triad over 64 MiB (79 GB/s)``."""
    stack = "" if one.stack == "torch" else f"{one.stack} "
    name = f"{stack}{one.dtype or ''} {one.name}".strip()
    rate = format_rate(one.value, one.unit, digits=2)
    if one.kind == "bandwidth":
        return tr("{name} over {size} ({rate})", name=name, size=format_size(one.size_bytes), rate=rate)
    return f"{name} ({rate})"


def _contradiction(one: Ceiling, limit: Ceiling) -> Contradiction:
    message = tr("{ceiling} is above {limit}", ceiling=_told(one), limit=_told(limit))
    return Contradiction(ceiling=one, limit=limit, message=message)


def _streams(ceilings: Iterable[Ceiling]) -> dict[tuple[str, str | None, str], list[Ceiling]]:
    """The bandwidths of each kind of traffic and stack, the smallest working set first."""
    curves: dict[tuple[str, str | None, str], list[Ceiling]] = {}
    for one in ceilings:
        if one.kind == "bandwidth" and one.size_bytes and one.source == "measured":
            curves.setdefault((one.name, one.dtype, one.stack), []).append(one)
    for curve in curves.values():
        curve.sort(key=lambda one: one.size_bytes or 0)
    return curves


def _rising_again(ceilings: Sequence[Ceiling], threads: int) -> Iterator[Contradiction]:
    """Past the size from which all threads share the work, a larger working set is in a slower memory, if in another.

    So what follows a fall may not be fast again.
    """
    for curve in _streams(ceilings).values():
        large = [one for one in curve if (one.size_bytes or 0) >= _SHARED_OUT_BYTES * threads]
        lowest: Ceiling | None = None
        for before, one in pairwise(large):
            if _above(before, one) and (lowest is None or one.high < lowest.high):
                lowest = one
            elif lowest is not None and _above(one, lowest):
                yield _contradiction(one, lowest)


def _streams_above_native(ceilings: Sequence[Ceiling]) -> Iterator[Contradiction]:
    """The stack cannot move more bytes than a bare loop does, the better of those with and without caching stores."""
    curves = _streams(ceilings)
    for (name, _, stack), curve in curves.items():
        if stack == _NATIVE:
            continue
        native = [
            one for (other, _, by), known in curves.items() if by == _NATIVE and other.startswith(name) for one in known
        ]
        for one in curve:
            near = [limit for limit in native if _near(one, limit)]
            if near:
                limit = max(near, key=lambda known: known.high)
                if _above(one, limit):
                    yield _contradiction(one, limit)


def _near(one: Ceiling, other: Ceiling) -> bool:
    return abs(math.log((one.size_bytes or 1) / (other.size_bytes or 1))) <= math.log(_SAME_SIZE)


def _products(ceilings: Iterable[Ceiling]) -> list[Ceiling]:
    return [one for one in ceilings if one.kind == "matmul" and one.unit == "flop/s" and one.source == "measured"]


def _products_above_native(ceilings: Sequence[Ceiling]) -> Iterator[Contradiction]:
    """A product cannot do more multiply-adds of its dtype than a loop of nothing else."""
    products = _products(ceilings)
    for dtype in dict.fromkeys(one.dtype for one in products):
        native = [one for one in products if one.dtype == dtype and one.stack == _NATIVE]
        if not native:
            continue
        limit = max(native, key=lambda one: one.high)
        for one in products:
            if one.dtype == dtype and one.stack != _NATIVE and _above(one, limit):
                yield _contradiction(one, limit)


def _wide_above_narrow(ceilings: Sequence[Ceiling]) -> Iterator[Contradiction]:
    """Products of 64-bit numbers are never faster than the fastest of 32-bit ones: both go through the same units."""
    products = [one for one in _products(ceilings) if one.stack == "torch"]
    wide, narrow = ([one for one in products if one.dtype == dtype] for dtype in ("fp64", "fp32"))
    if wide and narrow:
        fastest, limit = (max(group, key=lambda one: one.value) for group in (wide, narrow))
        if _above(fastest, limit):
            yield _contradiction(fastest, limit)


def _functions_above_streams(ceilings: Sequence[Ceiling]) -> Iterator[Contradiction]:
    """A function touches each element once at least, and no faster than the fastest stream from whatever cache."""
    streams = [one for curve in _streams(ceilings).values() for one in curve if one.stack == "torch"]
    if not streams:
        return
    limit = max(streams, key=lambda one: one.high)
    for one in ceilings:
        item = _ITEM_BYTES.get(one.dtype or "")
        if one.kind == "function" and one.stack == "torch" and item and item / one.high > limit.high * SLACK:
            message = tr(
                "{ceiling} would move {rate}, above {limit}",
                ceiling=_told(one),
                rate=format_rate(item / one.value, "byte/s", digits=2),
                limit=_told(limit),
            )
            yield Contradiction(ceiling=one, limit=limit, message=message)


def _above_datasheet(ceilings: Sequence[Ceiling]) -> Iterator[Contradiction]:
    """What was measured is not above what the maker says."""
    sheet = {(one.kind, one.dtype): one for one in ceilings if one.source == "datasheet" and one.unit != "s"}
    for one in ceilings:
        limit = sheet.get((one.kind, one.dtype)) if one.unit != "s" else None
        # A datasheet's bandwidth is main memory's; caches are faster.
        smaller = one.kind == "bandwidth" and limit is not None and (one.size_bytes or 0) < (limit.size_bytes or 0)
        if limit is not None and one.source == "measured" and not smaller and _above(one, limit):
            message = tr("{ceiling} is above the datasheet's {limit}", ceiling=_told(one), limit=_told(limit))
            yield Contradiction(ceiling=one, limit=limit, message=message)
