"""What anomaly mode adds to each node of autograd's graph: the Python stack is written down as text."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType

import torch

from boundby.capture.sites import SCRIPT_RUNNER
from boundby.results.interval import Interval, interval
from boundby.timing.clock import monotonic_ns
from boundby.timing.sampling import time_window
from boundby.timing.set_aside import modes_set_aside
from boundby.timing.statistics import quantile

TURNS, LOOPS = 15, 10
# Recursion of the probe stops well before Python's own limit.
DEEPEST = 200
_OWN = __file__.rpartition("capture")[0]


def users_depth() -> int:
    """Python frames from the script's outermost to the op that is being dispatched, boundby's own left out."""
    depth = 0
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename != SCRIPT_RUNNER:
        depth += not frame.f_code.co_filename.startswith(_OWN)
        frame = frame.f_back
    return depth


def tracing_node_cost(depth: int) -> Interval | None:
    """Seconds that anomaly mode adds to a node made ``depth`` frames below the outermost, by a probe in turns.

    The probe has a thread of its own, whose stack is as short as a script's; boundby's frames are no part of the cost.

    Args:
        depth: Python frames on the stack where the script makes its nodes.

    Returns:
        What the quicker windows say, up to what the median ones do; None where the probe failed.
    """
    found: list[Interval] = []
    before, checking = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    thread = threading.Thread(target=lambda: found.append(_probe(depth)), name="boundby-anomaly-probe")
    try:
        thread.start()
        thread.join()
    finally:
        torch.set_anomaly_enabled(before, checking)
    return found[0] if found else None


def _probe(depth: int) -> Interval:
    here = _frames()
    seconds: dict[bool, list[float]] = {False: [], True: []}
    with modes_set_aside(grad=True):
        x = torch.ones(1, requires_grad=True)
        for turn in range(2 * TURNS + 2):
            on = turn % 2 == 1
            torch.set_anomaly_enabled(on, False)
            took = _at_depth(min(depth, DEEPEST) - here, lambda: time_window(lambda: x * 2.0, LOOPS, monotonic_ns))
            if turn >= 2:  # the first of each fills caches of source lines
                seconds[on].append(took)
    # Whatever interrupts the probe only adds, so the quick ones are nearest to the truth.
    value, low, high = (
        max(0.0, quantile(seconds[True], share) - quantile(seconds[False], share)) for share in (0.25, 0.0, 0.5)
    )
    return interval(value, low, high)


def _frames() -> int:
    """Frames of this thread down to where the probe's op runs: the timing's own three are still to come."""
    depth = 3
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        frame = frame.f_back
        depth += 1
    return depth


def _at_depth(depth: int, call: Callable[[], float]) -> float:
    return call() if depth <= 0 else _at_depth(depth - 1, call)
