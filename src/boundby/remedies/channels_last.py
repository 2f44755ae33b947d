"""Channels last: images and convolution weights with their channels side by side in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.in_step import base_name, replaced_rows, seconds_of, tensor_shapes
from boundby.remedies.outermost_modules import around_outermost_calls
from boundby.results.interval import Interval, interval
from boundby.results.language import tr
from boundby.results.report import OpRow

NAME = "channels-last"
CHANGES_NUMBERS = True
ENVIRONMENT: Mapping[str, str] = {}
TOUCHES = frozenset({"model"})
# Where convolutions take less of the step than this, no format can make it worth while.
LEAST_SHARE = 0.04
# The costliest shapes are probed, until they stand for this share of all convolutions' time.
ENOUGH, MOST_PROBES = 0.75, 3
# Between convolutions stand ops that take another format better or worse than they do.
BAND = 0.2
# A probe's convolution does about this many FLOP at most, some milliseconds' worth.
PROBE_FLOPS = 3e8
PROBE_S = 0.12
PROBE_ELEMENTS = 1 << 20
_FORWARD = frozenset({"convolution", "mkldnn_convolution", "_convolution"})
_DTYPES = {2: "bfloat16", 4: "float32", 8: "float64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """A convolution as a probe can run it: shapes of input and weight (NCHW, OIHW), and how they meet."""

    image: tuple[int, ...]
    weight: tuple[int, ...]
    stride: int
    padding: int
    groups: int
    transposed: bool
    element_bytes: int


def title() -> str:
    """What it does, for people."""
    return tr("channels-last memory format for convolutions")


def _change() -> str:
    return tr("{code}, and the same for its input images", code="model.to(memory_format=torch.channels_last)")


def predict(evidence: Evidence) -> Prediction:
    """The costliest convolutions of the step, forward and backward, in both formats, by short probes."""
    report = evidence.report
    rows = [row for row in report.ops if base_name(row.op).startswith(("convolution", "mkldnn_convolution"))]
    images = [row for row in rows if len((tensor_shapes(row) or ((),))[0]) == 4]
    if not images:
        return NotApplicable(tr("no convolution of images runs in the step"))
    total = seconds_of(report, images)
    if total < LEAST_SHARE * report.step.time_s.median:
        return NotApplicable(
            tr("convolutions take {share} of the step", share=f"{total / report.step.time_s.median:.1%}")
        )
    if evidence.probe is None:
        return CannotTell(tr("it takes a probe of the convolutions"), change=_change())
    parts = []
    seen = 0.0
    for forward, seconds in _costliest(evidence, images, _FORWARD):
        shape = convolution_of(forward)
        if shape is None:
            continue
        trains = _trains(forward, images)
        compared = evidence.probe(
            *(_convolve(_sample(shape), last=last, trains=trains) for last in (False, True)), budget_s=PROBE_S
        )
        parts.append((seconds, compared.ratio))
        seen += seconds
        if seen > ENOUGH * total or len(parts) == MOST_PROBES:
            break
    if not parts:
        return CannotTell(tr("how its convolutions are laid out is not known"), change=_change())
    # The probed shapes stand for all convolutions.
    parts = [(seconds * total / seen, ratio) for seconds, ratio in parts]
    for name, make in _BESIDE.items():
        rows = [row for row in report.ops if name in base_name(row.op) and len((tensor_shapes(row) or ((),))[0]) == 4]
        found = _costliest(evidence, rows, frozenset({name, f"native_{name}"}))
        beside = seconds_of(report, rows)
        if found and beside >= LEAST_SHARE * report.step.time_s.median:
            calls = (make(found[0][0], last=last, trains=_trains(found[0][0], rows)) for last in (False, True))
            parts.append((beside, evidence.probe(*calls, budget_s=PROBE_S).ratio))
    base = sum(seconds for seconds, _ in parts)
    return replaced_rows(
        report, base, _mean(parts), what=tr("convolving images, with pooling and norms"), change=_change(), band=BAND
    )


def _trains(forward: OpRow, rows: Sequence[OpRow]) -> bool:
    return any(row.phase == "backward" and row.module == forward.module for row in rows)


def _costliest(evidence: Evidence, rows: Sequence[OpRow], names: frozenset[str]) -> list[tuple[OpRow, float]]:
    """Forward rows of those names with the seconds of all rows at their place, the costliest first."""
    found = []
    for row in rows:
        if base_name(row.op) in names:
            same = [one for one in rows if (one.module, one.path, one.line) == (row.module, row.path, row.line)]
            found.append((row, seconds_of(evidence.report, same)))
    return sorted(found, key=lambda one: -one[1])


def _mean(parts: Sequence[tuple[float, Interval]]) -> Interval:
    total = sum(seconds for seconds, _ in parts)
    value, low, high = (
        sum(seconds * end for (seconds, _), end in zip(parts, ends, strict=True)) / total
        for ends in ([one.value for _, one in parts], [one.low for _, one in parts], [one.high for _, one in parts])
    )
    return interval(value, low, high)


def convolution_of(row: OpRow) -> Convolution | None:
    """Stride, padding and groups that give a forward row its bytes and FLOPs; None where none do.

    Several strides and paddings may give the same output: the smallest stride is taken.

    Args:
        row: of a forward convolution; its shapes are those of its first call, its sums over all.
    """
    shapes = tensor_shapes(row)
    if len(shapes) < 2 or len(shapes[0]) != 4 or len(shapes[1]) != 4:
        return None
    image, weight = shapes[0], shapes[1]
    elements = sum(_product(one) for one in shapes)
    size = row.bytes_read // row.calls // max(1, elements)
    if size not in _DTYPES or size * elements * row.calls != row.bytes_read:
        return None
    results = row.bytes_written // row.calls // size
    flops = row.matmul_flops // row.calls
    batch, channels, height, width = image
    taps = _product(weight[1:])
    for transposed in (False, True):
        groups = channels // weight[1] if not transposed else 1
        outputs = weight[1] if transposed else weight[0]
        places = results // max(1, batch * outputs)
        expected = 2 * taps * (_product(image) if transposed else results)
        fits = groups >= 1 and expected == flops and (weight[0] == channels if transposed else True)
        if not fits or places * batch * outputs != results:
            continue
        for stride in (1, 2, 3, 4):
            for padding in range(weight[2] + 1):
                wide = _extents(height, weight[2], stride, padding, transposed)
                high = _extents(width, weight[3], stride, padding, transposed)
                if wide * high == places and wide > 0:
                    return Convolution(
                        image=image,
                        weight=weight,
                        stride=stride,
                        padding=padding,
                        groups=groups,
                        transposed=transposed,
                        element_bytes=size,
                    )
    return None


def _extents(size: int, taps: int, stride: int, padding: int, transposed: bool) -> int:
    return (size - 1) * stride - 2 * padding + taps if transposed else (size + 2 * padding - taps) // stride + 1


def _product(shape: Sequence[int]) -> int:
    result = 1
    for one in shape:
        result *= one
    return result


def _sample(shape: Convolution) -> Convolution:
    """The same on fewer images, where all of them would take too long for a probe."""
    each = 2 * _product(shape.weight[1:]) * _product(shape.image[1:]) * shape.weight[0] / shape.image[1]
    images = max(1, min(shape.image[0], int(PROBE_FLOPS / each)))
    return replace(shape, image=(images, *shape.image[1:]))


def _convolve(shape: Convolution, *, last: bool, trains: bool) -> Callable[[], object]:
    """One convolution, with its gradients where the step trains; data as it would be inside a model of that format."""
    import torch

    dtype = getattr(torch, _DTYPES[shape.element_bytes])
    order = torch.channels_last if last else torch.contiguous_format
    generator = torch.Generator().manual_seed(1)
    image = torch.randn(shape.image, generator=generator).to(dtype).to(memory_format=order)
    weight = torch.randn(shape.weight, generator=generator).to(dtype).to(memory_format=order)
    convolve: Any = torch.nn.functional.conv_transpose2d if shape.transposed else torch.nn.functional.conv2d
    options = {"stride": shape.stride, "padding": shape.padding, "groups": shape.groups}
    if not trains:
        return lambda: convolve(image, weight, **options)
    # An image of few channels is the script's own input, which needs no gradient.
    image.requires_grad_(shape.image[1] > 4)
    weight.requires_grad_()
    gradient = torch.randn_like(convolve(image.detach(), weight.detach(), **options))
    inputs = [one for one in (image, weight) if one.requires_grad]
    return lambda: torch.autograd.grad(convolve(image, weight, **options), inputs, gradient)


def _pool(row: OpRow, *, last: bool, trains: bool) -> Callable[[], object]:
    """Maximum pooling from the row's images to results of the row's size."""
    import torch

    image = _image(row, last=last, trains=trains)
    # Each result is written with its place, an integer of 8 bytes.
    results = row.bytes_written / row.calls / (image.element_size() + 8)
    window = max(1, round((_product(tensor_shapes(row)[0]) / max(1.0, results)) ** 0.5))
    return _with_gradient(lambda: torch.nn.functional.max_pool2d(image, window), image, trains=trains)


def _norm(row: OpRow, *, last: bool, trains: bool) -> Callable[[], object]:
    """Batch norm of the row's images, by their own statistics where the step trains."""
    import torch

    image = _image(row, last=last, trains=trains)
    mean, variance = torch.zeros(image.shape[1]), torch.ones(image.shape[1])
    return _with_gradient(
        lambda: torch.nn.functional.batch_norm(image, mean, variance, training=trains), image, trains=trains
    )


