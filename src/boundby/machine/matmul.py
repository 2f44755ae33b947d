"""Matmul ceilings: FLOP/s of products, convolutions and attention, and byte/s of products bound by their weight.

All through eager ops, FLOP = 2 x multiply-add. The time of the same op on almost nothing is subtracted, so that a
product's time is its overhead plus its FLOPs over the ceiling; where little is left the ceiling is left out.
Names and shapes (batch, m, n, k):

- ``mm``, ``mm_nt``, ``mm_tn``: (batch) products of (m, k) by (k, n); ``nt`` has the right matrix transposed in memory
  as ``nn.Linear`` keeps its weight, ``tn`` the left one, as in the gradient of a weight.
- ``conv``, ``conv_backward``: the implicit product (groups, N x output positions, Cout / groups, Cin / groups x taps);
  backward makes both gradients, 2 x the FLOPs of forward.
- ``attention``, ``attention_backward``: (batch x heads, query length, key length, head width); 2 products forward, 5
  backward (it makes the scores again), the full count without a causal mask.
- ``mv``: a skinny product (m of 1 to 8) with a weight of (n, k) in ``nn.Linear``'s layout; unit byte/s, counting the
  weight, the input and the output once. Successive calls take successive rows of a large weight, so that none is long.

``int8`` products are ``torch._int_mm``, which adds up in 32-bit integers; their FLOP are integer operations. tf32 and
fp8 are arithmetic that only accelerators have: on a CPU there is nothing to measure.

Beside the rates stands ``matmul/mm DTYPE`` (kind overhead): the time of a 2 x 2 product, which is what the rates are
free of. With it, a rate tells the time of a whole call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from boundby.machine.data import DTYPES, DataSource
from boundby.machine.probe import Probe, ProbeSet, Reading, Unit, rate_of, seconds_of, taking_turns
from boundby.results.language import tr
from boundby.results.machine import Finding
from boundby.timing.clock import Clock, monotonic_ns
from boundby.timing.one_thread import in_one_thread

# A type that is this much slower than fp32 has no hardware path here: large products of it are not tried.
SLOW_DTYPE = 4.0
# What is tried besides fp32, the likeliest first.
TRIED_DTYPES = ("bf16", "fp64", "fp16", "int8")

SQUARES = {
    "fp32": (16, 32, 48, 64, 96, 128, 256, 512, 1024),
    "bf16": (64, 128, 256, 512, 1024),
    "fp16": (128, 512),
    "fp64": (32, 64, 128, 256, 512),
    "int8": (64, 128, 256, 512, 1024),
}
# More of them for a full measuring: a finer sweep, and past what the caches hold.
FULL_SQUARES = {
    "fp32": (24, 192, 384, 768, 1536, 2048),
    "bf16": (32, 48, 96, 192, 384, 768, 1536, 2048),
    "fp16": (64, 256, 1024),
    "fp64": (16, 24, 48, 96, 192, 384, 768, 1024),
    "int8": (32, 48, 96, 192, 384, 768, 1536, 2048),
}

# Shapes of models' layers: rows of a batch of tokens by widths, few classes, one head's products, weight gradients.
SHAPES: dict[str, tuple[tuple[str, tuple[int, int, int, int]], ...]] = {
    "fp32": (
        ("mm", (1, 2048, 192, 64)),
        ("mm", (1, 3072, 64, 256)),
        ("mm", (1, 96, 64, 64)),
        ("mm", (1, 2048, 10, 256)),
        ("mm", (1, 2048, 16, 256)),
        ("mm", (1, 128, 10, 512)),
        ("mm", (1, 128, 512, 512)),
        ("mm", (1, 32, 256, 256)),
        ("mm", (16, 96, 96, 16)),
        ("mm", (128, 96, 96, 16)),
        ("mm", (128, 96, 16, 96)),
        ("mm", (384, 96, 16, 96)),
        ("mm", (8, 512, 512, 64)),
        ("mm", (64, 32, 32, 32)),
        ("mm_nt", (1, 2048, 192, 64)),
        ("mm_nt", (1, 3072, 256, 64)),
        ("mm_nt", (1, 96, 192, 64)),
        ("mm_nt", (1, 32, 256, 256)),
        ("mm_nt", (1, 16, 1024, 1024)),
        ("mm_nt", (1, 128, 10, 512)),
        ("mm_nt", (1, 128, 512, 512)),
        ("mm_nt", (1, 512, 512, 512)),
        ("mm_tn", (1, 192, 64, 2048)),
        ("mm_tn", (1, 256, 64, 3072)),
        ("mm_tn", (1, 192, 64, 96)),
        ("mm_tn", (1, 10, 512, 128)),
        ("mm_tn", (1, 256, 256, 32)),
        ("mm_tn", (1, 512, 512, 128)),
        ("mm_tn", (1, 512, 512, 512)),
    ),
    "bf16": (
        ("mm", (128, 96, 96, 16)),
        ("mm_nt", (1, 2048, 192, 64)),
        ("mm_nt", (1, 32, 256, 256)),
        ("mm_nt", (1, 512, 512, 512)),
        ("mm_tn", (1, 192, 64, 2048)),
    ),
    "fp64": (("mm_nt", (1, 128, 256, 256)),),
    "int8": (
        ("mm_nt", (1, 32, 256, 256)),
        ("mm_nt", (1, 512, 512, 512)),
    ),
}

# (N, Cin, height, Cout, kernel, stride, groups), square images, "same" padding.
CONVOLUTIONS = (
    (1, 8, 8, 8, 3, 1, 1),
    (16, 16, 8, 16, 3, 1, 1),
    (32, 3, 32, 32, 3, 1, 1),
    (4, 32, 32, 32, 3, 1, 1),
    (8, 64, 16, 64, 3, 2, 1),
    (4, 64, 16, 128, 3, 1, 1),
    (2, 256, 8, 256, 3, 1, 1),
    (64, 1, 28, 16, 5, 1, 1),
    (1, 64, 28, 64, 3, 1, 1),
    (16, 64, 16, 64, 1, 1, 1),
    (32, 128, 8, 256, 1, 1, 1),
    (16, 64, 16, 64, 3, 1, 64),
)
BF16_CONVOLUTIONS = ((4, 64, 16, 128, 3, 1, 1), (8, 64, 16, 64, 3, 2, 1))

# (batch, heads, length, head width)
ATTENTIONS = ((4, 4, 96, 16), (32, 4, 96, 16), (1, 2, 512, 64), (2, 12, 128, 64))

# How long the calls of a first look may take together, and how long a first one after which a second is still taken.
_CALLS_S, _FIRST_CALL_S = 0.05, 0.5
SKINNY_ROWS = (1, 2, 4, 8)
# nn.Linear weights of (n, k) that stay in cache.
SKINNY_CACHED = {"fp32": (512, 1024), "bf16": (1024, 1024)}
# Several times the last cache of most machines.
LARGE_WEIGHT_BYTES = 128 << 20
FLAT_DEPTHS = (2048, 768)
WEIGHT_PIECE_BYTES = 16 << 20


def matmul_probes(data: DataSource, *, dtypes: tuple[str, ...], memory_bytes: int, full: bool = False) -> ProbeSet:
    """Products, convolutions, attention and skinny products.

    Args:
        data: where the matrices come from.
        dtypes: the dtypes that are fast enough here to be measured in full (see ``usable_dtypes``).
        memory_bytes: how much memory all of them may take together.
        full: whether to sweep square products finely and up to 2048 x 2048.
    """
    board = _Board()
    for dtype in dtypes:
        tiny = board.probe(f"mm tiny {dtype}", product_call(data, "mm", (1, 2, 2, 2), dtype))
        board.call_time(f"matmul/mm {dtype}", dtype, tiny)
        squares = tuple(("mm", (1, size, size, size)) for size in square_sizes(dtype, memory_bytes, full=full))
        shapes = squares + SHAPES.get(dtype, ())
        if any(shape[0] > 1 for _, shape in shapes):
            tiny_batch = board.probe(f"bmm tiny {dtype}", product_call(data, "mm", (2, 2, 2, 2), dtype))
        for name, shape in shapes:
            key = board.probe(f"{name} {shape} {dtype}", product_call(data, name, shape, dtype))
            board.rate(name, dtype, shape, (key, tiny if shape[0] == 1 else tiny_batch), product_flops(shape))
    _add_convolutions(board, data, "fp32", CONVOLUTIONS)
    _add_attention(board, data, "fp32", ATTENTIONS)
    if "bf16" in dtypes:
        _add_convolutions(board, data, "bf16", BF16_CONVOLUTIONS)
        _add_attention(board, data, "bf16", ATTENTIONS[2:3])
    for dtype in dtypes:
        if dtype in SKINNY_CACHED:
            _add_skinny(board, data, dtype, memory_bytes // 2)
    return ProbeSet(probes=tuple(board.probes), readings=tuple(board.readings))


def square_sizes(dtype: str, memory_bytes: int, *, full: bool = False) -> tuple[int, ...]:
    """The sizes of square products to measure, smallest first.

    Args:
        dtype: of the matrices.
        memory_bytes: how much memory all matmul probes may take together; one product takes a sixteenth at most.
        full: whether to take the finer sweep.
    """
    sizes = SQUARES.get(dtype, ()) + (FULL_SQUARES.get(dtype, ()) if full else ())
    # An integer product's result has four bytes a number.
    item = 2 if dtype == "int8" else DTYPES[dtype].itemsize
    return tuple(sorted(size for size in sizes if size <= 1024 or 3 * item * size * size <= memory_bytes // 16))


# One thread, since a thread that waits for another one on a busy machine looks like a slow type.
@in_one_thread()
def usable_dtypes(
    data: DataSource, *, limit_s: float = 0.25, clock: Clock = monotonic_ns
) -> tuple[tuple[str, ...], ProbeSet, tuple[Finding, ...]]:
    """Which dtypes multiply fast enough here to be measured in full, found on small products within a bounded time.

    A type without a hardware path can be thousands of times slower than fp32, so each starts with a tiny product, and a
    larger one is tried only if it is bound to end within the limit.

    Args:
        data: where the matrices come from.
        limit_s: how long a single product may take, seconds.
        clock: nanoseconds.

    Returns:
        The usable dtypes; probes for the small product of the others; a finding for each of those.
    """
    usable, findings, board = ["fp32"], [], _Board()
    size = 128
    reference = _fastest(product_call(data, "mm", (1, size, size, size), "fp32"), clock)
    for dtype in TRIED_DTYPES:
        tried, seconds = 16, 0.0
        try:
            seconds = _fastest(product_call(data, "mm", (1, tried, tried, tried), dtype), clock)
            while tried < size and seconds * 8 < limit_s:
                tried *= 2
                seconds = _fastest(product_call(data, "mm", (1, tried, tried, tried), dtype), clock)
        except RuntimeError as error:
            first = str(error).splitlines()[0] if str(error) else tr("no reason given")
            findings.append(
                Finding(
                    code="dtype-unusable",
                    message=tr("torch cannot multiply {dtype} matrices here: {first}", dtype=dtype, first=first),
                    advice=tr("Do not use {dtype} on this machine.", dtype=dtype),
                )
            )
            continue
        slowdown = seconds / (reference * (tried / size) ** 3)
        if tried == size and slowdown <= SLOW_DTYPE:
            usable.append(dtype)
            continue
        shape = (1, tried, tried, tried)
        if seconds < 0.02:
            key = board.probe(f"mm {shape} {dtype}", product_call(data, "mm", shape, dtype))
            tiny = board.probe(f"mm tiny {dtype}", product_call(data, "mm", (1, 2, 2, 2), dtype))
            board.rate("mm", dtype, shape, (key, tiny), product_flops(shape))
        findings.append(
            Finding(
                code="dtype-slow",
                message=tr(
                    "{dtype} matrix products are {slowdown} times slower than fp32 here (by a short try at {tried} "
                    "x {tried}): this machine or this torch has no fast path for them.",
                    dtype=dtype,
                    slowdown=f"{slowdown:.0f}",
                    tried=tried,
                ),
                advice=tr("Do not use {dtype} on this machine.", dtype=dtype),
            )
        )
    return tuple(usable), ProbeSet(probes=tuple(board.probes), readings=tuple(board.readings)), tuple(findings)


def product_flops(shape: tuple[int, int, int, int]) -> int:
    """2 x batch x m x n x k."""
    batch, m, n, k = shape
    return 2 * batch * m * n * k


def product_call(
    data: DataSource, name: str, shape: tuple[int, int, int, int], dtype: str
) -> Callable[[], torch.Tensor]:
    """One product of ``shape`` (batch, m, n, k) into an existing output, laid out as ``name`` says.

    Raises:
        ValueError: a batch of int8 products was asked for, which torch does not have.
    """
    batch, m, n, k = shape
    if dtype == "int8":
        return _integer_product_call(data, name, shape)
    lead = () if batch == 1 else (batch,)
    scale = k**-0.5
    left = data.normal(*lead, k, m, dtype=dtype).mT if name == "mm_tn" else data.normal(*lead, m, k, dtype=dtype)
    if name == "mm_nt":
        right = data.normal(*lead, n, k, dtype=dtype, scale=scale).mT
    else:
        right = data.normal(*lead, k, n, dtype=dtype, scale=scale)
    out = torch.empty(*lead, m, n, dtype=DTYPES[dtype], device="cpu")
    return partial(torch.mm if batch == 1 else torch.bmm, left, right, out=out)


def _integer_product_call(data: DataSource, name: str, shape: tuple[int, int, int, int]) -> Callable[[], torch.Tensor]:
    batch, m, n, k = shape
    if batch != 1:
        raise ValueError(f"there are no batches of int8 products; got {batch}")

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return (data.integers(rows, columns, below=255) - 127).to(torch.int8)

    left = matrix(k, m).mT if name == "mm_tn" else matrix(m, k)
    right = matrix(n, k).mT if name == "mm_nt" else matrix(k, n)
    return partial(torch._int_mm, left, right, out=torch.empty(m, n, dtype=torch.int32, device="cpu"))


@dataclass(frozen=True, slots=True)
class _Convolution:
    """A convolution's tensors and arguments, and the product it amounts to."""

    x: torch.Tensor
    weight: torch.Tensor
    stride: int
    padding: int
    groups: int
    shape: tuple[int, int, int, int]

    def forward(self) -> torch.Tensor:
        result: torch.Tensor = torch.ops.aten.convolution(
            self.x, self.weight, None, [self.stride] * 2, [self.padding] * 2, [1, 1], False, [0, 0], self.groups
        )
        return result

    def backward_call(self) -> Callable[[], object]:
        gradient = torch.empty_like(self.forward()).copy_(self.forward())
        return partial(
            torch.ops.aten.convolution_backward,
            gradient,
            self.x,
            self.weight,
            None,
            [self.stride] * 2,
            [self.padding] * 2,
            [1, 1],
            False,
            [0, 0],
            self.groups,
            [True, True, False],
        )


