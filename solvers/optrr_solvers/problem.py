"""The design problem: sizes and accuracies in, flip probabilities out (POR §IV, equation 2).

An attribute with r categories that must be as accurate as randomized response at ε may change with probability

    f = (r−1)/(r−1+e^ε),      while a uniformly random answer changes it with probability  d = 1 − 1/r.

Letters: r sizes, ε epsilons, f flips, d uniform flips, f ≤ d always. All epsilons are in nats.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from optrr_solvers.arrays import FloatArray, IntArray, real
from optrr_solvers.enclosure import sum_ceiling
from optrr_solvers.errors import Infeasible, InvalidProblem, written
from optrr_solvers.partition import Partition, alike

# Outside these ranges double precision cannot hold d − f and f at once with nine digits to spare.
EPSILON_RANGE = (1e-6, 50.0)
SIZE_RANGE = (2, 1_000_000)
MAX_ATTRIBUTES = 1_000_000


def flip_probabilities(sizes: ArrayLike, epsilons: ArrayLike) -> FloatArray:
    """Compute flip probabilities of randomized response without cancellation.

    f_i = (r_i−1)/(r_i−1+e^{ε_i}), shape of the broadcast inputs, in (0, d_i].
    """
    r = np.asarray(sizes, dtype=np.float64)
    return np.asarray(expit(np.log(r - 1) - np.asarray(epsilons, dtype=np.float64)))


def keep_probabilities(sizes: ArrayLike, epsilons: ArrayLike) -> FloatArray:
    """Compute probabilities of keeping the true value without cancellation.

    1 − f_i = e^{ε_i}/(r_i−1+e^{ε_i}), accurate at large r_i; shape of the broadcast inputs.
    """
    r = np.asarray(sizes, dtype=np.float64)
    return np.asarray(expit(np.asarray(epsilons, dtype=np.float64) - np.log(r - 1)))


def flip_gaps(sizes: ArrayLike, epsilons: ArrayLike) -> FloatArray:
    """Compute d_i − f_i without cancellation at small ε.

    See theory §3.3, Ranges.
    """
    r = np.asarray(sizes, dtype=np.float64)
    e = np.asarray(epsilons, dtype=np.float64)
    return np.asarray((r - 1) * -np.expm1(-e) / (r * ((r - 1) * np.exp(-e) + 1)))


@dataclass(frozen=True, eq=False)
class Problem:
    """A design problem.

    Find the smallest total ε such that attribute i is as accurate as randomized response at ε_i.

    Parameters
    ----------
    sizes
        r_i, shape (m,), integers in 2..10^6.
    epsilons
        ε_i in nats, shape (m,), in 1e-6..50.
    pairs
        index pairs (i, j), i < j, whose eigenvalue must stay at least ``kappa`` λ_i λ_j, with λ_i the requested one
        (theory §3.6). With pairs or caps the flips are bounded above (accuracy at least as requested) instead of fixed.
    kappa
        required ratio of each pair's eigenvalue to that of independent randomized response; above 1 the problem may be
        infeasible.
    caps
        upper limits η_i in nats on the conditional ε, shape (m,), ``inf`` for no limit; None for none at all.
    names
        names of the attributes for error messages; their positions if empty.

    Raises
    ------
    InvalidProblem
        with one line that names the attribute, the value received and the remedy.
    """

    sizes: IntArray
    epsilons: FloatArray
    pairs: tuple[tuple[int, int], ...] = ()
    kappa: float = 1.0
    caps: FloatArray | None = None
    names: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        sizes = np.asarray(self.sizes)
        epsilons = np.asarray(self.epsilons, dtype=np.float64)
        if sizes.ndim != 1 or sizes.shape != epsilons.shape:
            raise InvalidProblem(
                f"sizes and epsilons must be two lists of one length, got shapes {sizes.shape} and {epsilons.shape}"
            )
        if not 1 <= sizes.size <= MAX_ATTRIBUTES:
            raise InvalidProblem(f"{sizes.size} attributes; give between 1 and {MAX_ATTRIBUTES}")
        object.__setattr__(self, "epsilons", epsilons)
        wide = sizes.astype(np.float64)
        low, high = SIZE_RANGE
        bad = np.flatnonzero(~((wide >= low) & (wide <= high) & (wide == np.round(wide))))
        if bad.size:
            i = int(bad[0])
            raise InvalidProblem(f"{self.name(i)} has size {sizes[i]}; give an integer from {low} to {high}")
        least, most = EPSILON_RANGE
        bad = np.flatnonzero(~((epsilons >= least) & (epsilons <= most)))
        if bad.size:
            i = int(bad[0])
            raise InvalidProblem(
                f"{self.name(i)} has epsilon {epsilons[i]}; give a finite number of nats from {least:g} to {most:g}"
            )
        object.__setattr__(self, "sizes", sizes.astype(np.int64))
        self._check_requirements()

    def _check_requirements(self) -> None:
        pairs = set()
        for pair in self.pairs:
            i, j = sorted(int(k) for k in pair)
            if not (0 <= i < j < self.m):
                raise InvalidProblem(f"pair {tuple(pair)} must name two different attributes among 0..{self.m - 1}")
            pairs.add((i, j))
        object.__setattr__(self, "pairs", tuple(sorted(pairs)))
        if not (np.isfinite(real(self.kappa)) and self.kappa > 0):
            raise InvalidProblem(
                f"``kappa``: {written(self.kappa)}; give a positive number, 1 for the pair eigenvalue of independent "
                "randomized response"
            )
        if self.caps is None:
            return
        caps = np.broadcast_to(np.asarray(self.caps, dtype=np.float64), self.sizes.shape)
        bad = np.flatnonzero(~(caps >= self.epsilons))
        if bad.size:
            i = int(bad[0])
            raise Infeasible(
                f"{self.name(i)} has conditional cap {caps[i]:g} below its epsilon {self.epsilons[i]:g}; "
                f"no mechanism exists: raise the cap to at least {self.epsilons[i]:g} or lower the epsilon"
            )
        object.__setattr__(self, "caps", caps if np.isfinite(caps).any() else None)

    def name(self, i: int) -> str:
        """Return the name of attribute i for messages."""
        return f"attribute {self.names[i]!r}" if self.names else f"attribute {i}"

    @property
    def m(self) -> int:
        """Number of attributes."""
        return int(np.size(self.sizes))

    @property
    def constrained(self) -> bool:
        """Whether there are pairs or caps in addition to the accuracies."""
        return bool(self.pairs) or self.caps is not None

    @cached_property
    def flips(self) -> FloatArray:
        """f_i, shape (m,)."""
        return flip_probabilities(self.sizes, self.epsilons)

    @cached_property
    def keeps(self) -> FloatArray:
        """1 − f_i, shape (m,)."""
        return keep_probabilities(self.sizes, self.epsilons)

    @cached_property
    def uniform_flips(self) -> FloatArray:
        """d_i = 1 − 1/r_i, shape (m,)."""
        return np.asarray(1 - 1 / self.sizes)

    @cached_property
    def gaps(self) -> FloatArray:
        """d_i − f_i, shape (m,), positive."""
        return flip_gaps(self.sizes, self.epsilons)

    @cached_property
    def eigenvalues(self) -> FloatArray:
        """λ_i = 1 − f_i/d_i: the requested one-way eigenvalues, shape (m,)."""
        return np.asarray(self.gaps / self.uniform_flips)

    @cached_property
    def classes(self) -> Partition:
        """Indices of alike attributes (same size, ε and cap), by first appearance.

        Takes O(m log m).
        """
        keys = [self.sizes, self.epsilons]
        if self.caps is not None:
            keys.append(self.caps)
        return alike(keys)

    @property
    def kronecker_epsilon(self) -> float:
        """Σ ε_i in nats, rounded up: what randomizing every attribute on its own costs."""
        return sum_ceiling(self.epsilons.tolist())
