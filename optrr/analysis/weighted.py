"""Independence of two attributes in a population, from a weighted, stratified or clustered sample of randomized records.

With the unbiased weighted proportions π̂ of the table, r̂ and ĉ its margins, the hypothesis is δ_ij = π_ij − r_i c_j =
0 for all i, j but the last. δ̂ is linear in the reports to first order: a report counts G_v = J (P⁻¹)_v, J the
derivative of δ at π̂. With V the linearised covariance of the weighted reports
(:mod:`optrr.analysis.weighting.linearised`) the covariance of δ̂ is S = G V Gᵀ, and with

    X² = δ̂ᵀ D⁻¹ δ̂,       D = G (diag λ − λ λᵀ) Gᵀ,       λ = what r̂ ĉᵀ leads to expect of the reports,

which is Pearson's statistic over n where nothing is randomized, X² is distributed as Σ ρ_k χ²_1, ρ the eigenvalues of D⁻¹ S.
Its first two moments are those of a multiple of χ² with d = (Σρ)²/Σρ² degrees of freedom, and S is estimated from ν of them:

    F = X²/Σρ  ~  F(d, ν d).

S is that of the hypothesis. The sample's own variance G V Gᵀ is too small just where a cell happens to have few reports: with
one that expects 5, it was measured to reject 8 % at level 5 % and 2 % at 0.1 %. So with T(q, λ) = G_λ (diag q) G_λᵀ, where
G_λ = G − G λ 1ᵀ, the covariance of records as if each was a cluster, q_v = Σ_{i: v_i = v} w_i²/W² and q⁰_v = λ_v q_v/λ̂_v,

    S = T(q⁰, λ)^½ T(q, λ̂)^−½ (G V Gᵀ) T(q, λ̂)^−½ T(q⁰, λ)^½,

with symmetric roots where D = 1: what strata and clusters do to a variance is the sample's, and how often each report occurs is
the hypothesis's. Both tend to the same where the hypothesis holds.

Sources: Rao and Scott, Ann. Stat. 12 (1984), 46–60, the second-order correction; Thomas and Rao, J. Am. Stat. Assoc. 82 (1987),
630–636, for F; R's ``survey::svychisq`` prints F of G V Gᵀ without randomization, and another ν, which is Satterthwaite's here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from optrr.analysis.collapsed import collapse_example
from optrr.analysis.weighting.linearised import Clusters, Single, WeightedReports, sample_warnings
from optrr.analysis.weighting.sampled import SampledRecords, sample_of
from optrr.core.display import category_word, crossed
from optrr.core.domain import PublicColumns
from optrr.core.errors import InvalidInput, TooFewRecords
from optrr.core.estimation import CLEAR_OF_ZERO, clear_with
from optrr.core.inference import TestResult
from optrr.core.mechanisms import Kernel, Randomizer
from optrr_solvers.arrays import FloatArray

# Shares that λ is made of are at least this: D weights the statistic, whose level does not depend on it.
_LEAST = 1e-6
# Variances below this part of the largest are rounding: nothing is divided by less.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class RaoScott:
    """Rao-Scott tests of B samples.

    F, its degrees of freedom, δ̂ of the first cell, λ of the rarest report, and every category's proportion.

    ``ratios`` (B, R + c) are those proportions in standard errors, first those of the rows.
    """

    statistic: FloatArray
    upper: FloatArray
    lower: FloatArray
    first: FloatArray
    rarest: FloatArray
    ratios: FloatArray

    @property
    def clear(self) -> NDArray[np.bool_]:
        """Whether every category's proportion is clear of 0, (B,)."""
        return np.asarray(np.all(self.ratios >= CLEAR_OF_ZERO, axis=1))


