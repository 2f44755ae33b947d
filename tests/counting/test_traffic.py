"""Pointwise work, moved bytes, saved activations, recomputation, optimizers: by arithmetic."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from counting_cases import BF16, BOOL, F32, I64, Bank, Case, count
from torch import nn
from torch.utils.checkpoint import checkpoint

from boundby.capture.costs.traffic import distinct_bytes

r = torch.randn
bank = Bank()


# ---- pointwise ---------------------------------------------------------------------------------------------
@bank(pointwise_flops=12 * 6, bytes_read=8 * 24, bytes_written=8 * 12)
def complex_product():
    a, b = r(12, dtype=torch.complex64), r(12, dtype=torch.complex64)
    return lambda: a * b


@bank(pointwise_flops=12 * 2, bytes_read=8 * 24)
def complex_sum():
    a, b = r(12, dtype=torch.complex64), r(12, dtype=torch.complex64)
    return lambda: a + b


@bank(pointwise_flops=20, bytes_read=F32 * (4 + 5), bytes_written=F32 * 20)
def broadcast_sum():
    a, b = r(4, 1), r(5)
    return lambda: a + b


@bank(pointwise_flops=16, bytes_read=F32 * 16, bytes_written=F32 * 16)
def matrix_plus_its_transpose():
    a = r(4, 4)
    return lambda: a + a.t()


@bank(pointwise_flops=6, bytes_read=F32 * 7, bytes_written=F32 * 6)
def overlapping_slices():
    a = r(7)  # a[:-1] and a[1:] share 5 of 7 elements
    return lambda: a[1:] - a[:-1]


@bank(pointwise_flops=8, bytes_read=F32 * 16, bytes_written=F32 * 8)
def interleaved_columns():
    a = r(4, 4)  # address ranges overlap, elements do not
    return lambda: a[:, :2] * a[:, 2:]


@bank(pointwise_flops=15, bytes_read=F32 * 7, bytes_written=F32 * 15)
def sliding_windows():
    a = r(7)  # 5 windows of 3 hold 15 elements, 7 different
    return lambda: a.unfold(0, 3, 1) * 2.0


@bank(pointwise_flops=10, bytes_read=F32 * 20, bytes_written=F32 * 10)
def in_place_sum():
    a, b = r(10), r(10)
    return lambda: a.add_(b)


@bank(pointwise_flops=10, bytes_read=F32 * 10, bytes_written=F32 * 10)
def in_place_with_itself():
    a = torch.ones(10)
    return lambda: a.mul_(a)


@bank(pointwise_flops=10, bytes_read=F32 * 10, bytes_written=BOOL * 10)
def comparison_writes_bools():
    a = r(10)
    return lambda: a > 0.5


@bank(pointwise_flops=15, bytes_read=F32 * 30, bytes_written=F32 * 15)
def lerp_reads_both_ends():
    a, b = r(15), r(15)
    return lambda: torch.lerp(a, b, 0.5)


@bank(pointwise_flops=0, launches=0, bytes_read=0, bytes_written=0)
def views_are_free():
    a = r(4, 6)
    return lambda: a.t()[1:, ::2].unsqueeze(0).expand(3, -1, -1).view(3, 5, 2).select(0, 1).detach()


@bank(bytes_read=F32 * 24, bytes_written=F32 * 24, pointwise_flops=0)
def reshape_that_copies():
    a = r(4, 6)
    return lambda: a.t().reshape(24)


@bank(bytes_read=F32 * 6, bytes_written=F32 * 24)
def tile():
    a = r(6)
    return lambda: a.repeat(4)


# ---- reductions, norms, losses -------------------------------------------------------------------------------
@bank(bytes_read=F32 * 24, bytes_written=(F32 + I64) * 4)
def max_writes_indices():
    a = r(4, 6)
    return lambda: a.max(dim=1)


@bank(bytes_read=F32 * (24 + 6 + 6), bytes_written=F32 * (24 + 4 + 4))
def layer_norm():
    m, x = nn.LayerNorm(6), r(4, 6)  # also mean and rstd of 4 rows

    def work():
        with torch.no_grad():
            return m(x)

    return work


@bank(bytes_read=F32 * (24 + 4 * 6) + I64, bytes_written=F32 * (24 + 2 * 6 + 2 * 6) + I64)
def batch_norm_training():
    m, x = nn.BatchNorm1d(6), r(4, 6)  # statistics are read and updated, batches are counted, mean and invstd kept

    def work():
        with torch.no_grad():
            return m(x)

    return work


@bank(bytes_read=F32 * (24 + 4 * 6), bytes_written=F32 * 24)
def batch_norm_evaluating():
    m, x = nn.BatchNorm1d(6).eval(), r(4, 6)

    def work():
        with torch.no_grad():
            return m(x)

    return work


@bank(bytes_read=F32 * 40 + (F32 * 4 + I64 * 4), bytes_written=F32 * 40 + F32 * 2)
def cross_entropy_picks_one_score_a_row():
    x, t = r(4, 10), torch.tensor([1, 2, 3, 4])  # log_softmax 40 each way; nll reads 4 scores, 4 targets
    return lambda: F.cross_entropy(x, t)


@bank(bytes_read=F32 * 32, bytes_written=(F32 + I64) * 8)
def max_pool_keeps_indices():
    x = r(1, 2, 4, 4)
    return lambda: F.max_pool2d(x, 2)


# ---- gathers and scatters --------------------------------------------------------------------------------------
@bank(bytes_read=I64 * 6 + F32 * 2 * 8, bytes_written=F32 * 6 * 8)
def embedding_reads_distinct_rows():
    w, ids = r(1000, 8), torch.tensor([[7, 7, 7], [9, 9, 7]])
    return lambda: F.embedding(ids, w)


@bank(bytes_read=I64 * 4 + F32 * 3, bytes_written=F32 * 4)
def gather_with_repeats():
    x, i = r(3, 5), torch.tensor([[0, 0], [1, 2]])  # row 0 picks one element twice, row 1 two
    return lambda: x.gather(1, i)


@bank(bytes_read=I64 * 2 + F32 * 2, bytes_written=F32 * 2)
def gather_few_of_many():
    x, i = r(2, 50_000), torch.tensor([[7], [7]])  # the same column of two rows: two elements
    return lambda: x.gather(1, i)


@bank(bytes_read=BOOL * 6 + F32 * 4, bytes_written=F32 * 4)
def boolean_mask():
    x, m = r(6), torch.tensor([True, False, True, True, False, True])
    return lambda: x[m]


@bank(bytes_read=I64 * 2 + F32 * 8, bytes_written=F32 * 8)
def index_assignment_touches_two_rows():
    x, i, v = r(10, 4), torch.tensor([1, 3]), r(2, 4)

    def work():
        x[i] = v

    return work


@bank(bytes_read=I64 * 3 + F32 * 3 * 4 + F32 * 2 * 4, bytes_written=F32 * 2 * 4)
def index_add_reads_what_it_changes():
    x, i, v = r(10, 4), torch.tensor([1, 1, 3]), r(3, 4)
    return lambda: x.index_add_(0, i, v)


# ---- casts -------------------------------------------------------------------------------------------------
@bank(bytes_read=BF16 * 30, bytes_written=F32 * 30, pointwise_flops=0, launches=1)
def upcast():
    x = r(30).bfloat16()
    return lambda: x.float()


# ---- optimizers: 20 + 7 parameters ---------------------------------------------------------------------------
def _parameters():
    parameters = [nn.Parameter(r(4, 5)), nn.Parameter(r(7))]
    for one in parameters:
        one.grad = torch.ones_like(one)
    return parameters


@bank(bytes_read=F32 * (2 + 4 * 27 + 2), bytes_written=F32 * (2 + 3 * 27), launches=2)
def fused_adamw():
    # two step counters are raised; then parameter, gradient and both moments are read, all but gradients written
    optimizer = torch.optim.AdamW(_parameters(), fused=True)
    optimizer.step()
    return optimizer.step


@bank(bytes_read=F32 * 3 * 27, bytes_written=F32 * 2 * 27, launches=1)
def fused_sgd_with_momentum():
    optimizer = torch.optim.SGD(_parameters(), lr=0.1, momentum=0.9, fused=True)
    optimizer.step()
    return optimizer.step


@bank(pointwise_flops=27, bytes_read=F32 * 27, bytes_written=F32 * 27, ops=1)
def foreach_exp():
    lists = [r(4, 5), r(7)]
    return lambda: torch._foreach_exp(lists)


@bank(pointwise_flops=0, bytes_read=F32 * 27, bytes_written=F32 * 27, ops=1)
def foreach_copy():
    a, b = [r(4, 5), r(7)], [r(4, 5), r(7)]
    return lambda: torch._foreach_copy_(a, b)


@bank(bytes_read=F32 * 27, bytes_written=F32 * 2, launches=1)
def foreach_norm():
    lists = [r(4, 5), r(7)]
    return lambda: torch._foreach_norm(lists)


# ---- saved for backward --------------------------------------------------------------------------------------
@bank(saved_bytes=F32 * (8 * 16 + 8 * 4))
def softmax_keeps_its_result():
    m, x = nn.Linear(16, 4), r(8, 16)
    return lambda: m(x).softmax(-1)


@bank(saved_bytes=F32 * (8 * 16 + 2 * 8 * 4))
def product_keeps_both_factors():
    a, b, x = nn.Linear(16, 4), nn.Linear(16, 4), r(8, 16)
    return lambda: a(x) * b(x)


@bank(saved_bytes=F32 * 2 * (8 * 16 + 8 * 4))
def two_backwards_in_one_call():
    a, b, x = nn.Linear(16, 4), nn.Linear(16, 4), r(8, 16)

    def work():
        for layer in (a, b):  # the second graph is made after the first is freed; both count
            layer(x.clone()).exp().sum().backward()

    return work


@bank(saved_bytes=F32 * (8 * 16 + 2 * 8 * 4))
def branches_meet_in_an_op_without_backward_work():
    a, b, x = nn.Linear(16, 4), nn.Linear(16, 4), r(8, 16)
    return lambda: (a(x).exp().sum() + b(x).exp().sum()).backward()


@bank(saved_bytes=F32 * 6 * 3 * 5)
def conv_saves_its_input_not_its_weight():
    m, x = nn.Conv1d(3, 2, 3), r(6, 3, 5)
    return lambda: m(x)


@bank(saved_bytes=I64 * 4)
def embedding_saves_its_ids():
    m, ids = nn.Embedding(10, 4), torch.tensor([1, 2, 3, 4])
    return lambda: m(ids)


@bank(saved_bytes=0)
def plain_no_grad():
    m, x = nn.Linear(16, 4), r(8, 16)
    return lambda: m(x).detach()


# ---- recomputation -------------------------------------------------------------------------------------------
@bank(matmul_flops=6 * 2 * 8 * 16 * 16, recomputed_flops=2 * 8 * 16 * 16)
def checkpoint_stops_before_its_last_product():
    m, x = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16)), r(8, 16)
    # forward 2 products, backward 3 (data input), the first product again: 6
    return lambda: checkpoint(m, x, use_reentrant=False).sum().backward()


@bank(matmul_flops=2 * 8 * 16 * 16 * 8, recomputed_flops=2 * 8 * 16 * 16 * 2)
def reentrant_checkpoint_runs_all_again():
    m, x = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16)), r(8, 16, requires_grad=True)
    # forward 2, again 2, backward 4
    return lambda: checkpoint(m, x, use_reentrant=True).sum().backward()


@bank(recomputed_flops=0)
def second_derivatives_are_not_recomputation():
    w = r(5, requires_grad=True)

    def work():
        (slope,) = torch.autograd.grad(w.pow(3).sum(), w, create_graph=True)
        return torch.autograd.grad(slope.sum(), w)

    return work


class OwnCheckpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return (x @ w).relu()

    @staticmethod
    def backward(ctx, grad):
        x, w = (one.detach().requires_grad_() for one in ctx.saved_tensors)
        with torch.enable_grad():
            y = (x @ w).relu()
        return torch.autograd.grad(y, (x, w), grad)


@bank(matmul_flops=4 * 2 * 8 * 16 * 4, recomputed_flops=2 * 8 * 16 * 4)
def recomputation_in_a_function_of_the_users():
    x, w = r(8, 16, requires_grad=True), r(16, 4, requires_grad=True)
    return lambda: OwnCheckpoint.apply(x, w).sum().backward()


@pytest.mark.parametrize("case", bank, ids=lambda case: case.name)
def test_counts_by_arithmetic(case: Case) -> None:
    case.check()


def test_input_tensors_that_are_kept_are_shown_apart() -> None:
    layer, x = nn.Linear(16, 4), r(8, 16)
    seen = count(lambda given: layer(given).exp(), x)
    assert seen.saved_bytes == F32 * (8 * 16 + 8 * 4)
    assert seen.saved_input_bytes == F32 * 8 * 16


@pytest.mark.parametrize(
    ("shape", "stride", "distinct"),
    [
        ((4, 6), (6, 1), 24),
        ((4, 6), (0, 1), 6),
        ((6, 4), (1, 6), 24),
        ((5, 3), (1, 1), 7),  # windows
        ((5, 3), (2, 1), 11),  # windows two apart: 0..2, 2..4, ... 8..10
        ((5, 2), (3, 1), 10),  # gaps between
        ((3, 3), (3, 2), 9),  # 0 2 4, 3 5 7, 6 8 10
        ((3, 4), (3, 2), 11),  # 0 2 4 6, 3 5 7 9, 6 8 10 12: only 6 is shared
        ((0, 4), (4, 1), 0),
        ((1, 1), (0, 0), 1),
    ],
)
def test_distinct_elements_of_any_strides(shape: tuple[int, ...], stride: tuple[int, ...], distinct: int) -> None:
    tensor = torch.zeros(100, dtype=torch.uint8).as_strided(shape, stride)
    places = {sum(i * s for i, s in zip(at, stride, strict=True)) for at in torch.ones(shape).nonzero().tolist()}
    assert distinct == len(places) == distinct_bytes([tensor])
