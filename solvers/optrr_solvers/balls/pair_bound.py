"""The lower bound with pair multipliers of rank one: raised on a sample of change sets, then rounded (theory §3.6).

With v_ij = a_i a_j the dual function depends on two totals of the change set, so its bound can be certified
(:mod:`optrr_solvers.certificates.rank_one`). Which (w, a) to certify is found here:

    maximise (−E_μ h) / E_μ[h⁺],   h = Σ w_i (f_i − 1_i) + Σ_{i<j} a_i a_j (χ_i χ_j − κ λ_i λ_j),

with E_μ[h⁺] estimated from change sets drawn under several tilts around f, weighted by their probability under μ. The estimate
only steers; what is certified is computed anew, from the whole numbers nearest to the multipliers.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from optrr_solvers.arrays import FloatArray
from optrr_solvers.balls.moments import Classes
from optrr_solvers.certificates.certificate import EFFECT_LIMIT, Certificate
from optrr_solvers.laws.count import log_uniform_counts
from optrr_solvers.problem import Problem

# Change sets are sampled at these shifts of ln(odds of change) from those at f.
_SHIFTS = (-1.5, -0.6, 0.0, 0.0, 0.4)
# With at most this many vectors of counts, of at most this many classes, all of them are taken instead of a sample.
_FEW_CELLS, _MOST_COUNTED = 1 << 15, 16
# The first is how many numbers are held, change sets times classes: 32 MB for each of a few tables. The others are the most
# and the fewest change sets; with too few of them an ascent fits the draws instead of μ.
_NUMBERS, _MOST_DRAWS, _LEAST_DRAWS = 1 << 22, 60_000, 10_000
_SEED = 20_140_901


@dataclass(frozen=True, eq=False)
class RankOnePoint:
    """Rank-one multipliers by class with the estimated bound in nats.

    w of accuracies in nats, a of pairs (v = a_i a_j), shape (G,).
    """

    w: FloatArray
    a: FloatArray
    bound: float


class SampledDual:
    """Estimate of E_μ[h⁺] from flip patterns.

    All of them if they are few, else a sample, with a second sample for validation.
    """

    def __init__(self, classes: Classes, kappa: float, allowed: FloatArray) -> None:
        """Draw the samples.

        ``allowed`` is 1 for classes whose pairs, also inside, are all preserved, else 0.
        """
        self._classes, self.allowed = classes, allowed
        if classes.counts.size <= _MOST_COUNTED and math.prod(int(n) + 1 for n in classes.counts) <= _FEW_CELLS:
            shape = [int(n) + 1 for n in classes.counts]
            k = np.indices(shape).reshape(len(shape), -1).T.astype(np.float64)
            logs = log_uniform_counts(classes.problem.sizes, classes.members).ravel()
            self._drawn = self._apart = _Sample(classes, kappa, k, logs)
            return
        rng = np.random.default_rng(_SEED)
        draws = int(min(_MOST_DRAWS, max(_LEAST_DRAWS, _NUMBERS // classes.counts.size)))
        self._drawn, self._apart = (_Sample(classes, kappa, *_draws(classes, draws, rng)) for _ in range(2))

    def ascend(self, w: FloatArray, a: FloatArray, steps: int) -> RankOnePoint:
        """Find a local maximum from (w, a), both in nats.

        Its bound is estimated on the validation sample.
        """
        size = w.size
        top = self._drawn.log_mass_inside(w, a)
        if not math.isfinite(top):
            return RankOnePoint(w, a * 0, 0.0)
        unit = np.concatenate([np.maximum(x, 0.05 * max(float(np.mean(x)), 1e-6)) for x in (w, a)])

        def objective(x: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = self._drawn.log_ratio(top, x[:size] * unit[:size], x[size:] * unit[size:])
            return value, gradient * unit

        start = np.concatenate([w, a]) / unit
        bounds = [(0.0, None)] * size + [(0.0, None if ok else 0.0) for ok in self.allowed]
        optimum = minimize(
            objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps, "maxcor": 20}
        )
        w, a = optimum.x[:size] * unit[:size], optimum.x[size:] * unit[size:]
        return RankOnePoint(w, a, float(np.logaddexp(0.0, -self._apart.log_ratio(top, w, a)[0] - top)))


def _draws(classes: Classes, draws: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw counts of changes per class from a mixture of product distributions.

    Returned with ln of their weights under μ.
    """
    odds, n = classes.log_odds - classes.epsilons, classes.counts.astype(np.int64)
    chances = [np.minimum(expit(odds + x), classes.d) for x in _SHIFTS]
    k = np.concatenate([rng.binomial(n, p, (draws // len(_SHIFTS), n.size)) for p in chances]).astype(np.float64)
    logs = [k @ (np.log(p) - np.log(classes.d)) + (n - k) @ (np.log1p(-p) - np.log1p(-classes.d)) for p in chances]
    return k, -logsumexp(logs, axis=0) + math.log(len(logs)) - math.log(k.shape[0])


class _Sample:
    """Counts of changes per class, shape (N, G), with log weights, shape (N,)."""

    def __init__(self, classes: Classes, kappa: float, k: FloatArray, log_weights: FloatArray) -> None:
        self._c, self._kappa, self._k, self._log_weights = classes, kappa, k, log_weights
        self._n, self._lam = classes.counts, classes.gaps / classes.d
        # Σ χ and Σ χ² over the members of a class
        r = np.exp(classes.log_odds) + 1
        self._chi = self._n - k / classes.d
        self._squares = (self._n - k) + k / (r - 1) ** 2

    def log_mass_inside(self, w: FloatArray, a: FloatArray) -> float:
        """Compute ln Pr(h > 0), −∞ if no flip pattern is inside."""
        inside = self._log_weights[self._dual(w, a)[0] > 0]
        return float(logsumexp(inside)) if inside.size else -math.inf

    def _dual(self, w: FloatArray, a: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Compute H and Σ a χ at every draw, and the pairs' part of −E_μ h."""
        y = self._chi @ a
        kept = 0.5 * self._kappa * (float((self._n * a) @ self._lam) ** 2 - float((self._n * a**2) @ self._lam**2))
        h = float((self._n * w) @ self._c.f) - self._k @ w + 0.5 * (y**2 - self._squares @ a**2) - kept
        return h, y, kept

    def log_ratio(self, top: float, w: FloatArray, a: FloatArray) -> tuple[float, FloatArray]:
        """Compute ln E_μ[h⁺] − ln(−E_μ h) − ``top`` and its gradient."""
        h, y, kept = self._dual(w, a)
        inside = h > 0
        m, n, lam = np.exp(np.minimum(self._log_weights[inside] - top, 600.0)), self._n, self._lam
        value = float(m @ h[inside])
        gain = float((n * w) @ self._c.gaps) + kept
        if not (value > 0 and gain > 0):
            return 1e6, np.zeros(2 * w.size)
        total = float(m.sum())
        slope_kept = self._kappa * (n * lam * float((n * a) @ lam) - n * a * lam**2)
        by_w = total * n * self._c.f - m @ self._k[inside]
        by_a = (m * y[inside]) @ self._chi[inside] - a * (m @ self._squares[inside]) - total * slope_kept
        gradient = np.concatenate([by_w / value - n * self._c.gaps / gain, by_a / value - slope_kept / gain])
        return math.log(value) - math.log(gain), gradient


# Limits of one bound: attributes times pairs of totals (a few seconds), and pairs of totals.
_WORK, _CELLS = 1 << 30, 1 << 22
# Where few attributes change, rounding costs more than its variance suggests, so that finer grids are tried as well; then
# coarser ones until one fits.
_FINER, _COARSER = (1.0, 5.0), 40
# Rounding the multipliers may cost this much, relative to the total.
_COST = 2e-4
# Effects that together move less than this many nats are taken to be absent.
_FAINT = 1e-6


def clique(problem: Problem, classes: Classes) -> FloatArray:
    """Find classes among which every pair is preserved, 1 or 0 each, shape (G,).

    The set is grown greedily.
    """
    groups = classes.counts.size
    where = problem.classes.numbers
    pairs = np.sort(where[np.asarray(problem.pairs)], axis=1)
    named = np.zeros((groups, groups))
    np.add.at(named, (pairs[:, 0], pairs[:, 1]), 1)
    all_of = np.outer(classes.counts, classes.counts)
    all_of[np.diag_indices_from(all_of)] = classes.counts * (classes.counts - 1) / 2
    complete = named + np.triu(named, 1).T >= all_of
    out = np.zeros(groups, dtype=bool)
    for g in np.argsort(-complete.sum(axis=0), kind="stable"):
        if complete[g, g] and np.all(complete[g, out]):
            out[g] = True
    return out.astype(np.float64) if out.sum() > 1 or classes.counts[out].sum() > 1 else np.zeros(groups)


def rounded(problem: Problem, classes: Classes, point: RankOnePoint) -> list[Certificate]:
    """Build certificates at integers near (w, a), on coarse and fine grids.

    None if the effects are too small to matter.
    """
    b = point.a / classes.d
    shift = float(classes.counts @ (b * classes.gaps))
    if shift * float(b.max()) < _FAINT:
        return []
    # grid points a nat, so that rounding costs its share of the total where many attributes change
    changed = max(float(classes.counts @ classes.f), 1.0)
    scale = math.sqrt(changed / (12 * _COST * max(point.bound, 1.0)))
    certificates = [_at_scale(problem, classes, point, scale * finer) for finer in _FINER]
    return [x for x in certificates if x is not None]


def _at_scale(problem: Problem, classes: Classes, point: RankOnePoint, scale: float) -> Certificate | None:
    """Build a certificate with ``scale`` grid points per nat, if work allows."""
    b, r = point.a / classes.d, problem.sizes[problem.classes.first].astype(np.float64)
    shift = float(classes.counts @ (b * classes.gaps))
    m = float(classes.counts.sum())
    for _ in range(_COARSER):
        unit = max(1, round(scale * shift**2))
        effects = np.round(b * math.sqrt(unit * scale))
        least = np.ceil(-(effects**2) * (1 - 2 / r) / (2 * unit) + 1e-9)
        totals = np.maximum(np.round(scale * (point.w - 0.5 * b**2 * (1 - 2 / r))), least)
        cells = (float(classes.counts @ np.abs(totals)) + 1) * (float(classes.counts @ effects) + 1)
        allowed = min(_CELLS, _WORK / m)
        if cells <= allowed:
            break
        scale *= min(0.95, math.sqrt(allowed / cells))
    fits = cells <= allowed and max(float(np.abs(totals).max()), float(unit)) < EFFECT_LIMIT
    if not fits or not effects.any():
        return None
    return Certificate(
        problem.classes, tuple(int(u) for u in totals), effects=tuple(int(x) for x in effects), unit=unit,
    )  # fmt: skip
