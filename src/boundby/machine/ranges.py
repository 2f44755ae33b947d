"""Slow argument ranges: where a function takes several times as long as on the arguments its ceiling is for.

Which ones are slow depends on the processor and on torch's kernels, so none is taken for granted. Every function is
tried on every range: a few calls on 16 Ki elements, some 0.2 s in all. Those that look slow get a probe like the
functions' own, and take turns with them. What is clearly slower then too, bands aside, makes a finding.

A ceiling of a range is named after function and range, as ``exp/denormal_result``, and says in ``arguments`` what the
function was given. The ranges, where numbers differ by type, for fp32 and bf16 (which have the same exponents):

- ``denormal``: numbers of 1e-40 to 1e-38, smaller than any normal one. Weights and momenta decay to such numbers;
- ``denormal_product``: numbers of 1e-20 to 1e-19, whose products are denormal;
- ``denormal_result``: numbers of -103 to -88, with a 0 in every row of 128. Their exponentials are denormal, and so is
  a row's softmax: attention scores far below the largest are such numbers;
- ``large``: numbers of 1e5 to 1e7, which sin and cos have to reduce;
- ``negative``: numbers of -4 to -0.1, of which square root, logarithm and power are not a number;
- ``zero``: nothing but 0;
- ``masked``: usual numbers, every other 64 of which are -1e9, as masks that are added to scores make them;
- ``infinite``, ``nan``: nothing but infinity, nothing but NaN. Who has those has another trouble first, so they are
  left for a full measuring.

Denormal numbers can be flushed to zero by the processor (``torch.set_flush_denormal``). It is a setting of each thread:
set after the thread pool exists, it reaches the calling thread alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal

import torch

from boundby.machine.data import DTYPES, DataSource, placed
from boundby.machine.functions import (
    FUNCTIONS,
    MAKERS,
    PIECE,
    ROW,
    STARTS,
    Arguments,
    function_arguments,
    function_elements,
)
from boundby.machine.probe import Probe, ProbeSet, Reading, fastest_ns, per_element
from boundby.results.language import tr
from boundby.results.machine import Ceiling, Finding
from boundby.timing.clock import Clock, monotonic_ns
from boundby.timing.one_thread import in_one_thread

# Within one piece, so that torch works on it in the calling thread alone.
_TRIED_ELEMENTS = PIECE // 2
# What looks this much slower in a few calls is measured.
_LOOKS_SLOW = 1.5
# What is this much slower when measured, bands aside, is told.
SLOW_FACTOR = 2.0
# Flushing mends what it makes this much quicker.
_MOSTLY_MENDED = 4.0
_FEWEST_WINDOWS = 4
# Each takes a few milliseconds a round, so of many the slowest are measured.
MOST_SLOW = 16
# These make their numbers themselves.
_WITHOUT_ARGUMENTS = frozenset({"dropout", "normal", "uniform"})


@dataclass(frozen=True, slots=True)
class Range:
    """One range: its name, what it is in words, its numbers, and which of ``Arguments`` are of it; others are usual."""

    name: str
    words: str
    numbers: Callable[[DataSource, int, str], torch.Tensor]
    takes: tuple[str, ...] = ("x", "positive", "small")


def _between(low: float, high: float, wide: tuple[float, float] | None = None) -> Callable[..., torch.Tensor]:
    """Numbers between two ends, which may be others for fp64."""

    def numbers(data: DataSource, elements: int, dtype: str) -> torch.Tensor:
        ends = wide if wide is not None and dtype == "fp64" else (low, high)
        shares = data.uniform(elements, low=0.0, high=1.0).to(torch.float64)
        return (ends[0] + (ends[1] - ends[0]) * shares).to(DTYPES[dtype])

    return numbers


def _below_the_largest(data: DataSource, elements: int, dtype: str) -> torch.Tensor:
    numbers = _between(-103.0, -88.0, (-744.0, -709.0))(data, elements, dtype)
    numbers[::ROW] = 0.0
    return numbers


def _masked(data: DataSource, elements: int, dtype: str) -> torch.Tensor:
    numbers = data.normal(elements, dtype=dtype)
    numbers[torch.arange(elements) % ROW < ROW // 2] = -1e9
    return numbers


def _only(value: float) -> Callable[[DataSource, int, str], torch.Tensor]:
    return lambda data, elements, dtype: torch.full((elements,), value, dtype=DTYPES[dtype])


RANGES: tuple[Range, ...] = (
    Range("denormal", "denormal numbers", _between(1e-40, 1e-38, (1e-310, 1e-308))),
    Range(
        "denormal_product",
        "numbers whose products are denormal",
        _between(1e-20, 1e-19, (1e-155, 1e-154)),
        ("x", "y", "z", "small"),
    ),
    Range("denormal_result", "numbers so far below 0 that their exponentials are denormal", _below_the_largest, ("x",)),
    Range("large", "numbers of 1e5 to 1e7", _between(1e5, 1e7)),
    Range("negative", "negative numbers", _between(-4.0, -0.1), ("positive",)),
    Range("zero", "zeros", _only(0.0)),
    Range("masked", "numbers half of which are -1e9, as masks make them", _masked, ("x",)),
)
FULL_RANGES: tuple[Range, ...] = (
    *RANGES,
    Range("infinite", "infinity", _only(math.inf)),
    Range("nan", "NaN", _only(math.nan)),
)
# What flushing denormal numbers to zero might mend.
_DENORMAL_RANGES = frozenset({"denormal", "denormal_product", "denormal_result"})


def range_arguments(data: DataSource, elements: int, dtype: str, one: Range) -> Arguments:
    """Arguments of which those that the range is for are from it, and the others as usual.

    Args:
        data: where the numbers come from.
        elements: the length of each tensor.
        dtype: their data type, by its short name.
        one: the range.
    """
    usual = function_arguments(data, elements, dtype)
    numbers = one.numbers(data, elements, dtype)
    for name in one.takes:
        getattr(usual, name).copy_(numbers)
    return usual


def range_probes(
    data: DataSource,
    *,
    threads: int,
    ranges: Sequence[Range] = RANGES,
    most: int | None = MOST_SLOW,
    clock: Clock = monotonic_ns,
) -> ProbeSet:
    """Tries all functions on all ranges and returns probes for those that look slow.

    They are to take turns with ``function_probes``, some of whose probes (by the same keys) their readings need.

    Args:
        data: where the numbers come from.
        threads: how many threads the stack uses.
        ranges: what to try; ``FULL_RANGES`` where time does not matter.
        most: how many to measure at most, the slowest; all where None.
        clock: nanoseconds.
    """
    elements = function_elements(threads)
    probes: dict[str, Probe] = {}
    readings = []
    arguments: dict[tuple[str, str], Arguments] = {}
    with in_one_thread():
        slow = sorted(slow_candidates(data, ranges=ranges, clock=clock), key=lambda one: -one[0])[:most]
    for _, name, dtype, one in slow:
        key, tiny = f"{name} {dtype} {one.name}", f"{name} {dtype} tiny"
        place = (dtype, one.name)
        if place not in arguments:
            arguments[place] = range_arguments(data, elements, dtype, one)
        probes[key] = Probe(key=key, call=FUNCTIONS[name](arguments[place]))
        if tiny not in probes:
            probes[tiny] = Probe(key=tiny, call=FUNCTIONS[name](function_arguments(data, 2, dtype)))
        readings.append(
            Reading(
                kind="function",
                name=f"{name}/{one.name}",
                keys=(key, tiny),
                formula=per_element(elements),
                unit="s",
                dtype=dtype,
                size_bytes=elements * DTYPES[dtype].itemsize,
                arguments=one.words,
            )
        )
    return ProbeSet(probes=tuple(probes.values()), readings=tuple(readings))


def slow_candidates(
    data: DataSource, *, ranges: Sequence[Range] = RANGES, clock: Clock = monotonic_ns
) -> Iterator[tuple[float, str, str, Range]]:
    """What looks slow in a few calls: how many times slower, function, dtype, range.

    Args:
        data: where the numbers come from.
        ranges: what to try.
        clock: nanoseconds.
    """
    for dtype, names in MAKERS.items():
        usual = function_arguments(data, _TRIED_ELEMENTS, dtype)
        ranged = [(one, range_arguments(data, _TRIED_ELEMENTS, dtype, one)) for one in ranges]
        for name in names:
            if name in _WITHOUT_ARGUMENTS:
                continue
            usual_call = FUNCTIONS[name](usual)
            try:
                usual_ns = fastest_ns(usual_call, clock)
            except (RuntimeError, NotImplementedError):
                # This torch does not run it here, which the function's own probe makes known.
                continue
            for one, arguments in ranged:
                call = FUNCTIONS[name](arguments)
                if fastest_ns(call, clock) < _LOOKS_SLOW * usual_ns:
                    continue
                # Once more, both: another process may have come between.
                usual_ns = min(usual_ns, fastest_ns(usual_call, clock))
                factor = fastest_ns(call, clock) / max(1, usual_ns)
                if factor >= _LOOKS_SLOW:
                    yield factor, name, dtype, one


def flushed_factors(
    data: DataSource, ceilings: Sequence[Ceiling], *, clock: Clock = monotonic_ns
) -> dict[tuple[str, str], float]:
    """How many times slower than usual the ranges with denormal numbers are when these are flushed to zero.

    By a few calls of the calling thread, whose setting is put back. Empty where the processor cannot flush.

    Args:
        data: where the numbers come from.
        ceilings: all of this machine; those of slow ranges are looked at.
        clock: nanoseconds.

    Returns:
        By the ceiling's name and dtype: the time on the range, flushed, over the time on the usual arguments.
    """
    known = {one.name: one for one in FULL_RANGES}
    factors: dict[tuple[str, str], float] = {}
    for ceiling, _ in slow_ceilings(ceilings):
        function, _, place = ceiling.name.partition("/")
        if place not in _DENORMAL_RANGES or function not in FUNCTIONS or ceiling.dtype not in MAKERS:
            continue
        dtype = ceiling.dtype
        usual = FUNCTIONS[function](function_arguments(data, _TRIED_ELEMENTS, dtype))
        arguments = range_arguments(data, _TRIED_ELEMENTS, dtype, known[place])
        with in_one_thread(), flushed_denormals() as flushed:
            if flushed:
                # What a script computes is flushed when it is made: the function then meets zeros.
                ranged = FUNCTIONS[function](_made_again(arguments))
                factors[ceiling.name, dtype] = fastest_ns(ranged, clock) / max(1, fastest_ns(usual, clock))
    return factors


def _made_again(arguments: Arguments) -> Arguments:
    """The arguments as results of an op."""

    def made(name: str) -> torch.Tensor:
        return placed(getattr(arguments, name) * 1.0, STARTS[name])

    return replace(arguments, x=made("x"), y=made("y"), z=made("z"), positive=made("positive"), small=made("small"))


def flushing_mends(factor: float, flushed: float) -> bool:
    """Whether flushing denormal numbers to zero takes most of what they cost a function.

    Args:
        factor: times as slow on them as usual.
        flushed: the same when they are flushed.
    """
    return flushed < _LOOKS_SLOW or flushed <= factor / _MOSTLY_MENDED


@contextmanager
def flushed_denormals() -> Iterator[bool]:
    """Denormal numbers flushed to zero in the calling thread; yields whether the processor can. Put back afterwards."""
    before = denormals_flushed()
    can = torch.set_flush_denormal(True)
    try:
        yield can
    finally:
        torch.set_flush_denormal(before)


def denormals_flushed() -> bool:
    """Whether the calling thread takes denormal numbers for zero."""
    return denormal_state(elements=1) == "flushed"


def denormal_state(*, elements: int | None = None) -> Literal["kept", "flushed", "mixed"]:
    """What becomes of denormal numbers in torch's threads: kept, flushed to zero, or some threads do and some do not.

    torch has no way to ask, so this multiplies denormal numbers by 1, in every thread.

    Args:
        elements: how many numbers; a piece for each of torch's threads where None. Up to one piece is worked on by the
            calling thread alone.
    """
    if elements is None:
        elements = 2 * PIECE * torch.get_num_threads()
    # By their bits: to convert a number to a denormal one would flush it, as comparing with zero would.
    numbers = torch.full((elements,), 1 << 16, dtype=torch.int32).view(torch.float32)
    zeros = torch.mul(numbers, 1.0).view(torch.int32) == 0
    if not bool(zeros.any()):
        return "kept"
    return "flushed" if bool(zeros.all()) else "mixed"


def slow_ceilings(ceilings: Sequence[Ceiling]) -> list[tuple[Ceiling, float]]:
    """The ceilings of ranges that are clearly slower than the function's own, with how many times, the slowest first.

    Clearly: by a factor of 2 at least, by 1.5 wherever in their bands the two are, and by four windows of each at
    least, since of fewer on a busy machine all may be disturbed.

    Args:
        ceilings: all of this machine.
    """
    usual = {
        (one.name, one.dtype, one.threads, one.stack): one
        for one in ceilings
        if one.kind == "function" and one.arguments is None
    }
    slow = []
    for one in ceilings:
        own = usual.get((one.name.partition("/")[0], one.dtype, one.threads, one.stack))
        if one.kind != "function" or one.arguments is None or own is None:
            continue
        if min(one.windows, own.windows) < _FEWEST_WINDOWS:
            continue
        factor = one.value / own.value
        if factor >= SLOW_FACTOR and one.low >= _LOOKS_SLOW * own.high:
            slow.append((one, factor))
    return sorted(slow, key=lambda pair: -pair[1])


def range_findings(
    ceilings: Sequence[Ceiling], *, flushed: Mapping[tuple[str, str], float] | None = None
) -> tuple[Finding, ...]:
    """One finding for each range that makes functions slow, the slowest first: which, of what type, and how many times.

    Args:
        ceilings: all of this machine.
        flushed: what ``flushed_factors`` says of them; None where it was not asked.
    """
    groups: dict[str, list[tuple[Ceiling, float]]] = {}
    for ceiling, factor in slow_ceilings(ceilings):
        groups.setdefault(ceiling.name.partition("/")[2], []).append((ceiling, factor))
    findings = []
    for place, slow in groups.items():
        listed = ", ".join(f"{_of(one)} ({_times(factor)})" for one, factor in slow)
        findings.append(
            Finding(
                code="slow-arguments",
                message=tr(
                    "Functions that are slower on {arguments}: {listed}.",
                    arguments=_arguments_words(slow[0][0].arguments or ""),
                    listed=listed,
                ),
                advice=_advice(place, slow, flushed or {}),
            )
        )
    return tuple(findings)


def _arguments_words(arguments: str) -> str:
    """A range's text, which names it in machine files and so is English there, in the language in use."""
    return {
        "denormal numbers": tr("denormal numbers"),
        "numbers whose products are denormal": tr("numbers whose products are denormal"),
        "numbers so far below 0 that their exponentials are denormal": tr(
            "numbers so far below 0 that their exponentials are denormal"
        ),
        "numbers of 1e5 to 1e7": tr("numbers of 1e5 to 1e7"),
        "negative numbers": tr("negative numbers"),
        "zeros": tr("zeros"),
        "numbers half of which are -1e9, as masks make them": tr("numbers half of which are -1e9, as masks make them"),
        "infinity": tr("infinity"),
    }.get(arguments, arguments)


