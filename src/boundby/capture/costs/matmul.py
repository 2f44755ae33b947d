"""Matrix products: dense, sparse by stored values, quantized and packed. FLOP = 2 x multiply-accumulate."""

from __future__ import annotations

from math import prod

import torch

from boundby.capture.costs.registry import Call, op_cost, rule
from boundby.capture.costs.traffic import distinct_bytes, short_dtype
from boundby.results.counts import MatmulShape, OpCost


def mac_flops(dtype: torch.dtype) -> int:
    """FLOPs of one multiply-accumulate: 2, or 8 for complex numbers."""
    return 8 if dtype.is_complex else 2


def product_cost(call: Call, batch: int, m: int, n: int, k: int, *, skip: tuple[str, ...] = ()) -> OpCost:
    """``batch`` products of (m, k) by (k, n); an added term with ``beta=0`` is not read."""
    if call.arg("beta", 1) == 0:
        skip = (*skip, "self", "input")
    first = next(iter(call.inputs(without=("self",))), None)
    dtype = first.dtype if first is not None else torch.float32
    return op_cost(
        call,
        "matmul",
        reads=call.inputs(without=skip),
        matmul_flops=mac_flops(dtype) * batch * m * n * k,
        matmul_shape=MatmulShape(batch=batch, m=m, n=n, k=k),
        dtype=short_dtype(dtype) if dtype in (torch.int8, torch.uint8) else None,
    )


