"""The kernel of a general distortion matrix (Laplace, custom), inverted once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput
from optrr.mechanisms.kernel.operator import MIN_EIGENVALUE, CellRange, Kernel, SingularMarginal
from optrr_solvers.arrays import FloatArray, IntArray

# Probabilities that were written with six digits still sum to 1 this closely.
WRITTEN_SUM = 1e-6


class MatrixKernel(Kernel):
    """Any row-stochastic matrix P[u, v] = Pr(output v | input u) over the cells of ``sizes`` (row-major); dense.

    Raises InvalidInput for a matrix that is not square, has negative entries, or whose rows do not sum to 1.
    """

    def __init__(self, p: ArrayLike, sizes: Sequence[int] | None = None, names: Iterable[str] = ()) -> None:
        self.p = np.asarray(p, dtype=np.float64)
        if self.p.ndim != 2 or self.p.shape[0] != self.p.shape[1]:
            raise InvalidInput(f"a distortion matrix is square, got shape {self.p.shape}")
        self.sizes = tuple(int(r) for r in sizes) if sizes is not None else (self.p.shape[0],)
        self.names = tuple(names) or tuple(str(i) for i in range(len(self.sizes)))
        if self.cells != self.p.shape[0]:
            raise InvalidInput(f"a matrix of {self.p.shape[0]} rows cannot be over sizes {self.sizes}")
        self._check_dense()
        # written as a condition that must hold, so that a NaN is refused too
        if not (self.p.min() >= 0 and np.abs(self.p.sum(axis=1) - 1).max() <= WRITTEN_SUM):
            raise InvalidInput("a distortion matrix has rows of probabilities that sum to 1; check its orientation")

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest entry of P."""
        return float(self.p.min()), float(self.p.max())

    def _flat(self, table: ArrayLike) -> FloatArray:
        array = np.asarray(table, dtype=np.float64)
        return array.reshape(*array.shape[: array.ndim - len(self.sizes)], self.cells)

    def _applied(self, table: ArrayLike, matrix: FloatArray) -> FloatArray:
        flat = self._flat(table)
        return (flat @ matrix).reshape(*flat.shape[:-1], *self.sizes)

    def forward(self, table: ArrayLike) -> FloatArray:
        """Pᵀπ."""
        return self._applied(table, self.p)

    def adjoint(self, table: ArrayLike) -> FloatArray:
        """P x."""
        return self._applied(table, self.p.T)

    @cached_property
    def _inverse(self) -> FloatArray:
        self.check_invertible()
        return np.asarray(np.linalg.inv(self.p))

    def solve(self, table: ArrayLike) -> FloatArray:
        """(Pᵀ)⁻¹λ̂ through the inverse, computed once."""
        return self._applied(table, self._inverse)

    def solve_adjoint(self, table: ArrayLike) -> FloatArray:
        """P⁻¹c."""
        return self._applied(table, self._inverse.T)

    def solve_power(self, table: ArrayLike, power: int) -> FloatArray:
        """Powers of the entries of (Pᵀ)⁻¹, applied."""
        return self._applied(table, self._inverse**power)

    @cached_property
    def _heaviest(self) -> IntArray:
        """(cells,) the report that counts most for each cell."""
        return np.asarray(self._inverse.argmax(axis=0))

    def heavy(self, table: ArrayLike) -> FloatArray:
        """One report for each cell."""
        flat = self._flat(table)
        return flat[..., self._heaviest].reshape(*flat.shape[:-1], *self.sizes)

    @property
    def heavy_chances(self) -> CellRange:
        """Columns of P."""
        return self._cell_range(self.p[:, self._heaviest])

    @property
    def heavy_weights(self) -> FloatArray:
        """The largest entries of the columns of P⁻¹."""
        return np.asarray(self._inverse.max(axis=0).reshape(self.sizes))

    def weight_moments(self, power: int) -> CellRange:
        """Columns of P times a power of its inverse's entries."""
        return self._cell_range(self.p @ self._inverse**power)

    def _cell_range(self, matrix: FloatArray) -> CellRange:
        weights = (np.diag(matrix), matrix.min(axis=0), matrix.max(axis=0))
        return CellRange(*(column.reshape(self.sizes) for column in weights))

    def check_invertible(self) -> None:
        """Raise SingularMarginal where the smallest singular value is below MIN_EIGENVALUE."""
        smallest = float(np.linalg.svd(self.p, compute_uv=False)[-1])
        if smallest < MIN_EIGENVALUE:
            raise SingularMarginal(
                f"the distortion matrix over {', '.join(self.names)} has smallest singular value {smallest:.3g}: its "
                "table cannot be estimated; randomize less or merge the categories that look alike after randomization"
            )
