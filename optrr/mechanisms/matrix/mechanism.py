"""A mechanism that randomizes every attribute by a distortion matrix of its own (RVL §5.1, eqs. 22 and 23).

The record's matrix is the Kronecker product of the attributes', its ε their sum. It is a
:class:`~optrr.mechanisms.mechanism.Randomizer`, so estimation and tests take it like a designed mechanism.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import Kernel, ProductKernel
from optrr.mechanisms.matrix.distortion import DistortionMatrix
from optrr.mechanisms.mechanism import Randomizer
from optrr.releases.provenance import digest_of
from optrr.show.text import sum_of_epsilons
from optrr_solvers.arrays import FloatArray
from optrr_solvers.randomness import BitSource


@dataclass(frozen=True, eq=False)
class MatrixMechanism(Randomizer):
    """Randomizes records of ``domain``, attribute i by ``matrices[i]``, independently.

    Raises InvalidInput where the matrices do not fit the domain.
    """

    domain: Domain
    matrices: tuple[DistortionMatrix, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrices", tuple(self.matrices))
        sizes = [m.size for m in self.matrices]
        if sizes != self.domain.sizes.tolist():
            raise InvalidInput(
                f"matrices of sizes {sizes} for attributes of sizes {self.domain.sizes.tolist()}; "
                "give one matrix for each attribute, in the domain's order"
            )

    @cached_property
    def epsilon(self) -> float:
        """Total ε in nats, the sum over attributes, rounded up."""
        return sum_of_epsilons(m.epsilon for m in self.matrices)

    @cached_property
    def attribute_epsilons(self) -> FloatArray:
        """ε_i in nats of the randomized response whose report of attribute i is as often true, shape (m,).

        Over uniformly distributed records. A Laplace matrix spreads its errors unevenly, so estimates from it are worse
        than this ε_i suggests.
        """
        return np.array([m.attribute_epsilon for m in self.matrices])

    @cached_property
    def conditional_epsilons(self) -> FloatArray:
        """Each matrix's own ε in nats, shape (m,), rounded up: attributes are randomized independently."""
        return np.array([m.epsilon for m in self.matrices])

    @cached_property
    def digest(self) -> str:
        """Of the domain and the matrices' whole numbers."""
        weights = [hashlib.sha256(m.weights.astype("<u8").tobytes()).hexdigest() for m in self.matrices]
        return digest_of(self.domain, {"matrices": weights})

    def kernel(self, names: str | Iterable[str]) -> Kernel:
        """The kernel on these attributes, in this order."""
        parts = [self.matrices[i].kernel(self.domain.names[i]) for i in self.domain.indices(names)]
        return parts[0] if len(parts) == 1 else ProductKernel(parts)

    def randomize_in_place(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize valid codes where they stand, shape (n, m)."""
        for i, matrix in enumerate(self.matrices):
            codes[:, i] = matrix.sample(codes[:, i], source)
