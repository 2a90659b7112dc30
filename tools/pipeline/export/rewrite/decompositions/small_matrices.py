"""Decomposes linear algebra on small matrices, which Kalman filters need, into operators that have kernels.

Each step of an elimination is unrolled, so that a program grows with the size of the matrices, but not with their
number. A singular matrix, for which PyTorch raises an error, gives infinities and NaN.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten

# An inverse of this size is a program of some 200 instructions.
_LARGEST = 16
# Beyond a norm of 2 to this power, the exponentials of most matrices exceed the largest number of float32.
_MOST_HALVINGS = 7
# The rest of the series is below the rounding of float32.
_TERMS = 10


def _is_small(matrix: Tensor) -> bool:
    """Whether matrices [..., n, n] have static sizes that are small enough to unroll the elimination."""
    sizes = matrix.shape
    return matrix.is_floating_point() and all(isinstance(size, int) for size in sizes) and sizes[-1] <= _LARGEST


def _eliminated(matrix: Tensor, right: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Runs a Gauss-Jordan elimination with partial pivoting.

    Args:
      matrix: [..., n, n].
      right: [..., n, m].

    Returns:
      The solution x of `matrix` x = `right`, and the pivots [...], with the signs that the exchanges of rows give them.
    """
    count = matrix.shape[-1]
    rows, pivots = torch.cat([matrix, right], -1), []
    places = torch.arange(count)
    for step in range(count):
        column = rows[..., step].abs()
        place = torch.where(places >= step, column, -torch.ones_like(column)).argmax(-1, keepdim=True)
        chosen = rows.gather(-2, place.unsqueeze(-1).expand(*rows.shape[:-2], 1, rows.shape[-1]))
        pivot = chosen[..., step : step + 1]
        pivots.append(torch.where(place == step, pivot[..., 0], -pivot[..., 0])[..., 0])
        exchanged = torch.where((places == place).unsqueeze(-1), rows[..., step : step + 1, :], rows)
        row = chosen / pivot
        others = exchanged - exchanged[..., step : step + 1] * row
        rows = torch.where((places == step).unsqueeze(-1), row, others)
    return rows[..., count:], pivots


def _product(factors: list[Tensor], matrix: Tensor) -> Tensor:
    result = matrix.new_ones(matrix.shape[:-2])
    for factor in factors:
        result = result * factor
    return result


