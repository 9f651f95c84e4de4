"""Odds ratios and slopes of randomized genotypes, adjusted for public covariates.

Of a status, θ = (α, β) solves the corrected score of logistic regression (Stefanski 1989; the unbiased reports are
those of :mod:`optrr.genomics.adjusted`, written W(g, y))

    Σ ψ~ = 0,    ψ(g, y) = c (y − p(g)) (C, g),    p(g) = expit(Cα + βg),

by Newton's method from the model without the variant, and has the variance A⁻¹ B A⁻¹ with

    A = Σ (c p (1 − p) (C, g)(C, g)ᵀ)~,    B = A + Σ (ψ~ ψ~ᵀ − (ψψᵀ)~),

so that at ε = ∞ all is that of the maximum of the likelihood. The interval is Wald's; where the noise leaves the
equation without a solution there is no estimate, and no limit.

Of a trait, β = U/M with U = Σ u~, M = Σ (c (g − a)²)~, a and b of the model without the variant; with the residual
r = y − b and ψ(β) = c (g − a)(r − β (g − a)), the variance of U − βM is

    V(β) = s² M + Σ (ψ~² − (ψ²)~),    s² = Σ (c (r − β̂ (g − a))²)~ / (n − p − 1),

and the interval holds every β with (U − βM)² ≤ t² V(β), which is a quadratic (Fieller): it exists for all variants that
vary, is unbounded if the noise is too large, and at ε = ∞ it is Student's.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, stdtrit

from optrr.genomics.adjusted import Residuals, UnbiasedReports, adjusted_scores, solutions, weighted_products
from optrr.genomics.genotypes import GENOTYPES
from optrr.genomics.odds import REACH
from optrr_solvers.arrays import FloatArray

# Newton steps; five to eight are usual.
_STEPS = 25
# The largest step of β, and of the linear predictor of anybody, that is taken at once.
_LONGEST = 2.0
# β and α count as found where a step moves nobody's linear predictor by more than this.
_SOLVED = 1e-9
# Odds ratios beyond e^±9.2 are no estimates (as in :mod:`optrr.genomics.odds`).
_FARTHEST = float(np.log(1e4))
# Chances of a case that are started from are kept this far from 0 and 1.
_LEAST = 1e-6


@dataclass(frozen=True, eq=False)
class AdjustedEffects:
    """Effects of V variants, arrays of shape (V,).

    ``beta``, its standard error and the limits of a 95 % interval; NaN if there is no estimate.

    ``cases`` and ``controls`` are frequencies of A1 (of a status), ``frequency`` that of all people.
    """

    of_trait: bool
    beta: FloatArray
    error: FloatArray
    low: FloatArray
    high: FloatArray
    cases: FloatArray
    controls: FloatArray
    frequency: FloatArray

    @property
    def arrays(self) -> FloatArray:
        """All seven in their order, (7, V)."""
        return np.stack([self.beta, self.error, self.low, self.high, self.cases, self.controls, self.frequency])

    @property
    def columns(self) -> dict[str, FloatArray]:
        """Columns of a scan's table: slopes of a trait, odds ratios of a status."""
        test = self.beta / self.error
        if self.of_trait:
            first = {"A1_FREQ": self.frequency, "BETA": self.beta}
            return first | {"SE": self.error, "L95": self.low, "U95": self.high, "T_STAT": test}
        # a limit that doubles cannot hold is infinite, or 0
        with np.errstate(over="ignore"):
            ratio, low, high = np.exp([self.beta, self.low, self.high])
        first = {"F_A": self.cases, "F_U": self.controls, "OR": ratio}
        return first | {"SE": self.error, "L95": low, "U95": high, "Z_STAT": test}


def status_effects(reports: UnbiasedReports, copies: FloatArray, model: Residuals) -> AdjustedEffects:
    """Estimate log odds ratios per copy; about six steps of O(n V p²) time."""
    columns = model.columns
    p, v = columns.shape[1], reports.every.shape[2]
    start = np.linalg.lstsq(columns, logit(np.clip(model.b, _LEAST, 1 - _LEAST)), rcond=None)[0]
    theta = np.vstack([np.broadcast_to(start, (p, v)), np.zeros((1, v))])
    done, open_ = np.zeros(v, dtype=np.bool_), np.arange(v)
    for _ in range(_STEPS):
        if not open_.size:
            break
        own = reports if open_.size == v else reports.part(open_)
        score, curvature = _logistic(own, copies, columns, theta[:, open_])
        step = solutions(curvature, score).T
        moved = np.maximum(np.abs(columns @ step[:-1]).max(axis=0), np.abs(step[-1]))
        theta[:, open_] += np.minimum(1.0, _LONGEST / np.maximum(moved, 1e-300)) * step
        done[open_[moved <= _SOLVED]] = True
        lost = ~np.isfinite(moved) | (np.abs(theta[-1, open_]) > _FARTHEST)
        open_ = open_[~(moved <= _SOLVED) & ~lost]
    theta[:, ~done] = 0.0
    variance = _sandwich(reports, copies, columns, theta)
    good = done & (variance > 0)
    beta, error = np.where(good, theta[-1], np.nan), np.sqrt(np.where(good, variance, np.nan))
    reach = REACH * error
    low, high = (np.where(good, limit, end) for limit, end in ((beta - reach, -np.inf), (beta + reach, np.inf)))
    return AdjustedEffects(False, beta, error, low, high, *_frequencies(reports))


