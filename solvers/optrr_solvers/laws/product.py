"""ProductLaw: every attribute randomized on its own (the Kronecker product, POR eq. 1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import msgspec
import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.automaton.diagram import MOST_STATES, Diagram, Step
from optrr_solvers.enclosure import sum_ceiling
from optrr_solvers.laws.base import BoolArray, Law, checked_subset
from optrr_solvers.laws.record import bounded_nats
from optrr_solvers.problem import flip_probabilities, keep_probabilities
from optrr_solvers.randomness import BitSource, bounded, threshold

# ln(r−1) − ε is off by at most 2^-53 · 64, and expit by a few roundings. Flip probabilities are raised by this share, which is
# more.
_ROUND_UP = 1 + 2.0**-45


class ProductRecord(msgspec.Struct, forbid_unknown_fields=True):
    """ε_i."""

    epsilons: list[float]


class ProductLaw(Law):
    """Attribute i changes independently with probability (r_i−1)/(r_i−1+e^{ε_i}); ε_i ≥ 0, shape (m,)."""

    kind = "product"
    Record = ProductRecord

    def __init__(self, sizes: IntArray, epsilons: FloatArray) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.epsilons = np.asarray(epsilons, dtype=np.float64)
        if self.sizes.shape != self.epsilons.shape or not np.all(self.epsilons >= 0):
            raise ValueError("a ProductLaw needs one epsilon of at least 0 for every size")

    def to_record(self) -> ProductRecord:
        """ε_i."""
        return ProductRecord(self.epsilons.tolist())

    @classmethod
    def from_record(cls, record: ProductRecord, sizes: IntArray) -> ProductLaw:
        """The law of a record."""
        return cls(sizes, bounded_nats(record.epsilons, sizes.size))

    def epsilon_parts(self) -> list[float]:
        """Every ε_i."""
        return [float(e) for e in self.epsilons]

    def attribute_epsilon_bounds(self) -> tuple[FloatArray, FloatArray]:
        """The stored numbers themselves."""
        return self.epsilons.copy(), self.epsilons.copy()

    def joint_eigenvalues(self, others: IntArray, center: int) -> FloatArray:
        """Products."""
        one = self.one_way_eigenvalues()
        return np.asarray(one[others] * one[center])

    def one_way(self) -> FloatArray:
        """Pr(kept), Pr(changed) per attribute, shape (m, 2)."""
        kept = keep_probabilities(self.sizes, self.epsilons)
        return np.stack([kept, flip_probabilities(self.sizes, self.epsilons)], axis=1)

    def marginal(self, subset: Sequence[int]) -> FloatArray:
        """Outer product of the one-way laws, shape (2,)*k."""
        chosen = checked_subset(subset, self.m)
        rows = self.one_way()
        return reduce(np.multiply.outer, (rows[i] for i in chosen), np.array(1.0))

    @property
    def epsilon(self) -> float:
        """Σ ε_i in nats, rounded up: no ulp above where the sum is a double."""
        return sum_ceiling(self.epsilons.tolist())

    def log_density_range(self) -> tuple[float, float]:
        """0 and Σ ε_i, rounded up."""
        total = float(np.sum(self.epsilons))
        return 0.0, total * (1 + self.m * 2.0**-53) if self.m > 1 else total

    def conditional_epsilons(self) -> FloatArray:
        """Exactly ε_i: under a product the other attributes tell nothing more."""
        return self.epsilons.copy()

    def diagram(self, most: int = MOST_STATES) -> Diagram | None:
        """One state before every attribute."""
        only = np.zeros(1, dtype=np.int64)
        steps = tuple(Step(i, only, only, log_changed=-float(e)) for i, e in enumerate(self.epsilons))
        return Diagram(steps, np.zeros(1)) if self.m <= most else None

    def sample_directly(self, n: int, source: BitSource) -> BoolArray:
        """Independent flips against 64-bit thresholds rounded towards flipping, hence towards privacy."""
        out = np.empty((n, self.m), dtype=np.bool_)
        flips = flip_probabilities(self.sizes, self.epsilons)
        for i, (f, r) in enumerate(zip(flips, self.sizes, strict=True)):
            # where the raised flip probability is above that of the uniform answer, the latter is used
            uniform = f * _ROUND_UP >= 1 - 1 / r
            out[:, i] = bounded(source, n, int(r)) != 0 if uniform else source.words(n) < threshold(f * _ROUND_UP)
        return out
