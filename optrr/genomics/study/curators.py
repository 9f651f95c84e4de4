"""Studies under another trust than the local one, labelled as such: a curator who holds everybody's true records.

    laplace       every cell of every variant's table with Laplace noise: ε-DP of all tables together
    gaussian      the same with Gaussian noise: (ε, 10⁻⁶)-DP (Balle & Wang 2018, analytic calibration)
    unrandomized  the ordinary scan, which protects nobody

Neighbours are cohorts in which one person has another record, the unit that local ε protects too; how many people there are,
and how many calls each variant has, is public. One record moves two cells of each of the V tables by 1: the sensitivity is 2V
in ℓ₁ and √(2V) in ℓ₂. With T the noisy table of n people, φ the share of cases over all tables, ḡ and v mean and variance of
the copies,

    U = Σ c_gs T_gs,   c_gs = (g − ḡ)(s − φ),      Var U = n φ (1 − φ) v + σ² Σ c_gs²,

σ² the variance of the noise of a cell. U² over its variance is the statistic. Its p-value is that of a normal number to which
the noise is added, weighted by c: exact for the noise, and as good as the χ² limit for the people.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from optrr.core.errors import InvalidInput
from optrr.core.estimation import chi_squared_tails
from optrr.core.mechanisms import unrandomized
from optrr.genomics.genotypes import GENOTYPES, Codes
from optrr.genomics.layout import Layout, genomic_domain, layout_of
from optrr.genomics.odds import odds_ratios
from optrr.genomics.score_tests import Scores, noncentralities, score_test
from optrr.genomics.study.ways import Seen, StudiedPanel, StudiedWay, record_tables
from optrr_solvers.arrays import FloatArray, IntArray

DELTA = 1e-6
_COPIES, _STATUS = np.arange(float(GENOTYPES))[:, None], np.array([[0.0, 1.0]])
# Nodes of the integral that inverts a law, and how many of its steps reach to the nearest end of the strip where it converges:
# the error of the trapezoidal rule is then e^(−2π · 3).
_NODES, _STEPS = 2000, 3.0
# Variants whose tails are worked out at once.
_AT_ONCE = 512
# Noise is larger by this than the root that is found, whose relative error is some 10⁻¹².
_ROUND_UP = 1 + 1e-9


@dataclass(frozen=True, eq=False)
class TrueRecords(StudiedWay):
    """The ordinary scan of true records."""

    layout: Layout

    trust = "no privacy"

    def seen(self, records: Codes, test: str, generator: np.random.Generator) -> Seen:
        """As :class:`StudiedWay`."""
        tables = record_tables(records, self.layout)
        plain = unrandomized(tables.shape[1:])
        scores = score_test(tables, plain, test)
        return Seen(scores, None, scores.statistic, lambda which: odds_ratios(tables[which], plain))

    def expected(self, tables: NDArray[np.number], which: IntArray, test: str) -> FloatArray:
        """As :class:`StudiedWay`."""
        return noncentralities(tables, unrandomized(tables.shape[1:]), test)


@dataclass(frozen=True, eq=False)
class GaussianTables(StudiedWay):
    """Tables of all variants with Gaussian noise of standard deviation ``scale`` in each cell; odds ratios are left out."""

    layout: Layout
    scale: float

    trust = f"trusted curator, (ε, {DELTA:g})-DP"

    @property
    def noise(self) -> float:
        """Variance of the noise of a cell."""
        return self.scale**2

    def noisy(self, tables: NDArray[np.number], generator: np.random.Generator) -> FloatArray:
        """True tables with noise, of the same shape."""
        return np.asarray(tables + generator.normal(0.0, self.scale, tables.shape))

    def p_values(self, u: FloatArray, plain: FloatArray, weights: FloatArray) -> FloatArray:
        """Of U, where it has the variance ``plain`` without noise, (V,)."""
        return chi_squared_tails(u * u / (plain + self.noise * np.sum(weights**2, axis=(1, 2))), 1)

    def seen(self, records: Codes, test: str, generator: np.random.Generator) -> Seen:
        """As :class:`StudiedWay`."""
        true = record_tables(records, self.layout)
        n = np.maximum(true.sum(axis=(1, 2)), 1).astype(np.float64)
        tables = self.noisy(true, generator)
        u, plain, weights = _trend(tables, n)
        added = self.noise * np.sum(weights**2, axis=(1, 2))
        scores = Scores.of_one(
            u * u / (plain + added), self.p_values(u, plain, weights), tables.min(axis=(1, 2)), np.arange(n.size), n
        )
        return Seen(scores, None, np.clip((u * u - added) / plain, 0.0, n), None)

    def expected(self, tables: NDArray[np.number], which: IntArray, test: str) -> FloatArray:
        """As :class:`StudiedWay`."""
        n = tables.sum(axis=(1, 2))
        u, plain, weights = _trend(tables, n)
        return np.asarray(u * u / (plain + self.noise * np.sum(weights**2, axis=(1, 2))) / n)


@dataclass(frozen=True, eq=False)
class LaplaceTables(GaussianTables):
    """The same with Laplace noise of this ``scale``."""

    trust = "trusted curator, ε-DP"

    @property
    def noise(self) -> float:
        """Variance of the noise of a cell."""
        return 2 * self.scale**2

    def noisy(self, tables: NDArray[np.number], generator: np.random.Generator) -> FloatArray:
        """True tables with noise, of the same shape."""
        return np.asarray(tables + generator.laplace(0.0, self.scale, tables.shape))

    def p_values(self, u: FloatArray, plain: FloatArray, weights: FloatArray) -> FloatArray:
        """Exact for the noise."""
        return noisy_tails(np.abs(u), plain, self.scale * weights.reshape(u.size, -1))


def gaussian_deviation(epsilon: float, delta: float) -> float:
    """The least standard deviation of Gaussian noise that is (ε, δ)-DP at ℓ₂ sensitivity 1 (Balle & Wang 2018, theorem 8).

    Rounded up by 10⁻⁹ of itself, so that no error of the search or of rounding takes δ above what is asked.
    """

    def excess(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        a, b = 1 / (2 * sigma), epsilon * sigma
        # e^ε Φ(−a − b), which overflows where ε is large unless taken together
        return float(ndtr(a - b) - math.exp(epsilon + float(log_ndtr(-a - b))) - delta)

    # at 1/ε · 10 ln(1/δ) far more than enough, at a thousandth of 1/ε far too little
    most = math.log(10 * math.log(2 / delta) / min(epsilon, 1.0))
    return _ROUND_UP * math.exp(brentq(excess, math.log(1e-3 / epsilon), most))


def _trend(tables: NDArray[np.number], n: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """U, its variance without noise, (V,), and c, (V, 3, 2); what noise takes outside of what can be is brought back."""
    cases = np.clip(tables[:, :, 1].sum() / n.sum(), 1 / n.max(), 1 - 1 / n.max())
    mean = np.clip(np.sum(_COPIES * tables, axis=(1, 2)) / n, 0.0, 2.0)
    away = _COPIES - mean[:, None, None]
    spread = np.clip(np.sum(away**2 * tables, axis=(1, 2)) / n, 1 / n, 1.0)
    weights = away * (_STATUS - cases)
    return np.sum(weights * tables, axis=(1, 2)), n * cases * (1 - cases) * spread, weights


def noisy_tails(distance: FloatArray, variance: FloatArray, scales: FloatArray) -> FloatArray:
    """Pr(|X| ≥ u) of X a normal number of this variance plus independent Laplace numbers; (V,), (V,), scales (V, K).

    The law is inverted along a line through about the saddle point, so that small tails are as exact as large ones:
    Pr(X ≥ u) = 1/π ∫_0^∞ Re[M(s + it) e^(−(s + it)u) / (s + it)] dt, M(z) = e^(variance z²/2) / Π (1 − a² z²), 0 < s < 1/max a.
    O(V · 2000 K).
    """
    out = np.empty(distance.size)
    for start in range(0, distance.size, _AT_ONCE):
        at = slice(start, start + _AT_ONCE)
        u, v, squares = distance[at], variance[at], scales[at] ** 2
        end = 1 / np.sqrt(np.maximum(squares.max(axis=1), np.finfo(float).tiny))
        low, high = (
            np.zeros(u.size),
            np.minimum(end, (u + np.sqrt(v + 2 * squares.sum(axis=1))) / np.maximum(v, 1e-300)),
        )
        for _ in range(60):
            s = (low + high) / 2
            slope = v * s + np.sum(2 * squares * s[:, None] / np.maximum(1 - squares * s[:, None] ** 2, 1e-300), axis=1)
            low, high = np.where(slope < u, s, low), np.where(slope < u, high, s)
        # neither at 0 nor at the end, where the integrand has poles; steps half as long as a normal law would still bear
        least = 0.5 / np.sqrt(v + 2 * squares.sum(axis=1))
        s = np.clip(low, np.minimum(least, end / 2), 0.8 * end)
        step = np.minimum(np.minimum(s, end - s) / _STEPS, least)
        z = s[:, None] + 1j * step[:, None] * (np.arange(_NODES) + 0.5)
        exponent = v[:, None] * z**2 / 2 - z * u[:, None]
        for k in range(squares.shape[1]):
            exponent -= np.log(1 - squares[:, k, None] * z**2)
        out[at] = 2 * step / math.pi * np.sum((np.exp(exponent) / z).real, axis=1)
    return np.clip(out, 0.0, 1.0)


def _layout(panel: StudiedPanel) -> Layout:
    return layout_of(genomic_domain([str(n) for n in panel.names], missing=panel.missing))


def _noisy(kind: type[GaussianTables], scale: Callable[[int, float], float]) -> Callable[[StudiedPanel], StudiedWay]:
    """Makes tables with noise of a scale by 2V and ε."""

    def made(panel: StudiedPanel) -> StudiedWay:
        if panel.test != "trend":
            raise InvalidInput(f"tables with noise have no {panel.test} test here; leave them out, or --test trend")
        if panel.missing:
            raise InvalidInput("tables with noise have no category for missing calls; leave them out instead")
        v = panel.names.size
        return kind(panel.total, v, _layout(panel), scale(2 * v, panel.total))

    return made


# Makes each way for a panel, as those of :data:`optrr.genomics.study.ways.LOCAL`.
CURATED: Mapping[str, Callable[[StudiedPanel], StudiedWay]] = {
    "laplace": _noisy(LaplaceTables, lambda moved, total: moved / total),
    "gaussian": _noisy(GaussianTables, lambda moved, total: math.sqrt(moved) * gaussian_deviation(total, DELTA)),
    "unrandomized": lambda panel: TrueRecords(math.inf, panel.names.size, _layout(panel)),
}
