"""Bandwidth ceilings: bytes a second against the working set, through eager ops on fp32 in memory already faulted in.

What is counted, for n bytes a tensor: ``read`` (sum) n, ``write`` (fill_) n, ``copy`` (copy_) 2n, ``inplace`` (mul_)
2n, ``triad`` (add of two tensors into a third) 3n: each byte that the op reads or writes, once. ``size_bytes`` is the
working set: all the tensors of the op together. The time of the same op on a few elements is subtracted, and sizes at
which little is left (the smallest ones) are left out.

Not counted is what a store moves besides. A cache line that is written without having been read is first fetched from
memory (write-allocate) and later written back, so that where memory binds, ``write`` moves 2n, ``copy`` 3n and
``triad`` 4n, and they show a half, two thirds and three quarters of what the memory delivers, unless the op uses
stores that go past the caches. ``read`` and ``inplace`` have no such traffic.

The sizes are a sweep, not what the operating system says of caches, which on a shared machine may be the host's: the
levels are in the curve (``bandwidth_levels`` in the room ``report`` finds them). With several threads a working set is
shared among them, so their private caches add up; an op on fewer than 32 Ki elements runs on one thread however many
there are.

An op that writes into fresh memory is bound by page faults, not by this: see ``page_fault`` in ``overhead``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle

import torch

from boundby.machine.data import DataSource
from boundby.machine.probe import Probe, ProbeSet, Reading, rate_of

SMALLEST_BYTES = 4 << 10
LARGEST_BYTES = 256 << 20
STEP = 4
# For a full measuring: finer, and farther.
FULL_LARGEST_BYTES = 512 << 20
FULL_STEP = 2
# A pass over more than this is done in pieces by successive calls, so that no call is long.
PIECE_BYTES = 16 << 20
# So much of what a pass touches before its next piece is touched untimed: probes share a buffer, and what the one
# before left in the last cache is none of this one's.
_LEAD_BYTES = 64 << 20
_ITEM = 4
# Tensors a working set is shared by, and bytes counted for n bytes a tensor.
_TENSORS = {"read": 1, "write": 1, "copy": 2, "inplace": 1, "triad": 3}
_COUNTED = {"read": 1, "write": 1, "copy": 2, "inplace": 2, "triad": 3}
# Tensors start on different cache sets, as separately allocated ones do, or a copy would fight over one set.
_STAGGER = 272
_TINY = 4


def working_sets(memory_bytes: int, *, step: int = STEP, largest_bytes: int = LARGEST_BYTES) -> tuple[int, ...]:
    """The working sets to sweep, bytes: from 4 KiB by factors of ``step`` to the largest or what memory allows.

    Args:
        memory_bytes: how much memory the sweep may take; it binds whatever size the caches are said to have.
        step: the factor between neighbours, at least 2.
        largest_bytes: where the sweep ends if memory allows.
    """
    largest = max(SMALLEST_BYTES, min(largest_bytes, memory_bytes))
    sizes, size = [], SMALLEST_BYTES
    while size <= largest:
        sizes.append(size)
        size *= step
    if largest > 2 * sizes[-1]:
        sizes.append(largest // 4096 * 4096)
    return tuple(sizes)


def bandwidth_probes(
    data: DataSource, *, memory_bytes: int, step: int = STEP, largest_bytes: int = LARGEST_BYTES
) -> ProbeSet:
    """The sweep over working sets, for read, write, copy, in-place and triad; all of them share one buffer.

    Args:
        data: where the numbers come from.
        memory_bytes: how much memory the sweep may take.
        step: the factor between neighbouring working sets, at least 2.
        largest_bytes: where the sweep ends if memory allows.
    """
    sizes = working_sets(memory_bytes, step=step, largest_bytes=largest_bytes)
    buffer = data.large(sizes[-1] // _ITEM + 4 * _STAGGER)
    probes: list[Probe] = []
    readings: list[Reading] = []
    for name, tensors in _TENSORS.items():
        tiny = f"{name} tiny"
        probes.append(Probe(key=tiny, call=_call(name, _parts(buffer, _TINY, tensors))))
        for size in sizes:
            elements = size // (_ITEM * tensors)
            key = f"{name} {size}"
            parts = _parts(buffer, elements, tensors)
            pieces = max(1, size // (PIECE_BYTES * max(1, torch.get_num_threads() // 2)))
            calls = [_call(name, list(piece)) for piece in zip(*(part.chunk(pieces) for part in parts), strict=True)]
            probes.append(_pass(key, calls, lead=min(pieces, -(-_LEAD_BYTES * pieces // size))))
            readings.append(
                Reading(
                    kind="bandwidth",
                    name=name,
                    keys=(key, tiny),
                    formula=rate_of(_COUNTED[name] * elements * _ITEM / pieces),
                    unit="byte/s",
                    dtype="fp32",
                    size_bytes=size,
                )
            )
    return ProbeSet(probes=tuple(probes), readings=tuple(readings))


def _pass(key: str, calls: Sequence[Callable[[], object]], *, lead: int) -> Probe:
    """A pass over memory, one piece a call; each visit starts with ``lead`` pieces that are not timed."""
    if len(calls) == 1:
        return Probe(key=key, call=calls[0])
    turns: Iterator[Callable[[], object]] = cycle(calls)

    def call() -> None:
        next(turns)()

    def prepare() -> None:
        for _ in range(lead):
            call()

    return Probe(key=key, call=call, prepare=prepare)


def _parts(buffer: torch.Tensor, elements: int, tensors: int) -> list[torch.Tensor]:
    return [buffer[start : start + elements] for start in (index * (elements + _STAGGER) for index in range(tensors))]


def _call(name: str, parts: list[torch.Tensor]) -> Callable[[], object]:
    first = parts[0]
    if name == "read":
        return partial(torch.sum, first)
    if name == "write":
        return partial(first.fill_, 1.0)
    if name == "copy":
        return partial(first.copy_, parts[1])
    if name == "inplace":
        # By exactly 1, so that numbers neither grow nor reach the denormals over many rounds.
        return partial(first.mul_, 1.0)
    return partial(torch.add, parts[0], parts[1], out=parts[2])
