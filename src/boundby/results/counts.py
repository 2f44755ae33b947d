"""What an op, and a step, costs on paper: deterministic, equal on every run and machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Phase = Literal["forward", "backward", "optimizer", "other"]

OpKind = Literal[
    "view",  # metadata only, launches nothing
    "empty",  # allocation without a write
    "pointwise",  # elementwise into a fresh tensor
    "inplace",  # elementwise into an existing tensor
    "fill",  # writes only: zero_, fill_, ones
    "copy",  # copy_, clone, _to_copy, cat, stack, contiguous
    "random",  # fills from a generator
    "reduction",  # sum, mean, max, norm, argmax...
    "softmax",  # softmax, log_softmax and their backwards
    "norm",  # layer, batch, group, rms norm and their backwards
    "matmul",  # mm, addmm, bmm, mv, dot, linear
    "attention",
    "convolution",
    "recurrent",
    "index",  # gather, index_select, embedding, index
    "scatter",  # index_put, scatter_add, embedding_dense_backward
    "loss",
    "pool",
    "sort",
    "foreach",  # one op over a list of tensors
    "fused_optimizer",
    "scalar",  # item(), host reads
    "other",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulShape:
    """A matrix product as a kernel sees it: ``batch`` products of (m, k) by (k, n)."""

    batch: int
    m: int
    n: int
    k: int


# The name of the op that a compiled region is in a trace.
REGION_NAME = "torch.compile region"


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerEquivalent:
    """What a compiled region would be op by op: the costs of the ops that the user's code asks for, before fusion."""

    ops: int = 0
    launches: int = 0
    matmul_flops: int = 0
    causal_matmul_flops: int = 0
    pointwise_flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCost:
    """The cost of one executed op.

    FLOP = 2 x multiply-accumulate; bytes are ideal traffic, each distinct element once. ``function`` names the
    scalar function that may bind a pointwise op (``exp``, ``tanh``, ``add``) and ``function_elements`` how many
    elements go through it; both are for the pointwise floor. ``dtype`` is the short name the work is done in
    (``fp32``, ``bf16``, ``fp16``, ``fp64``, ``int8``, ``int64``, ``bool``, ``c64``...). ``matmul_shape`` is the
    product's shape where one product describes the op.

    ``indexed_bytes_read`` and ``indexed_bytes_written`` are the parts of ``bytes_read`` and ``bytes_written`` that the
    values of indices or masks decide: as counted for these values, the most they can be where there were none.

    A compiled region is one op with as many ``launches`` as it has kernels and calls of library ops; ``eager`` is what
    it would be op by op (None: not a region, or not known).
    """

    kind: OpKind
    launches: int = 1
    matmul_flops: int = 0
    causal_matmul_flops: int = 0
    pointwise_flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    function: str | None = None
    function_elements: int = 0
    dtype: str = "fp32"
    matmul_shape: MatmulShape | None = None
    modelled: bool = True
    eager: EagerEquivalent | None = None
    indexed_bytes_read: int = 0
    indexed_bytes_written: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmodelled:
    """An op that has no cost rule: its name, its calls in a step, its share of the step's time (None: not timed)."""

    name: str
    calls: int
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounts:
    """Totals of one op name, phase, module path or source line.

    ``saved_bytes`` is what its ops keep for backward (None: not told apart by such groups).
    """

    name: str
    ops: int = 0
    launches: int = 0
    matmul_flops: int = 0
    pointwise_flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    saved_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Totals of a step. ``saved_bytes`` is None where it was not looked at.

    Compiled regions are counted as what they run after fusion; ``eager`` is what the step would be with every region
    op by op (None: nothing is compiled, or a region's equivalent is not known).

    ``ops`` counts aten ops below autograd, views included; ``launches`` those that do work. ``saved_bytes`` are unique
    storages kept for backward without parameters and buffers; ``saved_input_bytes`` is the part of it that are the
    caller's own input tensors. ``graph_breaks`` are the breaks that torch.compile met while it was watched (None: not
    looked at, or code that was compiled before may hide some). ``indexed_bytes_read`` and ``indexed_bytes_written`` are
    the parts of ``bytes_read`` and ``bytes_written`` that the values of indices and masks decide, as they were here;
    what compiled kernels read by indices is not among them.
    """

    ops: int = 0
    launches: int = 0
    matmul_flops: int = 0
    causal_matmul_flops: int = 0
    pointwise_flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    saved_bytes: int | None = None
    saved_input_bytes: int | None = None
    recomputed_flops: int = 0
    unmodelled: tuple[Unmodelled, ...] = ()
    by_op: tuple[GroupCounts, ...] = field(default=())
    by_phase: tuple[GroupCounts, ...] = field(default=())
    by_module: tuple[GroupCounts, ...] = field(default=())
    by_line: tuple[GroupCounts, ...] = field(default=())
    eager: EagerEquivalent | None = None
    graph_breaks: int | None = None
    indexed_bytes_read: int = 0
    indexed_bytes_written: int = 0


_WIDTHS = ("c128", "c64", "fp64", "fp32", "bf16", "fp16")


def widest_dtype(names: Iterable[str]) -> str | None:
    """Of the short names of dtypes the one with most bits, floating ones before others; None without any."""
    found = sorted(set(names), key=lambda name: (_WIDTHS.index(name) if name in _WIDTHS else len(_WIDTHS), name))
    return found[0] if found else None


def eager_equivalent(rows: Iterable[tuple[OpCost, int]], regions: int) -> EagerEquivalent | None:
    """What a step would be with its compiled regions op by op; None without any, or where one's is not known.

    Args:
        rows: the cost of every op of the step and how often it occurs, compiled regions among them.
        regions: how many calls of compiled regions there are.
    """
    parts = [(cost.eager or cost, times, cost.eager is not None) for cost, times in rows]
    if regions == 0 or sum(times for _, times, known in parts if known) != regions:
        return None
    return EagerEquivalent(
        ops=sum(times * (part.ops if isinstance(part, EagerEquivalent) else 1) for part, times, _ in parts),
        launches=sum(times * part.launches for part, times, _ in parts),
        matmul_flops=sum(times * part.matmul_flops for part, times, _ in parts),
        causal_matmul_flops=sum(times * part.causal_matmul_flops for part, times, _ in parts),
        pointwise_flops=sum(times * part.pointwise_flops for part, times, _ in parts),
        bytes_read=sum(times * part.bytes_read for part, times, _ in parts),
        bytes_written=sum(times * part.bytes_written for part, times, _ in parts),
    )
