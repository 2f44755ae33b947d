"""Whether a series goes up, and by how much: without a model of its noise, and unmoved by single samples far off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from boundby.timing.statistics import median

# Theil and Sen look at every pair; of longer series every so many samples are as good.
MOST_SAMPLES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """What a series gains for each unit of its abscissa, with an interval; ``z`` is Kendall's statistic of the sign."""

    slope: float
    low: float
    high: float
    z: float


def trend(at: Sequence[float], values: Sequence[float], *, confidence: float = 0.99) -> Trend | None:
    """The median slope over all pairs of samples; None with fewer than four of different abscissae.

    Args:
        at: where the samples were taken, in order.
        values: the samples.
        confidence: how often the interval is to hold the true slope, were samples independent.

    Source:
        Sen, "Estimates of the regression coefficient based on Kendall's tau" (JASA 63, 1968); Mann (1945) for the sign.
    """
    stride = -(-len(at) // MOST_SAMPLES) or 1
    x, y = list(at)[::stride], list(values)[::stride]
    pairs = [(x[j] - x[i], y[j] - y[i]) for i in range(len(x)) for j in range(i + 1, len(x)) if x[j] != x[i]]
    count = len(x)
    if count < 4 or len(set(x)) < 4:
        return None
    slopes = sorted(rise / run for run, rise in pairs)
    signs = sum((rise * run > 0) - (rise * run < 0) for run, rise in pairs)
    sigma = math.sqrt(count * (count - 1) * (2 * count + 5) / 18.0)
    spread = NormalDist().inv_cdf(0.5 + confidence / 2.0) * sigma
    below = max(0, math.floor((len(slopes) - spread) / 2.0))
    above = min(len(slopes) - 1, math.ceil((len(slopes) + spread) / 2.0))
    return Trend(slope=median(slopes), low=slopes[below], high=slopes[above], z=signs / sigma)
