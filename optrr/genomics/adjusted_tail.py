"""Small p-values of adjusted tests of a status, by saddlepoint (Kuonen 1999; Dey et al. 2017, SPAtest), through a mechanism.

U is a sum over people of ũ (:mod:`optrr.genomics.adjusted`), a number for each report that somebody can send. Under the null
hypothesis the reports of somebody with covariates C have the chances (q ⊗ (1 − b, b)) P, where the genotype has its fitted mean
a and, given C, Hardy–Weinberg proportions: q = ((1 − a/2)², a (1 − a/2), a²/4), and (1 − a/2, 0, a/2) for who has one copy.
With the cumulant function K(t) = Σ ln E exp(t (ũ − E ũ)) and s = |U| √(K''(0)/V), so that near the middle it is the χ² limit,

    Pr(S ≥ s) ≈ Φ̄(r) + φ(r) (1/v − 1/r),    K'(t) = s,    r = √(2 (ts − K)),    v = t √K''(t)     (Lugannani & Rice 1980)

and p is the sum of both tails. As everywhere in the project this is for p-values of the χ² limit below 0.0455.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from optrr.genomics.genotypes import GENOTYPES
from optrr.mechanisms.kernel import EffectKernel
from optrr_solvers.arrays import FloatArray

# p-values of the χ² limit above this are kept (two standard deviations, as in :mod:`optrr.models.tests.calibration`).
KEPT = 0.0455
# Chances of alleles and cases are kept this far from 0 and 1.
_LEAST = 1e-9
_STEPS = 60
# Relative to s: the tail is then exact to more digits than the approximation.
_SOLVED = 1e-9


def tail_of_sum(  # noqa: PLR0913 (one argument for each letter of the formulas)
    score: float,
    variance: float,
    fitted: tuple[FloatArray, FloatArray, FloatArray],
    copies: FloatArray,
    kernel: EffectKernel,
    single: NDArray[np.bool_] | None = None,
    missing: float = 0.0,
) -> float:
    """The p-value of one variant; NaN where there is no saddlepoint.

    ``fitted`` are a, b and h, (n,) each, of people who are counted; ``single`` says who has one copy; ``missing`` is the chance
    of a missing call where the kernel randomizes these. O(n) time for each of some twenty steps.
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
    """ũ of each report of each person, and its chance, (n, reports) both."""
    (a, b, own), rows = fitted, kernel.sizes[0]
    f = np.clip(a / copies[-1], _LEAST, 1 - _LEAST)
    q = np.stack([(1 - f) ** 2, 2 * f * (1 - f), f**2], axis=1)
    if single is not None:
        q[single] = np.stack([1 - f, np.zeros_like(f), f], axis=1)[single]
    true = np.zeros((f.size, rows, 2))
    true[:, :GENOTYPES] = (1 - missing) * q[:, :, None]
    if rows > GENOTYPES:
        true[:, GENOTYPES] = missing
    chance = np.clip(b, _LEAST, 1 - _LEAST)
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
    """Pr(Σ ≥ target); 0 where no reports reach it."""
    if target >= float(np.max(np.where(law > 0, values, -np.inf), axis=1).sum()):
        return 0.0
    t, low, high = target / spread, 0.0, np.inf
    for _ in range(_STEPS):
        peak = t * values.max(axis=1, keepdims=True)
        tilted = law * np.exp(t * values - peak)
        total = tilted.sum(axis=1, keepdims=True)
        tilted /= total
        mean = np.sum(tilted * values, axis=1)
        slope = float(mean.sum())
        bend = float(np.sum(tilted * (values - mean[:, None]) ** 2))
        if abs(slope - target) <= _SOLVED * target:
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
    # Φ̄(r) + φ(r)(1/v − 1/r) = φ(r) (Mills(r) + 1/v − 1/r): p may be below 1e-300
    log_density = -exponent - 0.5 * np.log(2 * np.pi)
    bracket = np.exp(log_ndtr(-r) - log_density) + 1 / v - 1 / r
    return float(np.exp(log_density) * bracket) if bracket > 0 else float("nan")
