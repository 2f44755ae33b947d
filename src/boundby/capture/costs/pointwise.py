"""Elementwise ops: one FLOP an output element (complex: 2 for a sum, 6 for a product)."""

from __future__ import annotations

import torch

from boundby.capture.costs.registry import RULES, Call, aten, op_cost, rule
from boundby.results.counts import OpCost

# The scalar function that does an op's work, where the op's own name does not say it.
FUNCTIONS = {
    **dict.fromkeys(("sub", "rsub", "heaviside"), "add"),
    **dict.fromkeys(
        ("lerp", "addcmul", "fma", "square", "tanh_backward", "sigmoid_backward", "ldexp", "deg2rad", "rad2deg"), "mul"
    ),
    **dict.fromkeys(("addcdiv", "reciprocal", "remainder", "fmod", "floor_divide"), "div"),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "equal"), "compare"),
    **dict.fromkeys(("maximum", "minimum", "fmax", "fmin", "clamp", "clamp_min", "clamp_max", "max", "min"), "compare"),
    **dict.fromkeys(("relu", "threshold", "threshold_backward", "hardtanh", "hardtanh_backward", "sign"), "compare"),
    **dict.fromkeys(
        ("leaky_relu", "leaky_relu_backward", "hardshrink", "softshrink", "hardshrink_backward"), "compare"
    ),
    **dict.fromkeys(("softshrink_backward", "_prelu_kernel", "_prelu_kernel_backward", "_add_relu"), "compare"),
    **dict.fromkeys(("hardsigmoid", "hardsigmoid_backward", "hardswish", "hardswish_backward", "relu6"), "compare"),
    **dict.fromkeys(("isnan", "isinf", "isposinf", "isneginf", "signbit", "nan_to_num"), "compare"),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor", "logical_not"), "compare"),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"), "compare"),
    **dict.fromkeys(("log2", "log10", "log1p"), "log"),
    **dict.fromkeys(("exp2", "expm1", "elu", "elu_backward", "celu", "selu"), "exp"),
    **dict.fromkeys(("erfc",), "erf"),
    **dict.fromkeys(("masked_fill", "where"), "where"),
    **dict.fromkeys(("gelu_backward",), "gelu"),
    **dict.fromkeys(("silu_backward",), "silu"),
    **dict.fromkeys(("logit", "logit_backward", "log_sigmoid_forward", "log_sigmoid_backward"), "log"),
    **dict.fromkeys(("glu", "glu_backward"), "sigmoid"),
    **dict.fromkeys(("softplus", "softplus_backward", "mish"), "softplus"),
    **dict.fromkeys(("native_dropout", "_fused_dropout"), "dropout"),
    **dict.fromkeys(("native_dropout_backward", "_masked_scale"), "mul"),
}

# Pointwise by their tag, yet selections or copies: they move data and compute nothing.
_NO_ARITHMETIC = frozenset({"where", "masked_fill", "_conj_physical", "conj_physical", "clone"})
_COMPLEX_PRODUCTS = frozenset({"mul", "square", "addcmul", "lerp"})

_POWERS = {2: "mul", 3: "mul", 0.5: "sqrt", -0.5: "rsqrt", -1: "div", -2: "div"}


def function_of(base: str) -> str:
    """The scalar function that an op named ``base`` (without namespace and trailing underscore) computes."""
    return FUNCTIONS.get(base, base.removeprefix("special_").removesuffix("_backward"))


def complex_factor(base: str, dtype: torch.dtype) -> int:
    """Real FLOPs of one element's operation: 1, or for complex numbers 6 a product and 2 a sum."""
    if not dtype.is_complex:
        return 1
    return 6 if base in _COMPLEX_PRODUCTS else 2


def pointwise_cost(call: Call) -> OpCost:
    """An elementwise op."""
    base = call.schema.base.rpartition("::")[2]
    outputs = call.outputs()
    first = outputs[0] if outputs else None
    elements = first.numel() if first is not None else 0
    function = function_of(base)
    if base == "pow":
        exponent = call.arg("exponent")
        if isinstance(exponent, (int, float)):
            function = _POWERS.get(exponent, "pow")
    elif base in ("gelu", "gelu_backward"):
        function = base.replace("gelu", "gelu_tanh") if call.arg("approximate") == "tanh" else base
    flops = 0
    if base not in _NO_ARITHMETIC and first is not None:
        flops = elements * complex_factor(base, first.dtype)
    return op_cost(
        call,
        "inplace" if call.in_place else "pointwise",
        writes=outputs,
        pointwise_flops=flops,
        function=function,
        function_elements=elements,
    )


RULES["pointwise"] = pointwise_cost
rule(
    *aten(
        "_add_relu _masked_scale _fused_dropout native_dropout _prelu_kernel _prelu_kernel_backward complex polar "
        "elu_backward floor_divide glu glu_backward glu_jvp glu_backward_jvp hardshrink_backward hardsigmoid_backward "
        "hardswish hardswish_backward hardtanh_backward leaky_relu_backward linalg_cross log_sigmoid_backward "
        "log_sigmoid_forward rrelu_with_noise rrelu_with_noise_backward softplus_backward softshrink_backward addr "
        "__ilshift__ __irshift__ mish_backward celu_backward square _thnn_fused_lstm_cell "
        "_thnn_fused_lstm_cell_backward_impl _thnn_fused_gru_cell _thnn_fused_gru_cell_backward "
        "_transform_bias_rescale_qkv"
    )
)(pointwise_cost)


@rule("aten::equal")
def _equal(call: Call) -> OpCost:
    first = call.args[0]
    return op_cost(
        call, "reduction", function="compare", function_elements=first.numel(), pointwise_flops=first.numel()
    )


rule("prims::fma")(pointwise_cost)
