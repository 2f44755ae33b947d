"""Factorisations, solves and Fourier transforms: textbook counts by arithmetic; iterative ones not modelled."""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from typing import Any

import pytest
import torch
from counting_cases import count

r = torch.randn
N, M, RIGHT, BATCH = 12, 20, 5, 3


def positive(n: int = N, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    a = r(BATCH, n, n, dtype=dtype)
    return a @ a.mH + n * torch.eye(n)


FACTORISATIONS: list[tuple[str, Callable[[], Any], float]] = [
    ("cholesky", lambda: torch.linalg.cholesky(positive()), N**3 / 3),
    ("lu", lambda: torch.linalg.lu_factor(r(BATCH, N, N)), 2 * N**3 / 3),
    ("tall_lu", lambda: torch.linalg.lu_factor(r(BATCH, M, N)), M * N**2 - N**3 / 3),
    ("wide_lu", lambda: torch.linalg.lu_factor(r(BATCH, N, M)), M * N**2 - N**3 / 3),
    ("det", lambda: torch.linalg.det(r(BATCH, N, N)), 2 * N**3 / 3),
    ("inverse", lambda: torch.linalg.inv(positive()), 2 * N**3),
    ("solve", lambda: torch.linalg.solve(positive(), r(BATCH, N, RIGHT)), 2 * N**3 / 3 + 2 * N**2 * RIGHT),
    (
        "solve_triangular",
        lambda: torch.linalg.solve_triangular(positive(), r(BATCH, N, RIGHT), upper=True),
        N**2 * RIGHT,
    ),
    ("r_alone", lambda: torch.linalg.qr(r(BATCH, M, N), mode="r"), 2 * M * N**2 - 2 * N**3 / 3),
    ("qr", lambda: torch.linalg.qr(r(BATCH, M, N)), 2 * (2 * M * N**2 - 2 * N**3 / 3)),
    (
        "complete_qr",
        lambda: torch.linalg.qr(r(BATCH, M, N), mode="complete"),
        2 * M * N**2 - 2 * N**3 / 3 + 4 * (M**2 * N - M * N**2 + N**3 / 3),
    ),
]


def products_in(work: Callable[[], Any]) -> int:
    """FLOPs of the product that makes the test's matrix positive, where there is one."""
    return 2 * BATCH * N**3 if "positive" in work.__code__.co_names else 0


@pytest.mark.parametrize(("work", "each"), [case[1:] for case in FACTORISATIONS], ids=[c[0] for c in FACTORISATIONS])
def test_a_factorisation_has_its_textbook_count(work: Callable[[], Any], each: float) -> None:
    seen = count(work)
    assert not seen.unmodelled
    assert seen.matmul_flops - products_in(work) == int(BATCH * each + 1e-6)


def test_solves_with_factors() -> None:
    a, b = positive(), r(BATCH, N, RIGHT)
    factor, (lu, pivots) = torch.linalg.cholesky(a), torch.linalg.lu_factor(a)
    two_systems = BATCH * 2 * N**2 * RIGHT
    assert count(torch.cholesky_solve, b, factor).matmul_flops == two_systems
    assert count(torch.linalg.lu_solve, lu, pivots, b).matmul_flops == two_systems


def test_a_vector_is_one_right_hand_side() -> None:
    assert count(torch.linalg.solve, r(N, N), r(N)).matmul_flops == int(2 * N**3 / 3) + 2 * N**2


def test_reflectors_made_formed_and_applied() -> None:
    a = r(M, N)
    reflectors, scales = torch.geqrf(a)
    made = 2 * M * N**2 - 2 * N**3 // 3
    assert count(torch.geqrf, a).matmul_flops == made
    assert count(torch.linalg.householder_product, reflectors, scales).matmul_flops == made
    applied = 4 * M * RIGHT * N - 2 * RIGHT * N**2
    assert count(torch.ormqr, reflectors, scales, r(M, RIGHT)).matmul_flops == applied
    assert count(lambda: torch.ormqr(reflectors, scales, r(RIGHT, M), left=False)).matmul_flops == applied


def test_complex_numbers_count_fourfold() -> None:
    a = positive(dtype=torch.complex64)
    assert count(torch.linalg.cholesky, a).matmul_flops == 4 * BATCH * N**3 // 3


def test_the_gradient_of_a_solve_is_counted_in_full() -> None:
    a, b = positive().requires_grad_(), r(BATCH, N, RIGHT, requires_grad=True)
    seen = count(lambda: torch.linalg.solve(a, b).sum().backward())
    forward = int(BATCH * (2 * N**3 / 3 + 2 * N**2 * RIGHT))
    assert not seen.unmodelled
    assert seen.matmul_flops == forward + BATCH * 2 * N**2 * RIGHT + BATCH * 2 * N**2 * RIGHT


@pytest.mark.parametrize(
    "work",
    [torch.linalg.svd, torch.linalg.eig, lambda a: torch.linalg.eigh(a @ a.mT), torch.linalg.matrix_exp],
    ids=["svd", "eig", "eigh", "matrix_exp"],
)
def test_iterative_ones_are_not_modelled(work: Callable[[torch.Tensor], Any]) -> None:
    assert count(work, r(6, 6)).unmodelled


def test_fourier_transforms() -> None:
    x, z = r(4, 64), r(4, 64, dtype=torch.complex64)
    assert count(torch.fft.fft, z).pointwise_flops == 5 * 4 * 64 * 6
    assert count(torch.fft.rfft, x).pointwise_flops == 5 * 4 * 64 * 6 // 2
    assert count(torch.fft.irfft, torch.fft.rfft(x)).pointwise_flops == 5 * 4 * 64 * 6 // 2
    assert count(torch.fft.fft2, r(3, 8, 16, dtype=torch.complex64)).pointwise_flops == 5 * 3 * 8 * 16 * 7
    assert count(torch.fft.fft, r(10, dtype=torch.complex64)).pointwise_flops == round(5 * 10 * log2(10))
    assert count(torch.fft.fft, r(7, 1, dtype=torch.complex64)).pointwise_flops == 0


def test_a_transform_reads_its_input_once_and_writes_its_output() -> None:
    seen = count(torch.fft.rfft, r(4, 64))
    assert (seen.bytes_read, seen.bytes_written) == (4 * 64 * 4, 4 * 33 * 8)
    assert not seen.unmodelled
