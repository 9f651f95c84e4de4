"""The kernel of groups of attributes randomized independently: the inverse of a Kronecker product is one of inverses (RIJ)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from optrr.mechanisms.kernel.operator import CellRange, Kernel
from optrr_solvers.arrays import FloatArray


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
