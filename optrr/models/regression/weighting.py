"""Regressions of a population, from weighted, stratified or clustered samples of randomized records: pseudo-likelihood.

The weighted shares λ̂ of the reports take the place of shares in the estimating equations, so that Ψ(θ) = Σ_v λ̂_v ψ_v(θ) is 0
at what the equations of the whole population would give, up to sampling. Its variance is that of a linear function of the
weighted reports, ψᵀ V ψ with V their linearised covariance (:mod:`optrr.tables.weighting.linearised`): what varies within
clusters, the randomization included, is among the differences between them. With it in the place of second moments everything
else of a regression stays as it is (:mod:`optrr.models.regression.solving`). What stands there is the second moment of one of n
records, so it is M = (n − 1) V: with equal weights and each record its own cluster M = diag λ̂ − λ̂ λ̂ᵀ.

Standard errors are H⁻¹ ψᵀMψ H⁻¹/n, the sandwich, times n/(n − p) as other robust ones. In tests and intervals of the
likelihood, whose H is the information I* of the hypothesis, the second moment is the hypothesis's, too, since the sample's own
is too small just where a report happens to be rare: what strata and clusters do to a variance is the sample's, and how often
each report occurs is the hypothesis's, as in the tests of :mod:`optrr.models.weighted`. With equal weights and no clusters this
is I*, so that tests are those without weights.

Tests of k parameters have F = T (ν − k + 1)/(ν k) ~ F(k, ν − k + 1), those of one parameter Student's law, with ν
Satterthwaite's degrees of freedom of V.

Sources: Binder, Int. Stat. Rev. 51 (1983), 279–292; Skinner, Holt and Smith, Analysis of Complex Surveys (1989), ch. 3; Korn
and Graubard, Am. Stat. 44 (1990), 270–276, for F; Lumley, Complex Surveys (2010), ch. 5 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from optrr.models.regression.families import UnbiasedEquations
from optrr.models.regression.likelihood import TINY, LikelihoodEquations
from optrr.models.weighted import expected_squares, independent_records, root, under_hypothesis
from optrr_solvers.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class SampleMoments:
    """Of the N distinct reports of a sample: M (N, N), the ``squares`` q (N,) of their weights over the square of all weights.

    ``degrees`` of freedom of M, and ``kish``: the records that would say as much if weights were equal.
    """

    moments: FloatArray
    squares: FloatArray
    degrees: float
    kish: float

    def of(self, counted: FloatArray) -> FloatArray:
        """The second moments, (k, k), of what each report counts, (N, k)."""
        return np.asarray(counted.T @ self.moments @ counted)


@dataclass(frozen=True, eq=False)
class WeightedUnbiasedEquations(UnbiasedEquations):
    """The unbiased score of one sample; ``places`` (N,) of its distinct reports in the tables."""

    sample: SampleMoments
    places: IntArray

    @property
    def degrees(self) -> float:
        """Of freedom of the sample's variances."""
        return self.sample.degrees

    def moments(self, own: FloatArray) -> FloatArray:
        """The sample's, around 0 as without weights."""
        flat = np.moveaxis(own, 2, 1).reshape(own.shape[2], -1)
        mean = flat @ self.reports.ravel()
        return np.asarray((self.sample.of(flat[:, self.places].T) + np.outer(mean, mean))[None])


@dataclass(frozen=True, eq=False)
class WeightedLikelihoodEquations(LikelihoodEquations):
    """The pseudo-likelihood of one sample; ``places`` (N,) of its distinct reports in the tables."""

    sample: SampleMoments = field(kw_only=True)
    places: IntArray = field(kw_only=True)

    @property
    def degrees(self) -> float:
        """Of freedom of the sample's variances."""
        return self.sample.degrees

    def spread(self, theta: FloatArray) -> FloatArray:
        """The second moment of s* under the hypothesis, (1, p, p): I* times what the sample does to it."""
        at = self._at(theta)
        own, information = at.own.reshape(1, -1, self.parameters), at.efficient[1]
        half = root(information, -0.5)
        counted = half @ np.swapaxes(own, 1, 2)
        shares, expected = self.shares.reshape(1, -1), at.expected.reshape(1, -1)
        ratio = under_hypothesis(
            half @ self.sample.of(own[0, self.places])[None] @ half,
            independent_records(counted, self._squares, shares),
            independent_records(counted, expected_squares(self._squares, shares, expected), expected),
        )
        back = root(information, 0.5)
        return np.asarray(back @ ratio @ back)

    def sandwich(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """I*, and the sample's own second moment of s* times n/(n − p) as of other robust errors; (1, p, p) each.

        Of the law that one step of the EM algorithm makes of the likeliest: this takes the prior's answers off again, so that
        where nothing is randomized errors are those that are known.
        """
        at = self._at(theta)
        law = at.law * (at.k @ at.ratio[..., None])[..., 0]
        expected = np.maximum((law[:, :, None] @ at.k)[:, :, 0], TINY)
        freed = replace(at, law=law, expected=expected, curvature=[])
        factor = self.n / (self.n - self.parameters)
        spread = self.sample.of(freed.own.reshape(-1, self.parameters)[self.places])
        return freed.efficient[1], np.asarray(factor[:, None, None] * spread)

    def log_likelihood(self, theta: FloatArray) -> None:
        """None: weighted records have none."""
        del theta

    @cached_property
    def _squares(self) -> FloatArray:
        squares = np.bincount(self.places, weights=self.sample.squares, minlength=self.shares.size)
        return np.asarray(squares[None], dtype=np.float64)
