"""BallSums: the mass and the marginals of one weighted ball, as the law of change sets inside it (design §3.3).

Where change sets can be counted (at most 2^20 vectors of counts, whole weights) they are a sum over them
(:class:`CountedBall`), otherwise a Fourier sum (:class:`SpectralBall`). Alike attributes are one class and share all work.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws.count import log_uniform_counts, pattern_given_count
from optrr_solvers.laws.spectrum import Spectrum
from optrr_solvers.laws.weighted_ball import WeightedBall

# Vectors of counts up to which they are summed one by one, 8 bytes each; with more, the Fourier sum is faster.
MAX_COUNTED = 1 << 20
# Every class is an axis of the table of counts; numpy takes no more than 32 or 64 of them.
MAX_AXES = 20


class BallSums(ABC):
    """A uniformly random answer's chance to fall into the ball, and its change sets there; G classes of alike attributes."""

    log_mass: float

    @property
    @abstractmethod
    def changed(self) -> FloatArray:
        """Pr(changed | ball) per class, shape (G,)."""

    @abstractmethod
    def marginal(self, which: IntArray) -> FloatArray:
        """Change patterns of attributes of the given classes, shape (2,)*k."""

    @abstractmethod
    def both_changed(self) -> FloatArray:
        """Pr(two attributes changed | ball), shape (G, G)."""


def ball_sums(ball: WeightedBall, sizes: IntArray, classes: Sequence[IntArray]) -> BallSums:
    """The sums of a ball over attributes of sizes r_i, shape (m,), in classes of alike ones: counted where that is fast."""
    few = len(classes) <= MAX_AXES and math.prod(c.size + 1 for c in classes) <= MAX_COUNTED
    kind = CountedBall if few and not ball.fractions.any() else SpectralBall
    return kind(ball, sizes, classes)


class SpectralBall(BallSums):
    """A ball's mass and marginals by Fourier sums."""

    def __init__(self, ball: WeightedBall, sizes: IntArray, classes: Sequence[IntArray]) -> None:
        self._spectrum = Spectrum(ball, sizes[[c[0] for c in classes]], np.array([float(c.size) for c in classes]))
        self.log_mass = self._spectrum.log_mass

    @cached_property
    def changed(self) -> FloatArray:
        """Pr(changed | ball) per class, shape (G,)."""
        return self._spectrum.changed()

    def marginal(self, which: IntArray) -> FloatArray:
        """Change patterns of attributes of the given classes, shape (2,)*k."""
        return self._spectrum.marginal(which)

    def both_changed(self) -> FloatArray:
        """Pr(two attributes changed | ball), shape (G, G)."""
        return self._spectrum.both_changed()


class CountedBall(BallSums):
    """A ball's mass and marginals by a sum over all vectors of counts; exact up to rounding."""

    def __init__(self, ball: WeightedBall, sizes: IntArray, classes: Sequence[IntArray]) -> None:
        self._counts = np.array([c.size for c in classes])
        inside = ball.profile(totals_of(self._counts, ball))
        with np.errstate(divide="ignore"):
            logs = log_uniform_counts(sizes, classes) + np.log(inside)
        self.log_mass = float(logsumexp(logs))
        # a ball that holds nothing has no probabilities, and no share of any law
        self._probabilities = np.exp(logs - self.log_mass) if self.log_mass > -math.inf else np.zeros_like(logs)

    @cached_property
    def changed(self) -> FloatArray:
        """Pr(changed | ball) per class, shape (G,)."""
        return np.array([self.marginal(np.array([g]))[1] for g in range(self._counts.size)])

    def marginal(self, which: IntArray) -> FloatArray:
        """Change patterns of attributes of the given classes, shape (2,)*k."""
        used = np.bincount(which, minlength=self._counts.size)
        out = self._probabilities
        for n, u in zip(self._counts, used, strict=True):
            out = (
                out.sum(axis=0)[..., None] if u == 0 else np.tensordot(out, pattern_given_count(int(n), int(u)), (0, 0))
            )
        bits = np.indices((2,) * which.size).reshape(which.size, -1)
        changed = [bits[which == g].sum(axis=0) for g in range(self._counts.size)]
        return np.asarray(out[tuple(changed)].reshape((2,) * which.size))

    def both_changed(self) -> FloatArray:
        """Pr(two attributes changed | ball), shape (G, G); 0 for the pair inside a class of one."""
        g = self._counts.size
        out = np.zeros((g, g))
        for a in range(g):
            for b in range(a + 1):
                if a != b or self._counts[a] > 1:
                    out[a, b] = out[b, a] = self.marginal(np.array([a, b]))[1, 1]
        return out


def totals_of(counts: IntArray, ball: WeightedBall) -> IntArray:
    """Σ a_g k_g for every vector of counts, shape (n_1+1, …, n_G+1)."""
    totals = np.zeros([int(n) + 1 for n in counts], dtype=np.int64)
    for g, n in enumerate(counts):
        totals += (ball.floors[g] * np.arange(n + 1)).reshape([-1 if a == g else 1 for a in range(counts.size)])
    return totals