def _unread(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Returns placeholders for an LU decomposition and its pivots, which only gradients need."""
    return torch.zeros_like(matrix), matrix.new_zeros(matrix.shape[:-1], dtype=torch.int32)


def _info(matrix: Tensor) -> Tensor:
    return matrix.new_zeros(matrix.shape[:-2], dtype=torch.int32)


def _inv_ex(matrix: Tensor, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    if not _is_small(matrix):
        return NotImplemented
    unit = torch.eye(matrix.shape[-1], dtype=matrix.dtype).expand(matrix.shape)
    return _eliminated(matrix, unit)[0], _info(matrix)


def _solved(matrix: Tensor, right: Tensor, left: bool) -> Tensor:
    if not left:
        return _solved(matrix.mT, right.mT, True).mT
    batch = torch.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    return _eliminated(matrix.expand(*batch, *matrix.shape[-2:]), right.expand(*batch, *right.shape[-2:]))[0]


def _solve_ex(
    matrix: Tensor, right: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if not _is_small(matrix):
        return NotImplemented
    is_vector = right.dim() == 1 or (matrix.dim() - 1 == right.dim() and right.shape == matrix.shape[:-1])
    found = _solved(matrix, right.unsqueeze(-1) if is_vector else right, left)
    return found.squeeze(-1) if is_vector else found, *_unread(matrix), _info(matrix)


def _solve_triangular(
    matrix: Tensor, right: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    if not _is_small(matrix):
        return NotImplemented
    triangle = matrix.triu() if upper else matrix.tril()
    if unitriangular:
        triangle = torch.where(torch.eye(matrix.shape[-1], dtype=torch.bool), torch.ones_like(matrix), triangle)
    return _solved(triangle, right, left)


def _det(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if not _is_small(matrix):
        return NotImplemented
    return _product(_eliminated(matrix, matrix[..., :0])[1], matrix), *_unread(matrix)


def _slogdet(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if not _is_small(matrix):
        return NotImplemented
    _, pivots = _eliminated(matrix, matrix[..., :0])
    logarithm = matrix.new_zeros(matrix.shape[:-2])
    for pivot in pivots:
        logarithm = logarithm + pivot.abs().log()
    return _product([pivot.sign() for pivot in pivots], matrix), logarithm, *_unread(matrix)


def _cholesky_ex(matrix: Tensor, *, upper: bool = False, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    if not _is_small(matrix):
        return NotImplemented
    rest, columns = matrix.mT if upper else matrix, []
    places = torch.arange(matrix.shape[-1])
    for step in range(matrix.shape[-1]):
        column = rest[..., step] / rest[..., step, step].sqrt().unsqueeze(-1)
        column = torch.where(places >= step, column, torch.zeros_like(column))
        rest = rest - column.unsqueeze(-1) * column.unsqueeze(-2)
        columns.append(column)
    lower = torch.stack(columns, -1)
    return lower.mT if upper else lower, _info(matrix)


def _inv(matrix: Tensor) -> Tensor:
    return _inv_ex(matrix)[0] if _is_small(matrix) else NotImplemented


def _solve(matrix: Tensor, right: Tensor, *, left: bool = True) -> Tensor:
    return _solve_ex(matrix, right, left=left)[0] if _is_small(matrix) else NotImplemented


def _cholesky(matrix: Tensor, *, upper: bool = False) -> Tensor:
    return _cholesky_ex(matrix, upper=upper)[0] if _is_small(matrix) else NotImplemented


def _cholesky_solve(right: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    inverse = _cholesky_inverse(factor, upper)
    return inverse if inverse is NotImplemented else inverse @ right


def _cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    return _inv(factor.mT @ factor if upper else factor @ factor.mT)


def _matrix_exp(matrix: Tensor) -> Tensor:
    """Computes the Taylor series of matrices that are halved until their norm is at most 1, and squares the results."""
    if not _is_small(matrix):
        return NotImplemented
    halvings = matrix.abs().sum(-2, keepdim=True).amax(-1, keepdim=True).log2().ceil().clamp(0, _MOST_HALVINGS)
    halved = matrix * torch.exp2(-halvings)
    unit = torch.eye(matrix.shape[-1], dtype=matrix.dtype)
    result = unit + halved / _TERMS
    for term in range(_TERMS - 1, 0, -1):
        result = unit + halved @ result / term
    for step in range(_MOST_HALVINGS):
        result = torch.where(halvings > step, result @ result, result)
    return result


# Composite functions of torch, which decompose into the operators above.
COMPOSITES = (
    _aten.det.default,
    _aten.linalg_det.default,
    _aten.linalg_slogdet.default,
    _aten.linalg_solve_ex.default,
    _aten.logdet.default,
    _aten.slogdet.default,
)

DECOMPOSITIONS: dict[torch._ops.OpOverload, Callable[..., Any]] = {
    _aten._linalg_det.default: _det,
    _aten._linalg_slogdet.default: _slogdet,
    _aten._linalg_solve_ex.default: _solve_ex,
    _aten.cholesky_inverse.default: _cholesky_inverse,
    _aten.cholesky_solve.default: _cholesky_solve,
    _aten.inverse.default: _inv,
    _aten.linalg_cholesky.default: _cholesky,
    _aten.linalg_cholesky_ex.default: _cholesky_ex,
    _aten.linalg_inv.default: _inv,
    _aten.linalg_inv_ex.default: _inv_ex,
    _aten.linalg_solve.default: _solve,
    _aten.linalg_matrix_exp.default: _matrix_exp,
    _aten.linalg_solve_triangular.default: _solve_triangular,
    _aten.matrix_exp.default: _matrix_exp,
}
