"""Times of steps as they would be had the machine kept its speed, by its probes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from boundby.results.habits import TimedStep
from boundby.results.trace import AnchorReading


def steadied(steps: Sequence[TimedStep], readings: Sequence[AnchorReading]) -> list[list[float]]:
    """Seconds of steps over the machine's speed at their moments: by all probes together, and then by each.

    The speed between two readings is interpolated; 1 is the median of the run. Steps and readings whose moments are
    not known are taken to be spread evenly.

    Args:
        steps: timed steps, in order.
        readings: of the machine's probes, in order.

    Returns:
        Lists as long as ``steps``, seconds; the steps as they were with fewer than two readings.
    """
    seconds = np.array([one.seconds for one in steps])
    names = [name for name in (readings[0].seconds if readings else ()) if _known(readings, name)]
    if len(readings) < 2 or not names or not len(steps):
        return [seconds.tolist()]
    moments = [one.at_s for one in readings]
    at = [one.at_s for one in steps if one.at_s is not None]
    if len(at) < len(steps) or any(after <= before for before, after in pairwise(moments)):
        moments = np.linspace(0.0, 1.0, len(readings)).tolist()
        first, last = steps[0].number, steps[-1].number
        at = [(one.number - first) / max(1, last - first) for one in steps]
    probes = np.array([[one.seconds[name] for one in readings] for name in names])
    probes /= np.median(probes, axis=1, keepdims=True)
    courses = [np.median(probes, axis=0), *probes]
    return [(seconds / np.interp(at, moments, course)).tolist() for course in courses]


def _known(readings: Sequence[AnchorReading], name: str) -> bool:
    return all(one.seconds.get(name, 0.0) > 0 for one in readings)
