"""Recurrent layers that run as one op: gates x hidden x (input + hidden) multiply-accumulates a row and step."""

from __future__ import annotations

from typing import Any

from boundby.capture.costs.registry import Call, op_cost, rule
from boundby.results.counts import OpCost

# An LSTM step puts three gates through a sigmoid and two values through tanh.
_LSTM_FUNCTIONS = 5


@rule("aten::mkldnn_rnn_layer")
def _layer(call: Call) -> OpCost:
    """One layer and direction: input (T, B, I), weights (gates*H, I) and (gates*H, H)."""
    return _layer_cost(call, times=1)


@rule("aten::mkldnn_rnn_layer_backward")
def _layer_backward(call: Call) -> OpCost:
    """Gradients of input, hidden state and both weights, all of which it computes: twice the forward."""
    return _layer_cost(call, times=2)


def _rows(x: Any) -> int:
    """How many vectors an input (..., I) holds."""
    rows: int = x.numel() // x.shape[-1] if x.shape[-1] else 0
    return rows


def _layer_cost(call: Call, *, times: int) -> OpCost:
    x, into, across = call.args[0], call.args[1], call.args[2]
    rows = _rows(x)
    return op_cost(
        call,
        "recurrent",
        matmul_flops=2 * times * rows * (into.numel() + across.numel()),
        function="sigmoid",
        function_elements=rows * across.shape[-1] * _LSTM_FUNCTIONS,
    )


@rule("aten::_cudnn_rnn", "aten::miopen_rnn")
def _stack(call: Call) -> OpCost:
    """All layers and directions: each row meets each weight matrix once."""
    x, weights = call.args[0], call.args[1]
    rows = _rows(x)
    return op_cost(
        call,
        "recurrent",
        matmul_flops=2 * rows * sum(one.numel() for one in weights if one.dim() == 2),
        function="sigmoid",
    )


@rule("aten::_cudnn_rnn_backward", "aten::miopen_rnn_backward")
def _stack_backward(call: Call) -> OpCost:
    """The input's gradient, and the weights' where the mask asks for them: the forward once each."""
    x, weights = call.args[0], call.args[1]
    rows = _rows(x)
    mask = call.arg("output_mask", [True, True, True, True])
    once = 2 * rows * sum(one.numel() for one in weights if one.dim() == 2)
    return op_cost(call, "recurrent", matmul_flops=once * (1 + bool(mask[3])), function="sigmoid")
