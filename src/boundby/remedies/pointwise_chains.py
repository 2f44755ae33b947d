"""Chains of elementwise ops in a report, by source line: how often memory is passed over, and how often it need be.

An op by itself reads all its operands from memory and writes its result there. One kernel for the whole chain reads
what comes from outside once and writes the result once. A *pass* is one reading or one writing of all elements of the
chain's tensors: ``a * b + c`` takes six op by op (two reads and a write, twice), and four in one kernel.

A report does not say which op's result another op reads. What is known: each op's bytes, and the source text. Of ``n``
passes of reading, as many as there are results but the last are intermediates; and no more tensors come from outside
than the text has names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from boundby.remedies.in_step import base_name
from boundby.remedies.source_names import SourceNames, names_of
from boundby.results.counts import Phase
from boundby.results.interval import Interval, interval
from boundby.results.report import OpRow, Report

# Reductions read all elements and write few; they end a chain, or stand in it where rows are short.
REDUCTIONS = frozenset(
    {"sum", "mean", "amax", "amin", "max", "min", "var", "var_mean", "std", "prod", "linalg_vector_norm", "norm"}
    | {"logsumexp", "mse_loss", "l1_loss"}
)
# Elementwise and yet without an arithmetic operation.
SELECTIONS = frozenset({"where", "masked_fill"})
# A line with products or other work in it still holds a chain beside them, as softmax(q @ k) @ v does; where there is
# more such work than this for each run of the chain (a recurrent layer's line), it stands between the chain's ops.
MOST_BETWEEN = 2
# Lines this near to each other are one piece of code, unless another op stands between them.
NEAR_LINES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Elementwise ops and reductions on tensors of one size, which one kernel could do.

    ``first_line`` and ``line`` are the source lines of its first and its last op; ``code`` the text of the one that
    took longest. ``runs`` is how often a step runs the chain, ``elements`` the size of its tensors, ``passes_before``
    the passes over memory of one run op by op, ``passes_after`` those of one kernel. ``rows`` are its rows.
    """

    path: str
    first_line: int
    line: int
    code: str
    module: str | None
    phase: Phase
    runs: int
    elements: int
    element_bytes: int
    passes_before: float
    passes_after: Interval
    rows: tuple[OpRow, ...]

    @property
    def ops(self) -> int:
        """Ops of a step that belong to it."""
        return sum(row.calls for row in self.rows)

    @property
    def time_s(self) -> float:
        """What they take now, seconds a step."""
        return sum(row.time_s for row in self.rows)

    @property
    def bytes_before(self) -> int:
        """Bytes that they move now, a step."""
        return sum(row.bytes_read + row.bytes_written for row in self.rows)

    def overlaps(self, other: Chain) -> bool:
        """Whether both are of the same module and of some of the same lines."""
        same = (self.path, self.module) == (other.path, other.module)
        return same and self.first_line <= other.line and other.first_line <= self.line

    @property
    def names(self) -> frozenset[str]:
        """The ops in it, by their plain names."""
        return frozenset(plain_name(row.op) for row in self.rows)


def pointwise_chains(report: Report) -> tuple[Chain, ...]:
    """All chains of at least two ops, the costliest first.

    Args:
        report: any report; one without ops has none. Optimizers are left out, whose kernels are another remedy's.
    """
    chains = [chain for group in _groups(report.ops) if (chain := chain_of(group)) is not None]
    between = _other_calls(report.ops)
    chains = [one for one in chains if _stands_together(one, between)]
    written = [one for one in chains if one.phase != "backward"]
    # The gradient of a single op is no chain of the user's, even where gradients are added up.
    kept = [one for one in chains if one.phase != "backward" or any(one.overlaps(other) for other in written)]
    return tuple(sorted(kept, key=lambda one: -one.time_s))


def plain_name(op: str) -> str:
    """``aten.mul_.Tensor`` is ``mul``."""
    return base_name(op).rstrip("_")


def is_pointwise(row: OpRow) -> bool:
    """Whether each element of the row's results comes from the elements at its place."""
    name = plain_name(row.op)
    if name in REDUCTIONS or name.startswith(("_foreach", "_fused")) or row.matmul_flops:
        return False
    return name in SELECTIONS or (row.pointwise_flops > 0 and row.bytes_written > 0)


def is_reduction(row: OpRow) -> bool:
    """Whether the row's ops read many elements for each that they write."""
    return plain_name(row.op) in REDUCTIONS


