"""A coin for the whole record: it is kept with probability c, and otherwise replaced by a uniformly random record.

As the second of two stages this shrinks every effect by the same c, so one report's law is c times the permanent law plus
(1 − c) times the uniform one: the shape of the optimum (design §3.3). With one attribute it is the second stage of L-GRR.
The coin is a 64-bit word against a whole number, so c is a fraction of 2^64 and everything here is exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import EffectKernel
from optrr.mechanisms.randomizer import Randomizer
from optrr.releases.provenance import digest_of
from optrr_solvers.arrays import FloatArray
from optrr_solvers.enclosure import log_ceiling
from optrr_solvers.randomness import BitSource, bounded

WORD = 1 << 64


@dataclass(frozen=True, eq=False)
class WholeOrUniform(Randomizer):
    """Keeps a record of ``domain`` whole with probability ``threshold``/2^64; otherwise any record, each as likely.

    Raises
    ------
    InvalidInput
        for a threshold outside 1..2^64−1.
    """

    domain: Domain
    threshold: int

    def __post_init__(self) -> None:
        if not 0 < self.threshold < WORD:
            raise InvalidInput(
                f"records are kept with probability {self.threshold}/2^64; it must be above 0 and below 1"
            )

    @property
    def share(self) -> Fraction:
        """c, the probability that the coin keeps the record, exactly; every eigenvalue λ_U but λ_∅."""
        return Fraction(self.threshold, WORD)

    @cached_property
    def growth(self) -> Fraction:
        """How many times likelier a record's own report is than any other one, exactly: 1 + c Π r_i / (1 − c)."""
        records = prod(int(r) for r in self.domain.sizes)
        return 1 + Fraction(self.threshold * records, WORD - self.threshold)

    @cached_property
    def epsilon(self) -> float:
        """Total ε in nats, rounded up."""
        return log_ceiling(self.growth)

    @cached_property
    def attribute_epsilons(self) -> FloatArray:
        """ε_i in nats of each attribute alone, rounded up, shape (m,)."""
        odds = Fraction(self.threshold, WORD - self.threshold)
        return np.array([log_ceiling(1 + int(r) * odds) for r in self.domain.sizes])

    @property
    def conditional_epsilons(self) -> FloatArray:
        """The total: who knows the other attributes can see that the coin kept the record; shape (m,)."""
        return np.full(self.domain.m, self.epsilon)

    @cached_property
    def digest(self) -> str:
        """Of the domain and the threshold."""
        return digest_of(self.domain, {"threshold": str(self.threshold)})

    def kernel(self, names: str | Iterable[str]) -> EffectKernel:
        """λ_W = c for every W but the empty one."""
        chosen = self.domain.indices(names)
        eigenvalues = np.full((2,) * len(chosen), float(self.share))
        eigenvalues.flat[0] = 1.0
        return EffectKernel(self.domain.sizes[list(chosen)], eigenvalues, (self.domain.names[i] for i in chosen))

    def randomize_in_place(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize valid codes where they stand, shape (n, m)."""
        replaced = np.flatnonzero(source.words(codes.shape[0]) >= np.uint64(self.threshold))
        for i, r in enumerate(self.domain.sizes):
            codes[replaced, i] = bounded(source, replaced.size, int(r))