def _advice(place: str, slow: Sequence[tuple[Ceiling, float]], flushed: Mapping[tuple[str, str], float]) -> str:
    if place not in _DENORMAL_RANGES:
        return tr("Keep such arguments from these functions where the result allows it, by clamping for example.")
    mended: list[Ceiling] = []
    left: list[Ceiling] = []
    for one, factor in slow:
        mends = flushing_mends(factor, flushed.get((one.name, one.dtype or ""), math.inf))
        (mended if mends else left).append(one)
    advice = []
    if mended:
        advice.append(
            tr(
                "torch.set_flush_denormal(True), before anything else of torch runs, mends {listed}.",
                listed=_listed(mended),
            )
        )
    if left:
        advice.append(tr("Keep such arguments from {listed}, by clamping for example.", listed=_listed(left)))
    if left and flushed:
        advice.append(tr("Flushing denormal numbers to zero does not mend that."))
    return reduce(lambda first, then: tr("{first} {then}", first=first, then=then), advice)


def _listed(ceilings: Sequence[Ceiling]) -> str:
    """The functions, each with its types: ``sqrt (fp32, fp64), log (fp32)``."""
    types: dict[str, list[str]] = {}
    for one in ceilings:
        types.setdefault(one.name.partition("/")[0], []).append(one.dtype or tr("any type"))
    return ", ".join(f"{name} ({', '.join(some)})" for name, some in types.items())


def _of(ceiling: Ceiling) -> str:
    return tr("{function} in {dtype}", function=ceiling.name.partition("/")[0], dtype=ceiling.dtype)


def _times(factor: float) -> str:
    return tr("{factor} times", factor=f"{factor:.0f}" if factor >= 9.95 else f"{factor:.1f}")
