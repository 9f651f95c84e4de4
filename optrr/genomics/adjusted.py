"""Association of randomized genotypes with a status or a trait, adjusted for public covariates: statistics and p-values.

A person's report is (g*, y*). The inverse of the mechanism's kernel gives signed weights W(g, y), which are 1 for the
truth and 0 elsewhere on average over the randomization, so that Σ W(g, y) f(g, y) is an unbiased report of any f of the
truth. With C a person's covariates (and 1), c = 1 where the genotype is called,

    b = expit(Cα)   where Σ c (y − b) C = 0              the status, without the variant
    a = Cγ          where Σ c b (1 − b) (g − a) C = 0    the genotype
    U = Σ u,        u = c (g − a) (y − b)

each sum over people of unbiased reports. At ε = ∞, U is Rao's score of logistic regression. Under the null hypothesis
(given C, genotype and status are independent) U has mean 0 where b or a has the right form; both normal equations hold,
so neither estimate adds to the variance of U in first order (Neyman 1959; Chernozhukov et al. 2018). The variance is
that of Rao's test, estimated without bias, plus what randomization adds:

    V = Σ c b (1 − b) (g − a)²  +  Σ (ũ² − (c (g − a)² (y − b)²)~) / (1 − h)

x~ the unbiased report of x, h the leverage of a person in the regression on C, whose residuals are smaller than errors
by that much. With strata alone the first sum is divided by 1 − h as well: U²/V is then Cochran, Mantel and Haenszel's.

A person's own report has a part h in a and b, and the mechanism may make the noise of genotype and status depend on
each other. That would move U by −Σ h Cov(g~, y~), in strata of two to ten people by more than its error. The mean of g~
y~ − (g y)~ is that covariance, so the sum is of

    ũ = (1 − h) (c (g − a) (y − b))~ + h (c (g − a))~ (c (y − b))~,

in V and the saddlepoint as well; what V takes off is put together alike. At ε = ∞ nothing is changed.

Where noise is so large beside few people that no logistic b solves its equation, b is the least squares Cα (then 1 in
place of b (1 − b), and V = Σ ũ²/(1 − h)), for which all of the above holds but for the form.

A public trait y of numbers has b = Cα by least squares, u = c (g − a) (y − b), M = Σ c (g − a)² and

    V = (Σ c (y − b)² M − U²)/(n − p − 1)  +  Σ (ũ² − (c (g − a)² (y − b)²)~) / (1 − h),

p the columns of C: at ε = ∞, U/√V is Student's t of linear regression, with n − p − 1 degrees of freedom.

Small p-values of a status are by saddlepoint (Kuonen 1999; Dey et al. 2017, SPAtest). U sums a number ũ for each
possible report. Under the null hypothesis the reports of a person with covariates C have the probabilities (q ⊗ (1 − b,
b)) P, where the genotype has its fitted mean a and, given C, Hardy–Weinberg proportions: q = ((1 − a/2)², a (1 − a/2),
a²/4), and (1 − a/2, 0, a/2) for who has one copy. With the cumulant function K(t) = Σ ln E exp(t (ũ − E ũ)) and s = |U|
√(K''(0)/V), so that near the middle it is the χ² limit,

    Pr(S ≥ s) ≈ Φ̄(r) + φ(r) (1/v − 1/r),    K'(t) = s,    r = √(2 (ts − K)),    v = t √K''(t)     (Lugannani & Rice 1980)

and p is the sum of both tails. As everywhere in the project this is for p-values of the χ² limit below 0.0455.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from optrr.core.mechanisms import EffectKernel
from optrr.genomics.covariates import ALONE
from optrr.genomics.genotypes import GENOTYPES, MISSING, Codes
from optrr.genomics.tail import lugannani_rice
from optrr_solvers.arrays import FloatArray, IntArray

# Newton steps of a logistic null model; five are usual.
_STEPS = 30
# Mean score of a column, in its standard deviations, at which an equation counts as solved.
_SOLVED = 1e-11
# A linear predictor beyond this belongs to a model without a finite solution: expit(20) is 1 − 2e-9.
_FARTHEST = 20.0
# Smallest variance, relative to that without covariates, that is not rounding.
_ROUNDING = 1e-10
# p-values of the χ² limit above this are kept (two standard deviations, as in :mod:`optrr.genomics.tail`).
KEPT = 0.0455
# Chances of alleles and cases are kept this far from 0 and 1.
_LEAST_CHANCE = 1e-9
# Steps to a saddlepoint, and how near to s it is, relative: the tail is then exact to more digits than the
# approximation.
_TAIL_STEPS, _TAIL_SOLVED = 60, 1e-9


@dataclass(frozen=True, eq=False)
class UnbiasedReports:
    """Unbiased reports of genotype and status, for n people and V variants.

    ``cases`` holds W(g, 1) and ``every`` W(g, 0) + W(g, 1), both of shape (3, n, V) for g = 0, 1, 2.
    """

    cases: FloatArray
    every: FloatArray

    @classmethod
    def of(cls, codes: Codes, status: Codes, kernel: EffectKernel) -> "UnbiasedReports":
        """Compute unbiased reports from reported genotypes and status.

        ``codes`` has shape (n, V), ``status`` (n,). A missing call that the kernel does not randomize has weight 0.
        """
        rows = kernel.sizes[0]
        w = kernel.inverse().reshape(*kernel.batch, rows, 2, rows, 2)[..., :GENOTYPES, :]
        # reports (rows + 1) × status, the last row for calls that are missing and stay so
        w = np.concatenate([w, np.zeros((*kernel.batch, 1, 2, GENOTYPES, 2))], axis=-4)
        w = w.reshape(*kernel.batch, 2 * (rows + 1), GENOTYPES, 2)
        place = np.where(codes == MISSING, GENOTYPES, codes).astype(np.int64) * 2 + status[:, None]
        if kernel.batch:
            place += w.shape[-3] * np.arange(codes.shape[1])
            w = w.reshape(-1, GENOTYPES, 2)
        tables = np.moveaxis(np.stack([w[..., 1], w.sum(axis=-1)]), -1, 1)
        return cls(*(np.stack([np.take(table, place) for table in each]) for each in tables))

    @property
    def called(self) -> FloatArray:
        """c~, (n, V)."""
        return np.asarray(self.every.sum(axis=0))

    def part(self, which: NDArray[np.bool_] | IntArray) -> "UnbiasedReports":
        """Select variants."""
        return UnbiasedReports(self.cases[:, :, which], self.every[:, :, which])


@dataclass(frozen=True, eq=False)
class Residuals:
    """Null models without the variant.

    ``b`` and the weights of the regression of a have shape (n, V), or (n, 1) if all variants share them.

    ``linear``, as many, is True where b is a least squares fit; ``is_trait`` that y is a public trait.
    """

    columns: FloatArray
    b: FloatArray
    weight: FloatArray
    linear: NDArray[np.bool_]
    is_trait: bool = False

    @property
    def leverage(self) -> FloatArray:
        """h of each person where everybody is called, (n, V or 1)."""
        inverse = np.linalg.pinv(weighted_products(self.columns, self.weight), hermitian=True)
        return np.asarray(self.weight * np.einsum("np,vpq,nq->nv", self.columns, inverse, self.columns, optimize=True))

    def genotype(self, called: FloatArray, copies: FloatArray) -> FloatArray:
        """Compute a, shape (n, V), from unbiased reports of c and c g."""
        complete = self.weight.shape[1] == 1
        products = weighted_products(self.columns, self.weight if complete else self.weight * called)
        right = self.columns.T @ (self.weight * copies)
        gamma = np.linalg.solve(products[0], right) if complete else solutions(products, right.T).T
        return np.asarray(self.columns @ gamma)


def weighted_products(columns: FloatArray, weight: FloatArray) -> FloatArray:
    """Compute Σ weight C Cᵀ of each variant, shape (V, p, p)."""
    p = columns.shape[1]
    if weight.shape[1] == 1:
        return np.asarray((columns * weight).T @ columns)[None]
    both = (columns[:, :, None] * columns[:, None, :]).reshape(-1, p * p)
    return np.asarray((weight.T @ both).reshape(-1, p, p))


def status_model(columns: FloatArray, called: FloatArray, cases: FloatArray) -> Residuals:
    """Fit b and its weights from unbiased reports of c and c y.

    The results have shape (n, V), or (n, 1).
    """
    n, p = columns.shape
    v = called.shape[1]
    theta, open_ = np.zeros((p, v)), np.arange(v)
    share = np.clip(cases.sum(axis=0) / np.maximum(called.sum(axis=0), 1.0), 0.01, 0.99)
    theta[0] = np.log(share / (1 - share))
    solved = np.zeros(v, dtype=np.bool_)
    for _ in range(_STEPS):
        b = expit(columns @ theta[:, open_])
        score = columns.T @ (cases[:, open_] - called[:, open_] * b)
        with np.errstate(all="ignore"):
            near = np.abs(score).max(axis=0) <= _SOLVED * n
        solved[open_[near]] = True
        open_, b, score = open_[~near], b[:, ~near], score[:, ~near]
        if not open_.size:
            break
        curvature = weighted_products(columns, called[:, open_] * b * (1 - b))
        step = solutions(curvature, score.T)
        length = np.minimum(1.0, 4.0 / np.maximum(np.abs(columns @ step.T).max(axis=0), 1e-300))
        theta[:, open_] += length * step.T
        open_ = open_[
            np.isfinite(theta[:, open_]).all(axis=0) & (np.abs(columns @ theta[:, open_]).max(axis=0) < _FARTHEST)
        ]
    b = expit(columns @ np.where(np.isfinite(theta), theta, 0.0))
    weight = b * (1 - b)
    linear = ~solved
    if linear.any():
        b[:, linear] = trait_model(columns, called[:, linear], cases[:, linear]).b
        weight[:, linear] = 1.0
    return Residuals(columns, b, weight, linear)


def trait_model(columns: FloatArray, called: FloatArray, trait: FloatArray) -> Residuals:
    """Fit b by least squares from unbiased reports of c and c y.

    The result has shape (n, V), or (n, 1).
    """
    theta = solutions(weighted_products(columns, called), (columns.T @ trait).T)
    v = called.shape[1]
    return Residuals(columns, columns @ theta.T, np.ones((columns.shape[0], v)), np.ones(v, dtype=np.bool_), True)


def solutions(matrices: FloatArray, right: FloatArray) -> FloatArray:
    """Solve each system (V, p, p) x = (V, p); NaN if a matrix is singular."""
    try:
        return np.asarray(np.linalg.solve(matrices, right[:, :, None])[:, :, 0])
    except np.linalg.LinAlgError:
        singular = np.abs(np.linalg.det(matrices)) == 0
        safe = np.where(singular[:, None, None], np.eye(matrices.shape[1]), matrices)
        out = np.linalg.solve(safe, right[:, :, None])[:, :, 0]
        return np.asarray(np.where(singular[:, None], np.nan, out))


@dataclass(frozen=True, eq=False)
class AdjustedScores:
    """Score statistics of V variants, arrays of shape (V,).

    U, its variance V, the variance it would have without randomization, and the number of people called.

    ``a``, (n, V), and ``b``, (n, V or 1), are the fitted means, ``leverage``, (n, V or 1), is h. ``information`` is M
    of a trait, and Σ c b (1 − b) (g − a)² of a status.
    """

    score: FloatArray
    variance: FloatArray
    information: FloatArray
    n: FloatArray
    a: FloatArray
    b: FloatArray
    leverage: FloatArray

    @property
    def statistic(self) -> FloatArray:
        """U²/V; NaN where there is no variance."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.variance > 0, self.score**2 / self.variance, np.nan)


