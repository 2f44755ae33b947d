"""Ops of a report's rows made again as small functions with gradients, to be timed another way."""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from boundby.remedies.contract import Compared, Evidence
from boundby.remedies.in_step import Shape, base_name, seconds_of, tensor_shapes
from boundby.results.interval import Interval
from boundby.results.report import OpRow, Report

Context = Callable[[], AbstractContextManager[Any]]

# Products that share their kernels: forward ops, and their backward ones.
FAMILIES = (
    (("mm", "addmm"), ("mm", "addmm")),
    (("bmm", "baddbmm"), ("bmm", "baddbmm")),
    (("convolution",), ("convolution_backward",)),
    (
        ("_scaled_dot_product_flash_attention_for_cpu",),
        ("_scaled_dot_product_flash_attention_for_cpu_backward",),
    ),
)
PRODUCTS = tuple(name for forward, _ in FAMILIES for name in forward)
PRODUCTS_BACKWARD = tuple(name for _, backward in FAMILIES for name in backward)
# Seconds for the probe of one op, and how many products of a family: the costliest stand for all.
PROBE_S = 0.04
MOST_KINDS = 3
# A family that is less of the step than this is left as it is; one of which less than this part is made again says
# nothing of the whole.
LEAST_FAMILY = 0.02
LEAST_KNOWN = 0.5
# A slow dtype shows at a fraction of the work.
SLOW_PART = 20
# An op as short as this is mostly its start, and its probe is more than the op inside the step.
SHORT_S = 2e-4
# What a probe of one product may cost in its forward pass, where the machine has a fast path for it. With a tenth of
# its rows a product is faster in the one dtype and not in the other: the casts of its weights weigh more.
MOST_FLOPS = 600_000_000
# Attention's small products run at a part of that speed.
ATTENTION_SLOWER = 10.0
# With fewer images than these, casting a convolution's weights weighs more in the probe than it does in the step.
CONVOLUTION_MORE = 2.0
# Products are like the first one of their source line where it has their mean FLOPs, to this part.
LIKE_FIRST = 0.95
# From so many on a source line has a product for each time step, and no longer one for each layer.
MANY_CALLS = 16
# The last rows of a product make no other code run; with fewer, it is another product.
FEWEST_ROWS = 128
# With this few rows a product's time is that of reading its weights.
FEW_ROWS = 64
# As many bytes of weights take turns as a step reads, up to several times a large last cache: what part of them a cache
# keeps makes reading quicker in the one dtype and not in the other.
COLD_BYTES = 128 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Ops of a step's forward pass that begin alike: what they are, how many, and the share of the step they take.

    ``shapes`` are those of a source line's first call; ``is_varied`` where a line has many products and theirs differ.
    """

    op: str
    shapes: tuple[Shape, ...]
    calls: int
    share: float
    flops: int
    is_varied: bool = False

    @property
    def of_first(self) -> float:
        """FLOPs of a call over those of the first one, whose shapes are told; 1 where they are not a product's."""
        return _of_first(self.op, self.shapes, self.flops / max(self.calls, 1))


def _of_first(op: str, shapes: tuple[Shape, ...], flops: float) -> float:
    if op not in ("mm", "addmm", "bmm", "baddbmm") or len(shapes) < 2 or not flops:
        return 1.0
    return flops / max(1, 2 * math.prod(shapes[-2]) * shapes[-1][-1])


def _is_varied(row: OpRow) -> bool:
    ratio = _of_first(base_name(row.op), tensor_shapes(row), row.matmul_flops / max(row.calls, 1))
    return row.calls >= MANY_CALLS and not LIKE_FIRST < ratio < 1.0 / LIKE_FIRST