def _logistic(
    reports: UnbiasedReports, copies: FloatArray, columns: FloatArray, theta: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Compute the summed score ψ~, (V, p + 1), and its derivative A.

    A has shape (V, p + 1, p + 1).
    """
    shape = reports.every.shape[1:]
    base, residual, last = columns @ theta[:-1], np.zeros(shape), np.zeros(shape)
    weight = np.zeros((3, *shape))
    for g, number in enumerate(copies):
        chance = expit(base + number * theta[-1])
        own = reports.cases[g] - reports.every[g] * chance
        residual, last = residual + own, last + number * own
        spread = reports.every[g] * chance * (1 - chance)
        for power in range(3):
            weight[power] += number**power * spread
    score = np.vstack([columns.T @ residual, last.sum(axis=0)]).T
    return score, _bordered(weighted_products(columns, weight[0]), weight[1].T @ columns, weight[2].sum(axis=0))


def _bordered(inner: FloatArray, side: FloatArray, corner: FloatArray) -> FloatArray:
    if inner.shape[0] < side.shape[0]:
        inner = np.repeat(inner, side.shape[0], axis=0)
    return np.block([[inner, side[:, :, None]], [side[:, None, :], corner[:, None, None]]])


def _sandwich(reports: UnbiasedReports, copies: FloatArray, columns: FloatArray, theta: FloatArray) -> FloatArray:
    """Compute the variance of β, (V,); not positive if A is not."""
    _, curvature = _logistic(reports, copies, columns, theta)
    last = np.zeros((theta.shape[1], theta.shape[0]))
    last[:, -1] = 1.0
    x = solutions(curvature, last)
    along, base = columns @ x[:, :-1].T, columns @ theta[:-1]
    own, plain = np.zeros(base.shape), np.zeros(base.shape)
    for g, number in enumerate(copies):
        chance = expit(base + number * theta[-1])
        direction = along + number * x[:, -1]
        residual = reports.cases[g] - reports.every[g] * chance
        own += direction * residual
        # (y − p)² = p (1 − p) + (1 − 2p) (y − p), of which A holds the first part
        plain += direction**2 * ((1 - 2 * chance) * residual + reports.every[g] * chance * (1 - chance))
    variance = x[:, -1] + np.sum(own**2 - plain, axis=0)
    return np.where(x[:, -1] > 0, variance, np.nan)


def trait_effects(reports: UnbiasedReports, copies: FloatArray, model: Residuals, trait: FloatArray) -> AdjustedEffects:
    """Estimate linear slopes per copy."""
    s = adjusted_scores(reports, copies, model, trait=trait)
    freedom = np.maximum(s.n - model.columns.shape[1] - 1, 1.0)
    residual = trait[:, None] - s.b
    # Σ over g of W (g − a)^k for k = 1 to 4, of which ψ and ψ² are made
    powers = np.zeros((4, *s.a.shape))
    for g, number in enumerate(copies):
        apart = number - s.a
        for k in range(4):
            powers[k] += apart ** (k + 1) * reports.every[g]
    first, second, third, fourth = powers
    with np.errstate(divide="ignore", invalid="ignore"):
        beta = np.where(s.information > 0, s.score / s.information, np.nan)
    squares = np.sum(residual**2 * reports.called, axis=0)
    least = np.maximum(squares - np.nan_to_num(beta) * s.score, 0.0) / freedom
    # V(β) = v0 − 2 v1 β + v2 β²
    v0 = least * s.information + np.sum((residual * first) ** 2 - residual**2 * second, axis=0)
    v1 = np.sum(residual * (first * second - third), axis=0)
    v2 = np.sum(second**2 - fourth, axis=0)
    error = np.sqrt(np.maximum(v0 - 2 * v1 * beta + v2 * beta**2, 0.0)) / s.information
    low, high = _fieller(s.score, s.information, (v0, v1, v2), stdtrit(freedom, 0.975))
    undefined = ~np.isfinite(beta) | ~(error > 0)
    beta, error = np.where(undefined, np.nan, beta), np.where(undefined, np.nan, error)
    nothing = np.full(beta.shape, np.nan)
    return AdjustedEffects(True, beta, error, low, high, nothing, nothing, _frequencies(reports)[2])


def _fieller(
    score: FloatArray, information: FloatArray, variance: tuple[FloatArray, ...], t: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Find the limits of all β with (U − βM)² ≤ t² (v0 − 2 v1 β + v2 β²).

    A side on which the set is unbounded has an infinite limit.
    """
    v0, v1, v2 = (t**2 * x for x in variance)
    a, b, c = information**2 - v2, score * information - v1, score**2 - v0
    inside = b**2 - a * c
    root = np.sqrt(np.maximum(inside, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (b - root) / a, (b + root) / a
    bounded = (a > 0) & (inside > 0)
    # elsewhere everything but an interval is allowed, or everything
    return np.where(bounded, low, -np.inf), np.where(bounded, high, np.inf)


def _frequencies(reports: UnbiasedReports) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Estimate the frequency of A1 in cases, controls and all, (V,) each."""
    counts = np.arange(GENOTYPES) / 2
    every, cases = reports.every.sum(axis=1), reports.cases.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        a, u, both = (counts @ x / x.sum(axis=0) for x in (cases, every - cases, every))
    return a, u, both
