"""Attention written by hand: a product, a softmax and a product again, where one kernel never stores the weights.

Nothing is tried from outside: it takes another line in the script.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.in_step import Shape, base_name, replaced_rows, seconds_of, tensor_shapes
from boundby.remedies.replayed import Replay, has_backward, timed_call
from boundby.results.language import tr
from boundby.results.own_code import is_own
from boundby.results.remedy import Predicted
from boundby.results.report import OpRow, Report

NAME = "sdpa"
CHANGES_NUMBERS = True
TOUCHES = frozenset({"model"})
ENVIRONMENT: Mapping[str, str] = {}
# Advice by source line: there is nothing that could be applied from outside.
ADVICE_ONLY = True
# Attention that is less of the step than this is not worth another line.
LEAST_SHARE = 0.02
# The lines of one attention stand this near to each other.
NEAR_LINES = 15
# What its probe may take in its forward pass; heads and items are alike, and a part of them stands for all.
MOST_FLOPS = 100_000_000
PROBE_S = 0.3
_TORCH_NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}
_PRODUCTS = frozenset({"bmm", "baddbmm"})
_ON_WEIGHTS = frozenset(
    {"mul", "div", "add", "sub", "add_", "mul_", "div_", "masked_fill", "masked_fill_", "where", "_softmax", "clone"}
    | {"_softmax_backward_data", "native_dropout", "bernoulli_", "_to_copy", "amax", "exp", "sum", "neg"}
)
_MASKS = frozenset({"masked_fill", "masked_fill_", "where", "add", "add_"})
_DROPOUTS = frozenset({"native_dropout", "bernoulli_"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """One attention in the script's lines: the weights' shape, a head's width, and its rows over all modules."""

    path: str
    line: int
    weights: Shape
    width: int
    masked: bool
    causal: bool
    dropout: bool
    rows: tuple[OpRow, ...]


def title() -> str:
    """What it does, for people."""
    return tr("scaled_dot_product_attention for attention written by hand")


def predict(evidence: Evidence) -> Prediction:
    """The costliest attention by a probe of the script's own shapes, by hand and in one kernel; others by its ratio."""
    report = evidence.report
    found = attentions(report)
    rows = [row for one in found for row in one.rows]
    base_s = seconds_of(report, rows)
    if not found or base_s < LEAST_SHARE * report.step.time_s.median:
        return NotApplicable(tr("no attention of the script's own lines is written by hand, or none that takes long"))
    change = tr("; ").join(_advice(one) for one in found[:3])
    if evidence.probe is None:
        return CannotTell(tr("it takes a probe of the attention"), change=change)
    if evidence.facts.autocast:
        return CannotTell(tr("under autocast its dtypes are not told"), change=change)
    one = found[0]
    dtype = _dtype(one)
    if dtype is None:
        return CannotTell(tr("its products are not all done in one floating dtype"), change=change)
    gradients = has_backward(report)
    by_hand, in_one = (
        timed_call(_replay(one, call), (dtype,) * 3, gradients=gradients) for call in (_by_hand, _in_one_kernel)
    )
    compared = evidence.probe(by_hand, in_one, budget_s=PROBE_S)
    predicted = replaced_rows(
        report,
        base_s,
        compared.ratio,
        what=tr("attention by hand ({places})", places=tr(", ").join(_where(one) for one in found[:3])),
        change=change,
    )
    return replace(predicted, from_outside=False) if isinstance(predicted, Predicted) else predicted


def attentions(report: Report) -> tuple[Attention, ...]:
    """Attentions written by hand in the script's own lines, the costliest first.

    Args:
        report: with its op rows.
    """
    forward = [row for row in report.ops if row.phase in ("forward", "other") and is_own(row.path)]
    softmaxes = [row for row in forward if base_name(row.op) == "_softmax" and len(_first_shape(row)) >= 3]
    found: dict[tuple[str, int], list[tuple[OpRow, list[OpRow], int]]] = {}
    for softmax in softmaxes:
        products = _products_around(softmax, forward)
        if products is not None:
            assert softmax.path is not None
            lines = [row.line or 0 for row in (*products, softmax)]
            mine = _rows_between(softmax, min(lines), max(lines), report.ops)
            width = tensor_shapes(products[0])[-2][-1]
            found.setdefault((softmax.path, softmax.line or 0), []).append((softmax, mine, width))
    all_of_them = [_attention(path, line, parts) for (path, line), parts in found.items()]
    return tuple(sorted(all_of_them, key=lambda one: -sum(row.share for row in one.rows)))