def rao_scott(
    kernel: Kernel, shares: FloatArray, covariance: FloatArray, squares: FloatArray, degrees: FloatArray
) -> RaoScott:
    """Test weighted reports of a table of two attributes.

    For B samples and a table of R × c cells.

    ``shares`` (B, R c) are λ̂ of the reports and ``covariance`` (B, R c, R c) is their V, of ``degrees`` of freedom ν (B,).
    ``squares`` (B, R c) are q, the squared weights of each report's records over the square of all weights.
    """
    shape = (len(shares), *kernel.sizes)
    table = kernel.solve(shares.reshape(shape))
    rows, columns = table.sum(axis=2), table.sum(axis=1)
    apart = (table - rows[:, :, None] * columns[:, None, :])[:, :-1, :-1].reshape(len(shares), -1)
    counted = _counted(kernel, rows, columns)
    expected = _expected(kernel, rows, columns).reshape(shares.shape)
    whitened = root(independent_records(counted, expected, expected), -0.5)
    counted = whitened @ counted
    ratio = under_hypothesis(
        counted @ covariance @ counted.transpose(0, 2, 1),
        independent_records(counted, squares, shares),
        independent_records(counted, expected_squares(squares, shares, expected), expected),
    )
    first, second = np.einsum("bdd->b", ratio), np.einsum("bde,bed->b", ratio, ratio)
    squared = np.sum((whitened @ apart[:, :, None])[:, :, 0] ** 2, axis=1)
    upper = first**2 / second
    ratios = _ratios(kernel, rows, columns, covariance)
    return RaoScott(squared / first, upper, degrees * upper, apart[:, 0], expected.min(axis=1), ratios)


def _expected(kernel: Kernel, rows: FloatArray, columns: FloatArray) -> FloatArray:
    """Compute expected reports λ under independence, (B, R, c)."""
    proper = [np.maximum(margin, _LEAST) for margin in (rows, columns)]
    rows, columns = (margin / margin.sum(axis=1, keepdims=True) for margin in proper)
    return kernel.expected(rows[:, :, None] * columns[:, None, :])


def expected_squares(squares: FloatArray, shares: FloatArray, expected: FloatArray) -> FloatArray:
    """Compute q⁰, each report's mean squared weight.

    Each report gets one more record of average weight, so that none must be observed.
    """
    whole = squares.sum(axis=1, keepdims=True)
    return np.asarray(expected * (squares + whole**2) / (shares + whole))


def independent_records(counted: FloatArray, squares: FloatArray, shares: FloatArray) -> FloatArray:
    """Compute T, the covariance under independent records, (B, d, d).

    ``squares`` are the squared weights.
    """
    centred = counted - (counted @ shares[:, :, None])
    return np.asarray((centred * squares[:, None, :]) @ centred.transpose(0, 2, 1))


def under_hypothesis(spread: FloatArray, observed: FloatArray, hypothesis: FloatArray) -> FloatArray:
    """Transform the sample's S to the hypothesis by symmetric roots of T.

    The order of cells then does not matter.
    """
    moved = root(hypothesis, 0.5) @ root(observed, -0.5)
    return np.asarray(moved @ spread @ moved.transpose(0, 2, 1))


def root(matrices: FloatArray, power: float) -> FloatArray:
    """Compute a power of symmetric matrices (B, d, d)."""
    values, vectors = np.linalg.eigh(matrices)
    values = np.maximum(values, _ROUNDING * values[:, -1:])
    return np.asarray((vectors * values[:, None, :] ** power) @ vectors.transpose(0, 2, 1))


def _counted(kernel: Kernel, rows: FloatArray, columns: FloatArray) -> FloatArray:
    """Compute G, the influence of each report on the differences of cells.

    All cells but the last row and column: (B, d, R c).
    """
    r, c = kernel.sizes
    cell = np.eye(r * c).reshape(r, c, r, c)
    in_row, in_column = np.eye(r)[:, None, :, None], np.eye(c)[None, :, None, :]
    moved = cell - in_row * columns[:, None, :, None, None] - in_column * rows[:, :, None, None, None]
    return np.asarray(kernel.solve_adjoint(moved[:, :-1, :-1].reshape(-1, r, c)).reshape(len(rows), -1, r * c))


def _ratios(kernel: Kernel, rows: FloatArray, columns: FloatArray, covariance: FloatArray) -> FloatArray:
    """Compute every category's proportion in standard errors, (B, R + c)."""
    r, c = kernel.sizes
    sums = [np.broadcast_to(np.eye(r)[:, :, None], (r, r, c)), np.broadcast_to(np.eye(c)[:, None, :], (c, r, c))]
    counted = kernel.solve_adjoint(np.concatenate(sums)).reshape(r + c, -1)
    variances = np.einsum("mv,bvw,mw->bm", counted, covariance, counted, optimize=True)
    errors = np.sqrt(np.maximum(variances, _LEAST**2))
    return np.asarray(np.concatenate([rows, columns], axis=1) / errors)


