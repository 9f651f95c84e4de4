"""What λ_GC says of a randomized scan: how much of an inflation stays visible through the mechanism, and what the true λ is.

Population structure and the like add a share d of the covariance V that a variant's contrasts have without a mechanism
(Devlin & Roeder 1999) to the one they have with it, V', both per person at the null fit. So a statistic of df degrees of
freedom is raised by 1 + d · share on average, and the median of a scan by as much to first order in d, with

    share = mean over variants of tr(V'⁻¹ V) / df.

V' is what the test divides by. V is not taken from the same fit: where noise is larger than any frequency, the fit lies at the
edge of what margins can be, and V there is next to nothing. It is the unbiased estimate from the table, which noise may take
below 0 or above what any population has, with its standard error. With u the estimated shares of the genotypes, t their sum, c
what each counts in the contrasts, W the share of cases,

    V = W (1 − W) (Σ u c cᵀ − m mᵀ/t),    m = Σ u c,

and products of estimates are corrected by their covariance. No population has a V above W (1 − W) = 1/4 times the largest
variance of c: that makes the most that can stay visible, whatever the data say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, chi2

from optrr.genomics.tests import Scores, genomic_control
from optrr.mechanisms.kernel import Kernel
from optrr.models.tests.nullfit import NullFit, influence
from optrr.models.tests.testing import ASSUMING, GENOTYPES, genotype_test
from optrr_solvers.arrays import FloatArray

# Variants at once, so that their influences stay near the cache.
_VARIANTS = 1 << 13
# λ of real scans lies between 1 and 2: an error of a half tells nothing about it.
_TELLING = 0.5
# λ counts as inflated where independent variants without an association would have so large a one no more often than this.
_CHANCE = 0.01
# Calls that a variant lacks are few in a scan; a share of known calls below this is noise.
_LEAST_KNOWN = 0.5


@dataclass(frozen=True)
class Visible:
    """Share of an inflation that stays visible: an unbiased estimate with its ``standard_error``, and the ``most`` it can be.

    NaN where nothing is known of it.
    """

    share: float = math.nan
    standard_error: float = math.nan
    most: float = math.nan

    @property
    def is_known(self) -> bool:
        """Whether the estimate is clear of 0, so that it can be divided by."""
        return bool(self.share > 2 * self.standard_error)

    def __str__(self) -> str:
        if self.is_known:
            return f"about {_percent(min(self.share, 1.0))}"
        return f"at most {_percent(min(max(self.share, 0.0) + 2 * self.standard_error, self.most))}"


def _percent(share: float) -> str:
    """Two digits, which would be 1e+02 of a hundred."""
    return f"{100 * share:.2g} %" if share < 0.995 else "100 %"


def visible_share(counts: NDArray[np.number], kernel: Kernel, scores: Scores, test: str) -> Visible:
    """What stays visible in the tables of these scores, (V, R, 2), of which ``scores.tested`` were tested."""
    if scores.fit is None or not scores.tested.size:
        return Visible()
    tables, own, rows = counts[scores.tested], kernel.part(scores.tested), scores.fit.rows.shape[1]
    absent = scores.absent[scores.tested]
    parts = []
    for g in np.unique(absent):
        contrasts, _ = genotype_test(test, rows, int(g))
        which = np.flatnonzero(absent == g)
        for k in range(0, which.size, _VARIANTS):
            at = which[k : k + _VARIANTS]
            parts.append(_pieces(tables[at], scores.fit.part(at), own.part(at), contrasts, test == ASSUMING))
    genotypes, noise, least, most, cases, cases_noise = (np.concatenate(x) for x in zip(*parts, strict=True))
    v, error = genotypes.size, math.sqrt(max(noise.sum(), least.sum())) / genotypes.size
    # one status of the same people stands in every table, so its error does not average out
    spread = float(np.mean(cases * (1 - cases) + cases_noise))
    spread_error = float(np.mean(np.sqrt((1 - 2 * cases) ** 2 * cases_noise + 2 * cases_noise**2)))
    share = float(genotypes.sum() / v)
    total = math.sqrt((spread * error) ** 2 + (share * spread_error) ** 2 + (error * spread_error) ** 2)
    return Visible(spread * share, total, min(float(most.mean()) / 4, 1.0))


def _pieces(
    counts: NDArray[np.number], fit: NullFit, kernel: Kernel, contrasts: FloatArray, in_proportions: bool
) -> tuple[FloatArray, ...]:
    """tr(V'⁻¹ V) / (df · W (1 − W)), its variance, the least of that, the most it can be; W, its variance: (V,) each."""
    n, rows = counts.sum(axis=(1, 2)).astype(np.float64), fit.rows.shape[1]
    psi = influence(fit, kernel, contrasts)
    seen = (psi * fit.expected.reshape(n.size, 1, -1)) @ np.swapaxes(psi, 1, 2)
    inverse = _inverses(seen) / contrasts.shape[0]
    change = contrasts[:, :, 1] - contrasts[:, :, 0]
    estimates, covariance = _shares(counts / n[:, None, None], n, kernel, rows)
    u, cases = estimates[:, :rows], estimates[:, rows]
    known = float(np.clip(u.sum(axis=1).mean(), _LEAST_KNOWN, 1.0))
    # alleles in Hardy–Weinberg proportions: 2f − 2f² with m = 2f copies, where any genotypes have E[c²] − m²
    half = in_proportions and rows == GENOTYPES
    plain = np.abs(change[0]) * inverse[:, 0] if half else np.einsum("kg,zkl,lg->zg", change, inverse, change)
    square = (0.5 if half else 1.0) / known
    m, noise = u @ change.T, change @ covariance[:, :rows, :rows] @ change.T
    around = inverse @ noise
    bias = square * np.trace(around, axis1=1, axis2=2)
    value = np.sum(u * plain, axis=1) - square * np.einsum("zk,zkl,zl->z", m, inverse, m) + bias
    slope = plain - 2 * square * np.einsum("zk,zkl,lg->zg", m, inverse, change)
    bent = square**2 * np.trace(around @ around, axis1=1, axis2=2)
    # the slope is an estimate itself, and its own noise adds four times ``bent`` to the first part
    variance = np.einsum("zg,zgh,zh->z", slope, covariance[:, :rows, :rows], slope) - 2 * bent
    return value, variance, 2 * bent, _largest(change, inverse, half), cases, covariance[:, rows, rows]


def _shares(observed: FloatArray, n: FloatArray, kernel: Kernel, rows: int) -> tuple[FloatArray, FloatArray]:
    """Unbiased shares of the first rows and of cases, (V, rows + 1), and their covariance."""
    cells = np.zeros((rows + 1, *kernel.sizes))
    cells[np.arange(rows), np.arange(rows)] = 1
    cells[rows, :, 1] = 1
    weights = kernel.solve_adjoint(cells[None]).reshape(-1, rows + 1, kernel.cells)
    flat = observed.reshape(n.size, 1, -1)
    mean = np.sum(weights * flat, axis=2)
    second = (weights * flat) @ np.swapaxes(np.broadcast_to(weights, (n.size, *weights.shape[1:])), 1, 2)
    return mean, (second - mean[:, :, None] * mean[:, None, :]) / n[:, None, None]


def _inverses(matrices: FloatArray) -> FloatArray:
    """Inverses of (V, K, K) for K = 1, 2: a hundred thousand systems of two equations take longer to set up."""
    if matrices.shape[1] == 1:
        return 1 / matrices
    (a, b), (c, d) = np.moveaxis(matrices, 0, -1)
    return np.moveaxis(np.array([[d, -b], [-c, a]]) / (a * d - b * c), -1, 0)


def _largest(change: FloatArray, inverse: FloatArray, half: bool) -> FloatArray:
    """The largest variance that c can have among any genotypes, as V'⁻¹ measures it; shape (V,)."""
    if half:
        return np.asarray(inverse[:, 0, 0] / 2)
    apart = change[:, :, None] - change[:, None, :]
    distance = np.einsum("kgh,zkl,lgh->zgh", apart, inverse, apart).max(axis=(1, 2))
    # a quarter of the squared distance on a line; points of a plane lie in a circle of a third of it (Jung)
    return np.asarray(distance / (4 if change.shape[0] == 1 else 3))


@dataclass(frozen=True)
class Inflation:
    """λ_GC of a scan, ``factor``; ``chance``: how often independent variants without an association have as large a one.

    ``relative_error`` is that of a median of as many independent statistics; variants in disequilibrium make it larger.
    """

    factor: float
    relative_error: float
    chance: float
    visible: Visible

    @classmethod
    def of(cls, scores: Scores, visible: Visible) -> Inflation:
        """What the statistics of a scan say."""
        use = np.isfinite(scores.statistic)
        v, factor = int(use.sum()), genomic_control(scores.statistic, scores.df)
        if not v:
            return cls(math.nan, math.nan, math.nan, visible)
        df, times = np.unique(scores.df[use], return_counts=True)
        middle, share = chi2.median(df), times / v
        error = float(share @ (1 / (2 * chi2.pdf(middle, df) * middle))) / math.sqrt(v)
        # the middle one of v uniform numbers is distributed like this
        below = float(share @ chi2.cdf(factor * middle, df))
        return cls(factor, error, float(beta.sf(below, (v + 1) / 2, (v + 1) / 2)), visible)

    @property
    def is_clear(self) -> bool:
        """Whether λ is above 1 by more than chance."""
        return bool(self.chance <= _CHANCE)

    @property
    def without_randomization(self) -> tuple[float, float]:
        """λ_GC that the true records would have had, judged from what stays visible of it, and its standard error."""
        share, rise = self.visible.share, self.factor - 1
        if not self.visible.is_known:
            return math.nan, math.nan
        own = self.factor * self.relative_error
        return 1 + rise / share, math.hypot(own, rise * self.visible.standard_error / share) / share

    def __str__(self) -> str:
        value, error = self.without_randomization
        told = math.isfinite(value) and (error < _TELLING or value - 1 > 2 * error)
        true = f"is about {value:.3g} ± {error:.2g}" if told else "cannot be told"
        if not told and math.isfinite(error):
            true += f" (standard error {error:.2g})"
        if not math.isfinite(self.visible.most):
            return "λ is above 1 by more than chance" if self.is_clear else "confounding cannot be judged from λ here"
        seen = f"of an inflation by confounding {self.visible} stays visible through the mechanism"
        if self.is_clear:
            return f"λ is above 1 by more than chance; {seen}: the true records' λ {true}"
        return f"{seen}, so λ near 1 does not show that there is none: the true records' λ {true}"

    def warnings(self) -> tuple[str, ...]:
        """One line where λ is above 1 by more than chance."""
        if not self.is_clear:
            return ()
        return (
            f"λ = {self.factor:.3g} is more than chance makes of independent variants (p = {self.chance:.2g}): population "
            "structure, relatives, or very many true associations; the p-values P do not allow for what is "
            "left of the first two, so adjust for it (public covariates, strata), or see P_GC",
        )