def kinds_of(rows: Iterable[OpRow], names: Sequence[str]) -> list[Kind]:
    """Forward ops of those names by op and shapes, the costliest first.

    Args:
        rows: the report's.
        names: of ops, without namespace and overload.
    """
    found: dict[tuple[str, tuple[Shape, ...]], list[OpRow]] = defaultdict(list)
    for row in rows:
        # Functions called outside any module are "other" where a step has no backward pass.
        if row.phase in ("forward", "other") and base_name(row.op) in names:
            found[base_name(row.op), tensor_shapes(row)].append(row)
    kinds = [
        Kind(
            op=op,
            shapes=shapes,
            calls=sum(row.calls for row in some),
            share=sum(row.share for row in some),
            flops=sum(row.matmul_flops for row in some),
            is_varied=any(map(_is_varied, some)),
        )
        for (op, shapes), some in found.items()
    ]
    return sorted(kinds, key=lambda one: -one.share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A forward op with tensors of its own: ``call`` takes them and returns the output."""

    call: Callable[..., Any]
    shapes: tuple[Shape, ...]
    # How many sets of tensors take turns, so that weights come from memory as they do in a step that reads many.
    sets: int = 1


def weight_bytes(kinds: Iterable[Kind]) -> int:
    """Bytes of weights in fp32 that a step's products of few rows read, each call's its own.

    Args:
        kinds: the products of the forward pass.
    """
    total = 0
    for kind in kinds:
        if kind.op in ("mm", "addmm") and len(kind.shapes) >= 2 and kind.shapes[-2][0] <= FEW_ROWS:
            total += 4 * kind.calls * math.prod(kind.shapes[-1])
    return total


def product_replay(kind: Kind, *, most_flops: int = MOST_FLOPS, read_bytes: int | None = None) -> Replay | None:
    """The product by the function that a user calls, on fewer rows where it is long; None where it is not known how.

    Args:
        kind: one of ``PRODUCTS``.
        most_flops: of its forward pass; what makes it smaller is left as it is where it would become another product.
        read_bytes: bytes of weights that a step reads, from ``weight_bytes``; None: those of this kind alone.
    """
    import torch

    functional = torch.nn.functional
    factor = most_flops * kind.calls / max(kind.flops, 1)
    shapes = kind.shapes
    if len(shapes) < 2:
        return None
    if kind.op in ("mm", "addmm"):
        left, right = shapes[-2:] if kind.op == "addmm" else shapes[:2]
        outputs = _fewer(right[1], factor, FEWEST_ROWS)
        if kind.of_first > 1.0 / LIKE_FIRST:
            return None  # others are larger: in which way is not told
        count = max(1, round(left[0] * kind.of_first)) if kind.of_first < LIKE_FIRST else left[0]
        rows = _fewer(count, factor * right[1] / outputs, FEWEST_ROWS)
        few = rows <= FEW_ROWS
        each = 4 * outputs * left[1]
        sets = max(1, min(COLD_BYTES, read_bytes or kind.calls * each) // each) if few else 1
        return Replay(call=functional.linear, shapes=((rows, left[1]), (outputs, left[1])), sets=sets)
    if kind.op in ("bmm", "baddbmm"):
        left, right = shapes[-2:]
        batch = _fewer(left[0], factor, 1)
        return Replay(call=torch.matmul, shapes=((batch, *left[1:]), (batch, *right[1:])))
    if kind.op == "convolution":
        return _convolution(kind, factor * CONVOLUTION_MORE)
    if len(shapes) >= 3:
        batch = _fewer(shapes[0][0], factor / ATTENTION_SLOWER, 1)
        three = tuple((batch, *shape[1:]) for shape in shapes[:3])
        return Replay(call=functional.scaled_dot_product_attention, shapes=three)
    return None


def _fewer(count: int, factor: float, fewest: int) -> int:
    return count if factor >= 1.0 else max(min(count, fewest), int(count * factor))


def _convolution(kind: Kind, factor: float) -> Replay | None:
    """Stride and padding are not told: those that give the FLOPs that were counted. None where none do."""
    import torch

    inputs, weight = kind.shapes[:2]
    sides, channels = len(inputs) - 2, inputs[1]
    functional = torch.nn.functional
    plain = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
    transposed = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}
    if sides not in plain or len(weight) != len(inputs):
        return None
    shapes = ((_fewer(inputs[0], factor, 1), *inputs[1:]), weight)
    places = round(kind.flops / kind.calls / (2 * inputs[0] * math.prod(weight)))
    for stride, padding in _likely(weight[2:]) if channels % weight[1] == 0 else ():
        sizes = zip(inputs[2:], weight[2:], strict=True)
        if math.prod((side + 2 * padding - size) // stride + 1 for side, size in sizes) == places:
            options = {"stride": stride, "padding": padding, "groups": channels // weight[1]}
            return Replay(call=functools.partial(plain[sides], **options), shapes=shapes)
    if weight[0] == channels and places == math.prod(inputs[2:]):
        stride = 2 if min(inputs[2:]) > 1 else 1
        padding = (weight[-1] - stride) // 2 if stride > 1 else 0
        call = functools.partial(transposed[sides], stride=stride, padding=max(padding, 0))
        return Replay(call=call, shapes=shapes)
    return None


def _likely(kernel: Shape) -> list[tuple[int, int]]:
    """(stride, padding) as they are usually chosen, the likeliest first."""
    pads = list(dict.fromkeys((kernel[-1] // 2, 0, *range(1, kernel[-1] // 2))))
    return [(stride, pad) for stride in dict.fromkeys((1, 2, kernel[-1], 4, 3)) for pad in pads]


def timed_call(
    replay: Replay,
    dtypes: Sequence[str],
    *,
    gradients: bool,
    context: Context = nullcontext,
    around: Context = nullcontext,
) -> Callable[[], object]:
    """A call without arguments that runs the op forward, and where ``gradients`` backward too.

    Args:
        replay: the op.
        dtypes: of its tensors, by torch's names.
        gradients: whether the step has a backward pass.
        context: entered for the forward op.
        around: entered for the whole.
    """
    import torch

    # Unlike values: what compares them (pooling, say) goes another way at each, and takes several times as long.
    generator = torch.Generator().manual_seed(1)
    first = [
        torch.randn(shape, generator=generator).to(getattr(torch, dtype))
        for shape, dtype in zip(replay.shapes, dtypes, strict=True)
    ]
    sets = [[one.clone().requires_grad_(gradients) for one in first] for _ in range(replay.sets)]
    with torch.no_grad(), context():
        gradient = torch.ones_like(replay.call(*sets[0]))
    turns = itertools.cycle(sets)

    def call() -> None:
        tensors = next(turns)
        with around(), torch.set_grad_enabled(gradients):
            with context():
                output = replay.call(*tensors)
            if gradients:
                torch.autograd.grad(output, tensors, gradient)

    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Seconds of the step that change, and how many times as long they take then."""

    seconds: float
    ratio: Interval


def products_part(
    evidence: Evidence,
    kinds: Sequence[Kind],
    *,
    context: Context = nullcontext,
    around: Context = nullcontext,
    slow: bool = False,
) -> Part | None:
    """All products of a step, forward and backward, as they are beside a changed context, by probes of the costliest.

    None where nothing may be probed, or where it is not known how to make the products again.

    Args:
        evidence: the report and the probe.
        kinds: the products of the forward pass, the costliest first.
        context: what the changed side enters for the forward op.
        around: what it enters for the whole.
        slow: whether the machine is known to be slow at it.
    """
    if evidence.probe is None:
        return None
    gradients = has_backward(evidence.report)
    read_bytes = weight_bytes(kinds)
    parts = []
    for forward, backward in FAMILIES:
        family = [kind for kind in kinds if kind.op in forward]
        seconds = seconds_of(evidence.report, rows_of(evidence.report, {*forward, *backward}))
        if not family or seconds < LEAST_FAMILY * evidence.report.step.time_s.median:
            continue
        done = []
        for kind in family[:MOST_KINDS]:
            most_flops = MOST_FLOPS // SLOW_PART if slow else MOST_FLOPS
            replay = product_replay(kind, most_flops=most_flops, read_bytes=read_bytes)
            if replay is None:
                continue
            dtypes = ("float32",) * len(replay.shapes)
            base = timed_call(replay, dtypes, gradients=gradients)
            changed = timed_call(replay, dtypes, gradients=gradients, context=context, around=around)
            done.append((kind, evidence.probe(base, changed, budget_s=PROBE_S)))
        tried = sum(kind.share for kind in family[:MOST_KINDS])
        if sum(kind.share for kind, _ in done) < LEAST_KNOWN * tried:
            return None
        part = _family_part(family, done, seconds)
        if part is not None:
            parts.append(part)
    return together(parts) if parts else None


def _family_part(family: Sequence[Kind], done: Sequence[tuple[Kind, Compared]], seconds: float) -> Part | None:
    ratio = weighted(done)
    if ratio is None:
        return None
    # What is added to short ops (casts) is added whole, while the op inside the step is less than its probe.
    calls = sum(kind.calls for kind, _ in done)
    base_s = sum(kind.calls * probed.base_s for kind, probed in done)
    everything = base_s * sum(kind.calls for kind in family) / calls
    if base_s / calls >= SHORT_S or everything <= seconds:
        return Part(seconds=seconds, ratio=ratio)
    value, low, high = (1.0 + everything / seconds * (one - 1.0) for one in (ratio.value, ratio.low, ratio.high))
    return Part(seconds=seconds, ratio=Interval(value=value, low=min(low, ratio.low), high=max(high, ratio.high)))


def weighted(done: Sequence[tuple[Kind, Compared]]) -> Interval | None:
    """The ratio of all together, each by the share of the step that its kind takes; None without any."""
    whole = sum(kind.share for kind, _ in done)
    if whole <= 0:
        return None
    value, low, high = (
        sum(kind.share * one for kind, one in zip((kind for kind, _ in done), ratios, strict=True)) / whole
        for ratios in zip(*((p.ratio.value, p.ratio.low, p.ratio.high) for _, p in done), strict=True)
    )
    return Interval(value=value, low=min(low, value), high=max(high, value))


def together(parts: Sequence[Part]) -> Part:
    """Parts of a step as one."""
    seconds = sum(part.seconds for part in parts)
    value, low, high = (
        sum(part.seconds * one for part, one in zip(parts, ratios, strict=True)) / seconds
        for ratios in zip(*((p.ratio.value, p.ratio.low, p.ratio.high) for p in parts), strict=True)
    )
    return Part(seconds=seconds, ratio=Interval(value=value, low=low, high=high))


def rows_of(report: Report, names: Collection[str]) -> list[OpRow]:
    """The rows of those ops outside the optimizer."""
    return [row for row in report.ops if row.phase != "optimizer" and base_name(row.op) in names]


def has_backward(report: Report) -> bool:
    """Whether a step has a backward pass."""
    return any(row.phase == "backward" for row in report.ops)


def unknown_products(report: Report) -> list[OpRow]:
    """Rows of products that it is not known how to make again: recurrent layers and the like."""
    known = (*PRODUCTS, *PRODUCTS_BACKWARD)
    return [
        row for row in report.ops if row.matmul_flops and row.phase != "optimizer" and base_name(row.op) not in known
    ]
