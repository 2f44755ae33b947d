"""Function ceilings: seconds per element of what models apply element by element, in cache, through eager ops.

The time of the same op on a few elements is subtracted. Outputs go to existing tensors wherever torch offers that.
Results begin half a page away from what is read. Where they begin a line behind it, as those of a script often do,
some functions take longer (``data.placed``): which do here is found by short tries, and of these the band reaches to
what they take so.

The range of the arguments is part of a function's ceiling, since exp, sin, sqrt and log have slow ranges: unless said
otherwise they are normal numbers of mean 0 and standard deviation 1; ``sqrt``, ``rsqrt``, ``log`` and ``div``'s divisor
lie in 0.1 to 4, ``pow`` raises those to 1.7, and ``sin`` and ``cos`` see -3 to 3. ``dropout`` is ``bernoulli_`` into an
existing tensor; ``compare`` is ``gt`` with a number. The mask of ``where`` is true for the first half of each row, as
masks of models are in long runs; that of ``where_random`` at random, which costs what wrongly guessed branches cost.
Rows of softmax and layer norm have 128 elements, batch norm has 16 channels. ``sum`` and ``mean`` reduce all elements.
``to_bf16`` and ``to_fp32`` convert from the other type, ``mul`` is by a tensor and ``scale`` by a number. ``int64`` has
``add``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch

from boundby.machine.data import DTYPES, LINE_BYTES, DataSource, placed
from boundby.machine.probe import Probe, ProbeSet, Reading, fastest_ns, per_element
from boundby.timing.clock import Clock, monotonic_ns

# torch splits work among threads in pieces of 32 Ki elements; each thread is to have one, and two at one thread.
PIECE = 32 * 1024
LARGEST = 1 << 20
ROW = 128
CHANNELS = 16
_TINY = 2
# Where arguments begin within a page. Results begin half a page behind what they are mostly made of, and 448 bytes from
# everything else; or, where scripts have them at times, a line behind it all.
STARTS = {
    "x": 0, "y": 448, "z": 896, "positive": 1344, "flags": 2048, "out": 2048, "small": 2496, "mask": 2944,
    "random_mask": 3392, "kept": 3648,
}  # fmt: skip
BEHIND = {name: LINE_BYTES if name in ("flags", "out") else 0 for name in STARTS}
# From here on a function is measured in both places.
_LONGER = 1.03

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Arguments:
    """Tensors of one size and dtype for the ops to take; all are flat and of one length.

    ``positive`` goes to functions of positive numbers and to divisors, ``small`` to sin, cos and saved results; ``out``
    takes results, ``flags`` those that are true or false.
    """

    x: torch.Tensor
    y: torch.Tensor
    z: torch.Tensor
    positive: torch.Tensor
    small: torch.Tensor
    mask: torch.Tensor
    random_mask: torch.Tensor
    out: torch.Tensor
    flags: torch.Tensor
    generator: torch.Generator
    keeps_at: int

    def kept(self, saved: torch.Tensor) -> torch.Tensor:
        """What a forward op saves for its gradient, in memory of its own that lies as the others do."""
        return placed(saved, self.keeps_at)

    @property
    def rows(self) -> torch.Tensor:
        """``x`` in rows of 128 elements, or in one row where it is shorter."""
        return self.x.view(-1, min(ROW, self.x.numel()))

    @property
    def channels(self) -> torch.Tensor:
        """``x`` as (1, 16 channels, elements), or one channel where it is too short for that."""
        return self.x.view(1, CHANNELS, -1) if self.x.numel() >= CHANNELS * 2 else self.x.view(1, 1, -1)


_Call = Callable[[], object]
# From arguments to the call that is timed.
Maker = Callable[[Arguments], _Call]


def _unary(op: Callable[..., object]) -> Maker:
    return lambda a: partial(op, a.x, out=a.out)


def _binary(op: Callable[..., object]) -> Maker:
    return lambda a: partial(op, a.x, a.y, out=a.out)


def _gradient(op: Callable[..., object], **options: object) -> Maker:
    """Ops of (gradient, what forward kept) into ``grad_input``."""
    return lambda a: partial(op, a.x, a.small, **options, grad_input=a.out)


def _layer_norm(a: Arguments) -> Callable[[], object]:
    width = a.rows.shape[1]
    return partial(aten.native_layer_norm, a.rows, [width], a.y[:width], a.z[:width], 1e-5)


def _layer_norm_backward(a: Arguments) -> Callable[[], object]:
    width = a.rows.shape[1]
    _, mean, scale = aten.native_layer_norm(a.rows, [width], a.y[:width], a.z[:width], 1e-5)
    gradient = a.y.view_as(a.rows)
    ask = [True, True, True]
    return partial(
        aten.native_layer_norm_backward, gradient, a.rows, [width], mean, scale, a.y[:width], a.z[:width], ask
    )


def _batch_norm(a: Arguments) -> Callable[[], object]:
    x = a.channels
    count = x.shape[1]
    mean, variance = torch.zeros(count), torch.ones(count)
    weight, bias = torch.ones(count), torch.zeros(count)
    return partial(aten.native_batch_norm, x, weight, bias, mean, variance, True, 0.1, 1e-5)


def _batch_norm_backward(a: Arguments) -> Callable[[], object]:
    x = a.channels
    count = x.shape[1]
    mean, variance = torch.zeros(count), torch.ones(count)
    weight, bias = torch.ones(count), torch.zeros(count)
    _, kept_mean, kept_scale = aten.native_batch_norm(x, weight, bias, mean, variance, True, 0.1, 1e-5)
    ask = [True, True, True]
    return partial(
        aten.native_batch_norm_backward,
        a.y.view_as(x), x, weight, mean, variance, kept_mean, kept_scale, True, 1e-5, ask,
    )  # fmt: skip


def _softmax(op: Callable[..., object]) -> Maker:
    return lambda a: partial(op, a.rows, 1, False, out=a.out.view_as(a.rows))


def _softmax_backward(op: Callable[..., object], into: str) -> Maker:
    def make(a: Arguments) -> Callable[[], object]:
        result = a.kept(torch.softmax(a.rows, 1))
        return partial(op, a.y.view_as(result), result, 1, result.dtype, **{into: a.out.view_as(result)})

    return make


FUNCTIONS: dict[str, Maker] = {
    "add": _binary(torch.add),
    "sub": _binary(torch.sub),
    "mul": _binary(torch.mul),
    "scale": lambda a: partial(torch.mul, a.x, 1.25, out=a.out),
    "div": lambda a: partial(torch.div, a.x, a.positive, out=a.out),
    "neg": _unary(torch.neg),
    "abs": _unary(torch.abs),
    "reciprocal": lambda a: partial(torch.reciprocal, a.positive, out=a.out),
    "sqrt": lambda a: partial(torch.sqrt, a.positive, out=a.out),
    "rsqrt": lambda a: partial(torch.rsqrt, a.positive, out=a.out),
    "exp": _unary(torch.exp),
    "log": lambda a: partial(torch.log, a.positive, out=a.out),
    "sin": lambda a: partial(torch.sin, a.small, out=a.out),
    "cos": lambda a: partial(torch.cos, a.small, out=a.out),
    "tanh": _unary(torch.tanh),
    "erf": _unary(torch.erf),
    "sigmoid": _unary(torch.sigmoid),
    "gelu": _unary(aten.gelu.out),
    "gelu_tanh": lambda a: partial(aten.gelu.out, a.x, approximate="tanh", out=a.out),
    "silu": _unary(aten.silu.out),
    "relu": _unary(aten.relu.out),
    "leaky_relu": _unary(aten.leaky_relu.out),
    "pow": lambda a: partial(torch.pow, a.positive, 1.7, out=a.out),
    "pow2": lambda a: partial(torch.pow, a.x, 2, out=a.out),
    "clamp": lambda a: partial(torch.clamp, a.x, -1.0, 1.0, out=a.out),
    "maximum": _binary(torch.maximum),
    "where": lambda a: partial(torch.where, a.mask, a.x, a.y, out=a.out),
    "where_random": lambda a: partial(torch.where, a.random_mask, a.x, a.y, out=a.out),
    "compare": lambda a: partial(torch.gt, a.x, 0.0, out=a.flags),
    "addcmul": lambda a: partial(torch.addcmul, a.x, a.y, a.z, value=0.5, out=a.out),
    "addcdiv": lambda a: partial(torch.addcdiv, a.x, a.y, a.positive, value=0.5, out=a.out),
    "lerp": lambda a: partial(torch.lerp, a.x, a.y, 0.1, out=a.out),
    "gelu_backward": _gradient(aten.gelu_backward.grad_input),
    "gelu_tanh_backward": _gradient(aten.gelu_backward.grad_input, approximate="tanh"),
    "silu_backward": _gradient(aten.silu_backward.grad_input),
    "tanh_backward": _gradient(aten.tanh_backward.grad_input),
    "sigmoid_backward": _gradient(aten.sigmoid_backward.grad_input),
    "threshold_backward": _gradient(aten.threshold_backward.grad_input, threshold=0),
    "softmax": _softmax(aten._softmax.out),
    "log_softmax": _softmax(aten._log_softmax.out),
    "softmax_backward": _softmax_backward(aten._softmax_backward_data.out, "grad_input"),
    "log_softmax_backward": _softmax_backward(aten._log_softmax_backward_data.out, "out"),
    "layer_norm": _layer_norm,
    "layer_norm_backward": _layer_norm_backward,
    "batch_norm": _batch_norm,
    "batch_norm_backward": _batch_norm_backward,
    "sum": lambda a: partial(torch.sum, a.x),
    "mean": lambda a: partial(torch.mean, a.x),
    "norm": lambda a: partial(torch.linalg.vector_norm, a.x),
    "dropout": lambda a: partial(a.out.bernoulli_, 0.9, generator=a.generator),
    "normal": lambda a: partial(a.out.normal_, generator=a.generator),
    "uniform": lambda a: partial(a.out.uniform_, generator=a.generator),
}

MAKERS: dict[str, tuple[str, ...]] = {
    "fp32": tuple(FUNCTIONS),
    "bf16": (
        "add", "mul", "scale", "div", "sqrt", "rsqrt", "exp", "log", "sin", "cos", "tanh", "erf", "sigmoid", "gelu",
        "silu", "relu", "where", "gelu_backward", "silu_backward", "threshold_backward", "softmax", "softmax_backward",
        "layer_norm", "sum", "dropout",
    ),
    "fp64": (
        "add", "mul", "div", "sqrt", "rsqrt", "exp", "log", "sin", "cos", "tanh", "erf", "sigmoid", "relu", "softmax",
        "sum",
    ),
}  # fmt: skip


def function_elements(threads: int) -> int:
    """How many elements a function is measured on: a piece for each thread, still in its cache.

    Args:
        threads: how many threads the stack uses.
    """
    return min(LARGEST, PIECE * max(2, threads))


def function_probes(data: DataSource, *, threads: int, clock: Clock = monotonic_ns) -> ProbeSet:
    """The functions above in fp32, fewer of them in bf16 and fp64, conversions, and ``add`` of int64.

    Args:
        data: where the arguments come from.
        threads: how many threads the stack uses.
        clock: nanoseconds, for the short tries.
    """
    elements = function_elements(threads)
    probes: list[Probe] = []
    readings: list[Reading] = []

    def add(name: str, dtype: str, call: _Call, tiny: _Call, behind: _Call | None = None) -> None:
        keys = (f"{name} {dtype}", f"{name} {dtype} tiny")
        probes.extend((Probe(key=keys[0], call=call), Probe(key=keys[1], call=tiny)))
        at_times = None
        if behind is not None and _takes_longer(behind, call, clock):
            at_times = f"{keys[0]} behind"
            probes.append(Probe(key=at_times, call=behind))
        readings.append(
            Reading(
                kind="function",
                name=name,
                keys=keys,
                at_times=at_times,
                formula=per_element(elements),
                unit="s",
                dtype=dtype,
                size_bytes=elements * DTYPES[dtype].itemsize,
            )
        )

    for dtype, names in MAKERS.items():
        large, tiny = function_arguments(data, elements, dtype), function_arguments(data, _TINY, dtype)
        behind = function_arguments(data, elements, dtype, starts=BEHIND)
        for name in names:
            add(name, dtype, *(FUNCTIONS[name](arguments) for arguments in (large, tiny, behind)))
    for name, source, target in (("to_bf16", "fp32", "bf16"), ("to_fp32", "bf16", "fp32")):
        calls = []
        for size in (elements, _TINY):
            numbers = placed(data.normal(size, dtype=source), STARTS["x"])
            out = placed(torch.zeros(size, dtype=DTYPES[target]), STARTS["out"])
            calls.append(partial(out.copy_, numbers))
        add(name, source, *calls)
    integers = []
    for size in (elements, _TINY):
        numbers, out = (placed(data.integers(size, below=1000), STARTS[name]) for name in ("x", "out"))
        integers.append(partial(torch.add, numbers, 1, out=out))
    add("add", "int64", *integers)
    return ProbeSet(probes=tuple(probes), readings=tuple(readings))


def _takes_longer(call: _Call, usual: _Call, clock: Clock) -> bool:
    try:
        usual_ns, ns = (min(fastest_ns(one, clock) for _ in range(2)) for one in (usual, call))
    except (RuntimeError, NotImplementedError):
        # This torch does not run it here, which the function's own probe makes known.
        return False
    return ns > _LONGER * usual_ns


def function_arguments(data: DataSource, elements: int, dtype: str, *, starts: Mapping[str, int] = STARTS) -> Arguments:
    """The normal arguments that the head of this file describes.

    Args:
        data: where the numbers come from.
        elements: the length of each tensor; a multiple of 128, or less than that.
        dtype: their data type, by its short name.
        starts: where each begins within a page, bytes, by its name among ``Arguments``; ``kept`` is for what is saved.
    """
    mask = torch.arange(elements) % ROW < ROW // 2
    made = {
        "x": data.normal(elements, dtype=dtype),
        "y": data.normal(elements, dtype=dtype),
        "z": data.normal(elements, dtype=dtype),
        "positive": data.uniform(elements, low=0.1, high=4.0, dtype=dtype),
        "small": data.uniform(elements, low=-3.0, high=3.0, dtype=dtype),
        "out": data.normal(elements, dtype=dtype),
        "mask": mask,
        "random_mask": data.normal(elements) > 0,
        "flags": mask,
    }
    vectors = {name: placed(vector, starts[name]) for name, vector in made.items()}
    return Arguments(**vectors, generator=data.generator, keeps_at=starts["kept"])
