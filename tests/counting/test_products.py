"""Matrix products, convolutions, attention and recurrent layers: FLOPs and traffic by arithmetic."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from counting_cases import BF16, F32, F64, I8, I64, Bank, Case
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as attend

r = torch.randn
bank = Bank()


# ---- dense products: 2 x multiply-accumulates ------------------------------------------------------------
@bank(matmul_flops=2 * 7 * 5 * 3, bytes_read=F32 * (35 + 15), bytes_written=F32 * 21, ops=1)
def mm_of_a_strided_slice():
    a, b = r(7, 10), r(5, 3)  # every second column: 7*5 distinct elements, not the 70 of the storage
    x = a[:, ::2]
    return lambda: x @ b


@bank(matmul_flops=2 * 4 * 4 * 4, bytes_read=F32 * 16, bytes_written=F32 * 16)
def gram_matrix():
    a = r(4, 4)  # a @ a.T reads a once
    return lambda: a @ a.t()


@bank(matmul_flops=2 * 6 * 3 * 4 * 5, bytes_read=F32 * (6 * 12 + 20), bytes_written=F32 * 6 * 15)
def bmm_with_an_expanded_side():
    a, b = r(6, 3, 4), r(4, 5).expand(6, 4, 5)  # the shared matrix is 20 elements, read once
    return lambda: torch.bmm(a, b)


@bank(matmul_flops=2 * 3 * 2 * 4 * 5, bytes_read=F32 * (3 * 10 + 3 * 8 + 3 * 20), bytes_written=F32 * 30)
def baddbmm():
    c, a, b = r(3, 2, 5), r(3, 2, 4), r(3, 4, 5)
    return lambda: torch.baddbmm(c, a, b)


@bank(matmul_flops=2 * 3 * 4 * 5, bytes_read=F32 * (12 + 20))
def addmm_with_beta_zero():
    c, a, b = r(3, 5), r(3, 4), r(4, 5)  # 0 * c is not read
    return lambda: torch.addmm(c, a, b, beta=0)


@bank(matmul_flops=8 * 3 * 4 * 5, bytes_read=8 * (12 + 20), bytes_written=8 * 15)
def complex_mm():
    a, b = r(3, 4, dtype=torch.complex64), r(4, 5, dtype=torch.complex64)  # 8 real FLOPs a complex MAC
    return lambda: a @ b


@bank(matmul_flops=2 * 32 * 16 * 24, bytes_read=I8 * (32 * 16 + 16 * 24), bytes_written=4 * 32 * 24)
def int8_product():
    a = torch.ones(32, 16, dtype=torch.int8)
    b = torch.ones(16, 24, dtype=torch.int8)
    return lambda: torch._int_mm(a, b)  # accumulates into int32


@bank(matmul_flops=2 * 3 * (2 * 4 * 5), bytes_read=F32 * (10 + 3 * 8 + 3 * 20))
def addbmm():
    c, a, b = r(2, 5), r(3, 2, 4), r(3, 4, 5)  # three products summed into one
    return lambda: torch.addbmm(c, a, b)


@bank(matmul_flops=2 * (2 * 5 * 3 * 4 + 2 * 5 * 4))
def bilinear():
    m, a, b = nn.Bilinear(3, 4, 5, bias=False), r(2, 3), r(2, 4)
    return lambda: m(a, b)  # contract 3 (2*5*3*4 MACs), then 4 (2*5*4)


@bank(matmul_flops=0, pointwise_flops=5 * 7)
def outer_by_einsum():
    a, b = r(5, 1), r(1, 7)
    return lambda: torch.einsum("ik,kj->ij", a, b)  # nothing to sum over: torch multiplies elementwise


@bank(matmul_flops=2 * 2 * 3 * 4 * 5 * 6)
def batched_einsum():
    a, b = r(2, 3, 4, 6), r(2, 3, 5, 6)
    return lambda: torch.einsum("bhqd,bhkd->bhqk", a, b)


@bank(matmul_flops=2 * 3 * (8 * 4))
def vmapped_matrix_vector():
    w, x = r(8, 4), r(3, 4)  # batched by vmap: three matrix-vector products
    return lambda: torch.func.vmap(lambda v: w @ v)(x)


@bank(matmul_flops=2 * 5 * 9, bytes_read=F32 * (45 + 9), bytes_written=F32 * 5, ops=1)
def mv_out():
    a, v, o = r(5, 9), r(9), r(5)
    return lambda: torch.mv(a, v, out=o)


@bank(matmul_flops=2 * 10 * 6 * 4, bytes_read=BF16 * (60 + 24 + 4))
def linear_under_autocast():
    m, x = nn.Linear(6, 4), r(10, 6)
    m, x = m.bfloat16(), x.bfloat16()

    def work():
        with torch.no_grad():
            return m(x)

    return work


@bank(matmul_flops=2 * 10 * 6 * 4, bytes_read=F32 * (60 + 24 + 4) + BF16 * (60 + 24 + 4), launches=4)
def autocast_counts_its_casts():
    m, x = nn.Linear(6, 4), r(10, 6)  # input, weight and bias are cast, then the product reads the casts

    def work():
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            return m(x)

    return work


@bank(matmul_flops=2 * 30 * 40 * (8 + 2))
def distances_by_a_product():
    a, b = r(30, 8), r(40, 8)  # beyond 25 rows torch multiplies rows that end in their norm and a one
    return lambda: torch.cdist(a, b)


# ---- gradients ---------------------------------------------------------------------------------------------
@bank(matmul_flops=2 * 8 * (3 * 6 * 4 - 6 * 4))
def linear_train():
    m, x = nn.Linear(6, 4), r(8, 6)  # forward and dW; the data needs no gradient
    return lambda: m(x).sum().backward()


@bank(matmul_flops=2 * 8 * 6 * 4 * 2)
def frozen_linear_train():
    m, x = nn.Linear(6, 4).requires_grad_(False), r(8, 6, requires_grad=True)  # forward and dX
    return lambda: m(x).sum().backward()


@bank(matmul_flops=2 * 3 * 2 * 3 * 4 * 5)
def bmm_train():
    a, b = r(2, 3, 4, requires_grad=True), r(2, 4, 5, requires_grad=True)
    return lambda: torch.bmm(a, b).sum().backward()


# ---- sparse ------------------------------------------------------------------------------------------------
def _sparse():
    return torch.tensor([[0.0, 1, 0, 2], [0, 0, 3, 0], [4, 0, 0, 5]])  # 5 stored values


@bank(matmul_flops=2 * 5 * 6)
def sparse_addmm():
    s, d, c = _sparse().to_sparse(), r(4, 6), r(3, 6)
    return lambda: torch.sparse.addmm(c, s, d)


@bank(matmul_flops=2 * 5 * 6)
def csc_by_dense():
    s, d = _sparse().to_sparse_csc(), r(4, 6)
    return lambda: s @ d


@bank(matmul_flops=2 * (1 * 1 + 1 * 1 + 1 * 1 + 2 * 2))
def sparse_by_its_transpose():
    s = _sparse().to_sparse()  # columns hold 1, 1, 1 and 2 values; each meets itself
    t = s.t().coalesce()
    return lambda: torch.sparse.mm(s, t)


# ---- convolution -------------------------------------------------------------------------------------------
@bank(matmul_flops=2 * 2 * 8 * 16 * 9, bytes_read=F32 * (2 * 8 * 16 + 8 * 9), bytes_written=F32 * 2 * 8 * 16)
def depthwise():
    x, w = r(2, 8, 4, 4), r(8, 1, 3, 3)  # a group a channel: 9 taps an output
    return lambda: F.conv2d(x, w, padding=1, groups=8)


@bank(matmul_flops=2 * 2 * 6 * 5 * (4 * 3), bytes_read=F32 * (2 * 4 * 10 + 6 * 12), bytes_written=F32 * 2 * 6 * 5)
def conv1d_strided():
    x, w = r(2, 4, 10), r(6, 4, 3)  # floor((10 + 2 - 3) / 2) + 1 = 5 positions
    return lambda: F.conv1d(x, w, stride=2, padding=1)


@bank(matmul_flops=2 * 5 * 7 * (4 * 6 * 3))
def conv_transpose1d():
    x, w = r(5, 4, 7), r(4, 6, 3)  # every input position meets 6 x 3 taps for each of 4 channels
    return lambda: F.conv_transpose1d(x, w)


@bank(matmul_flops=2 * 6 * 64 * 4)
def pointwise_convolution():
    x, w = r(1, 4, 8, 8), r(6, 4, 1, 1)
    return lambda: F.conv2d(x, w)


@bank(matmul_flops=2 * 2 * 6 * 16 * 36)
def conv_train_data_input():
    m, x = nn.Conv2d(4, 6, 3, padding=1), r(1, 4, 4, 4)  # forward and dW, 16 positions of 36 taps for 6 filters
    return lambda: m(x).sum().backward()


@bank(matmul_flops=2 * 2 * 6 * 16 * 36)
def conv_train_frozen_weight():
    m, x = nn.Conv2d(4, 6, 3, padding=1).requires_grad_(False), r(1, 4, 4, 4, requires_grad=True)
    return lambda: m(x).sum().backward()


@bank(matmul_flops=3 * 2 * 2 * 27 * (3 * 2 * 8))
def conv_transpose3d_train():
    m, x = nn.ConvTranspose3d(3, 2, 2, bias=False), r(2, 3, 3, 3, 3, requires_grad=True)
    return lambda: m(x).sum().backward()


@bank(matmul_flops=3 * 2 * 2 * 16 * 9)
def complex_convolution_counts_as_what_runs():
    x, w = r(1, 1, 4, 4, dtype=torch.complex64), r(2, 1, 3, 3, dtype=torch.complex64)
    # torch runs a complex convolution as three real ones of 2*16*9 MACs each
    return lambda: F.conv2d(x, w, padding=1)


# ---- attention ---------------------------------------------------------------------------------------------
@bank(matmul_flops=4 * 2 * 3 * 8 * 8 * 16, causal_matmul_flops=4 * 2 * 3 * 36 * 16)
def causal_attention():
    q, k, v = r(2, 3, 8, 16), r(2, 3, 8, 16), r(2, 3, 8, 16)  # 8*9/2 = 36 pairs are left of 64
    return lambda: attend(q, k, v, is_causal=True)


@bank(matmul_flops=(4 + 10) * 1 * 2 * 6 * 6 * 8)
def attention_train():
    q, k, v = (r(1, 2, 6, 8, requires_grad=True) for _ in range(3))
    # forward 2 products, backward 5 (scores again, dP, dV, dQ, dK) of 2*2*6*6*8 each
    return lambda: attend(q, k, v).sum().backward()


@bank(matmul_flops=2 * 2 * 5 * 7 * 8 + 2 * 2 * 5 * 7 * 4)
def attention_with_another_value_width():
    q, k, v = r(1, 2, 5, 8), r(1, 2, 7, 8), r(1, 2, 7, 4)  # 8 wide for scores, 4 wide for values: the math path
    return lambda: attend(q, k, v)


@bank(matmul_flops=2 * 2 * 5 * 6 * 6 * 8)
def attention_without_heads():
    q, k, v = r(5, 6, 8), r(5, 6, 8), r(5, 6, 8)  # 3-D input: two batched products
    return lambda: attend(q, k, v)


@bank(matmul_flops=2 * 10 * 16 * 16 * 4 + 4 * 2 * 5 * 5 * 16)
def multihead_attention_without_grad():
    m, x = nn.MultiheadAttention(16, 4, batch_first=True).eval(), r(2, 5, 16)  # 3 + 1 projections of 10 rows

    def work():
        with torch.no_grad():
            return m(x, x, x, need_weights=False)

    return work


# ---- recurrent ---------------------------------------------------------------------------------------------
@bank(matmul_flops=2 * 2 * 6 * 4 * 6 * (5 + 6) + 2 * 2 * 6 * 4 * 6 * (12 + 6))
def bidirectional_two_layer_lstm():
    m, x = nn.LSTM(5, 6, num_layers=2, bidirectional=True), r(2, 3, 5)  # 6 rows; layer 2 gets 2*6 features

    def work():
        with torch.no_grad():
            return m(x)

    return work


@bank(matmul_flops=2 * 4 * 3 * 6 * (5 + 6))
def gru_steps():
    m, x = nn.GRU(5, 6, bias=False), r(4, 1, 5)
    return lambda: m(x)


@bank(matmul_flops=3 * 2 * 6 * 4 * 8 * (5 + 8))
def lstm_train():
    m, x = nn.LSTM(5, 8), r(3, 2, 5)  # the fused backward computes all four gradients: twice the forward
    return lambda: m(x)[0].sum().backward()


@bank(matmul_flops=2 * 3 * 6 * (5 + 6))
def rnn_cell():
    m, x = nn.RNNCell(5, 6), r(3, 5)
    return lambda: m(x)


# ---- quantized ---------------------------------------------------------------------------------------------
@bank(matmul_flops=2 * 4 * 8 * 6)
def quantized_dynamic_linear():
    packed = torch.ops.quantized.linear_prepack(torch.quantize_per_tensor(r(6, 8), 0.1, 0, torch.qint8), None)
    x = r(4, 8)
    return lambda: torch.ops.quantized.linear_dynamic(x, packed)


# ---- dtypes ------------------------------------------------------------------------------------------------
@bank(matmul_flops=2 * 6, bytes_read=F64 * 12, bytes_written=F64)
def dot_in_double():
    a, b = r(6).double(), r(6).double()
    return lambda: torch.dot(a, b)


@bank(matmul_flops=2 * 3 * 4 * 5, bytes_read=I64 * (12 + 20), bytes_written=I64 * 15)
def integer_mm():
    a, b = torch.ones(3, 4, dtype=torch.int64), torch.ones(4, 5, dtype=torch.int64)
    return lambda: a @ b


@pytest.mark.parametrize("case", bank, ids=lambda case: case.name)
def test_counts_by_arithmetic(case: Case) -> None:
    case.check()