def adjusted_scores(
    reports: UnbiasedReports,
    copies: FloatArray,
    model: Residuals,
    strata_only: bool = False,
    trait: FloatArray | None = None,
) -> AdjustedScores:
    """Compute the score statistics of variants.

    ``copies`` (3,) are the values of the genotypes; ``trait`` (n,) is the quantitative trait, if there is one.

    Takes O(n V) time and memory.
    """
    called = reports.called
    everybody = np.tensordot(copies, reports.every, 1)
    a = model.genotype(called, everybody)
    b, own = model.b, np.minimum(model.leverage, 1.0)
    # who is alone with some value of a covariate has residuals of 0, and no error that these are smaller than
    inside = np.where(own < 1 - ALONE, 1 - own, np.inf)
    shape = a.shape
    u, square, bent, rest = (np.zeros(shape) for _ in range(4))
    for g, number in enumerate(copies):
        apart = number - a
        of_g = reports.cases[g] if trait is None else trait[:, None] * reports.every[g]
        residual = of_g - b * reports.every[g]
        rest += residual
        u += apart * residual
        square += apart**2 * reports.every[g]
        bent += apart**2 * residual
    if trait is None:
        away = everybody - a * called
        u, square, bent = (
            (1 - own) * x + own * y for x, y in ((u, away * rest), (square, away**2), (bent, away**2 * rest))
        )
    n, score = called.sum(axis=0), u.sum(axis=0)
    if trait is not None:
        r = trait[:, None] - b
        information = square.sum(axis=0)
        freedom = np.maximum(n - model.columns.shape[1] - 1, 1.0)
        plain = np.maximum((np.sum(r**2 * called, axis=0) * information - score**2) / freedom, 0.0)
        noise = (u**2 - r * bent) / inside
    else:
        # a linear model's b may lie outside 0..1
        each = np.maximum(b * (1 - b), 0.0) * square
        information = np.sum(each, axis=0)
        plain = np.sum(each / inside, axis=0) if strata_only else information
        # (y − b)² = b (1 − b) + (1 − 2b) (y − b)
        noise = (u**2 - (1 - 2 * b) * bent - b * (1 - b) * square) / inside
        linear = np.broadcast_to(model.linear, n.shape)
        plain = np.where(linear, 0.0, plain)
        noise = np.where(linear, u**2 / inside, noise)
    variance = plain + noise.sum(axis=0)
    # what is left of a genotype that is the covariates' own combination is rounding
    whole = reports.cases.sum(axis=0) - b * called if trait is None else (trait[:, None] - b) * called
    least = _ROUNDING * np.sum((everybody * whole) ** 2, axis=0)
    variance = np.where(variance > least, variance, np.nan)
    return AdjustedScores(score, variance, information, n, a, b, own)


