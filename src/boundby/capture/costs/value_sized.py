"""Results of a size that values decide: what is found, what is unlike, what is stored of a sparse tensor."""

from __future__ import annotations

from collections.abc import Callable

import torch

from boundby.capture.costs.registry import Call, aten, op_cost, rule
from boundby.capture.costs.traffic import distinct_bytes, tensors_in
from boundby.results.counts import OpCost, OpKind


def _most_elements(call: Call) -> int:
    return max((tensor.numel() for tensor in call.inputs()), default=0)


def _sorting(call: Call, sized: list[torch.Tensor]) -> OpCost:
    return op_cost(
        call,
        "sort",
        function="sort",
        function_elements=_most_elements(call),
        indexed_written=distinct_bytes(sized),
    )


@rule("aten::nonzero", data_dependent=True)
def _nonzero(call: Call) -> OpCost:
    """Reads the tensor whole, and writes a row for each element that is not zero."""
    return _sorting(call, tensors_in(call.out))


@rule(*aten("_unique _unique2 unique_dim unique_consecutive unique_dim_consecutive"), data_dependent=True)
def _unique(call: Call) -> OpCost:
    """Values and how often each occurs are as many as there are; the place of each input element is the input's."""
    return _sorting(call, [one for place, one in enumerate(tensors_in(call.out)) if place != 1])


@rule("aten::bincount", data_dependent=True)
def _bincount(call: Call) -> OpCost:
    """A bin for each number up to the largest, and as many as were asked for at the least."""
    least = int(call.arg("minlength", 0))
    return op_cost(
        call,
        "reduction",
        function="bincount",
        function_elements=_most_elements(call),
        indexed_written=max(0, call.out.numel() - least) * call.out.element_size(),
    )


def _copying(kind: OpKind, is_sized: Callable[[Call], bool]) -> Callable[[Call], OpCost]:
    def apply(call: Call) -> OpCost:
        sized = tensors_in(call.out) if is_sized(call) else []
        return op_cost(call, kind, indexed_written=distinct_bytes(sized))

    return apply


def _is_told_no_size(call: Call) -> bool:
    return isinstance(call.arg("repeats"), torch.Tensor) and call.arg("output_size") is None


def _stores_pairs(call: Call) -> bool:
    """Whether the result holds indices and values, as many as there are: a gradient whose equal rows are added up."""
    return bool(call.out.layout is torch.sparse_coo)


rule("aten::repeat_interleave", data_dependent=True)(_copying("copy", _is_told_no_size))
rule(*aten("_coalesce _to_sparse sparse_mask"), data_dependent=True)(_copying("copy", _stores_pairs))
