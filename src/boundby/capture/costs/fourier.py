"""Fourier transforms: the nominal count of a fast transform."""

from __future__ import annotations

from math import log2, prod

import torch

from boundby.capture.costs.registry import Call, op_cost, rule
from boundby.results.counts import OpCost


def _transform_cost(call: Call, whole: torch.Tensor, each: float) -> OpCost:
    """``each`` N log2 N for every transform of N points, all transformed dimensions together.

    Source: Frigo and Johnson, The Design and Implementation of FFTW3, Proc. IEEE 93(2), 2005, in whose speeds a
    transform of N points counts as 5 N log2 N for complex and 2.5 N log2 N for real data. It is what the radix-2
    algorithm takes; others take a little less, or for sizes with large prime factors more.
    """
    size = prod(whole.shape[dim] for dim in call.args[1])
    elements = whole.numel()
    flops = round(each * elements * log2(size)) if size > 1 else 0
    return op_cost(call, "other", pointwise_flops=flops, function="fft", function_elements=elements)


@rule("aten::_fft_c2c")
def _complex(call: Call) -> OpCost:
    return _transform_cost(call, call.args[0], 5.0)


@rule("aten::_fft_r2c")
def _from_real(call: Call) -> OpCost:
    return _transform_cost(call, call.args[0], 2.5)


@rule("aten::_fft_c2r")
def _to_real(call: Call) -> OpCost:
    return _transform_cost(call, call.outputs()[0], 2.5)
