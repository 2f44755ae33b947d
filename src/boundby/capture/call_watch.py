"""Counting what runs between two moments of one thread, line by line."""

from __future__ import annotations

import linecache
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from boundby.capture.counter import CountingWatcher
from boundby.capture.graph_breaks import BreaksBefore, breaks_before
from boundby.results.budgets import FP32_OR_WIDER, FP64_OR_WIDER, CountedLine, idle_ops
from boundby.results.counts import GroupCounts, OpCost
from boundby.results.module_tree import CallCounts

_SUMS = ("ops", "launches", "matmul_flops", "pointwise_flops", "bytes_read", "bytes_written")
_Line = tuple[str | None, int | None]


class CallWatch:
    """Counts the ops of this thread from ``start`` to ``stop``; then ``counts`` and ``lines`` say what they were."""

    def __init__(self) -> None:
        self._watcher = CountingWatcher()
        self._before: BreaksBefore | None = None
        self._breaks: int | None = None
        self._first_node = 0
        self._recorded = False

    def start(self) -> None:
        """Begin to watch."""
        self._before = breaks_before()
        self._first_node = _next_node()
        self._watcher.start()

    def stop(self) -> None:
        """End watching."""
        self._watcher.close()
        self._breaks = None if self._before is None else self._before.since()
        self._recorded = _next_node() != self._first_node

    @property
    def recorded(self) -> bool:
        """Whether autograd recorded anything; after ``stop``."""
        return self._recorded

    def counts(self, results: Any = None) -> CallCounts:
        """The totals, after ``stop``.

        Args:
            results: tensors that came out, in any containers; what their graphs keep for backward is counted.

        Returns:
            The counts. ``saved_bytes`` are None where a graph was recorded of which nothing is at hand: no backward
            pass ran, and none of ``results`` has one. ``graph_breaks`` are None where code that was compiled before
            ``start`` may have run: its breaks are not met again.
        """
        counts = self._watcher.counts(result=results)
        at_hand = any(isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None for leaf in tree_leaves(results))
        known = not self._recorded or self._watcher.saw_backward() or at_hand
        return replace(
            counts,
            saved_bytes=counts.saved_bytes if known else None,
            saved_input_bytes=counts.saved_input_bytes if known else None,
            graph_breaks=self._breaks,
        )

    def lines(self) -> tuple[CountedLine, ...]:
        """The source lines with all that was counted at them, their text as the file has it now; after ``counts``."""
        counts: dict[_Line, Counter[str]] = defaultdict(Counter)
        ops: dict[_Line, Counter[str]] = defaultdict(Counter)
        moved: dict[_Line, list[tuple[str, int]]] = defaultdict(list)
        for name, total, cost, (path, line, _) in self._watcher.calls_by_place():
            _add(counts[path, line], total, cost)
            if total.ops:
                ops[path, line][name] += total.ops
                moved[path, line].append((name, total.bytes_read + total.bytes_written))
        for (path, line, _), size in self._watcher.saved_by_place().items():
            counts[path, line]["saved_bytes"] += size
        return tuple(
            CountedLine(
                path=place[0],
                line=place[1],
                code=_text(*place),
                counts={name: value for name, value in sums.items() if value},
                ops=dict(sorted(ops[place].items())),
                idle=idle_ops(moved[place]),
            )
            for place, sums in counts.items()
        )


def _add(sums: Counter[str], total: GroupCounts, cost: OpCost) -> None:
    for name in _SUMS:
        sums[name] += getattr(total, name)
    if cost.dtype in FP32_OR_WIDER:
        sums["fp32_matmul_flops"] += total.matmul_flops
    if cost.dtype in FP64_OR_WIDER:
        sums["fp64_matmul_flops"] += total.matmul_flops
    if not cost.modelled:
        sums["unmodelled_ops"] += total.ops


def _text(path: str | None, line: int | None) -> str | None:
    return linecache.getline(path, line).strip() or None if path is not None and line is not None else None


def _next_node() -> int:
    return int(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]  # absent from torch's stubs
