"""Lower precision: the forward pass under autocast to bf16."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.in_step import base_name, in_fp32, replaced_rows, seconds_of, slow_dtype
from boundby.remedies.outermost_modules import around_outermost_calls
from boundby.remedies.replayed import (
    LEAST_FAMILY,
    PROBE_S,
    PRODUCTS,
    PRODUCTS_BACKWARD,
    Kind,
    Part,
    Replay,
    has_backward,
    kinds_of,
    products_part,
    rows_of,
    timed_call,
    together,
    unknown_products,
    weighted,
)
from boundby.results.language import tr, trn

NAME = "bf16-autocast"
CHANGES_NUMBERS = True
GROUP = "precision"
ENVIRONMENT: Mapping[str, str] = {}
TOUCHES = frozenset({"model"})
MOST_OTHERS = 3
# Less of the step than this cannot make it as much faster as is worth a change.
LEAST_SHARE = 0.04
# From this share of the step on, products of another sort leave nothing to predict.
MOST_UNKNOWN = 0.05
# Ops that take bf16 from a product and go on in it, on their first tensor alone; by the function called.
FOLLOWING: Mapping[str, str] = {
    "relu": "relu",
    "gelu": "gelu",
    "silu": "silu",
    "leaky_relu": "leaky_relu",
    "elu": "elu",
    "hardswish": "hardswish",
    "hardtanh": "relu6",
    "mish": "mish",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "_softmax": "softmax",
    "max_pool2d_with_indices": "max_pool2d",
    "avg_pool2d": "avg_pool2d",
    "native_batch_norm": "batch_norm",
    "_native_batch_norm_legit": "batch_norm",
}
FOLLOWING_BACKWARD = (
    "threshold_backward",
    "gelu_backward",
    "silu_backward",
    "leaky_relu_backward",
    "elu_backward",
    "hardswish_backward",
    "hardtanh_backward",
    "mish_backward",
    "tanh_backward",
    "sigmoid_backward",
    "_softmax_backward_data",
    "max_pool2d_with_indices_backward",
    "avg_pool2d_backward",
    "native_batch_norm_backward",
)
# Fewer elements than these take no longer in one dtype than in another.
SMALL = 1 << 12
MOST_ELEMENTS = 1 << 22


def title() -> str:
    """What it does, for people."""
    return tr("bf16 autocast of the forward pass")


def _change() -> str:
    return tr("run the forward pass under {code}", code='torch.autocast("cpu", dtype=torch.bfloat16)')


def predict(evidence: Evidence) -> Prediction:
    """The script's own products and what follows them by probes, as they are and under autocast, casts included."""
    report, facts = evidence.report, evidence.facts
    if facts.autocast:
        return NotApplicable(tr("the script runs under autocast already"))
    single = replace(report, ops=tuple(row for row in report.ops if in_fp32(row)))
    if rows_of(report, PRODUCTS) and not rows_of(single, PRODUCTS):
        return NotApplicable(tr("its products are in {dtype}", dtype=str(rows_of(report, PRODUCTS)[0].dtype)))
    products = kinds_of(single.ops, PRODUCTS)
    unknown = unknown_products(report)
    if sum(row.share for row in unknown) >= MOST_UNKNOWN:
        return CannotTell(tr("products by {op} are not probed", op=base_name(unknown[0].op)), change=_change())
    if sum(kind.share for kind in products if kind.is_varied) >= MOST_UNKNOWN:
        return CannotTell(
            tr("products of many shapes from one source line, such as a recurrent layer's, are not probed"),
            change=_change(),
        )
    if not products:
        return NotApplicable(tr("no op here that autocast casts"))
    concerned = rows_of(single, (*PRODUCTS, *PRODUCTS_BACKWARD, *FOLLOWING, *FOLLOWING_BACKWARD))
    if sum(row.share for row in concerned) < LEAST_SHARE:
        return NotApplicable(tr("what autocast casts is hardly any of the step"))
    if evidence.probe is None:
        return CannotTell(tr("it takes a probe of the products in bf16"), change=_change())
    evidence = replace(evidence, report=single)
    part = products_part(evidence, products, context=_autocast, slow=slow_dtype(report, "bf16"))
    if part is None:
        return CannotTell(tr("it has products of a sort that is not probed"), change=_change())
    following = _following_part(evidence)
    parts = [part] if following is None else [part, following]
    whole = together(parts)
    count = sum(kind.calls for kind in products)
    return replaced_rows(
        report,
        whole.seconds,
        whole.ratio,
        what=trn("{count} product and what follows them", "{count} products and what follows them", count),
        change=_change(),
    )


def _following_part(evidence: Evidence) -> Part | None:
    report, probe = evidence.report, evidence.probe
    if probe is None:
        return None
    rows = [row for row in rows_of(report, (*FOLLOWING, *FOLLOWING_BACKWARD)) if row.bytes_read >= 4 * SMALL]
    seconds = seconds_of(report, rows)
    if seconds < LEAST_FAMILY * report.step.time_s.median:
        return None
    kinds = [
        kind for kind in kinds_of(report.ops, tuple(FOLLOWING)) if kind.shapes and math.prod(kind.shapes[0]) >= SMALL
    ]
    done = []
    for kind in kinds[:MOST_OTHERS]:
        replay = _following_replay(kind)
        gradients = has_backward(report)
        base = timed_call(replay, ("float32",), gradients=gradients)
        done.append((kind, probe(base, timed_call(replay, ("bfloat16",), gradients=gradients), budget_s=PROBE_S)))
    ratio = weighted(done)
    return None if ratio is None else Part(seconds=seconds, ratio=ratio)


def _following_replay(kind: Kind) -> Replay:
    import torch

    functional = torch.nn.functional
    calls: dict[str, Callable[..., Any]] = {
        "softmax": lambda one: functional.softmax(one, -1),
        "max_pool2d": lambda one: functional.max_pool2d(one, 2),
        "avg_pool2d": lambda one: functional.avg_pool2d(one, 2),
        "batch_norm": lambda one: functional.batch_norm(one, None, None, training=True),
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
    }
    shape = kind.shapes[0]
    fewer = (max(1, min(shape[0], MOST_ELEMENTS // max(1, math.prod(shape[1:])))), *shape[1:])
    name = FOLLOWING[kind.op]
    return Replay(call=calls.get(name) or getattr(functional, name), shapes=(fewer,))


def _autocast() -> Any:
    import torch

    return torch.autocast("cpu", dtype=torch.bfloat16)


def apply(effects: Effects) -> None:
    """Outermost module calls run under autocast."""
    import torch

    def around(module: Any, plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        device = next((one.device.type for one in module.parameters()), "cpu")
        if torch.is_autocast_enabled(device):
            return plain(module, *args, **kwargs)
        with torch.autocast(device, dtype=torch.bfloat16):
            output = plain(module, *args, **kwargs)
        effects.saw(tr("forward pass under autocast"))
        return output

    around_outermost_calls(around)


def wrap(step: Callable[[], Any], effects: Effects) -> Callable[[], Any]:
    """The step under autocast."""
    import torch

    def run() -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = step()
        effects.saw(tr("step under autocast"))
        return result

    return run
