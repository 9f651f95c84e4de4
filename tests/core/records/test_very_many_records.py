"""Interval ends of up to 10^15 records: their precision follows the standard error, so that no width has a floor."""

import numpy as np
import pytest
from scipy.stats import norm

from optrr import Constraints, Counts, Domain, design, estimate
from optrr.analysis.loglinear.estimating import fit_loglinear
from optrr.analysis.measures import MEASURES, measure
from optrr.analysis.regression.fitting import regress
from optrr.core.estimation.derived import derive
from optrr.core.estimation.statistics import STATISTICS
from optrr.core.estimation.table import counted_table
from optrr.genomics.odds import odds_ratios

DOMAIN = Domain.of({"a": [0, 1], "b": [0, 1, 2]})
MECHANISM = design(DOMAIN, [1.0, 1.5], constraints=Constraints(preserve="pairs")).mechanism
KERNEL = MECHANISM.kernel(("a", "b"))
TRUE = np.array([[0.10, 0.15, 0.20], [0.25, 0.17, 0.13]])
MANY = [10**6, 10**9, 10**12, 10**15]
ENDS = [MANY[0], MANY[-1]]


def expected(n, table=TRUE, kernel=KERNEL):
    """Counts whose proportions are those expected, to a record."""
    return np.rint(kernel.expected(table) * n).astype(np.int64)


def wald(n, target):
    """Half the width of every cell's interval from the dense matrix, where records are many."""
    matrix = KERNEL.matrix()
    inverse = np.linalg.inv(matrix)
    reports = TRUE.ravel() @ matrix
    if target == "population":
        variance = reports @ inverse**2 - TRUE.ravel() ** 2
    else:
        variance = TRUE.ravel() @ (matrix @ inverse**2 - (matrix @ inverse) ** 2)
    return norm.isf(0.025) * np.sqrt(variance / n).reshape(TRUE.shape)


@pytest.mark.parametrize("target", ["population", "data"])
@pytest.mark.parametrize("n", MANY)
def test_cells_have_the_normal_width(n, target):
    result = estimate(Counts(DOMAIN, expected(n)), MECHANISM, target=target)
    assert (result.upper - result.lower) / 2 == pytest.approx(wald(n, target), rel=6e-3 if n == 10**6 else 1e-3)


@pytest.mark.parametrize("target", ["population", "data"])
def test_rare_cells_are_as_precise(target):
    """With next to no noise, what is left of the width of a cell of few people is that of their number."""
    plain = design(DOMAIN, [24.0, 24.0], method="kronecker").mechanism
    table = np.array([[40, 2 * 10**9, 3 * 10**9], [10**9, 10**9, 10**9]])
    result = estimate(Counts(DOMAIN, table), plain, target=target)
    n = table.sum()
    if target == "population":
        # mid-P limits of a Poisson mean of 40
        assert np.array([result.lower[0, 0], result.upper[0, 0]]) * n == pytest.approx([28.97, 53.93], abs=0.4)
    assert (n * result.lower[0, 0] <= 40) & (n * result.upper[0, 0] >= 40)


def from_row(made):
    def interval(counts):
        row = made(counts)
        return row.lower, row.upper

    return interval


def derived(name):
    def interval(counts):
        result = derive(counted_table(counts, MECHANISM), name)
        scale = counts.n if name in ("chi-square", "g-square") else 1
        return result.lower / scale, result.upper / scale

    return interval


INTERVALS = {
    **{name: derived(name) for name in STATISTICS},
    **{name: from_row(lambda c, name=name: measure(counted_table(c, MECHANISM), name).rows[0]) for name in MEASURES},
    "linear": from_row(lambda c: regress(c, MECHANISM, "b ~ a", family="linear").coefficients[1]),
    "logistic": from_row(lambda c: regress(c, MECHANISM, "a ~ b", family="logistic").coefficients[1]),
    "log-linear": lambda c: tuple(fit_loglinear(c, MECHANISM, [("a", "b")]).limits[-1]),
}


@pytest.mark.parametrize("name", INTERVALS)
def test_no_interval_has_a_floor(name):
    """Widths times √n are alike."""
    each = [INTERVALS[name](Counts(DOMAIN, expected(n))) for n in ENDS]
    widths = np.array([(high - low) * np.sqrt(n) for (low, high), n in zip(each, ENDS, strict=True)])
    assert widths / widths[-1] == pytest.approx(np.ones(len(ENDS)), rel=5e-3)


def test_odds_ratios_of_variants_have_no_floor():
    kernel = design(
        Domain.of({"g": 3, "s": 2}), [1.5, 1.0], constraints=Constraints(preserve="pairs")
    ).mechanism.kernel(("g", "s"))
    true = np.array([[0.3, 0.2], [0.2, 0.17], [0.05, 0.08]])
    of = []
    for n in ENDS:
        ratios = odds_ratios(expected(n, true, kernel)[None], kernel)
        of.append((np.log(ratios.high[0]) - np.log(ratios.low[0])) * np.sqrt(n))
    assert np.array(of) / of[-1] == pytest.approx(np.ones(len(ENDS)), rel=5e-3)
