"""Anchors: four fixed probes of a few milliseconds that say how fast the machine is at this moment.

A shared machine's speed moves by 1.7 from one second to the next, so a kept ceiling means little without them: the same
probes are read while the ceilings are measured and again around the user's steps, and the ratio ties the two together.

They run inside the user's process between their steps, so they leave no trace in it: no global random number is drawn,
no global state is changed, and whatever modes are active (autocast, inference, a default device, someone's dispatch
mode) are set aside while they run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import repeat

import torch

from boundby.results.trace import AnchorReading
from boundby.timing.clock import Clock, monotonic_ns
from boundby.timing.set_aside import modes_set_aside

NAMES = ("matmul", "cache", "memory", "dispatch")
MATMUL_SIZE = 256
# In the second cache, and too little for torch to share it out: between cores it would be the links that are timed.
CACHE_ELEMENTS = 24 * 1024
CACHE_CALLS = 32
MEMORY_BYTES = 64 << 20
# Most of a pass over the buffer is not timed: it fills the last cache with memory just written, whatever ran before.
MEMORY_PARTS = 8
TIMED_PARTS = 3
DISPATCH_CALLS = 100
REPEATS = 3
_ITEM = 4
# Where threads wait for a core, a probe takes tens of times as long; once is enough to say so.
_LONG_NS = 5_000_000


class Anchors:
    """The four probes with their buffers, allocated once; ``close`` gives the memory back.

    Args:
        threads: how many threads the stack uses; kept for the reader, the probes run as the process is set.
        memory_bytes: the size of the out-of-cache buffer, bytes.
    """

    def __init__(self, threads: int, *, memory_bytes: int = MEMORY_BYTES) -> None:
        self.threads = threads
        with modes_set_aside(grad=False):
            generator = torch.Generator(device="cpu").manual_seed(1)
            self._left = _random(MATMUL_SIZE * MATMUL_SIZE, generator).view(MATMUL_SIZE, MATMUL_SIZE)
            self._right = _random(MATMUL_SIZE * MATMUL_SIZE, generator).view(MATMUL_SIZE, MATMUL_SIZE)
            self._product = torch.zeros_like(self._left)
            self._cached = _random(CACHE_ELEMENTS, generator)
            self._large = torch.ones(max(MEMORY_PARTS, memory_bytes // _ITEM), dtype=torch.float32, device="cpu")
            self._parts = tuple(self._large.chunk(MEMORY_PARTS))
            self._one = torch.ones(1, dtype=torch.float32, device="cpu")

    @property
    def closed(self) -> bool:
        """Whether the buffers were given back."""
        return not self._parts

    def read(self, clock: Clock = monotonic_ns) -> AnchorReading:
        """Runs the probes now, a few milliseconds.

        Args:
            clock: nanoseconds; what the user's steps are timed by, so that ``at_s`` places the reading among them.

        Raises:
            RuntimeError: the anchors were closed.
        """
        if self.closed:
            raise RuntimeError("the anchors were closed")
        with modes_set_aside(grad=False):
            at_s = clock() * 1e-9
            seconds = {
                "matmul": _fastest(partial(torch.mm, self._left, self._right, out=self._product), 1, clock),
                "cache": _fastest(partial(self._cached.mul_, 1.0), CACHE_CALLS, clock),
                "memory": self._memory(clock),
                "dispatch": _fastest(partial(self._one.mul_, 1.0), DISPATCH_CALLS, clock),
            }
        return AnchorReading(at_s=at_s, seconds=seconds)

    def close(self) -> None:
        """Gives the memory back; reading is over."""
        self._parts = ()
        self._large = self._cached = self._left = self._right = self._product = self._one = torch.empty(0, device="cpu")

    def _memory(self, clock: Clock) -> float:
        """Seconds for one part, the fastest of the last ones.

        The parts before them are passed over untimed, so that the last cache is full of memory just written, whatever
        ran before: to read then means to write that back too, as in any long stream.
        """
        taken = []
        for part in self._parts[:-TIMED_PARTS]:
            part.mul_(1.0)
        for part in self._parts[-TIMED_PARTS:]:
            before = clock()
            part.mul_(1.0)
            taken.append(clock() - before)
            if taken[-1] > _LONG_NS:
                break
        return max(1, min(taken)) * 1e-9


def anchor_memory(available_bytes: int | None) -> int:
    """How large the out-of-cache buffer may be (bytes): 64 MiB, or a thirty-second of little memory.

    Args:
        available_bytes: the memory this process can still take; None where unknown.
    """
    return MEMORY_BYTES if available_bytes is None else min(MEMORY_BYTES, max(1 << 20, available_bytes // 32))


def _random(elements: int, generator: torch.Generator) -> torch.Tensor:
    return torch.empty(elements, dtype=torch.float32, device="cpu").uniform_(0.5, 1.5, generator=generator)


def _fastest(call: Callable[[], object], calls: int, clock: Clock) -> float:
    """Seconds for ``calls`` calls: the fastest of three, after one that brings data and code back into the caches."""
    call()
    best = 0
    for _ in range(REPEATS):
        before = clock()
        for _ in repeat(None, calls):
            call()
        taken = clock() - before
        if taken > 0 and (best == 0 or taken < best):
            best = taken
        if taken > _LONG_NS:
            break
    return max(1, best) * 1e-9
