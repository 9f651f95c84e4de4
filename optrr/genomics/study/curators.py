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
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from optrr.core.errors import InvalidInput
from optrr.core.estimation.distributions import chi_squared_tails
from optrr.core.mechanisms.kernel import unrandomized
from optrr.genomics.genotypes import GENOTYPES, Codes
from optrr.genomics.layout import Layout, genomic_domain, layout_of
from optrr.genomics.odds import REACH, OddsRatios, odds_ratios
from optrr.genomics.score_tests import Scores, noncentralities, score_test
from optrr.genomics.study.ways import DELTA, Seen, StudiedWay, record_tables
from optrr_solvers.arrays import FloatArray, IntArray

_COPIES, _STATUS = np.arange(float(GENOTYPES))[:, None], np.array([[0.0, 1.0]])
# Nodes of the integral that inverts a law, and how many of its steps reach to the nearest end of the strip where it converges:
# the error of the trapezoidal rule is then e^(−2π · 3).
_NODES, _STEPS = 2000, 3.0
# Variants whose tails are worked out at once.
_AT_ONCE = 512
# Noise is larger by this than the root that is found, whose relative error is some 10⁻¹².
_ROUND_UP = 1 + 1e-9


def other_trust(method: str, names: NDArray[np.object_], total: float, missing: bool, test: str) -> StudiedWay:
    """The way of that name of CURATED.

    Raises InvalidInput for tests other than the trend test, and for missing calls as a category, of tables with noise.
    """
    layout = layout_of(genomic_domain([str(n) for n in names], missing=missing))
    v = layout.variants
    if method == "unrandomized":
        return TrueRecords(method, math.inf, v, layout)
    if test != "trend":
        raise InvalidInput(f"tables with noise have no {test} test here; leave them out, or --test trend")
    if missing:
        raise InvalidInput("tables with noise have no category for missing calls; leave them out instead")
    scale = 2 * v / total if method == "laplace" else math.sqrt(2 * v) * gaussian_deviation(total, DELTA)
    return NoisyTables(method, total, v, layout, scale)


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


@dataclass(frozen=True, eq=False)
class TrueRecords(StudiedWay):
    """The ordinary scan of true records."""

    layout: Layout

    def labels(self) -> dict[str, float]:
        """None."""
        return {}

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
class NoisyTables(StudiedWay):
    """Tables of all variants with noise in each cell: ``scale`` is Laplace's b, or the standard deviation of Gaussian noise."""

    layout: Layout
    scale: float

    @property
    def noise(self) -> float:
        """Variance of the noise of a cell."""
        return (2 if self.name == "laplace" else 1) * self.scale**2

    def noisy(self, tables: NDArray[np.number], generator: np.random.Generator) -> FloatArray:
        """True tables with noise, of the same shape."""
        draw = generator.laplace if self.name == "laplace" else generator.normal
        return np.asarray(tables + draw(0.0, self.scale, tables.shape))

    def labels(self) -> dict[str, float]:
        """None: no attribute is randomized by itself."""
        return {}

    def seen(self, records: Codes, test: str, generator: np.random.Generator) -> Seen:
        """As :class:`StudiedWay`."""
        true = record_tables(records, self.layout)
        n = np.maximum(true.sum(axis=(1, 2)), 1).astype(np.float64)
        tables = self.noisy(true, generator)
        u, plain, weights = _trend(tables, n)
        added = self.noise * np.sum(weights**2, axis=(1, 2))
        statistic = u * u / (plain + added)
        if self.name == "laplace":
            p_value = noisy_tails(np.abs(u), plain, self.scale * weights.reshape(n.size, -1))
        else:
            p_value = chi_squared_tails(statistic, 1)
        one, everything = np.ones(n.size, dtype=np.int64), np.arange(n.size)
        scores = Scores(statistic, one, p_value, tables.min(axis=(1, 2)), None, everything, n)
        estimate = np.clip((u * u - added) / plain, 0.0, n)
        return Seen(scores, None, estimate, lambda which: _noisy_odds(tables[which], n[which], self.noise))

    def expected(self, tables: NDArray[np.number], which: IntArray, test: str) -> FloatArray:
        """As :class:`StudiedWay`."""
        n = tables.sum(axis=(1, 2))
        u, plain, weights = _trend(tables, n)
        return np.asarray(u * u / (plain + self.noise * np.sum(weights**2, axis=(1, 2))) / n)


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


def _noisy_odds(tables: FloatArray, n: FloatArray, noise: float) -> OddsRatios:
    """Odds ratios of A1 with Fieller's intervals: covariances of the people by the table, of the noise exactly."""
    a1, a2 = np.sum(_COPIES * tables, axis=1), np.sum((2 - _COPIES) * tables, axis=1)
    up, down = _COPIES[None], 2 - _COPIES[None]
    case, control = _STATUS[None], 1 - _STATUS[None]
    x_slope = case * up * a2[:, None, None, 0] + control * down * a1[:, None, None, 1]
    y_slope = control * up * a2[:, None, None, 1] + case * down * a1[:, None, None, 0]
    shares = np.maximum(tables, 0.0)
    pairs = ((x_slope, x_slope), (x_slope, y_slope), (y_slope, y_slope))

    def mean(of: FloatArray) -> FloatArray:
        return np.asarray(np.sum(of * shares, axis=(1, 2)))

    covariance = np.array([mean(a * b) - mean(a) * mean(b) / n + noise * np.sum(a * b, axis=(1, 2)) for a, b in pairs])
    both = np.stack([a2, a1], axis=1)
    return _fieller(a1[:, 1] * a2[:, 0], a1[:, 0] * a2[:, 1], covariance, both)


def _fieller(x: FloatArray, y: FloatArray, covariance: FloatArray, table: FloatArray) -> OddsRatios:
    """Odds ratio x/y, and all ψ ≥ 0 with (x − ψ y)² ≤ 1.96² Var(x − ψ y), a quadratic c_2 ψ² − 2 c_1 ψ + c_0 ≤ 0.

    ``covariance``: Var x, Cov(x, y), Var y, (3, V); ``table``: A2 and A1 by status, for the frequencies, (V, 2, 2).
    """
    c_0, c_1, c_2 = (u - REACH**2 * v for u, v in zip((x * x, x * y, y * y), covariance, strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(c_1**2 - c_0 * c_2)
        # where y is clearly not 0 the set lies between the roots; otherwise it is everything above the upper root, or
        # everything from 0 on if it contains 0
        low = np.where(c_2 > 0, (c_1 - root) / c_2, np.where(c_0 > 0, c_0 / (c_1 + root), 0.0))
        high = np.where(c_2 > 0, (c_1 + root) / c_2, np.inf)
        ratio = np.maximum(x, 0.0) / np.maximum(y, 0.0)
        frequency = table[:, 1] / table.sum(axis=1)
    # where no ψ of at least 0 is in the set, noise has moved the estimate outside of what tables can be: the interval is
    # everything
    low, high = np.where(low >= 0, low, 0.0), np.where(high > 0, high, np.inf)
    return OddsRatios(np.clip(ratio, low, high), low, high, frequency[:, 1], frequency[:, 0])
