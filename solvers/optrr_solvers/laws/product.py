"""ProductLaw: independent randomized response; its matrix is the Kronecker product (POR eq. 1)."""

import math
from collections.abc import Sequence
from functools import reduce

import msgspec
import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.enclosure import sum_ceiling
from optrr_solvers.laws.base import BoolArray, Law, bounded_nats, checked_subset
from optrr_solvers.problem import flip_probabilities, keep_probabilities
from optrr_solvers.randomness import BitSource, bounded
from optrr_solvers.sampling.diagram import MOST_STATES, Diagram, Step

# ln(r−1) − ε is off by at most 2^-53 · (14 + 2 ε), and expit by a few roundings. Flip probabilities are raised by the
# first share and ε times the second, which is more.
_ROUND_UP, _ROUND_UP_NATS = 1 + 2.0**-46, 2.0**-51
_WORD = (1 << 64) - 1


class ProductRecord(msgspec.Struct, forbid_unknown_fields=True):
    """ε_i."""

    epsilons: list[float]


class ProductLaw(Law):
    """Noise distribution with independent changes.

    Attribute i changes with probability (r_i−1)/(r_i−1+e^{ε_i}); ε_i ≥ 0, shape (m,).
    """

    kind = "product"
    Record = ProductRecord

    def __init__(self, sizes: IntArray, epsilons: FloatArray) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.epsilons = np.asarray(epsilons, dtype=np.float64)
        if self.sizes.shape != self.epsilons.shape or not np.all(self.epsilons >= 0):
            raise ValueError("a ProductLaw needs one epsilon of at least 0 for each size")

    def to_record(self) -> ProductRecord:
        """Return the stored attribute ε_i."""
        return ProductRecord(self.epsilons.tolist())

    @classmethod
    def from_record(cls, record: ProductRecord, sizes: IntArray) -> "ProductLaw":
        """Build the noise distribution of a record."""
        return cls(sizes, bounded_nats(record.epsilons, sizes.size))

    def epsilon_parts(self) -> list[float]:
        """Return every attribute ε_i, whose sum is the total."""
        return [float(e) for e in self.epsilons]

    def attribute_epsilon_bounds(self) -> tuple[FloatArray, FloatArray]:
        """Return the stored numbers."""
        return self.epsilons.copy(), self.epsilons.copy()

    def joint_eigenvalues(self, others: IntArray, center: int) -> FloatArray:
        """Compute the product of the eigenvalues."""
        one = self.one_way_eigenvalues()
        return np.asarray(one[others] * one[center])

    def sharpened(self, epsilon: float) -> Law:
        """Return the distribution with this total ε; one attribute's ε is its total."""
        return ProductLaw(self.sizes, np.array([epsilon])) if self.m == 1 else super().sharpened(epsilon)

    def one_way(self) -> FloatArray:
        """Compute Pr(kept), Pr(changed) per attribute, shape (m, 2)."""
        kept = keep_probabilities(self.sizes, self.epsilons)
        return np.stack([kept, flip_probabilities(self.sizes, self.epsilons)], axis=1)

    def marginal(self, subset: Sequence[int]) -> FloatArray:
        """Compute the product of the one-way distributions, shape (2,)*k."""
        chosen = checked_subset(subset, self.m)
        rows = self.one_way()
        return reduce(np.multiply.outer, (rows[i] for i in chosen), np.array(1.0))

    @property
    def epsilon(self) -> float:
        """Σ ε_i in nats, rounded up: no ulp above where the sum is a double."""
        return sum_ceiling(self.epsilons.tolist())

    def log_density_range(self) -> tuple[float, float]:
        """Return the smallest and largest log density, 0 and Σ ε_i, rounded up."""
        total = float(np.sum(self.epsilons))
        return 0.0, total * (1 + self.m * 2.0**-53) if self.m > 1 else total

    def conditional_epsilons(self) -> FloatArray:
        """Return the conditional ε, exactly the attribute ε_i.

        Under a product the other attributes have no further information.
        """
        return self.epsilons.copy()

    def diagram(self, most: int = MOST_STATES) -> Diagram | None:
        """Build one state before every attribute."""
        only = np.zeros(1, dtype=np.int64)
        steps = tuple(Step(i, only, only, log_changed=-float(e)) for i, e in enumerate(self.epsilons))
        return Diagram(steps, np.zeros(1)) if self.m <= most else None

    def sample_directly(self, n: int, source: BitSource) -> BoolArray:
        """Draw independent flips, rounded towards flipping and privacy.

        By a relative 2^-44 at most, up to 64 nats.
        """
        out = np.empty((n, self.m), dtype=np.bool_)
        # above about 700 nats the probability is no double; a flip that is likelier is more private
        flips = np.maximum(flip_probabilities(self.sizes, self.epsilons), np.finfo(np.float64).tiny)
        raised = flips * (_ROUND_UP + _ROUND_UP_NATS * self.epsilons)
        for i, (f, r) in enumerate(zip(raised.tolist(), self.sizes.tolist(), strict=True)):
            # where the raised flip probability is above that of the uniform answer, the latter is used
            out[:, i] = bounded(source, n, r) != 0 if f >= 1 - 1 / r else _events(f, n, source)
        return out


def _events(probability: float, n: int, source: BitSource) -> BoolArray:
    """Draw ``n`` independent events, shape (n,).

    The probability is rounded up by a relative 2^-63 at most.

    A number of as many words as that takes is compared with a threshold, word by word; a further word is drawn only
    where all words so far are the threshold's, which is seldom.
    """
    count = 2 + int(-math.log2(probability)) // 64
    threshold = math.ceil(math.ldexp(probability, 64 * count))
    out, equal = np.zeros(n, dtype=np.bool_), np.arange(n)
    for k in reversed(range(count)):
        word, words = np.uint64((threshold >> 64 * k) & _WORD), source.words(equal.size)
        out[equal] = words < word
        equal = equal[words == word]
        if not equal.size:
            break
    return out
