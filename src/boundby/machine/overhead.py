"""Overhead ceilings: seconds an op costs from Python when there is next to nothing to do, by kind, grad mode off.

Each kind of ``OpKind`` is the median over representative ops on 1 to 64 elements; low and high are the cheapest and the
dearest of them. Beside the kinds:

- ``pointwise/add``, ``convolution/convolution_backward``...: each of the representative ops by itself;
- ``foreach`` and ``fused_optimizer``: the fixed part of one call; ``foreach_tensor`` and ``fused_optimizer_tensor``:
  what each tensor in its list adds;
- ``page_fault``: one first touch of fresh memory, seconds per minor fault as the operating system counts them: a fill
  of freshly mapped memory with its unmapping, less the same fill of memory that is there;
- ``allocation``: one storage of 64 KiB taken and given back;
- ``pointwise_out``: pointwise ops that write to an existing tensor, so that none is made for the result;
- ``autograd_off`` and ``autograd_on``: one of a chain of additions in grad mode off and on, called from Python; what
  the second has more is ``autograd_node`` (the node, made and freed); ``autograd_backward``: what one node costs in
  backward besides the ops it runs;
- ``python_call``, ``clock_read``, ``module_call`` (an ``nn.Module`` whose forward does nothing);
- ``parallel_region`` (in ``regions``): sharing an op out among all threads and waiting for the last of them;
- ``ufunc`` and ``ufunc_out``, of the stack ``numpy``: one call of a numpy ufunc on 8 elements of fp32, with a new array
  for its result and with an existing one.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F

from boundby.machine.data import DataSource
from boundby.machine.probe import (
    Formula,
    Probe,
    ProbeSet,
    Reading,
    Window,
    fixed_part,
    median_of,
    seconds_of,
    slope,
)
from boundby.timing.clock import monotonic_ns

FAULT_BYTES = 4 << 20
SMALL_LIST = 2
LARGE_LIST = 34
SHORT_CHAIN = 4
LONG_CHAIN = 36

aten = torch.ops.aten
Calls = dict[str, Callable[[], object]]


def overhead_probes(data: DataSource) -> ProbeSet:
    """Tiny ops by kind, lists of tensors, autograd, page faults, and plain Python.

    Args:
        data: where the numbers come from.
    """
    probes: list[Probe] = []
    readings: list[Reading] = []

    def read(name: str, keys: Sequence[str], formula: Formula, *, span: bool = False, stack: str = "torch") -> None:
        readings.append(
            Reading(kind="overhead", name=name, keys=tuple(keys), formula=formula, unit="s", span=span, stack=stack)
        )

    def add(calls: Calls) -> list[str]:
        probes.extend(Probe(key=f"overhead {name}", call=call) for name, call in calls.items())
        return [f"overhead {name}" for name in calls]

    for stack, kinds in (("torch", _kinds(data)), ("numpy", _ufuncs(data))):
        for kind, calls in kinds.items():
            keys = add({f"{kind}/{op}": call for op, call in calls.items()})
            read(kind, keys, median_of, span=True, stack=stack)
            for op, key in zip(calls, keys, strict=True):
                read(f"{kind}/{op}", (key,), seconds_of, stack=stack)
    for name, make in (("foreach", _foreach), ("fused_optimizer", _fused)):
        small, large = add({f"{name} {count}": make(data, count) for count in (SMALL_LIST, LARGE_LIST)})
        read(name, (small, large), fixed_part(SMALL_LIST, LARGE_LIST))
        read(f"{name}_tensor", (large, small), slope(LARGE_LIST - SMALL_LIST))
    chains: Calls = {
        f"{name} {length}": partial(chain, torch.ones(1, requires_grad=chain is not _chain), length)
        for name, chain in {
            "chain": _chain,
            "chain with grad": _chain_with_grad,
            "chain and back": _chain_and_back,
        }.items()
        for length in (LONG_CHAIN, SHORT_CHAIN)
    }
    plain_long, plain_short, grad_long, grad_short, back_long, back_short = add(chains)
    links = LONG_CHAIN - SHORT_CHAIN
    read("autograd_off", (plain_long, plain_short), slope(links))
    read("autograd_on", (grad_long, grad_short), slope(links))
    read("autograd_node", (grad_long, grad_short, plain_long, plain_short), slope(links, less=True))
    read("autograd_backward", (back_long, back_short, grad_long, grad_short), slope(links, less=True))
    fresh, touched = add({"fresh memory": _touch_fresh, "touched memory": _touched_memory()})
    read("page_fault", (fresh, touched), _seconds_per_fault)
    for name, call in _python_calls().items():
        read(name, add({name: call}), seconds_of)
    return ProbeSet(probes=tuple(probes), readings=tuple(readings))


def _kinds(data: DataSource) -> dict[str, Calls]:
    """Representative tiny ops of each kind."""
    x, y, z = data.normal(8), data.normal(8), data.normal(8)
    square = data.normal(4, 4)
    rows = data.normal(4, 8)
    ones, target = torch.ones(8), torch.empty(8)
    image, kernel = data.normal(1, 4, 8, 8), data.normal(4, 4, 3, 3)
    heads = data.normal(1, 2, 4, 8)
    table, picks = data.normal(16, 8), data.integers(4, below=8)
    mask = x > 0
    generator = data.generator
    result = torch.softmax(rows, 1)
    _, mean, scale = aten.native_layer_norm(rows, [8], y, z, 1e-5)
    running_mean, running_variance = torch.zeros(4), torch.ones(4)
    labels = data.integers(4, below=8)
    logs = torch.log_softmax(rows, 1)
    ask = [True, True, True]
    attended, scores = aten._scaled_dot_product_flash_attention_for_cpu(heads, heads, heads)
    return {
        "view": {
            "view": partial(rows.view, 8, 4),
            "transpose": partial(rows.transpose, 0, 1),
            "unsqueeze": partial(x.unsqueeze, 0),
            "select": partial(rows.select, 0, 1),
            "expand": partial(x.expand, 4, 8),
            "detach": x.detach,
        },
        "empty": {"empty": partial(torch.empty, 8), "empty_like": partial(torch.empty_like, x)},
        "pointwise": {
            "add": partial(torch.add, x, y),
            "mul": partial(torch.mul, x, 0.5),
            "exp": partial(torch.exp, x),
            "gelu": partial(F.gelu, x),
            "compare": partial(torch.gt, x, 0.0),
            "where": partial(torch.where, mask, x, y),
            "tanh_backward": partial(aten.tanh_backward, x, y),
        },
        "pointwise_out": {
            "add": partial(torch.add, x, y, out=torch.empty(8)),
            "mul": partial(torch.mul, x, 0.5, out=torch.empty(8)),
            "exp": partial(torch.exp, x, out=torch.empty(8)),
        },
        "inplace": {
            "add_": partial(target.copy_(x).add_, y, alpha=0.0),
            "mul_": partial(ones.mul_, 1.0),
            "clamp_": partial(ones.clamp_, 0.0),
            "lerp_": partial(torch.ones(8).lerp_, ones, 0.1),
        },
        "fill": {
            "zero_": torch.empty(8).zero_,
            "fill_": partial(torch.empty(8).fill_, 1.0),
            "zeros": partial(torch.zeros, 8),
        },
        "copy": {
            "copy_": partial(torch.empty(8).copy_, x),
            "clone": x.clone,
            "cat": partial(torch.cat, (x, y)),
            "stack": partial(torch.stack, (x, y)),
            "contiguous": partial(torch.Tensor.contiguous, rows.t()),
            "to": partial(x.to, torch.bfloat16),
        },
        "random": {
            "bernoulli_": partial(torch.empty(8).bernoulli_, 0.9, generator=generator),
            "normal_": partial(torch.empty(8).normal_, generator=generator),
            "rand": partial(torch.rand, 8, generator=generator),
        },
        "reduction": {
            "sum": partial(torch.sum, x),
            "sum rows": partial(torch.sum, rows, 1),
            "mean": partial(torch.mean, x),
            "amax": partial(torch.amax, rows, 1),
            "norm": partial(torch.linalg.vector_norm, x),
            "argmax": partial(torch.argmax, rows, 1),
        },
        "softmax": {
            "softmax": partial(torch.softmax, rows, 1),
            "log_softmax": partial(torch.log_softmax, rows, 1),
            "softmax_backward": partial(aten._softmax_backward_data, rows, result, 1, torch.float32),
        },
        "norm": {
            "layer_norm": partial(aten.native_layer_norm, rows, [8], y, z, 1e-5),
            "layer_norm_backward": partial(
                aten.native_layer_norm_backward, rows, rows, [8], mean, scale, y, z, ask
            ),
            "batch_norm": partial(
                aten.native_batch_norm, image, None, None, running_mean, running_variance, True, 0.1, 1e-5
            ),
        },
        "matmul": {
            "mm": partial(torch.mm, square, square),
            "mm_nt": partial(torch.mm, square, square.t()),
            "addmm": partial(torch.addmm, square, square, square),
            "bmm": partial(torch.bmm, square.expand(2, 4, 4), square.expand(2, 4, 4)),
            "mv": partial(torch.mv, square, square[0]),
        },
        "attention": {
            "attention": partial(aten._scaled_dot_product_flash_attention_for_cpu, heads, heads, heads),
            "attention_backward": partial(
                aten._scaled_dot_product_flash_attention_for_cpu_backward,
                heads, heads, heads, heads, attended, scores, 0.0, False,
            ),
        },
        "convolution": _convolutions(image, kernel),
        "recurrent": _recurrent(data),
        "index": {
            "embedding": partial(aten.embedding, table, picks),
            "index_select": partial(torch.index_select, table, 0, picks),
            "gather": partial(torch.gather, rows, 1, picks.view(4, 1)),
            "index": partial(table.__getitem__, picks),
        },
        "scatter": {
            "index_add_": partial(torch.zeros(16, 8).index_add_, 0, picks, rows, alpha=0.0),
            "scatter_add_": partial(torch.zeros(4, 8).scatter_add_, 1, picks.view(4, 1), rows * 0),
            "index_put_": partial(torch.zeros(16, 8).index_put_, (picks,), rows),
            "embedding_backward": partial(aten.embedding_dense_backward, rows, picks, 16, -1, False),
        },
        "loss": {
            "nll_loss": partial(aten.nll_loss_forward, logs, labels, None, 1, -100),
            "mse_loss": partial(F.mse_loss, x, y),
            "bce": partial(F.binary_cross_entropy_with_logits, x, mask.float()),
        },
        "pool": {
            "max_pool2d": partial(aten.max_pool2d_with_indices, image, [2, 2]),
            "avg_pool2d": partial(F.avg_pool2d, image, 2),
            "adaptive_avg_pool2d": partial(aten._adaptive_avg_pool2d, image, [2, 2]),
        },
        "sort": {"sort": partial(torch.sort, x), "topk": partial(torch.topk, x, 2)},
        "scalar": {"item": x[0].item, "is_nonzero": partial(bool, x[0])},
        "other": {
            "cumsum": partial(torch.cumsum, x, 0),
            "tril": partial(torch.tril, square),
            "flip": partial(torch.flip, x, (0,)),
            "arange": partial(torch.arange, 8),
        },
    }  # fmt: skip


def _ufuncs(data: DataSource) -> dict[str, Calls]:
    """Representative numpy ufuncs on arrays as small as the tensors above."""
    x, y = data.normal(8).numpy(), data.normal(8).numpy()
    return {
        "ufunc": {
            "add": partial(np.add, x, y),
            "multiply": partial(np.multiply, x, y),
            "exp": partial(np.exp, x),
        },
        "ufunc_out": {
            "add": partial(np.add, x, y, out=np.empty_like(x)),
            "multiply": partial(np.multiply, x, y, out=np.empty_like(x)),
            "exp": partial(np.exp, x, out=np.empty_like(x)),
        },
    }


def _convolutions(image: torch.Tensor, kernel: torch.Tensor) -> Calls:
    options: tuple[object, ...] = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    gradient = image.clone()
    return {
        "convolution": partial(aten.convolution, image, kernel, None, *options),
        "convolution_backward": partial(
            aten.convolution_backward, gradient, image, kernel, None, *options, [True, True, False]
        ),
    }


def _recurrent(data: DataSource) -> Calls:
    """One step of an LSTM layer of width 4, as the CPU runs it."""
    x, state = data.normal(1, 1, 4), torch.zeros(1, 4)
    weights = (data.normal(16, 4), data.normal(16, 4), data.normal(16), data.normal(16))
    lstm, layers = 2, 1
    return {
        "lstm": partial(
            aten.mkldnn_rnn_layer, x, *weights, state, state, False, [], lstm, 4, layers, True, False, False, False
        ),
    }


def _foreach(data: DataSource, count: int) -> Callable[[], object]:
    return partial(torch._foreach_mul_, [data.normal(8) for _ in range(count)], 1.0)


def _fused(data: DataSource, count: int) -> Callable[[], object]:
    parameters, gradients, first, second = ([data.normal(8).abs() for _ in range(count)] for _ in range(4))
    steps = [torch.ones(()) for _ in range(count)]
    return partial(
        torch._fused_adamw_,
        parameters, gradients, first, second, [], steps,
        lr=1e-6, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
    )  # fmt: skip


def _chain(x: torch.Tensor, length: int) -> torch.Tensor:
    for _ in range(length):
        x = x + 1.0
    return x


def _chain_with_grad(x: torch.Tensor, length: int) -> torch.Tensor:
    with torch.enable_grad():
        return _chain(x, length)


def _chain_and_back(x: torch.Tensor, length: int) -> None:
    # The backward of adding a number passes the gradient on as it is, so a node costs only what any node costs.
    x.grad = None
    _chain_with_grad(x, length).backward()


def _touch_fresh() -> None:
    """Maps memory afresh, fills it through torch and unmaps it, past any allocator that might keep it."""
    memory = mmap.mmap(-1, FAULT_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    view = torch.frombuffer(memory, dtype=torch.float32)
    view.fill_(1.0)
    del view
    memory.close()


def _touched_memory() -> Callable[[], object]:
    memory = mmap.mmap(-1, FAULT_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    view = torch.frombuffer(memory, dtype=torch.float32)
    view.fill_(1.0)
    return partial(view.fill_, 1.0)


def _seconds_per_fault(windows: Sequence[Window]) -> float | None:
    faults = windows[0].faults - windows[1].faults
    return (windows[0].seconds - windows[1].seconds) / faults if faults >= 1 else None


class _Nothing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def _nothing() -> None:
    return None


def _python_calls() -> Calls:
    return {
        "allocation": partial(torch.UntypedStorage, 64 << 10),
        "clock_read": monotonic_ns,
        "python_call": _nothing,
        "module_call": partial(_Nothing(), torch.ones(1)),
    }
