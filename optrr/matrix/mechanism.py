"""A mechanism that randomizes every attribute by a distortion matrix of its own (RVL §5.1, eqs. 22 and 23).

The record's matrix is the Kronecker product of the attributes', its ε their sum. It perturbs, and answers
:func:`optrr.kernel.kernel_of`, so estimation and tests take it like a designed mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from optrr.errors import InvalidInput
from optrr.kernel import Kernel, ProductKernel
from optrr.matrix.distortion import DistortionMatrix
from optrr.mechanisms.mechanism import MAX_MATRIX, checked_codes
from optrr.records.domain import Domain
from optrr.records.frames import recode_frame
from optrr_solvers.problem import FloatArray
from optrr_solvers.randomness import BitSource, RandomState, as_source

Frame = TypeVar("Frame")


@dataclass(frozen=True, eq=False)
class MatrixMechanism:
    """Randomizes records of ``domain``, attribute i by ``matrices[i]``, independently.

    Raises
    ------
    InvalidInput
        where the matrices do not fit the domain.
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
        if len(self.matrices) == 1:
            return self.matrices[0].epsilon
        return math.nextafter(math.fsum(m.epsilon for m in self.matrices), math.inf)

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

    def kernel(self, names: Sequence[str]) -> Kernel:
        """The kernel on these attributes, in this order."""
        parts = [self.matrices[i].kernel(self.domain.names[i]) for i in self.domain.indices(names)]
        return parts[0] if len(parts) == 1 else ProductKernel(parts)

    def matrix(self, names: str | Iterable[str] | None = None) -> FloatArray:
        """P[u, v] over the named attributes' product, row-major, row-stochastic; up to 4096 cells."""
        chosen = self.domain.indices(self.domain.names if names is None else names)
        cells = math.prod(self.matrices[i].size for i in chosen)
        if cells > MAX_MATRIX:
            raise InvalidInput(
                f"the matrix has {cells} rows; ask for attributes with at most {MAX_MATRIX} combinations"
            )
        out: FloatArray = np.ones((1, 1))
        for i in chosen:
            out = np.asarray(np.kron(out, self.matrices[i].probabilities))
        return out

    def perturb(self, data: Frame, random_state: RandomState = None) -> Frame:
        """Randomized records, as the same kind of frame; see :meth:`optrr.mechanisms.mechanism.Mechanism.perturb`."""
        source = as_source(random_state)
        return recode_frame(data, self.domain, lambda codes: self.randomize_in_place(codes, source))

    def perturb_codes(self, codes: NDArray[np.integer], random_state: RandomState = None) -> NDArray[np.integer]:
        """Randomized codes, shape (n, m), same integer type; the input is left alone. O(n Σ log r_i)."""
        out = checked_codes(codes, self.domain).copy()
        self.randomize_in_place(out, as_source(random_state))
        return out

    def randomize_in_place(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize valid codes where they stand, shape (n, m)."""
        for i, matrix in enumerate(self.matrices):
            codes[:, i] = matrix.sample(codes[:, i], source)
