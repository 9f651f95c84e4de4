"""What every kernel can do: apply P and its inverse, and from them variances, covariances and dense matrices (RVL eqs. 17, 18).

The kernel of groups of attributes randomized independently: the inverse of a Kronecker product is one of inverses (RIJ).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput
from optrr_solvers.arrays import FloatArray, IntArray

# An effect shrunk by 1e-6 has, from 10^10 records, a standard error above 1, the largest value a proportion can have. Solvers
# meet λ = 0 to 1e-9, which is far smaller, so an effect that the mechanism hides is never taken for one that can be estimated.
MIN_EIGENVALUE = 1e-6

# Dense covariances and matrices: 4096² doubles take 128 MB.
MAX_DENSE = 4096


class SingularMarginal(InvalidInput):
    """An attribute set cannot be estimated: the mechanism hides one of its effects; names it, λ_U and the remedy."""


@dataclass(frozen=True, eq=False)
class CellRange:
    """What a person in cell u' contributes to cell u: ``own`` for u' = u, ``least`` and ``most`` over all u'.

    Arrays over u that broadcast to the kernel's sizes.
    """

    own: FloatArray
    least: FloatArray
    most: FloatArray


class Kernel(ABC):
    """A distortion matrix on an attribute set; ``sizes`` are the table's axes, ``names`` what messages call them."""

    sizes: tuple[int, ...]
    names: tuple[str, ...]
    # the shape of what stands before a table's own axes where every table has a kernel of its own; () where one serves all
    batch: tuple[int, ...] = ()

    def part(self, which: int | slice | IntArray) -> Kernel:
        """The kernels of some of the tables, of one without a batch; itself where one kernel serves them all."""
        return self

    @property
    def cells(self) -> int:
        """Number of cells Π r_i."""
        return prod(self.sizes)

    @property
    def axes(self) -> tuple[int, ...]:
        """The table's own axes, counted from the end."""
        return tuple(range(-len(self.sizes), 0))

    @abstractmethod
    def forward(self, table: ArrayLike) -> FloatArray:
        """Expected observed proportions Pᵀπ of true proportions π, same shape."""

    @abstractmethod
    def adjoint(self, table: ArrayLike) -> FloatArray:
        """P x: for each true cell, the expectation of x at its output. Equals `forward` for symmetric kernels."""

    @abstractmethod
    def solve(self, table: ArrayLike) -> FloatArray:
        """Unbiased estimate (Pᵀ)⁻¹λ̂, same shape; cells may be negative. Raises SingularMarginal."""

    @abstractmethod
    def solve_adjoint(self, table: ArrayLike) -> FloatArray:
        """P⁻¹c: the weights on observed proportions whose sum estimates Σ c π without bias. Raises SingularMarginal."""

    @abstractmethod
    def solve_power(self, table: ArrayLike, power: int) -> FloatArray:
        """An elementwise power of (Pᵀ)⁻¹ applied to a table: Σ_v (P⁻¹[v, u])^power λ_v. Raises SingularMarginal."""

    @abstractmethod
    def heavy(self, table: ArrayLike) -> FloatArray:
        """Σ λ_v over the heavy reports v of each cell u: those that count most for u in `solve`. Raises SingularMarginal.

        Mostly u itself; where a joint effect is nearly hidden, reports beside it.
        """

    @property
    @abstractmethod
    def heavy_chances(self) -> CellRange:
        """Chance Σ P[u', v] over the heavy reports v of u that a person in u' makes one of them. Raises SingularMarginal."""

    @property
    @abstractmethod
    def heavy_weights(self) -> FloatArray:
        """P⁻¹[v, u], what a heavy report v counts for u in `solve`; broadcasts to ``sizes``. Raises SingularMarginal."""

    @abstractmethod
    def weight_moments(self, power: int) -> CellRange:
        """Mean Σ_v P[u', v] (P⁻¹[v, u])^power of what the report of a person in u' counts for u. Raises SingularMarginal."""

    @abstractmethod
    def check_invertible(self) -> None:
        """Raise SingularMarginal where the set cannot be estimated."""

    @property
    @abstractmethod
    def range(self) -> tuple[float, float]:
        """Smallest and largest entry of P: every expected proportion lies between them."""

    @property
    def is_invertible(self) -> bool:
        """Whether `solve` works."""
        try:
            self.check_invertible()
        except SingularMarginal:
            return False
        return True

    def expected(self, table: ArrayLike) -> FloatArray:
        """`forward` for a table that sums to 1, kept inside the range of P, so that logarithms of it are safe.

        The transform's rounding is absolute, about 1e-16; the range is exact and its lower end positive.
        """
        return np.clip(self.forward(table), *self.range)

    def solve_squared(self, table: ArrayLike) -> FloatArray:
        """The elementwise square of (Pᵀ)⁻¹ applied to a table. Raises SingularMarginal."""
        return self.solve_power(table, 2)

    def variance(self, observed: ArrayLike, n: float) -> FloatArray:
        """Unbiased estimate of every cell's variance in `solve(observed)`, n records: the diagonal of RVL eq. 18."""
        return self.exact_variance(observed, n - 1)

    def exact_variance(self, expected: ArrayLike, n: float) -> FloatArray:
        """Exact multinomial variance of every cell of the unbiased estimate, if outputs have these probabilities."""
        lam = np.asarray(expected, dtype=np.float64)
        return np.asarray(np.maximum(self.solve_squared(lam) - self.solve(lam) ** 2, 0.0) / n)

    def data_variance(self, observed: ArrayLike, n: float) -> FloatArray:
        """Unbiased estimate of every cell's variance around *this data set's* proportions: (P⁻¹)²λ̂ − π̂, over n.

        With the records held fixed only the randomization varies.
        """
        lam = np.asarray(observed, dtype=np.float64)
        return np.asarray(np.maximum(self.solve_squared(lam) - self.solve(lam), 0.0) / n)

    def functional_variance(self, weights: ArrayLike, observed: ArrayLike, n: float) -> FloatArray:
        """Unbiased estimate of Var(Σ c π̂) for weights c (a table, or a batch of them), O(k Π r) each, no matrix."""
        g = self.solve_adjoint(weights)
        lam = np.asarray(observed, dtype=np.float64)
        mean = np.sum(g * lam, axis=self.axes)
        return np.asarray(np.maximum(np.sum(g * g * lam, axis=self.axes) - mean**2, 0.0) / (n - 1))

    def covariance(self, observed: ArrayLike, n: float) -> FloatArray:
        """RVL eq. 18: unbiased estimate of the dispersion matrix of the vectorised estimate, (R, R); R at most 4096."""
        return self.exact_covariance(observed, n - 1)

    def exact_covariance(self, expected: ArrayLike, n: float) -> FloatArray:
        """Exact covariance of the vectorised unbiased estimate, if outputs have these probabilities: (R, R)."""
        inverse = self.inverse()
        lam = np.ravel(np.asarray(expected, dtype=np.float64))
        pi = lam @ inverse
        return np.asarray((inverse.T * lam) @ inverse - np.outer(pi, pi)) / n

    def matrix(self) -> FloatArray:
        """P itself, (R, R), row-stochastic, cells row-major; R at most 4096."""
        self._check_dense()
        return self._dense()

    def _dense(self) -> FloatArray:
        # row u of P holds the reports of somebody who is surely in cell u
        return self._on_every_cell("forward")

    def inverse(self) -> FloatArray:
        """P⁻¹, (R, R): π̂ = λ̂ P⁻¹ for row vectors; R at most 4096."""
        self._check_dense()
        return self._on_every_cell("solve")

    def _on_every_cell(self, operation: str) -> FloatArray:
        each = np.eye(self.cells).reshape(*(1 for _ in self.batch), -1, *self.sizes)
        return np.asarray(getattr(self, operation)(each)).reshape(*self.batch, self.cells, self.cells)

    def _check_dense(self) -> None:
        if self.cells > MAX_DENSE:
            raise InvalidInput(
                f"a dense matrix over {self.cells} cells does not fit; ask for attribute sets of at most {MAX_DENSE}"
            )


