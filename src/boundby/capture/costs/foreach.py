"""One op over lists of tensors: foreach ops, and fused optimizers, which change all but the gradients."""

from __future__ import annotations

import torch

from boundby.capture.costs.pointwise import complex_factor, function_of
from boundby.capture.costs.registry import Call, aten, op_cost, rule
from boundby.results.counts import OpCost


@rule(
    *aten(
        "abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp expm1 floor frac "
        "lerp lgamma log log10 log1p log2 maximum minimum mul neg pow reciprocal round rsqrt sigmoid sign sin sinh "
        "sqrt sub tan tanh trunc",
        prefix="_foreach_",
    )
)
def _foreach(call: Call) -> OpCost:
    base = call.schema.base.removeprefix("aten::_foreach_")
    outputs = call.outputs()
    elements = sum(tensor.numel() for tensor in outputs)
    flops = sum(tensor.numel() * complex_factor(base, tensor.dtype) for tensor in outputs)
    return op_cost(
        call,
        "foreach",
        writes=outputs,
        pointwise_flops=flops,
        function=function_of(base),
        function_elements=elements,
    )


@rule("aten::_foreach_clone")
def _foreach_clone(call: Call) -> OpCost:
    return op_cost(call, "foreach")


@rule("aten::_foreach_copy")
def _foreach_copy(call: Call) -> OpCost:
    return op_cost(call, "foreach", reads=call.inputs(without=("self",)))


@rule("aten::_foreach_zero")
def _foreach_zero(call: Call) -> OpCost:
    return op_cost(call, "foreach", reads=())


@rule("aten::_foreach_norm", "aten::_foreach_max", "aten::_foreach_powsum")
def _foreach_norm(call: Call) -> OpCost:
    return op_cost(call, "foreach", function="norm", function_elements=sum(one.numel() for one in call.inputs()))


@rule("aten::_foreach_mm")
def _foreach_mm(call: Call) -> OpCost:
    pairs = zip(call.args[0], call.args[1], strict=True)
    flops = sum(2 * a.shape[0] * a.shape[1] * b.shape[1] for a, b in pairs)
    return op_cost(call, "foreach", matmul_flops=flops)


@rule("aten::_fused_adam", "aten::_fused_adamw", "aten::_fused_sgd", "aten::_fused_adagrad")
def _fused_optimizer(call: Call) -> OpCost:
    """Reads parameters, gradients and state; writes parameters and state.

    The schema marks gradients as changed; they are only where they are unscaled on the way (``grad_scale``).
    """
    skip_read = ["found_inf"] if call.arg("found_inf") is None else []
    if not call.arg("amsgrad", False):
        skip_read.append("max_exp_avg_sqs")
    if call.schema.base == "aten::_fused_sgd" and not call.arg("momentum", 0.0):
        skip_read.append("momentum_buffer_list")
    if call.schema.base == "aten::_fused_sgd" and call.arg("is_first_step", False):
        skip_read.append("momentum_buffer_list")
    skip_write = [
        name for name in skip_read if not (name == "momentum_buffer_list" and call.arg("is_first_step", False))
    ]
    if call.arg("grad_scale") is None:
        skip_write.append("grads")
    writes: list[torch.Tensor] = []
    for name, value in call.named():
        if name in call.schema.changed and name not in skip_write:
            writes += [one for one in value if isinstance(one, torch.Tensor)]
    parameters = call.args[0]
    return op_cost(
        call,
        "fused_optimizer",
        reads=call.inputs(without=skip_read),
        writes=writes,
        pointwise_flops=sum(one.numel() for one in writes),
        function="add" if call.schema.base == "aten::_fused_sgd" else "sqrt",
        function_elements=sum(one.numel() for one in parameters),
    )