def tail_of_sum(  # noqa: PLR0913 (one argument for each letter of the formulas)
    score: float,
    variance: float,
    fitted: tuple[FloatArray, FloatArray, FloatArray],
    copies: FloatArray,
    kernel: EffectKernel,
    single: NDArray[np.bool_] | None = None,
    missing: float = 0.0,
) -> float:
    """Compute the p-value of one variant; NaN without a saddlepoint.

    ``fitted`` are a, b and h, (n,) each, of people who are counted; ``single`` is True for people with one copy;
    ``missing`` is the chance of a missing call where the kernel randomizes these. O(n) time for each of some twenty
    steps.
    """
    values, law = _reports(fitted, copies, kernel, single, missing)
    values = values - np.sum(values * law, axis=1, keepdims=True)
    spread = float(np.sum(law * values**2))
    if not spread > 0 or not variance > 0:
        return float("nan")
    target = abs(score) * float(np.sqrt(spread / variance))
    tails = [_one_side(side * values, law, target, spread) for side in (1.0, -1.0)]
    own = tails[0] if score > 0 else tails[1]
    total = sum(tails)
    return float(min(total, 1.0)) if own > 0 and np.isfinite(total) else float("nan")


def _reports(
    fitted: tuple[FloatArray, FloatArray, FloatArray],
    copies: FloatArray,
    kernel: EffectKernel,
    single: NDArray[np.bool_] | None,
    missing: float,
) -> tuple[FloatArray, FloatArray]:
    """Compute ũ and the probability of each possible report, both (n, reports)."""
    (a, b, own), rows = fitted, kernel.sizes[0]
    f = np.clip(a / copies[-1], _LEAST_CHANCE, 1 - _LEAST_CHANCE)
    q = np.stack([(1 - f) ** 2, 2 * f * (1 - f), f**2], axis=1)
    if single is not None:
        q[single] = np.stack([1 - f, np.zeros_like(f), f], axis=1)[single]
    true = np.zeros((f.size, rows, 2))
    true[:, :GENOTYPES] = (1 - missing) * q[:, :, None]
    if rows > GENOTYPES:
        true[:, GENOTYPES] = missing
    chance = np.clip(b, _LEAST_CHANCE, 1 - _LEAST_CHANCE)
    true *= np.stack([1 - chance, chance], axis=1)[:, None, :]
    # c (g − a), c (y − b) and their product, of the truth
    of_genotype, of_status = (np.zeros((f.size, rows, 2)) for _ in range(2))
    of_genotype[:, :GENOTYPES] = (copies[None, :] - a[:, None])[:, :, None]
    of_status[:, :GENOTYPES] = (np.array([0.0, 1.0]) - b[:, None])[:, None, :]
    product = of_genotype * of_status
    each, first, second = (kernel.solve_adjoint(x).reshape(f.size, -1) for x in (product, of_genotype, of_status))
    law = np.maximum(kernel.forward(true), 0.0).reshape(f.size, -1)
    values = (1 - own[:, None]) * each + own[:, None] * first * second
    return values, law / law.sum(axis=1, keepdims=True)


