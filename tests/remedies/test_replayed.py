"""Products made again: of the shapes and FLOPs that the report tells, smaller where they are long."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_up_rows import FixedProbe, bare_row, evidence_of, filled_report
from torch.utils.flop_counter import FlopCounterMode

from boundby.remedies.replayed import (
    PRODUCTS,
    Kind,
    Replay,
    kinds_of,
    product_replay,
    products_part,
    timed_call,
    together,
    weight_bytes,
)


def flops_of(replay) -> int:
    with FlopCounterMode(display=False) as counter:
        timed_call(replay, ("float32",) * len(replay.shapes), gradients=False)()
    return counter.get_total_flops() // 2  # it is called once to see its output's shape


CONVOLUTIONS = [
    ("2x6x9x9 4x6x3x3", 2 * 2 * 49 * 4 * 6 * 9),
    ("2x6x9x9 4x6x3x3", 2 * 2 * 81 * 4 * 6 * 9),
    ("2x6x9x9 6x1x3x3", 2 * 2 * 81 * 6 * 9),
    ("2x3x16x16 8x3x4x4", 2 * 2 * 64 * 8 * 3 * 16),
    ("2x3x32 8x3x5", 2 * 2 * 32 * 8 * 3 * 5),
    # Transposed: the weights' first side is the input's channels, and each place of the input is one of a product.
    ("2x8x8x8 8x4x4x4", 2 * 2 * 64 * 8 * 4 * 16),
    ("2x8x8x8 8x1x4x4", 2 * 2 * 64 * 8 * 16),
    ("2x8x1x1 8x16x4x4", 2 * 2 * 8 * 16 * 16),
]


@pytest.mark.parametrize(
    ("op", "shapes", "flops"),
    [
        ("mm", "16x8 8x4", 2 * 16 * 8 * 4),
        ("addmm", "4 16x8 8x4", 2 * 16 * 8 * 4),
        ("bmm", "3x16x8 3x8x4", 2 * 3 * 16 * 8 * 4),
        *(("convolution", shapes, flops) for shapes, flops in CONVOLUTIONS),
    ],
)
def test_a_product_made_again_has_the_flops_that_were_counted(op, shapes, flops):
    # Each row tells of two calls.
    (kind,) = kinds_of([bare_row(op, shapes, 0.5, calls=2, flops=2 * flops)], PRODUCTS)
    replay = product_replay(kind)
    assert flops_of(replay) == flops


@pytest.mark.parametrize(
    ("op", "shapes"), [("mm", "8x8"), ("convolution", "2x6x9x9 4x6x3x3"), ("convolution", "2x6x9x9 4x5x3x3")]
)
def test_what_the_report_does_not_tell_is_not_made_up(op, shapes):
    (kind,) = kinds_of([bare_row(op, shapes, 0.5, flops=12345)], PRODUCTS)
    assert product_replay(kind) is None


@given(m=st.integers(1, 8192), k=st.integers(1, 512), n=st.integers(1, 8192))
def test_a_long_product_is_made_with_fewer_rows_but_not_another_one(m, k, n):
    kind = Kind(op="mm", shapes=((m, k), (k, n)), calls=1, share=0.5, flops=2 * m * k * n)
    (rows, inputs), (outputs, same) = product_replay(kind, most_flops=20_000_000).shapes
    assert inputs == same == k
    assert min(m, 128) <= rows <= m
    assert min(n, 128) <= outputs <= n
    assert 2 * rows * inputs * outputs <= max(20_000_000, 2 * 128 * 128 * k, 2 * 128 * k * min(m, 128))


@pytest.mark.parametrize(("op", "shapes"), [("mm", "240x64 64x32"), ("addmm", "32 240x64 64x32")])
def test_products_of_unlike_shapes_are_made_with_their_mean_rows(op, shapes):
    (kind,) = kinds_of([bare_row(op, shapes, 0.5, calls=20, flops=20 * 2 * 12 * 64 * 32)], PRODUCTS)
    assert kind.is_varied
    assert product_replay(kind).shapes == ((12, 64), (32, 64))
    (kind,) = kinds_of([bare_row(op, shapes, 0.5, calls=20, flops=20 * 2 * 240 * 64 * 32)], PRODUCTS)
    assert not kind.is_varied
    assert product_replay(kind).shapes == ((240, 64), (32, 64))
    # Where later ones are larger, nothing tells in which way.
    (kind,) = kinds_of([bare_row(op, shapes, 0.5, calls=2, flops=2 * 2 * 480 * 64 * 32)], PRODUCTS)
    assert product_replay(kind) is None


def test_thin_products_take_turns_with_weights_from_memory():
    (kind,) = kinds_of([bare_row("mm", "1x512 512x512", 0.5, calls=40, flops=40 * 2 * 512 * 512)], PRODUCTS)
    assert product_replay(kind).sets == 40
    (kind,) = kinds_of([bare_row("mm", "512x512 512x512", 0.5, calls=40, flops=40 * 2 * 512**3)], PRODUCTS)
    assert product_replay(kind).sets == 1


def test_weights_take_turns_up_to_all_that_a_step_reads():
    """One layer's weights stay in a cache where they are all; among others of a quarter of a gigabyte they do not."""
    rows = [
        bare_row("mm", "1x512 512x2048", 0.5, calls=2, flops=2 * 2 * 512 * 2048),
        bare_row("mm", "1x512 512x512", 0.3, calls=200, flops=200 * 2 * 512 * 512),
        bare_row("mm", "512x512 512x512", 0.2, flops=2 * 512**3),
    ]
    kinds = kinds_of(rows, PRODUCTS)
    read = weight_bytes(kinds)
    assert read == 4 * (2 * 512 * 2048 + 200 * 512 * 512)
    assert product_replay(kinds[0]).sets == 2
    assert product_replay(kinds[0], read_bytes=read).sets == 32
    assert product_replay(kinds[2], read_bytes=read).sets == 1


