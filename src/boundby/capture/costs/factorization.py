"""Dense factorisations and solves, as LAPACK does them: leading terms of their operation counts.

Source of all formulas: Golub and Van Loan, Matrix Computations, 4th edition: triangular systems section 3.1, LU 3.2,
Cholesky 4.2, indefinite symmetric 4.4, Householder QR and the forming of Q 5.2; for forming and applying any number
of reflectors, Blackford and Dongarra, LAPACK Working Note 41, appendix C. One multiplication or addition is one FLOP.

They are counted as matrix-product work, since blocked algorithms spend all but a vanishing part of them in products.
Iterative ones (singular values, eigenvalues) and those whose path depends on values (least squares, matrix
exponentials) have no such count and are not modelled.
"""

from __future__ import annotations

from math import prod

import torch

from boundby.capture.costs.registry import Call, aten, op_cost, rule
from boundby.results.counts import OpCost


def _factor_cost(call: Call, matrix: torch.Tensor, thirds: int) -> OpCost:
    """A cost of ``thirds`` thirds of a real FLOP."""
    return op_cost(call, "other", matmul_flops=_weight(matrix) * thirds // 3)


def _weight(tensor: torch.Tensor) -> int:
    """Real FLOPs of a FLOP: of complex numbers a multiply-accumulate is 8 and not 2."""
    return 4 if tensor.dtype.is_complex else 1


def _batch(matrix: torch.Tensor) -> int:
    return prod(matrix.shape[:-2])


def _lu_thirds(matrix: torch.Tensor) -> int:
    """LU of (m, n) with m >= n: m n^2 - n^3/3, of a square 2 n^3/3; a wide one as its transpose."""
    m, n = max(matrix.shape[-2:]), min(matrix.shape[-2:])
    return _batch(matrix) * (3 * m * n * n - n**3)


@rule(*aten("linalg_cholesky_ex cholesky linalg_ldl_factor_ex"))
def _cholesky(call: Call) -> OpCost:
    """n^3/3."""
    matrix = call.args[0]
    return _factor_cost(call, matrix, _batch(matrix) * matrix.shape[-1] ** 3)


@rule("aten::cholesky_inverse")
def _cholesky_inverse(call: Call) -> OpCost:
    """The inverse from the factor: 2 n^3/3."""
    matrix = call.args[0]
    return _factor_cost(call, matrix, 2 * _batch(matrix) * matrix.shape[-1] ** 3)


@rule(*aten("linalg_lu_factor_ex linalg_lu _lu_with_info _linalg_det _linalg_slogdet"))
def _lu(call: Call) -> OpCost:
    return _factor_cost(call, call.args[0], _lu_thirds(call.args[0]))


@rule("aten::linalg_inv_ex")
def _inverse(call: Call) -> OpCost:
    """LU, then the inverse from it: 2 n^3/3 + 4 n^3/3."""
    matrix = call.args[0]
    return _factor_cost(call, matrix, 6 * _batch(matrix) * matrix.shape[-1] ** 3)


@rule("aten::_linalg_solve_ex")
def _solve(call: Call) -> OpCost:
    """LU and two triangular systems for each right-hand side: 2 n^3/3 + 2 n^2 each."""
    matrix, solution = call.args[0], call.out[0]
    return _factor_cost(call, matrix, _lu_thirds(matrix) + 6 * matrix.shape[-1] * solution.numel())


@rule("aten::linalg_lu_solve", "aten::cholesky_solve", "aten::linalg_ldl_solve")
def _two_triangular_systems(call: Call) -> OpCost:
    """2 n^2 for each right-hand side."""
    factor = call.args[1] if call.schema.name.endswith("cholesky_solve") else call.args[0]
    return _factor_cost(call, factor, 6 * factor.shape[-1] * call.outputs()[0].numel())


@rule("aten::linalg_solve_triangular")
def _triangular_system(call: Call) -> OpCost:
    """n^2 for each right-hand side."""
    matrix = call.args[0]
    return _factor_cost(call, matrix, 3 * matrix.shape[-1] * call.outputs()[0].numel())


def _qr_thirds(matrix: torch.Tensor) -> int:
    """Householder QR of (m, n) with m >= n: 2 m n^2 - 2 n^3/3; of a wide one 2 n m^2 - 2 m^3/3."""
    long, short = max(matrix.shape[-2:]), min(matrix.shape[-2:])
    return _batch(matrix) * (6 * long * short**2 - 2 * short**3)


def _forming_thirds(batch: int, m: int, n: int, k: int) -> int:
    """The first n columns of the product of k reflectors of length m: 4 m n k - 2 (m + n) k^2 + 4 k^3/3."""
    return batch * (12 * m * n * k - 6 * (m + n) * k * k + 4 * k**3)


@rule("aten::geqrf")
def _reflectors(call: Call) -> OpCost:
    return _factor_cost(call, call.args[0], _qr_thirds(call.args[0]))


@rule("aten::linalg_qr")
def _qr(call: Call) -> OpCost:
    """QR, and Q formed where it is asked for."""
    matrix = call.args[0]
    thirds = _qr_thirds(matrix)
    if call.arg("mode", "reduced") != "r":
        m, k = matrix.shape[-2], min(matrix.shape[-2:])
        thirds += _forming_thirds(_batch(matrix), m, m if call.arg("mode", "reduced") == "complete" else k, k)
    return _factor_cost(call, matrix, thirds)


@rule("aten::linalg_householder_product")
def _forming(call: Call) -> OpCost:
    reflectors, scales = call.args[0], call.args[1]
    m, n = reflectors.shape[-2:]
    return _factor_cost(call, reflectors, _forming_thirds(_batch(reflectors), m, n, scales.shape[-1]))


@rule("aten::ormqr")
def _applying(call: Call) -> OpCost:
    """k reflectors applied to (m, n) from the left: 4 m n k - 2 n k^2; from the right with m and n exchanged."""
    scales, other = call.args[1], call.args[2]
    k = scales.shape[-1]
    m, n = other.shape[-2:] if call.arg("left", True) else reversed(other.shape[-2:])
    return _factor_cost(call, other, 3 * _batch(other) * (4 * m * n * k - 2 * n * k * k))
