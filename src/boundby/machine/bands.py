"""Bands that hold what another measuring will find: the windows' own, widened by what no single run can see.

All windows of one run share its moment: where the processes' memory lies, which cores the system or the host gave it,
who else uses the memory. They agree with each other far better than with the windows of the next run. So the band of a
ceiling is made of two independent parts, added in quadrature in the logarithm: what its own windows differ by, and the
least share that runs differ by, which was seen over 20 runs on a quiet machine and holds nine of ten of them
(benchmarks/RESULTS.md, "Ceilings"). A window lasts at least 1000 steps of the clock, so every share is far above what
the clock adds.

On top of it, an op that runs on all threads enters parallel regions, and their cost depends on how far apart the cores
are that the threads have: between 1.0 and 2.6 microseconds on the machine of those runs, for minutes at a time. That is
a third of a short op and nothing of a long one, so it is allowed for in seconds. ``parallel_region`` itself says which
of the two a run saw, and has no such allowance.

Ceilings of one run are compared with each other before this: what differs between runs moves both alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from boundby.machine.data import DTYPES
from boundby.machine.probe import Reading, Window
from boundby.machine.regions import GRAIN_ELEMENTS, NAME
from boundby.machine.rounds import Rounds, typical_window
from boundby.results.machine import MAIN_MEMORY_BYTES, Ceiling

# Half the width, as a share, of what nine runs of ten lie within around another one's value (RESULTS.md, "Ceilings").
OVERHEAD_SHARE = 0.03
ONE_THREAD_SHARE = 0.04
FUNCTION_SHARE = 0.05
CACHE_SHARE = 0.12
PRODUCT_SHARE = 0.08
# Convolutions and attention share out each of many small products: it is regions that most of their time goes to.
MANY_REGIONS_SHARE = 0.3
# All threads together ask more of main memory than one does, and get it or not by where their cores are and by what
# others of the host do: 39 to 55 GB/s for one stream.
SHARED_MEMORY_SHARE = 0.5
# Nothing but multiply-adds in registers.
ARITHMETIC_SHARE = 0.02
REGION_SHARE = 0.25
# By how much the cost of one region may differ between runs: that many seconds, or half of a region that costs more.
REGION_MOVES_S = 2.2e-6
REGION_MOVES_SHARE = 0.5
# A product's kernels pack both matrices and multiply, and wait for each other in between.
PRODUCT_REGIONS = 4
# However short an op: it does not become more than three times as fast or as slow by it.
MOST_BY_REGIONS = 3.0
_TENSORS = {"copy": 2, "triad": 3}

Key = tuple[object, ...]


def across_runs(
    ceilings: Sequence[Ceiling], by_regions: Mapping[Key, tuple[float, float]] | None = None
) -> tuple[Ceiling, ...]:
    """The ceilings with bands that hold the value of another run nine times of ten on a quiet machine.

    Values, samples and flags stay. Anchors keep their bands: they are readings of the moment.

    Args:
        ceilings: of one run, with the bands of its own windows.
        by_regions: by how much the low and the high of a ceiling move with the cost of parallel regions, as factors.
    """
    moved = by_regions or {}
    return tuple(
        one if one.kind == "anchor" else _widened(one, moved.get(ceiling_key(one), (1.0, 1.0))) for one in ceilings
    )


def ceiling_key(one: Ceiling) -> Key:
    """What tells a ceiling from all others of a machine."""
    return (one.kind, one.name, one.dtype, one.threads, one.stack, one.size_bytes, one.shape, one.unit)


def least_share(one: Ceiling) -> float:
    """The share by which another run's value may differ although this run's windows all agree.

    Args:
        one: the ceiling; its kind, threads, and where its data lie decide.
    """
    if one.kind == "overhead":
        return REGION_SHARE if one.name == NAME else OVERHEAD_SHARE
    if one.kind == "matmul" and one.stack == "native":
        return ARITHMETIC_SHARE
    if one.kind != "function" and one.threads <= 1:
        return ONE_THREAD_SHARE
    if one.kind == "function":
        return FUNCTION_SHARE
    if one.kind == "bandwidth" or one.unit == "byte/s":
        return SHARED_MEMORY_SHARE if moved_bytes(one) >= MAIN_MEMORY_BYTES else CACHE_SHARE
    return MANY_REGIONS_SHARE if one.name.startswith(("conv", "attention")) else PRODUCT_SHARE


def by_regions(
    readings: Sequence[Reading], rounds: Rounds, *, threads: int, entered: Mapping[str, int], region_s: float | None
) -> dict[Key, tuple[float, float]]:
    """By how much each reading's low and high move where parallel regions cost less or more, as factors.

    Args:
        readings: those that ceilings were read from.
        rounds: their windows.
        threads: how many threads the stack used; at one there are no regions.
        entered: how many regions the probes of ops on almost nothing enter, by key.
        region_s: what a region costs in this run, seconds; None where unknown.
    """
    if threads <= 1:
        return {}
    each_s = max(REGION_MOVES_S, REGION_MOVES_SHARE * (region_s or 0.0))
    found: dict[Key, tuple[float, float]] = {}
    for reading in readings:
        moves_s = regions_of(reading, entered) * each_s
        taken = [rounds.windows.get(key, ()) for key in reading.keys]
        if moves_s <= 0 or not all(taken):
            continue
        windows = [typical_window(one) for one in taken]
        value = reading.formula(windows)
        if value is None or value <= 0:
            continue
        ends = [_moved(reading, windows, by_s, value) for by_s in (-moves_s, moves_s)]
        one = (reading.kind, reading.name, reading.dtype, threads, reading.stack, reading.size_bytes, reading.shape)
        found[(*one, reading.unit)] = (min(ends), max(ends))
    return found


def regions_of(reading: Reading, entered: Mapping[str, int]) -> int:
    """How many parallel regions a call of the reading's own probe enters with several threads.

    Args:
        reading: through torch, eager or compiled; native loops share their work out once for many passes.
        entered: how many the probes of ops on almost nothing enter, by key; of several representative ops the median.
    """
    if reading.stack == "native" or reading.name == NAME:
        return 0
    if reading.kind == "overhead":
        known = sorted(entered.get(key, 0) for key in (reading.keys if reading.span else reading.keys[:1]))
        return known[len(known) // 2]
    if reading.kind == "matmul":
        return 1 if reading.unit == "byte/s" else PRODUCT_REGIONS
    if reading.kind not in ("function", "bandwidth") or reading.size_bytes is None or reading.dtype not in DTYPES:
        return 0
    tensors = _TENSORS.get(reading.name, 1) if reading.kind == "bandwidth" else 1
    return int(reading.size_bytes / (DTYPES[reading.dtype].itemsize * tensors) > GRAIN_ELEMENTS)


def _moved(reading: Reading, windows: Sequence[Window], by_s: float, value: float) -> float:
    """The factor by which the value moves where a call takes ``by_s`` more, for each probe of a reading of several."""
    own = len(windows) if reading.span else 1
    shifted = [
        replace(window, seconds=max(window.seconds + by_s, window.seconds / MOST_BY_REGIONS)) if place < own else window
        for place, window in enumerate(windows)
    ]
    moved = reading.formula(shifted)
    if moved is None or moved <= 0:
        faster = MOST_BY_REGIONS if by_s < 0 else 1 / MOST_BY_REGIONS
        return 1 / faster if reading.unit == "s" else faster
    return min(max(moved / value, 1 / MOST_BY_REGIONS), MOST_BY_REGIONS)


def _widened(one: Ceiling, moved: tuple[float, float]) -> Ceiling:
    if min(one.low, one.value) <= 0:
        return one
    share = math.log1p(least_share(one))
    below = math.hypot(math.log(one.value / one.low), share)
    above = math.hypot(math.log(one.high / one.value), share)
    return replace(
        one,
        own=(one.low, one.high),
        low=one.value * math.exp(-below) * min(1.0, moved[0]),
        high=one.value * math.exp(above) * max(1.0, moved[1]),
    )


def moved_bytes(one: Ceiling) -> int:
    """The working set of a stream, the weight of a product bound by it (bytes); 0 for others.

    Args:
        one: a ceiling of any kind.
    """
    if one.kind == "bandwidth":
        return one.size_bytes or 0
    if one.unit == "byte/s" and one.shape and one.dtype in DTYPES:
        return one.shape[2] * one.shape[3] * DTYPES[one.dtype].itemsize
    return 0