class _Board:
    """Collects probes and readings."""

    def __init__(self) -> None:
        self.probes: list[Probe] = []
        self.readings: list[Reading] = []

    def probe(self, key: str, call: Callable[[], object]) -> str:
        self.probes.append(Probe(key=key, call=call))
        return key

    def call_time(self, name: str, dtype: str, key: str) -> None:
        self.readings.append(
            Reading(kind="overhead", name=name, keys=(key,), formula=seconds_of, unit="s", dtype=dtype)
        )

    def rate(
        self, name: str, dtype: str, shape: tuple[int, ...], keys: tuple[str, str], work: float, unit: Unit = "flop/s"
    ) -> None:
        self.readings.append(
            Reading(kind="matmul", name=name, keys=keys, formula=rate_of(work), unit=unit, dtype=dtype, shape=shape)
        )


def _convolution(data: DataSource, dtype: str, spec: tuple[int, int, int, int, int, int, int]) -> _Convolution:
    count, channels_in, height, channels_out, kernel, stride, groups = spec
    x = data.normal(count, channels_in, height, height, dtype=dtype)
    weight = data.normal(channels_out, channels_in // groups, kernel, kernel, dtype=dtype, scale=0.1)
    positions = ((height + 2 * (kernel // 2) - kernel) // stride + 1) ** 2
    shape = (groups, count * positions, channels_out // groups, channels_in // groups * kernel * kernel)
    return _Convolution(x, weight, stride, kernel // 2, groups, shape)


def _add_convolutions(
    board: _Board, data: DataSource, dtype: str, specs: tuple[tuple[int, int, int, int, int, int, int], ...]
) -> None:
    tiny = _convolution(data, dtype, (1, 1, 2, 1, 3, 1, 1))
    forward_tiny = board.probe(f"conv tiny {dtype}", tiny.forward)
    backward_tiny = board.probe(f"conv_backward tiny {dtype}", tiny.backward_call())
    for spec in specs:
        one = _convolution(data, dtype, spec)
        flops = product_flops(one.shape)
        key = board.probe(f"conv {spec} {dtype}", one.forward)
        board.rate("conv", dtype, one.shape, (key, forward_tiny), flops)
        key = board.probe(f"conv_backward {spec} {dtype}", one.backward_call())
        board.rate("conv_backward", dtype, one.shape, (key, backward_tiny), 2 * flops)


def _attention_calls(
    data: DataSource, dtype: str, spec: tuple[int, int, int, int]
) -> tuple[Callable[[], object], Callable[[], object]]:
    query, key, value, gradient = (data.normal(*spec, dtype=dtype) for _ in range(4))
    attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, scores = attend(query, key, value)
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    return (
        partial(attend, query, key, value),
        partial(backward, gradient, query, key, value, out, scores, 0.0, False),
    )


def _add_attention(board: _Board, data: DataSource, dtype: str, specs: tuple[tuple[int, int, int, int], ...]) -> None:
    forward, backward = _attention_calls(data, dtype, (1, 1, 1, 8))
    forward_tiny = board.probe(f"attention tiny {dtype}", forward)
    backward_tiny = board.probe(f"attention_backward tiny {dtype}", backward)
    for spec in specs:
        batch, heads, length, width = spec
        shape = (batch * heads, length, length, width)
        forward, backward = _attention_calls(data, dtype, spec)
        key = board.probe(f"attention {spec} {dtype}", forward)
        board.rate("attention", dtype, shape, (key, forward_tiny), 2 * product_flops(shape))
        key = board.probe(f"attention_backward {spec} {dtype}", backward)
        board.rate("attention_backward", dtype, shape, (key, backward_tiny), 5 * product_flops(shape))


def _add_skinny(board: _Board, data: DataSource, dtype: str, memory_bytes: int) -> None:
    """Products of 1 to 8 rows with a weight that fits a cache, and with one far larger than the last cache."""
    item = DTYPES[dtype].itemsize
    wide = 4096
    tall = min(LARGE_WEIGHT_BYTES, memory_bytes) // (wide * item)
    tiny = board.probe(f"mm tiny {dtype}", product_call(data, "mm", (1, 2, 2, 2), dtype))
    # The kernel's speed depends on the inner dimension too; more rows than one are measured with one of them.
    flat = [(tall * wide // depth, depth) for depth in FLAT_DEPTHS]
    for outputs, inputs in (SKINNY_CACHED[dtype], (tall, wide), *flat):
        weight = data.large(outputs * inputs, dtype=dtype).view(outputs, inputs)
        for rows in SKINNY_ROWS if inputs not in FLAT_DEPTHS else SKINNY_ROWS[:1]:
            x = data.normal(rows, inputs, dtype=dtype)
            shape = (1, rows, outputs, inputs)
            pieces = weight.chunk(max(1, outputs * inputs * item // WEIGHT_PIECE_BYTES))
            calls = [
                partial(torch.mm, x, piece.mT, out=torch.empty(rows, len(piece), dtype=DTYPES[dtype], device="cpu"))
                for piece in pieces
            ]
            key = board.probe(f"mv {shape} {dtype}", calls[0] if len(calls) == 1 else taking_turns(calls))
            moved = item * (outputs * inputs + rows * (len(pieces) * inputs + outputs)) / len(pieces)
            board.rate("mv", dtype, shape, (key, tiny), moved, "byte/s")


def _fastest(call: Callable[[], object], clock: Clock) -> float:
    """The fastest of up to twenty calls after a first one, seconds; fewer where they take over 50 ms together.

    The first call of a kind also prepares code and data, which took a fifth of a second where the library had to be
    read from disk: it counts only where a second one is too dear.
    """
    best, spent_s = float("inf"), 0.0
    for attempt in range(21):
        before = clock()
        call()
        seconds = max(1, clock() - before) * 1e-9
        spent_s += seconds
        too_dear = spent_s > (_CALLS_S if attempt else _FIRST_CALL_S)
        if attempt or too_dear:
            best = min(best, seconds)
        if too_dear:
            break
    return best
