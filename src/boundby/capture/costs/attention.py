"""Attention: 2*B*H*Lq*Lk*D for the scores and 2*B*H*Lq*Lk*Dv for the values; the causal count is kept beside it."""

from __future__ import annotations

from typing import Any

from boundby.capture.costs.registry import Call, op_cost, rule
from boundby.results.counts import MatmulShape, OpCost


def causal_pairs(queries: int, keys: int) -> int:
    """Pairs that a causal mask leaves: query i sees keys 0..i (torch aligns the mask top left)."""
    full = min(queries, keys)
    return full * (full + 1) // 2 + (queries - full) * keys


@rule(
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_fused_attention_overrideable",
    "aten::_scaled_dot_product_attention_math_for_mps",
)
def _forward(call: Call) -> OpCost:
    query, key, value = call.args[:3]
    return _fused(call, query, key, value, products=(1, 1))


@rule(
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    "aten::_scaled_dot_product_flash_attention_backward",
    "aten::_scaled_dot_product_efficient_attention_backward",
    "aten::_scaled_dot_product_cudnn_attention_backward",
    "aten::_scaled_dot_product_fused_attention_overrideable_backward",
)
def _backward(call: Call) -> OpCost:
    """Five products: the scores again, then the gradients of probabilities, values, queries and keys.

    Source: Dao et al., FlashAttention (2022), algorithm 4.
    """
    return _fused(call, call.arg("query"), call.arg("key"), call.arg("value"), products=(3, 2))


def _fused(call: Call, query: Any, key: Any, value: Any, *, products: tuple[int, int]) -> OpCost:
    """Products of queries and keys, so many as wide as a key and so many as wide as a value."""
    if query.is_nested:
        return op_cost(call, "attention", modelled=False)
    batch, heads, queries, width = query.shape
    keys = key.shape[-2]
    pairs = batch * heads * queries * keys
    kept = batch * heads * causal_pairs(queries, keys) if call.arg("is_causal") else pairs
    per_pair = 2 * (products[0] * width + products[1] * value.shape[-1])
    return op_cost(
        call,
        "attention",
        matmul_flops=per_pair * pairs,
        causal_matmul_flops=per_pair * kept,
        matmul_shape=MatmulShape(batch=batch * heads, m=queries, n=keys, k=width),
        function="softmax",
        function_elements=kept,
    )


@rule("aten::_native_multi_head_attention", "aten::_triton_multi_head_attention")
def _whole_attention(call: Call) -> OpCost:
    """Projection in, attention, projection out in one op: query, key, value, width, heads, two weights and biases."""
    query, key = call.args[0], call.args[1]
    if query.is_nested:
        return op_cost(call, "attention", modelled=False)
    return op_cost(
        call,
        "attention",
        matmul_flops=_attention_flops(query.shape[0], query.shape[1], key.shape[1], int(call.arg("embed_dim"))),
        function="softmax",
        function_elements=query.shape[0] * int(call.arg("num_head")) * query.shape[1] * key.shape[1],
    )


def _attention_flops(batch: int, queries: int, keys: int, width: int) -> int:
    project = 2 * batch * width * width * (2 * queries + 2 * keys)
    return project + 4 * batch * queries * keys * width


@rule("aten::_transformer_encoder_layer_fwd")
def _encoder_layer(call: Call) -> OpCost:
    """The fast path of ``nn.TransformerEncoderLayer``: attention and both feed-forward products in one op."""
    src = call.args[0]
    if src.is_nested:
        return op_cost(call, "attention", modelled=False)
    batch, length, width = src.shape
    hidden = call.arg("ffn_weight_1").shape[0]
    return op_cost(
        call,
        "attention",
        matmul_flops=_attention_flops(batch, length, length, width) + 4 * batch * length * width * hidden,
        function="softmax",
        function_elements=batch * int(call.arg("num_heads")) * length * length,
    )
