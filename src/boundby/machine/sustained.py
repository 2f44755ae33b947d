"""Burst against sustained: what a ceiling comes to when the same work goes on for seconds without a rest.

The other probes are short and take turns, so a processor that slows down when it gets hot, or when its allowance of
power or of CPU time is used up, hides that from them. Here the fastest product of each dtype, and then a stream through
memory, runs alone for some seconds. The ceilings are the median of the last third of that time, in whole calls:

- ``mm_sustained`` (kind matmul): the shape of the fastest product measured;
- ``inplace_sustained`` (kind bandwidth): ``mul_`` over a working set far larger than the last cache, which counts all
  that it moves.

A load that got slower by more than a tenth is a finding. Windows in which another process, or a quota, took a core away
are left out of it all where there are others: that is no property of the machine.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat

from boundby.machine.bandwidth import PIECE_BYTES
from boundby.machine.data import DataSource
from boundby.machine.matmul import SLOW_DTYPE, product_call, product_flops
from boundby.machine.probe import Unit, taking_turns
from boundby.results.language import tr
from boundby.results.machine import Ceiling, CeilingKind, Finding
from boundby.timing.clock import Clock, monotonic_ns
from boundby.timing.sampling import MAX_LOOPS
from boundby.timing.statistics import SPREAD_LIMIT, median, quantile, spread

PRODUCTS = ("mm", "mm_nt", "mm_tn")
STREAM_BYTES = 256 << 20
# Long enough for the clocks, short enough that some fall between what other processes do.
WINDOW_S = 0.02
# What goes before: the first call of all prepares code and data, and a processor that idled takes a moment to wake.
_WARM_UP_S = 0.1
_THROTTLED = 0.9
# A third of the time says nothing with fewer windows that nothing interrupted.
_FEWEST_WINDOWS = 5
_ITEM = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """Seconds a call, and whether a thread was taken off its core meanwhile."""

    seconds: float
    interrupted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """What to run without a rest, ``work`` FLOP or bytes a call; and what its ceiling is called."""

    what: str
    call: Callable[[], object]
    work: float
    kind: CeilingKind
    name: str
    dtype: str
    unit: Unit
    size_bytes: int | None = None
    shape: tuple[int, ...] | None = None


def sustained_ceilings(
    data: DataSource,
    ceilings: Sequence[Ceiling],
    *,
    threads: int,
    memory_bytes: int,
    seconds: float = 5.0,
    clock: Clock = monotonic_ns,
    interruptions: Callable[[], int] | None = None,
) -> tuple[tuple[Ceiling, ...], tuple[Finding, ...]]:
    """Runs the fastest product of each dtype, and a stream, for ``seconds`` each: some 30 s in all by default.

    Args:
        data: where the numbers come from.
        ceilings: what was measured in short windows; the fastest plain product of each dtype at this thread count is
            run again.
        threads: how many threads torch is set to.
        memory_bytes: how much memory the stream may take.
        seconds: how long each of them runs.
        clock: nanoseconds.
        interruptions: how often a thread of this process was taken off its core so far; read from the operating system
            where None.

    Returns:
        The sustained ceilings, values from the last third of the windows; and a finding for what slowed down.
    """
    interruptions = interruptions or involuntary_switches
    found: list[Ceiling] = []
    slowed: list[str] = []
    for load in (*_products(data, ceilings, threads), _stream(data, memory_bytes)):
        windows = _run(load.call, seconds, clock, interruptions)
        if not windows:
            continue
        third = max(1, len(windows) // 3)
        first, last = (_undisturbed(some) for some in (windows[:third], windows[-third:]))
        found.append(_ceiling(load, last or [window.seconds for window in windows[-third:]], threads))
        if _throttled(first, last):
            slowed.append(tr("{what} lost {share}", what=load.what, share=f"{1 - median(first) / median(last):.0%}"))
    if not slowed:
        return tuple(found), ()
    finding = Finding(
        code="throttles",
        message=tr(
            "Within {seconds} s of work without a rest the machine slowed down: {slowed}.",
            seconds=f"{seconds:g}",
            slowed=", ".join(slowed),
        ),
        advice=tr(
            "Long runs go at the sustained ceilings, not at the burst ones. Look at cooling and the power "
            "limit, and in a cloud at CPU credits that run out."
        ),
    )
    return tuple(found), (finding,)


def _ceiling(load: _Load, taken: Sequence[float], threads: int) -> Ceiling:
    """What calls of ``taken`` seconds give: their median, and the band that holds most of them."""
    value, low, high = (load.work / quantile(taken, share) for share in (0.5, 0.9, 0.1))
    return Ceiling(
        kind=load.kind,
        name=load.name,
        dtype=load.dtype,
        threads=threads,
        size_bytes=load.size_bytes,
        shape=load.shape,
        value=value,
        low=low,
        high=high,
        unit=load.unit,
        unsteady=spread(taken) > SPREAD_LIMIT,
        windows=len(taken),
    )


def _products(data: DataSource, ceilings: Sequence[Ceiling], threads: int) -> list[_Load]:
    """The fastest plain product of each dtype that has a fast path here."""
    best: dict[str, Ceiling] = {}
    for one in ceilings:
        plain = one.kind == "matmul" and one.name in PRODUCTS and one.unit == "flop/s" and one.stack == "torch"
        if not plain or one.threads != threads or one.dtype is None or one.shape is None:
            continue
        if one.dtype not in best or one.value > best[one.dtype].value:
            best[one.dtype] = one
    least = best["fp32"].value / SLOW_DTYPE if "fp32" in best else 0.0
    return [_product(data, dtype, one) for dtype, one in best.items() if one.value >= least]


def _product(data: DataSource, dtype: str, best: Ceiling) -> _Load:
    batch, m, n, k = best.shape or (1, 1, 1, 1)
    shape = (batch, m, n, k)
    return _Load(
        what=tr("{dtype} matrix products", dtype=dtype),
        call=product_call(data, best.name, shape, dtype),
        work=product_flops(shape),
        kind="matmul",
        name="mm_sustained",
        dtype=dtype,
        unit="flop/s",
        shape=shape,
    )


def _stream(data: DataSource, memory_bytes: int) -> _Load:
    size = max(1, min(STREAM_BYTES, memory_bytes) // _ITEM) * _ITEM
    pieces = data.large(size // _ITEM).chunk(max(1, size // PIECE_BYTES))
    return _Load(
        what=tr("streams through memory"),
        # By exactly 1, so that numbers neither grow nor reach the denormals over many rounds.
        call=taking_turns([partial(piece.mul_, 1.0) for piece in pieces]),
        work=2 * size / len(pieces),
        kind="bandwidth",
        name="inplace_sustained",
        dtype="fp32",
        unit="byte/s",
        size_bytes=size,
    )


def involuntary_switches() -> int:
    """How often a thread of this process was taken off its core so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _run(call: Callable[[], object], seconds: float, clock: Clock, interruptions: Callable[[], int]) -> list[_Window]:
    """Windows of whole calls, one right after the other until the time is up; those that took no time are dropped."""
    warm_up_ns = int(min(_WARM_UP_S, 0.1 * seconds) * 1e9)
    begin, calls = clock(), 0
    while calls == 0 or 0 <= clock() - begin < warm_up_ns:
        call()
        calls += 1
    taken_s = (clock() - begin) * 1e-9
    # A clock that stands still or steps back does not tell how many calls a window takes.
    loops = max(1, min(MAX_LOOPS, round(WINDOW_S * calls / taken_s))) if taken_s > 0 else 1
    windows: list[_Window] = []
    start = now = clock()
    while 0 <= now - start < seconds * 1e9:
        before, interrupted = now, interruptions()
        for _ in repeat(None, loops):
            call()
        now = clock()
        if now > before:
            each_s = (now - before) * 1e-9 / loops
            windows.append(_Window(seconds=each_s, interrupted=interruptions() > interrupted))
    return windows


def _undisturbed(windows: Sequence[_Window]) -> list[float]:
    """Seconds a call of the windows that nothing interrupted."""
    return [window.seconds for window in windows if not window.interrupted]


def _throttled(first: Sequence[float], last: Sequence[float]) -> bool:
    """Whether calls (seconds) got slower by more than a tenth, and beyond what they spread by."""
    if min(len(first), len(last)) < _FEWEST_WINDOWS:
        return False
    slower = median(first) < _THROTTLED * median(last)
    return slower and quantile(first, 0.75) < quantile(last, 0.25)