def _one_side(values: FloatArray, law: FloatArray, target: float, spread: float) -> float:
    """Approximate Pr(Σ ≥ target); 0 if no reports reach it."""
    if target >= float(np.max(np.where(law > 0, values, -np.inf), axis=1).sum()):
        return 0.0
    t, low, high = target / spread, 0.0, np.inf
    for _ in range(_TAIL_STEPS):
        peak = t * values.max(axis=1, keepdims=True)
        tilted = law * np.exp(t * values - peak)
        total = tilted.sum(axis=1, keepdims=True)
        tilted /= total
        mean = np.sum(tilted * values, axis=1)
        slope = float(mean.sum())
        bend = float(np.sum(tilted * (values - mean[:, None]) ** 2))
        if abs(slope - target) <= _TAIL_SOLVED * target:
            return _lugannani_rice(t, target, float(np.sum(peak[:, 0] + np.log(total[:, 0]))), bend)
        low, high = (t, high) if slope < target else (low, t)
        step = t + (target - slope) / bend if bend > 0 else np.inf
        t = step if low < step < high else (2 * t if np.isinf(high) else (low + high) / 2)
    return float("nan")


def _lugannani_rice(t: float, target: float, cumulant: float, bend: float) -> float:
    exponent = max(t * target - cumulant, 0.0)
    r, v = np.sqrt(2 * exponent), t * np.sqrt(bend)
    if min(r, v) < 1e-4:
        return float(ndtr(-r))
    return float(lugannani_rice(exponent, v))
