"""How far back in memory traffic an op's inputs were last used: which level of memory they can still be in."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise

EXACT_UP_TO = 50_000


def reuse_distances(
    keys: Sequence[int], sizes: Sequence[int], offsets: Sequence[int], inputs: Sequence[int]
) -> array[float]:
    """Bytes of other memory touched since each op's largest input was last touched, in a step that repeats.

    Args:
        keys: the blocks (addresses) each op touches, ops one after the other; inputs first.
        sizes: bytes of each touch.
        offsets: where each op's touches begin in ``keys``; one more entry than ops.
        inputs: how many of each op's touches are inputs.

    Returns:
        One distance in bytes for each op, its own blocks not counted; 0 for an op that touches nothing. A block not
        touched earlier in the step was last touched in the step before, as the same sequence runs again and again.
        Up to 50,000 ops the distance counts distinct bytes (LRU stack distance; Source: Mattson et al., Evaluation
        techniques for storage hierarchies, IBM Systems Journal 9(2), 1970); beyond that it counts traffic, at most the
        step's footprint.
    """
    count = len(offsets) - 1
    exact = count <= EXACT_UP_TO
    footprint = float(sum(dict(zip(keys, sizes, strict=True)).values()))
    stack = _DistinctBytes(2 * len(keys) + 1) if exact else None
    last: dict[int, int] = {}  # block -> time of last touch
    size_of: dict[int, int] = {}
    traffic_at: dict[int, float] = {}
    traffic = 0.0
    now = 0
    result = array("d", bytes(8 * count))
    for lap in (0, 1):
        for op, (begin, end) in enumerate(pairwise(offsets)):
            if lap and begin < end:
                top = _largest_input(sizes, begin, begin + inputs[op], end)
                key = keys[top]
                if stack is not None:
                    result[op] = stack.since(last[key])
                else:
                    result[op] = min(traffic - traffic_at[key], footprint)
            for at in range(begin, end):
                key, size = keys[at], sizes[at]
                if stack is not None:
                    now += 1
                    if key in last:
                        stack.add(last[key], -size_of[key])
                    last[key], size_of[key] = now, size
                    stack.add(now, size)
                traffic += size
                traffic_at[key] = traffic
    return result


def _largest_input(sizes: Sequence[int], begin: int, inputs_end: int, end: int) -> int:
    span = range(begin, inputs_end) if inputs_end > begin else range(begin, end)
    return max(span, key=lambda at: sizes[at])


class _DistinctBytes:
    """Bytes by time of last touch, summed from a time on: a Fenwick tree."""

    def __init__(self, length: int) -> None:
        self.tree = [0] * (length + 1)
        self.total = 0

    def add(self, at: int, size: int) -> None:
        self.total += size
        while at < len(self.tree):
            self.tree[at] += size
            at += at & -at

    def since(self, at: int) -> float:
        """Bytes last touched after time ``at``."""
        upto = 0
        while at > 0:
            upto += self.tree[at]
            at -= at & -at
        return float(self.total - upto)
