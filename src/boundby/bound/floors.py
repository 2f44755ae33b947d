"""The least time an op can take by each ceiling."""

from __future__ import annotations

from dataclasses import dataclass

from boundby.bound.ceilings import Ceilings
from boundby.results.counts import REGION_NAME, OpCost
from boundby.results.interval import Interval, interval
from boundby.results.trace import OpSite

ZERO = interval(0.0)
# Products with so few rows read their weights once for each result: bandwidth binds them, not arithmetic.
MATVEC_ROWS = 8
# One such operation an element keeps up with loads and stores in any cache: what binds them is memory, whatever level.
ARITHMETIC = frozenset(
    {"add", "sub", "mul", "neg", "abs", "relu", "maximum", "minimum", "where", "compare", "lerp", "addcmul", "clamp"}
    | {"sum", "mean"}
)
# Another function binds only where it is clearly slower than its bytes.
POINTWISE_MARGIN = 1.1
# A ceiling whose samples spread wider than this was disturbed; the excess explains nothing.
WIDEST_BAND = 1.5

_PATTERN = {
    "inplace": "inplace",
    "fill": "write",
    "random": "write",
    "reduction": "read",
    "loss": "read",
    "copy": "copy",
}

# Ops whose ceiling bears a plainer name.
_PLAINER = {
    "adaptive_avg_pool2d_backward": "adaptive_avg_pool2d",
    "bernoulli": "dropout",
    "binary_cross_entropy_with_logits": "bce",
    "embedding_dense_backward": "embedding_backward",
    "linalg_vector_norm": "norm",
    "local_scalar_dense": "item",
    "max_pool2d_with_indices": "max_pool2d",
    "mkldnn_rnn_layer": "lstm",
    "nll_loss_forward": "nll_loss",
    "rand": "uniform",
    "rand_like": "uniform",
    "randint": "uniform",
    "randn": "normal",
    "randn_like": "normal",
    "random": "uniform",
    "scaled_dot_product_flash_attention_for_cpu": "attention",
    "scaled_dot_product_flash_attention_for_cpu_backward": "attention_backward",
    "to_copy": "to",
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), "compare"),
}
# Ops that compute another function by their arguments: the cost rule knows which.
_BY_ARGUMENTS = frozenset({"pow", "gelu", "gelu_backward"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OpFloors:
    """Floors of one op in seconds, each with its band; None: no ceiling was measured for it.

    ``binding`` names the largest of memory, matmul and pointwise, or ``none`` for an op without work. ``several`` says
    that the op is many kernels one after the other (a compiled region): their floors add up. ``function`` names the
    function whose own cost would matter beside the bytes and was not measured; None: there is none.
    """

    overhead: Interval
    memory: Interval
    matmul: Interval | None
    pointwise: Interval | None
    binding: str
    several: bool = False
    function: str | None = None

    @property
    def work(self) -> Interval:
        """The binding floor, its band no wider than a good measurement's; the sum where an op is several kernels."""
        floors = {"matmul": self.matmul, "pointwise": self.pointwise, "memory": self.memory}
        floor = floors.get(self.binding) or ZERO
        if self.several:
            known = [one for one in floors.values() if one is not None]
            floor = Interval(
                value=sum(one.value for one in known),
                low=floor.low,
                high=sum(one.high for one in known),
            )
        return interval(floor.value, floor.low, min(floor.high, WIDEST_BAND * floor.value))


def op_floors(site: OpSite, distance_bytes: float, ceilings: Ceilings) -> OpFloors:
    """Floors of one op whose largest input was last used ``distance_bytes`` of memory traffic ago."""
    cost = site.cost
    overhead = _overhead(site, ceilings)
    if cost.launches == 0:
        return OpFloors(overhead=overhead, memory=ZERO, matmul=ZERO, pointwise=ZERO, binding="none")
    memory = _memory(cost, distance_bytes, ceilings)
    matmul = _matmul(site, ceilings)
    pointwise = _pointwise(site, ceilings)
    binds = cost.function not in ARITHMETIC
    sizes = {
        "memory": memory.value,
        "matmul": matmul.value if matmul is not None else 0.0,
        "pointwise": pointwise.value / POINTWISE_MARGIN if pointwise is not None and binds else 0.0,
    }
    binding = max(sizes, key=lambda name: sizes[name])
    if sizes[binding] == 0.0:
        binding = "none"
    return OpFloors(
        overhead=overhead,
        memory=memory,
        matmul=matmul,
        pointwise=pointwise,
        binding=binding,
        several=site.op == REGION_NAME,
        function=cost.function if pointwise is None and binds and matmul is not None and cost.modelled else None,
    )


def _overhead(site: OpSite, ceilings: Ceilings) -> Interval:
    kind = site.cost.kind
    fixed = (
        ceilings.overhead(kind, _base(site.op)) or ceilings.overhead("other") or ceilings.overhead("pointwise") or ZERO
    )
    each = ceilings.overhead(f"{kind}_tensor") if site.items else None
    if each is None:
        return fixed
    return interval(
        fixed.value + site.items * each.value, fixed.low + site.items * each.low, fixed.high + site.items * each.high
    )


def _memory(cost: OpCost, distance: float, ceilings: Ceilings) -> Interval:
    moved = cost.bytes_read + cost.bytes_written
    if moved == 0:
        return ZERO
    shape = cost.matmul_shape
    if cost.kind == "matmul" and shape is not None and min(shape.m, shape.n) <= MATVEC_ROWS:
        hot = ceilings.matvec(cost.dtype, min(shape.m, shape.n), shape.k, moved)
        cold = ceilings.matvec(cost.dtype, min(shape.m, shape.n), shape.k, max(moved, distance))
    else:
        pattern = _PATTERN.get(cost.kind)
        if pattern is None:
            pattern = "triad" if cost.bytes_read >= 2 * cost.bytes_written > 0 else "copy"
            if cost.bytes_written * 8 < cost.bytes_read:
                pattern = "read"
        hot = ceilings.bandwidth(pattern, moved)
        cold = ceilings.bandwidth(pattern, max(moved, distance))
    if hot is None or cold is None:
        return ZERO
    # Where the operands were is modelled: they may still be hot, or have been pushed out by the traffic since.
    return interval(moved / cold.value, moved / max(hot.high, cold.high), moved / min(hot.low, cold.low))


def _matmul(site: OpSite, ceilings: Ceilings) -> Interval | None:
    cost = site.cost
    if cost.matmul_flops == 0:
        return ZERO
    name = {"convolution": "conv", "attention": "attention"}.get(cost.kind, "mm")
    if name != "mm" and _base(site.op).endswith("backward"):
        name += "_backward"
    rate = ceilings.matmul(cost.dtype, cost.matmul_shape, name=name) or ceilings.matmul(cost.dtype, cost.matmul_shape)
    if rate is None:
        return None
    flops = cost.matmul_flops
    return interval(flops / rate.value, flops / rate.high, flops / rate.low)


def _pointwise(site: OpSite, ceilings: Ceilings) -> Interval | None:
    cost = site.cost
    if not cost.function or cost.function_elements == 0:
        return ZERO
    # The op's own ceiling if there is one (silu_backward costs more than silu), else its scalar function's.
    own = _plain(site.op)
    if own in _BY_ARGUMENTS:
        own = cost.function
    each = ceilings.function(own, cost.dtype) or ceilings.function(cost.function, cost.dtype)
    return None if each is None else each.scaled(cost.function_elements)


def _base(op: str) -> str:
    """The op's name as ceilings bear it: ``aten.add_.Tensor`` is ``add_``."""
    parts = op.replace("::", ".").split(".")
    return parts[1] if len(parts) > 1 else op


def _plain(op: str) -> str:
    """The op's name without what torch puts around it: ``aten._softmax_backward_data`` is ``softmax_backward``."""
    name = _base(op).strip("_").removeprefix("native_").removeprefix("safe_").removesuffix("_data")
    return _PLAINER.get(name, name)
