"""The kernel of groups of attributes randomized independently: the inverse of a Kronecker product is one of inverses (RIJ)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from optrr.kernel.operator import Kernel
from optrr_solvers.problem import FloatArray


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

    def _each(self, table: ArrayLike, operation: str) -> FloatArray:
        out = np.asarray(table, dtype=np.float64)
        stop = 0
        for part in reversed(self.parts):
            k = len(part.sizes)
            source = list(range(out.ndim - stop - k, out.ndim - stop))
            last = list(range(out.ndim - k, out.ndim))
            out = np.moveaxis(getattr(part, operation)(np.moveaxis(out, source, last)), last, source)
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

    def solve_squared(self, table: ArrayLike) -> FloatArray:
        """The square of a Kronecker product is the product of squares."""
        return self._each(table, "solve_squared")

    def check_invertible(self) -> None:
        """Every part must be."""
        for part in self.parts:
            part.check_invertible()
