"""A few of the probes once more at one thread: what more threads bring, and which part does not get faster.

The copies do the same work on the same data as the probes they are made from, and take turns with them, so that both
see the same moments of a machine whose speed moves. The number of threads is set and put back inside each call: no
other probe ever sees it. That takes a third of a microsecond, so ops that take but a few are called several at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import repeat

import torch

from boundby.machine.probe import Formula, Probe, ProbeSet, Reading, Window

SUFFIX = " at one thread"
# A product of this size is within a few percent of the peak, and a call takes milliseconds even at one thread.
LARGEST_SQUARE = 512
BANDWIDTHS = ("read", "copy", "triad")
# Beyond what one thread works on alone, and shared by private caches or in the last one; the largest is memory's.
WORKING_SETS = (1 << 20, 16 << 20)
FUNCTIONS = ("add", "exp", "gelu", "softmax", "layer_norm")
OVERHEADS = ("view/view", "pointwise/add", "reduction/sum")
# Ops in a call, so that setting the threads is a thousandth of it: of ops on almost nothing, and of those on little.
_TINY_OPS = 64
_SHORT_OPS = 16
_LITTLE_BYTES = 1 << 20


def scaling_probes(probes: ProbeSet, *, threads: int) -> ProbeSet:
    """Copies at one thread of a few probes and readings of ``probes``: some 35, which add a twentieth to a round.

    The largest square product up to 512 of each dtype, ``read``, ``copy`` and ``triad`` over three working sets, a few
    functions in fp32, and the overhead of three ops. Read them with ``read_ceilings(..., threads=1)``.

    Args:
        probes: all that is measured at ``threads`` threads.
        threads: how many torch is set to, and is set to again after each call; with one there is nothing to add.
    """
    if threads <= 1:
        return ProbeSet()
    by_key = {probe.key: probe for probe in probes.probes}
    chosen = [reading for reading in _chosen(probes.readings) if all(key in by_key for key in reading.keys)]
    copies: dict[str, Probe] = {}
    readings = []
    for reading in chosen:
        ops = _ops_a_call(reading)
        # One probe may serve several readings, as one op a call and as many.
        suffix = f"{SUFFIX}{f' x {ops}' if ops > 1 else ''}"
        for key in (*reading.keys, *([reading.at_times] if reading.at_times is not None else [])):
            one, copy = by_key[key], key + suffix
            copies.setdefault(copy, Probe(key=copy, call=at_one_thread(one.call, threads, ops), prepare=one.prepare))
        readings.append(
            replace(
                reading,
                keys=tuple(key + suffix for key in reading.keys),
                at_times=None if reading.at_times is None else reading.at_times + suffix,
                formula=_of_one_op(reading.formula, ops),
            )
        )
    return ProbeSet(probes=tuple(copies.values()), readings=tuple(readings))


def _chosen(readings: Sequence[Reading]) -> list[Reading]:
    """Those of the readings, through eager torch, that are worth having at one thread too."""
    eager = [reading for reading in readings if reading.stack == "torch"]
    squares: dict[str, Reading] = {}
    for one in eager:
        size = _square(one)
        if one.dtype is not None and 0 < size <= LARGEST_SQUARE:
            known = squares.get(one.dtype)
            if known is None or _square(known) < size:
                squares[one.dtype] = one
    swept = {name: [one for one in eager if one.kind == "bandwidth" and one.name == name] for name in BANDWIDTHS}
    curves: list[Reading] = []
    for curve in swept.values():
        sizes = sorted(one.size_bytes for one in curve if one.size_bytes is not None)
        wanted = {min(sizes, key=lambda size: abs(size - near)) for near in WORKING_SETS if sizes} | set(sizes[-1:])
        curves.extend(one for one in curve if one.size_bytes in wanted)
    functions = [one for one in eager if one.kind == "function" and one.name in FUNCTIONS and one.dtype == "fp32"]
    overheads = [one for one in eager if one.kind == "overhead" and one.name in OVERHEADS]
    return [*squares.values(), *curves, *functions, *overheads]


def at_one_thread(call: Callable[[], object], threads: int, times: int = 1) -> Callable[[], None]:
    """``call``, done ``times`` times with torch at one thread; torch is put back to ``threads``, errors or not."""

    def alone() -> None:
        torch.set_num_threads(1)
        try:
            for _ in repeat(None, times):
                call()
        finally:
            torch.set_num_threads(threads)

    return alone


def _ops_a_call(reading: Reading) -> int:
    if reading.kind == "overhead":
        return _TINY_OPS
    return _SHORT_OPS if reading.size_bytes is not None and reading.size_bytes <= _LITTLE_BYTES else 1


def _square(reading: Reading) -> int:
    """The n of a single product of n x n matrices; 0 where the reading is of something else."""
    if reading.kind != "matmul" or reading.name != "mm" or reading.unit != "flop/s" or reading.shape is None:
        return 0
    batch, m, n, k = reading.shape
    return n if batch == 1 and m == n == k else 0


def _of_one_op(formula: Formula, ops: int) -> Formula:
    """The formula on windows of calls that do ``ops`` ops each."""
    if ops == 1:
        return formula
    return lambda windows: formula([Window(seconds=one.seconds / ops, faults=one.faults / ops) for one in windows])