def _attention(path: str, line: int, parts: Sequence[tuple[OpRow, list[OpRow], int]]) -> Attention:
    softmax, _, width = max(parts, key=lambda one: math.prod(_first_shape(one[0])))
    # Modules that share the lines share no row.
    rows = {id(row): row for _, mine, _ in parts for row in mine}
    names = {base_name(row.op) for row in rows.values() if row.phase != "backward"}
    code = " ".join(row.code or "" for row in rows.values())
    return Attention(
        path=path,
        line=line,
        weights=_first_shape(softmax),
        width=width,
        masked=bool(names & _MASKS),
        causal=any(word in code for word in ("causal", "tril", "triu", "future")),
        dropout=bool(names & _DROPOUTS),
        rows=tuple(rows.values()),
    )


def _products_around(softmax: OpRow, forward: Sequence[OpRow]) -> tuple[OpRow, OpRow] | None:
    """The product that makes the softmax's input and the one that takes its result, by their shapes."""
    *_, queries, keys = _first_shape(softmax)
    near = [
        row
        for row in forward
        if base_name(row.op) in _PRODUCTS
        and row.path == softmax.path
        and row.module == softmax.module
        and abs((row.line or 0) - (softmax.line or 0)) <= NEAR_LINES
        and len(tensor_shapes(row)) >= 2
    ]
    scores = [row for row in near if _sides(row) == (queries, keys) and (row.line or 0) <= (softmax.line or 0)]
    values = [row for row in near if tensor_shapes(row)[-2][-2:] == (queries, keys) and row not in scores]
    if not values and len(scores) == 1 and scores[0].calls == 2 * softmax.calls:
        values = scores  # one line does it all, with as many keys as a head is wide
    return (scores[0], values[0]) if scores and values else None


def _sides(row: OpRow) -> tuple[int, int]:
    left, right = tensor_shapes(row)[-2:]
    return left[-2], right[-1]


def _rows_between(softmax: OpRow, first: int, last: int, rows: Sequence[OpRow]) -> list[OpRow]:
    """Rows of the module's lines from the first product to the last, forward and backward, that work on weights."""
    *_, queries, keys = _first_shape(softmax)
    return [
        row
        for row in rows
        if row.path == softmax.path
        and row.module == softmax.module
        and first <= (row.line or 0) <= last
        and row.phase != "optimizer"
        and (
            base_name(row.op) in _PRODUCTS
            or (base_name(row.op) in _ON_WEIGHTS and any(one[-2:] == (queries, keys) for one in tensor_shapes(row)))
        )
    ]


def _first_shape(row: OpRow) -> Shape:
    shapes = tensor_shapes(row)
    return shapes[0] if shapes else ()


def _dtype(one: Attention) -> str | None:
    """What its products are done in, by torch's name; None where that differs, or is none that a probe takes."""
    names = {row.dtype or "fp32" for row in one.rows if base_name(row.op) in _PRODUCTS}
    return _TORCH_NAMES.get(names.pop()) if len(names) == 1 else None


def _replay(one: Attention, call: Callable[..., Any]) -> Replay:
    *leading, queries, keys = one.weights
    heads = leading[-1] if len(leading) > 1 else 1
    items = max(1, math.prod(leading) // heads)
    flops = 4 * heads * queries * keys * one.width
    items = max(1, min(items, MOST_FLOPS // max(1, flops)))
    shape = (items, heads, queries, one.width)
    other = (items, heads, keys, one.width)
    square = queries == keys
    settings = {"masked": one.masked, "causal": one.causal and square, "dropout": 0.1 if one.dropout else 0.0}
    return Replay(call=partial(call, **settings), shapes=(shape, other, other))


def _by_hand(q: Any, k: Any, v: Any, *, masked: bool, causal: bool, dropout: float) -> Any:
    import torch

    scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(q.shape[-1]))
    if masked:
        scores = scores.masked_fill(_hidden(q, k, causal=causal), float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    if dropout:
        weights = torch.nn.functional.dropout(weights, dropout)
    return weights @ v


def _in_one_kernel(q: Any, k: Any, v: Any, *, masked: bool, causal: bool, dropout: float) -> Any:
    import torch

    # A mask that is not known to be causal is given as a mask, which the kernel reads.
    mask = ~_hidden(q, k, causal=False) if masked and not causal else None
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=masked and causal, dropout_p=dropout
    )


def _hidden(q: Any, k: Any, *, causal: bool) -> Any:
    import torch

    hidden = torch.zeros(q.shape[-2], k.shape[-2], dtype=torch.bool)
    return hidden.logical_not_().triu_(diagonal=1) if causal else hidden


def _advice(one: Attention) -> str:
    options = ", is_causal=True" if one.masked and one.causal else ", attn_mask=mask" if one.masked else ""
    return tr(
        "{where}: {call} if it is that", where=_where(one), call=f"F.scaled_dot_product_attention(q, k, v{options})"
    )


def _where(one: Attention) -> str:
    return f"{os.path.basename(one.path)}:{one.line}"


def apply(effects: Effects) -> None:
    """Nothing can be applied from outside: the lines themselves would have to change."""
    effects.cannot(tr("it takes other source lines"))


def wrap(step: Callable[[], Any], effects: Effects) -> None:
    """The lines themselves would have to change."""