def _groups(rows: Sequence[OpRow]) -> Iterator[list[OpRow]]:
    """Rows of the same piece of code, module and phase, with no other work between their lines."""
    places: dict[tuple[str, str | None, Phase], dict[int, list[OpRow]]] = {}
    other: dict[str, set[int]] = {}
    for row in rows:
        if row.path is None or row.line is None or row.phase == "optimizer" or not _moves(row):
            continue
        if is_pointwise(row) or is_reduction(row):
            lines = places.setdefault((row.path, row.module, row.phase), {})
            lines.setdefault(row.line, []).append(row)
        else:
            other.setdefault(row.path, set()).add(row.line)
    for (path, _, _), lines in places.items():
        group: list[OpRow] = []
        last = 0
        for line in sorted(lines):
            apart = any(last <= one <= line for one in other.get(path, ()))
            if group and (line - last > NEAR_LINES or apart):
                yield group
                group = []
            group.extend(lines[line])
            last = line
        # Ops of one kind around a product, as in relu(a(relu(x))), have it between them.
        if line not in other.get(path, ()) or len({row.op for row in group}) > 1:
            yield group


def _other_calls(rows: Sequence[OpRow]) -> dict[tuple[str, str | None, Phase, int], int]:
    """Calls a step of work that is no part of chains, by path, module, phase and line."""
    found: dict[tuple[str, str | None, Phase, int], int] = {}
    for row in rows:
        other = _moves(row) and not is_pointwise(row) and not is_reduction(row)
        if other and row.path is not None and row.line is not None:
            key = (row.path, row.module, row.phase, row.line)
            found[key] = found.get(key, 0) + row.calls
    return found


def _stands_together(chain: Chain, other: Mapping[tuple[str, str | None, Phase, int], int]) -> bool:
    lines = {row.line or 0 for row in chain.rows}
    calls = sum(other.get((chain.path, chain.module, chain.phase, line), 0) for line in lines)
    # Each product has two gradients, each again a product.
    return calls <= chain.runs * MOST_BETWEEN * (2 if chain.phase == "backward" else 1)


def _moves(row: OpRow) -> bool:
    return row.bytes_read + row.bytes_written > 0


def chain_of(rows: Sequence[OpRow]) -> Chain | None:
    """Rows of one piece of code as a chain; None where they are no two ops.

    Args:
        rows: elementwise ops and reductions of the same path, module and phase.
    """
    pointwise = [row for row in rows if is_pointwise(row)]
    if not pointwise:
        return None
    largest = max(pointwise, key=lambda row: row.bytes_written / row.calls)
    # A selection has no arithmetic, and its elements' size is not known: taken for the usual one.
    elements = max(1, (largest.pointwise_flops or largest.bytes_written // 4) // largest.calls)
    element_bytes = max(1, round(largest.bytes_written / largest.calls / elements))
    read = max((row.bytes_read // row.calls for row in rows if is_reduction(row)), default=0)
    elements = max(elements, read // element_bytes)
    unit = elements * element_bytes
    names = names_of(tuple({_line(row): row.code or "" for row in sorted(rows, key=_line)}.values()))
    runs = _runs(rows, names)
    if sum(row.calls for row in rows) // runs < 2:
        return None
    reads = sum(row.bytes_read for row in rows) / (runs * unit)
    writes = sum(row.bytes_written for row in rows) / (runs * unit)
    lines = [_line(row) for row in rows]
    first = max(rows, key=lambda row: row.time_s)
    assert first.path is not None
    return Chain(
        path=first.path,
        first_line=min(lines),
        line=max(lines),
        code=(first.code or "").strip(),
        module=first.module,
        phase=first.phase,
        runs=runs,
        elements=elements,
        element_bytes=element_bytes,
        passes_before=reads + writes,
        passes_after=_passes_after(reads, writes, names, backward=first.phase == "backward"),
        rows=tuple(rows),
    )


def _line(row: OpRow) -> int:
    return row.line or 0


def _runs(rows: Sequence[OpRow], names: SourceNames | None) -> int:
    """How often a step runs the chain: from the operations in its text where they divide the calls."""
    calls = [row.calls for row in rows]
    if rows[0].phase != "backward" and names is not None and names.operations and sum(calls) % names.operations == 0:
        return sum(calls) // names.operations
    return math.gcd(*calls)


def _passes_after(reads: float, writes: float, names: SourceNames | None, *, backward: bool) -> Interval:
    """Passes of one kernel: what comes from outside once, and the results.

    Args:
        reads: passes of reading, op by op.
        writes: passes of writing.
        names: what the source says; None where it could not be read.
        backward: whether it is the gradient of that source, which reads one more and writes one for each name.
    """
    known = None if names is None else max(1, len(names.outside))
    reduced = names is not None and names.ends_reduced and not backward
    results = float(known or 1) if backward else 0.0 if reduced else 1.0
    results = min(results, max(writes, 0.0))
    outside = max(1.0, reads - max(0.0, writes - results))
    if known is None:
        value, low, high = math.sqrt(outside), 1.0, outside
    else:
        value = min(outside, known + 1.0 if backward else float(known))
        # What is saved for the backward pass, or used by later code, is written as well.
        low, high = min(value, outside), value + max(0.0, min(1.0, writes - results))
    most = reads + writes
    return interval(min(value + results, most), min(low + results, most), min(high + results, most))