def _image(row: OpRow, *, last: bool, trains: bool) -> Any:
    import torch

    batch, *rest = tensor_shapes(row)[0]
    images = max(1, min(batch, PROBE_ELEMENTS // max(1, _product(rest))))
    image = torch.randn((images, *rest), generator=torch.Generator().manual_seed(1))
    return image.to(memory_format=torch.channels_last if last else torch.contiguous_format).requires_grad_(trains)


def _with_gradient(run: Callable[[], Any], image: Any, *, trains: bool) -> Callable[[], object]:
    import torch

    if not trains:
        return run
    gradient = torch.randn_like(run().detach())
    return lambda: torch.autograd.grad(run(), image, gradient)


_BESIDE: Mapping[str, Callable[..., Callable[[], object]]] = {
    "max_pool2d_with_indices": _pool,
    "batch_norm": _norm,
}


def apply(effects: Effects) -> None:
    """Outermost modules with 2-D convolutions are turned to the format at their first call, their images at each."""
    import torch

    turned: dict[int, tuple[Any, bool]] = {}

    def around(module: Any, plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if id(module) not in turned:
            kinds = (torch.nn.Conv2d, torch.nn.ConvTranspose2d)
            has = any(isinstance(one, kinds) for one in module.modules())
            turned[id(module)] = (module, has)
            if has:
                module.to(memory_format=torch.channels_last)
        if not turned[id(module)][1]:
            return plain(module, *args, **kwargs)
        effects.saw(tr("module in channels-last format"))
        return plain(module, *map(_turned, args), **{name: _turned(one) for name, one in kwargs.items()})

    around_outermost_calls(around)


def _turned(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor) and value.dim() == 4 and value.is_floating_point():
        return value.contiguous(memory_format=torch.channels_last)
    return value


def wrap(step: Callable[[], Any], effects: Effects) -> None:
    """A step's own tensors cannot be turned from outside."""