def _is_dense(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_nested


def _stored_product(call: Call, a: torch.Tensor, b: torch.Tensor, skip: tuple[str, ...] = ()) -> OpCost:
    """A product with a sparse operand: every stored value meets each row or column of the dense one."""
    if call.arg("beta", 1) == 0:
        skip = (*skip, "self")
    if not _is_dense(a) and not _is_dense(b):
        macs = _sparse_sparse_macs(a, b)
    elif not _is_dense(a):
        macs = _stored_values(a) * (b.shape[-1] if b.dim() > 1 else 1)
    else:
        macs = _stored_values(b) * (a.shape[-2] if a.dim() > 1 else 1)
    return op_cost(call, "matmul", reads=call.inputs(without=skip), matmul_flops=mac_flops(a.dtype) * macs)


def _stored_values(tensor: torch.Tensor) -> int:
    values = tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()
    return values.numel()


def _sparse_sparse_macs(a: torch.Tensor, b: torch.Tensor) -> int:
    """Multiply-accumulates of a sparse product: each stored (i, k) meets each stored (k, j)."""
    left = a.to_sparse_coo().coalesce().indices()[1]
    right = b.to_sparse_coo().coalesce().indices()[0]
    inner = a.shape[1]
    return int((torch.bincount(left, minlength=inner) * torch.bincount(right, minlength=inner)).sum())


def _dense_or_stored(call: Call, a: torch.Tensor, b: torch.Tensor) -> OpCost:
    if a.is_nested or b.is_nested:
        return _nested_product(call, a, b)
    if not _is_dense(a) or not _is_dense(b):
        return _stored_product(call, a, b)
    if a.dim() == 3:
        return product_cost(call, a.shape[0], a.shape[1], b.shape[2], a.shape[2])
    m = a.shape[0] if a.dim() == 2 else 1
    n = b.shape[1] if b.dim() == 2 else 1
    return product_cost(call, 1, m, n, a.shape[-1])


def _nested_product(call: Call, a: torch.Tensor, b: torch.Tensor) -> OpCost:
    """Products of the components of strided nested tensors, each of its own size."""
    if not (a.is_nested and b.is_nested):
        return op_cost(call, "matmul", modelled=False)
    left, right = a._nested_tensor_size().tolist(), b._nested_tensor_size().tolist()
    macs = sum(prod(rows) * columns[-1] for rows, columns in zip(left, right, strict=True))
    return op_cost(call, "matmul", matmul_flops=mac_flops(a.dtype) * macs)


@rule(
    "aten::mm",
    "aten::bmm",
    "aten::matmul",
    "aten::mv",
    "aten::dot",
    "aten::vdot",
    "aten::_int_mm",
    "aten::_scaled_mm",
    "aten::_scaled_mm_v2",
)
def _product(call: Call) -> OpCost:
    return _dense_or_stored(call, call.args[0], call.args[1])


@rule("aten::addmm", "aten::_addmm_activation", "aten::baddbmm", "aten::addbmm", "aten::addmv")
def _added_product(call: Call) -> OpCost:
    """A product plus an added term, which is no matmul work."""
    return _dense_or_stored(call, call.args[1], call.args[2])


@rule("aten::_sparse_addmm", "aten::hspmm", "aten::sspaddmm", data_dependent=True)
def _sparse_addmm(call: Call) -> OpCost:
    tensors = call.inputs()
    return _stored_product(call, tensors[-2], tensors[-1])


@rule("aten::_sparse_sparse_matmul", data_dependent=True)
def _sparse_sparse(call: Call) -> OpCost:
    return _stored_product(call, call.args[0], call.args[1])


@rule("aten::sparse_sampled_addmm", data_dependent=True)
def _sampled(call: Call) -> OpCost:
    """Only the stored positions of the sparse target are computed, each a dot product."""
    target, a = call.args[0], call.args[1]
    return op_cost(call, "matmul", matmul_flops=mac_flops(a.dtype) * _stored_values(target) * a.shape[-1])


@rule("aten::_sparse_mm_reduce_impl", data_dependent=True)
def _sparse_reduce(call: Call) -> OpCost:
    return _stored_product(call, call.args[0], call.args[1])


@rule("aten::_trilinear")
def _trilinear(call: Call) -> OpCost:
    """``bilinear`` below autograd: the first two tensors are contracted, then the result with the third.

    Source: aten/src/ATen/native/Linear.cpp, ``_trilinear``: two calls of ``sumproduct_pair``; one without a summed
    dimension is an elementwise product, not matmul work.
    """
    one, two, three = call.args[:3]
    absent = [set(call.args[3]), set(call.args[4]), set(call.args[5])]
    summed = set(call.args[6])
    sizes = [
        max(
            (
                tensor.shape[dim - sum(gone < dim for gone in lacks)]
                for tensor, lacks in zip((one, two, three), absent, strict=True)
                if dim not in lacks
            ),
            default=1,
        )
        for dim in range(one.dim() + len(absent[0]))
    ]
    first_summed = summed & absent[2]
    in_pair = {dim for dim in range(len(sizes)) if dim not in absent[0] & absent[1]}
    in_rest = (in_pair - first_summed) | {dim for dim in range(len(sizes)) if dim not in absent[2]}
    macs = prod(sizes[dim] for dim in in_pair) if first_summed else 0
    if summed - first_summed:
        macs += prod(sizes[dim] for dim in in_rest)
    return op_cost(call, "matmul", matmul_flops=mac_flops(one.dtype) * macs)


@rule("aten::linear", "aten::mkldnn_linear", "mkldnn::_linear_pointwise", "mkl::_mkl_linear")
def _linear(call: Call) -> OpCost:
    """A linear layer that reached a backend whole: every output element takes one pass over the inner dimension."""
    x, out = call.args[0], call.out
    if x.is_nested:
        # Strided nested tensors have a kernel of their own: every stored element meets every output feature.
        return op_cost(call, "matmul", matmul_flops=mac_flops(x.dtype) * x.numel() * call.args[1].shape[0])
    k = x.shape[-1]
    n = out.shape[-1]
    m = out.numel() // n if n else 0
    return op_cost(
        call, "matmul", matmul_flops=mac_flops(x.dtype) * m * n * k, matmul_shape=MatmulShape(batch=1, m=m, n=n, k=k)
    )


@rule(
    "quantized::linear",
    "quantized::linear_relu",
    "quantized::linear_dynamic",
    "quantized::linear_relu_dynamic",
    "quantized::linear_dynamic_fp16",
)
def _packed_linear(call: Call) -> OpCost:
    """A linear layer on a packed int8 weight, whose bytes are one a value (fp16: two)."""
    x, out = call.args[0], call.out
    k, n = x.shape[-1], out.shape[-1]
    m = out.numel() // n if n else 0
    width = 2 if call.schema.name.endswith("fp16") else 1
    return op_cost(
        call,
        "matmul",
        read_bytes=distinct_bytes([x]) + k * n * width,
        matmul_flops=2 * m * n * k,
        matmul_shape=MatmulShape(batch=1, m=m, n=n, k=k),
        dtype="int8" if width == 1 else "fp16",
    )


@rule("aten::_weight_int8pack_mm", "aten::_weight_int4pack_mm", "aten::_weight_int4pack_mm_for_cpu")
def _packed_product(call: Call) -> OpCost:
    x, out = call.args[0], call.out
    m, n, k = x.shape[0], out.shape[1], x.shape[1]
    return op_cost(call, "matmul", matmul_flops=2 * m * n * k, matmul_shape=MatmulShape(batch=1, m=m, n=n, k=k))


@rule("aten::_grouped_mm", "aten::_scaled_grouped_mm", "aten::_scaled_grouped_mm_v2")
def _grouped_product(call: Call) -> OpCost:
    """Products of row groups with a matrix each (mixture of experts): every row, or every inner element, once."""
    a, b = call.args[0], call.args[1]
    groups = a.shape[0] if a.dim() == b.dim() == 3 else 1
    return op_cost(call, "matmul", matmul_flops=mac_flops(a.dtype) * groups * a.shape[-2] * a.shape[-1] * b.shape[-1])


@rule("aten::_euclidean_dist")
def _distances(call: Call) -> OpCost:
    """``cdist`` by a product: each row gains its norm and a one, so the inner dimension is two longer.

    Source: aten/src/ATen/native/Distance.cpp, ``_euclidean_dist``.
    """
    a, b = call.args[0], call.args[1]
    macs = prod(call.out.shape) * (a.shape[-1] + 2)
    shape = MatmulShape(batch=prod(a.shape[:-2]), m=a.shape[-2], n=b.shape[-2], k=a.shape[-1] + 2)
    return op_cost(call, "matmul", matmul_flops=2 * macs, matmul_shape=shape)


@rule("aten::linear_backward", "aten::mkldnn_linear_backward")
def _linear_backward(call: Call) -> OpCost:
    x, grad = call.args[0], call.args[1]
    mask = call.arg("output_mask")
    macs = grad.numel() * x.shape[-1] * (bool(mask[0]) + bool(mask[1]))
    return op_cost(call, "matmul", matmul_flops=mac_flops(x.dtype) * macs)
