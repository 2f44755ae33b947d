"""Convolutions: every kernel tap at every output position (transposed: at every input position), padding included."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from boundby.capture.costs.matmul import mac_flops
from boundby.capture.costs.registry import Call, op_cost, rule
from boundby.capture.costs.traffic import short_dtype
from boundby.results.counts import MatmulShape, OpCost


def _macs(x: Sequence[int], weight: Sequence[int], out: Sequence[int], transposed: bool) -> int:
    positions = prod(x[2:]) if transposed else prod(out[2:])
    return int(x[0] * positions * prod(weight))


def _implicit_product(
    x: Sequence[int], weight: Sequence[int], out: Sequence[int], groups: int, transposed: bool
) -> MatmulShape:
    """The product an implicit-GEMM convolution is: a batch of groups, positions by filters by taps."""
    taps = prod(weight[2:])
    if transposed:
        rows, columns, inner = x[0] * prod(x[2:]), weight[1] * taps, weight[0] // max(1, groups)
    else:
        rows, columns, inner = x[0] * prod(out[2:]), weight[0] // max(1, groups), weight[1] * taps
    return MatmulShape(batch=groups, m=rows, n=columns, k=inner)


def _forward(call: Call, x: torch.Tensor, weight: torch.Tensor, transposed: bool, groups: int) -> OpCost:
    out = call.out.shape
    macs = _macs(x.shape, weight.shape, out, transposed)
    return op_cost(
        call,
        "convolution",
        matmul_flops=mac_flops(x.dtype) * macs,
        matmul_shape=_implicit_product(x.shape, weight.shape, out, groups, transposed),
        dtype=short_dtype(x.dtype),
    )


@rule("aten::convolution", "aten::_convolution", "aten::convolution_overrideable")
def _convolution(call: Call) -> OpCost:
    x, weight = call.args[0], call.args[1]
    return _forward(call, x, weight, bool(call.arg("transposed")), int(call.arg("groups", 1)))


@rule(
    "aten::cudnn_convolution",
    "aten::cudnn_convolution_relu",
    "aten::cudnn_convolution_add_relu",
    "aten::miopen_convolution",
    "aten::miopen_convolution_relu",
    "aten::miopen_convolution_add_relu",
    "aten::miopen_depthwise_convolution",
    "aten::mkldnn_convolution",
    "aten::_slow_conv2d_forward",
    "aten::slow_conv3d_forward",
    "aten::slow_conv_dilated2d",
    "aten::slow_conv_dilated3d",
    "aten::_conv_depthwise2d",
    "aten::conv_depthwise3d",
    "aten::_nnpack_spatial_convolution",
    "aten::_mps_convolution",
)
def _plain(call: Call) -> OpCost:
    return _forward(call, call.args[0], call.args[1], False, int(call.arg("groups", 1)))


@rule(
    "aten::cudnn_convolution_transpose",
    "aten::miopen_convolution_transpose",
    "aten::slow_conv_transpose2d",
    "aten::slow_conv_transpose3d",
    "aten::_mps_convolution_transpose",
)
def _transposed(call: Call) -> OpCost:
    return _forward(call, call.args[0], call.args[1], True, int(call.arg("groups", 1)))


@rule("mkldnn::_convolution_pointwise", "mkldnn::_convolution_pointwise_")
def _fused(call: Call) -> OpCost:
    """The convolution that torch.compile calls on a CPU; its weight may be packed, so the taps come from the sizes."""
    x, out = call.args[0], call.out
    weight = call.arg("weight")
    groups = int(call.arg("groups", 1))
    return op_cost(
        call,
        "convolution",
        matmul_flops=mac_flops(x.dtype) * int(out.numel() * prod(weight.shape[1:])),
        matmul_shape=_implicit_product(x.shape, weight.shape, out.shape, groups, False),
    )


@rule("aten::convolution_backward", "aten::convolution_backward_overrideable", "aten::_slow_conv2d_backward")
def _backward(call: Call) -> OpCost:
    """Each of the input's and the weight's gradient costs the forward again, where it is asked for.

    The weight is read for the input's gradient only, the input for the weight's only.
    """
    grad, x, weight = call.args[:3]
    mask: Any = call.arg("output_mask", [True, True, True])
    transposed = bool(call.arg("transposed", False))
    macs = _macs(x.shape, weight.shape, grad.shape, transposed) * (bool(mask[0]) + bool(mask[1]))
    reads = [grad]
    if mask[0]:
        reads.append(weight)
    if mask[1]:
        reads.append(x)
    return op_cost(
        call,
        "convolution",
        reads=reads,
        matmul_flops=mac_flops(x.dtype) * macs,
        matmul_shape=_implicit_product(x.shape, weight.shape, grad.shape, int(call.arg("groups", 1)), transposed),
        dtype=short_dtype(x.dtype),
    )


@rule("aten::conv_tbc")
def _time_batch_channel(call: Call) -> OpCost:
    """Time x batch x channel: weight (taps, in, out)."""
    x, weight, out = call.args[0], call.args[1], call.out
    rows = out.shape[0] * out.shape[1]
    taps, inner, columns = weight.shape
    return op_cost(
        call,
        "convolution",
        matmul_flops=mac_flops(x.dtype) * rows * columns * taps * inner,
        matmul_shape=MatmulShape(batch=1, m=rows, n=columns, k=taps * inner),
    )