# Where fewer records of equal weight would show some report, or a variance has fewer degrees of freedom, the far tail of F may
# be too heavy: benchmarks/weighted_levels.py.
FEWEST_EXPECTED, FEWEST_DEGREES = 20.0, 30.0
MEASURED = (
    "p-values of samples as small as this one were measured to reject 3 to 6 % of the time at level 5 %, and 0.01 to 0.2 % of "
    "the time at level 0.1 %"
)


def test_weighted(  # noqa: PLR0913 (public: each argument is one choice of the user)
    data: Any,
    mechanism: Randomizer,
    attributes: Iterable[str],
    *,
    weights: str | None = None,
    strata: str | None = None,
    clusters: str | None = None,
    lonely_psu: Single = "refuse",
) -> TestResult:
    """Test independence of two attributes in the population of a sample.

    Pearson's test with Rao and Scott's second-order correction (:mod:`optrr.analysis.weighted`). ``statistic`` is F
    times the degrees of freedom of a sample of equal weights, to be compared with χ²; ``p_value`` is that of F.

    Parameters
    ----------
    data, mechanism, weights, strata, clusters, lonely_psu
        as :func:`optrr.analysis.estimate_weighted` takes them.
    attributes
        two.

    Raises
    ------
    InvalidInput
        for other than two attributes, a category not clear of 0, and the errors of an estimate.
        SingularMarginal if the mechanism hides an effect of the table.
    """
    columns = PublicColumns(weights, strata, clusters)
    return tested_sample(sample_of(data, mechanism, attributes, columns), mechanism, columns, lonely_psu)


test_weighted.__test__ = False  # type: ignore[attr-defined]  # tells pytest that this is no test


def tested_sample(
    sample: SampledRecords, mechanism: Randomizer, columns: PublicColumns, lonely_psu: Single = "refuse"
) -> TestResult:
    """Test records that are already read; ``columns`` are their public columns."""
    if len(sample.domain) != 2:
        raise InvalidInput(
            f"a test of independence of sampled records takes two attributes, not {crossed(sample.domain.names)}"
        )
    kernel = mechanism.kernel(sample.domain.names)
    kernel.check_invertible()
    clusters = Clusters.of(sample.strata, lonely_psu)
    rows = np.flatnonzero(sample.weights > 0)
    reports = WeightedReports.of(sample, clusters, rows, kernel.cells)
    reports.check_enough()
    tested = rao_scott(
        kernel,
        reports.shares[None],
        reports.covariance[None],
        reports.squares[None],
        np.array([reports.degrees]),
    )
    if not tested.clear[0]:
        raise TooFewRecords(_hidden(sample, tested.ratios[0]))
    df = (kernel.sizes[0] - 1) * (kernel.sizes[1] - 1)
    statistic = df * float(tested.statistic[0])
    p = float(fdtrc(tested.upper[0], tested.lower[0], tested.statistic[0]))
    few = is_rough(float(tested.rarest[0]) * reports.kish, reports.degrees)
    return TestResult(
        test="independence",
        statistic=statistic,
        df=df,
        p_value=p,
        n=reports.n,
        effect=float(np.sign(tested.first[0])) * sqrt(statistic) if df == 1 else None,
        calibration="rao-scott",
        warnings=(*([MEASURED] if few else []), *sample_warnings(columns, lonely_psu, clusters)),
    )


def _hidden(sample: SampledRecords, ratios: FloatArray) -> str:
    """Explain which category's proportion is not distinguishable from 0.

    States the number of records that would suffice.
    """
    where = [(attribute, text) for attribute in sample.domain for text in attribute.texts]
    rarest = int(np.argmin(ratios))
    attribute, category = where[rarest]
    ratio = float(ratios[rarest])
    # rounded down, so that a value below the threshold is not shown as the threshold
    errors = f"only {floor(10 * ratio) / 10:.1f} standard errors above 0" if ratio > 0 else "not above 0"
    example = collapse_example(attribute, category)
    remedy = f"collapse categories, as in {example}; else " if example else ""
    return (
        f"{attribute.name} = {category_word(category)} is {errors}, and the test of a weighted sample needs "
        f"{CLEAR_OF_ZERO:g}; {remedy}{clear_with(sample.weights.size, ratio)}"
    )


def is_rough(expected: float, degrees: float) -> bool:
    """Check whether effective records or degrees of freedom are too few.

    The level of the test may then differ.
    """
    return expected < FEWEST_EXPECTED or degrees < FEWEST_DEGREES