class ProductKernel(Kernel):
    """Groups of attributes randomized independently of each other, in the order of the table's axes."""

    def __init__(self, parts: Sequence[Kernel]) -> None:
        self.parts = tuple(parts)
        self.sizes = tuple(r for part in self.parts for r in part.sizes)
        self.names = tuple(name for part in self.parts for name in part.names)

    @property
    def range(self) -> tuple[float, float]:
        """Products of the parts' ranges."""
        return prod(p.range[0] for p in self.parts), prod(p.range[1] for p in self.parts)

    def _each(self, table: ArrayLike, operation: str, *options: int) -> FloatArray:
        out = np.asarray(table, dtype=np.float64)
        stop = 0
        for part in reversed(self.parts):
            k = len(part.sizes)
            source = list(range(out.ndim - stop - k, out.ndim - stop))
            last = list(range(out.ndim - k, out.ndim))
            out = np.moveaxis(getattr(part, operation)(np.moveaxis(out, source, last), *options), last, source)
            stop += k
        return out

    def forward(self, table: ArrayLike) -> FloatArray:
        """Every part's forward on its own axes."""
        return self._each(table, "forward")

    def adjoint(self, table: ArrayLike) -> FloatArray:
        """Every part's adjoint on its own axes."""
        return self._each(table, "adjoint")

    def solve(self, table: ArrayLike) -> FloatArray:
        """Every part's solve on its own axes (RIJ: the inverse of a Kronecker product)."""
        return self._each(table, "solve")

    def solve_adjoint(self, table: ArrayLike) -> FloatArray:
        """Every part's adjoint solve on its own axes."""
        return self._each(table, "solve_adjoint")

    def solve_power(self, table: ArrayLike, power: int) -> FloatArray:
        """Elementwise powers of a Kronecker product are the product of powers."""
        return self._each(table, "solve_power", power)

    def heavy(self, table: ArrayLike) -> FloatArray:
        """Reports that are heavy in every part."""
        return self._each(table, "heavy")

    @property
    def heavy_chances(self) -> CellRange:
        """Products of the parts'."""
        return reduce(_times, [p.heavy_chances for p in self.parts])

    @property
    def heavy_weights(self) -> FloatArray:
        """Products of the parts'."""
        return reduce(np.multiply.outer, [p.heavy_weights for p in self.parts])

    def weight_moments(self, power: int) -> CellRange:
        """Products of the parts': a person's reports on different parts are independent."""
        return reduce(_times, [p.weight_moments(power) for p in self.parts])

    def check_invertible(self) -> None:
        """Every part must be."""
        for part in self.parts:
            part.check_invertible()


def _times(one: CellRange, other: CellRange) -> CellRange:
    """Products over pairs of cells; factors may be negative."""
    ends = [np.multiply.outer(a, b) for a in (one.least, one.most) for b in (other.least, other.most)]
    return CellRange(np.multiply.outer(one.own, other.own), np.minimum.reduce(ends), np.maximum.reduce(ends))
