"""ProductLaw: every attribute randomized on its own (the Kronecker product, POR eq. 1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from optrr_solvers.laws.base import BoolArray, Law, checked_subset
from optrr_solvers.problem import FloatArray, IntArray, flip_probabilities
from optrr_solvers.randomness import BitSource, threshold

# expit is good to a few units in the last place; this much more flipping covers them.
_ROUND_UP = 1 + 2.0**-50


class ProductLaw(Law):
    """Attribute i changes independently with probability (r_i−1)/(r_i−1+e^{ε_i}); ε_i ≥ 0, shape (m,)."""

    def __init__(self, sizes: IntArray, epsilons: FloatArray) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.epsilons = np.asarray(epsilons, dtype=np.float64)
        if self.sizes.shape != self.epsilons.shape or not np.all(self.epsilons >= 0):
            raise ValueError("a ProductLaw needs one epsilon of at least 0 for every size")

    def one_way(self) -> FloatArray:
        """Pr(kept), Pr(changed) per attribute, shape (m, 2)."""
        kept = flip_probabilities(1 + 1 / (self.sizes - 1.0), -self.epsilons)
        return np.stack([kept, flip_probabilities(self.sizes, self.epsilons)], axis=1)

    def marginal(self, subset: Sequence[int]) -> FloatArray:
        """Outer product of the one-way laws, shape (2,)*k."""
        chosen = checked_subset(subset, self.m)
        rows = self.one_way()
        return reduce(np.multiply.outer, (rows[i] for i in chosen), np.array(1.0))

    def log_density_range(self) -> tuple[float, float]:
        """0 and Σ ε_i, rounded up."""
        total = float(np.sum(self.epsilons))
        return 0.0, total * (1 + self.m * 2.0**-53) if self.m > 1 else total

    def conditional_epsilons(self) -> FloatArray:
        """Exactly ε_i: under a product the other attributes tell nothing more."""
        return self.epsilons.copy()

    def sample(self, n: int, source: BitSource) -> BoolArray:
        """Independent flips against 64-bit thresholds rounded towards flipping, hence towards privacy."""
        out = np.empty((n, self.m), dtype=np.bool_)
        flips = flip_probabilities(self.sizes, self.epsilons)
        for i, (f, r) in enumerate(zip(flips, self.sizes, strict=True)):
            out[:, i] = source.words(n) < threshold(min(f * _ROUND_UP, 1 - 1 / r))
        return out
