"""np.add over sizes, and the same elements in many calls and in one: the timing and the fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from boundby.api import time_calls
from boundby.labs.lab import Settings
from boundby.results.call_time import CallTime
from boundby.results.sweep import GrowthFit
from boundby.scaling.fits import fit_growth

SIZES = (1, 64, 4096, 262_144, 4_194_304)
# The fit stands on sizes whose three arrays fit in caches (3 MB at most), four times as large each.
FITTED = tuple(4**power for power in range(10))
SPLIT_SIZE, SPLIT_CALLS = 2**18, 128
_Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The times of each size, of the many calls and of the one, and the fit of the sizes in ``FITTED``."""

    times: dict[int, CallTime]
    many: CallTime
    one: CallTime
    fit: GrowthFit

    @property
    def fixed_s(self) -> float:
        """What a call costs whatever it adds, seconds: the shortest of those on a few elements."""
        return min(self.times[n].fastest_s for n in SIZES[:2])


def measure(settings: Settings) -> Found:
    """Times all sizes in turns, and the split beside the whole."""
    draw = np.random.default_rng(0)
    sizes = sorted({*SIZES, *FITTED})
    calls = [_call(draw, n) for n in sizes]
    a, b, c = arrays(draw, SPLIT_SIZE)
    split = (in_many_calls(a, b, c, SPLIT_CALLS), partial(np.add, a, b, out=c))
    settings.progress(0.1)
    timed = time_calls(*calls, *split, round_s=settings.round_s)
    settings.progress(1.0)
    times = dict(zip(sizes, timed, strict=False))
    fit = fit_growth([(n, times[n].fastest_s) for n in FITTED], power=1)
    return Found(times=times, many=timed[-2], one=timed[-1], fit=fit)


def arrays(draw: np.random.Generator, n: int) -> tuple[_Array, _Array, _Array]:
    """Two arrays of n random fp32 elements, and one for their sum."""
    return draw.random(n, dtype=np.float32), draw.random(n, dtype=np.float32), np.zeros(n, dtype=np.float32)


def in_many_calls(a: _Array, b: _Array, c: _Array, calls: int) -> Callable[[], None]:
    """What adds ``a`` and ``b`` into ``c`` in so many calls on equal pieces, made beforehand."""
    pieces = list(zip(*(np.split(array, calls) for array in (a, b, c)), strict=True))

    def add() -> None:
        for first, second, out in pieces:
            np.add(first, second, out=out)

    return add


def _call(draw: np.random.Generator, n: int) -> Callable[[], object]:
    a, b, c = arrays(draw, n)
    return partial(np.add, a, b, out=c)