def test_gradients_are_computed_where_the_step_has_a_backward_pass():
    (kind,) = kinds_of([bare_row("mm", "16x8 8x4", 0.5, flops=1024)], PRODUCTS)
    replay = product_replay(kind)
    for gradients, times in ((False, 1), (True, 3)):
        call = timed_call(replay, ("float32", "float32"), gradients=gradients)
        with FlopCounterMode(display=False) as counter:
            call()
        assert counter.get_total_flops() == times * 1024
    assert not torch.is_inference_mode_enabled()


def test_each_family_of_products_weighs_what_it_takes_forward_and_backward(sample_report):
    rows = (
        bare_row("mm", "16x8 8x4", 0.3, flops=1024),
        bare_row("bmm", "2x16x8 2x8x4", 0.1, flops=2048),
        bare_row("bmm", "2x16x8 2x8x4", 0.5, phase="backward"),
    )

    class ByDimensions(FixedProbe):
        def __call__(self, base, changed, *, budget_s=None):
            self.ratio = 0.5 if self.calls == 0 else 2.0
            return super().__call__(base, changed, budget_s=budget_s)

    evidence = evidence_of(filled_report(sample_report("overhead"), rows), probe=ByDimensions(1.0, base_s=1e-3))
    part = products_part(evidence, kinds_of(rows, PRODUCTS))
    assert part.seconds == pytest.approx(0.09)
    assert part.ratio.value == pytest.approx((0.3 * 0.5 + 0.6 * 2.0) / 0.9)
    assert together([part, part]).ratio.value == pytest.approx(part.ratio.value)


def test_tensors_hold_unlike_values_for_ops_that_compare_them():
    seen = []
    replay = Replay(call=lambda one: (seen.append(one), one * 1)[1], shapes=((4, 8),), sets=2)
    timed_call(replay, ("bfloat16",), gradients=False)()
    assert all(len(one.unique()) > 8 and one.dtype == torch.bfloat16 for one in seen)
