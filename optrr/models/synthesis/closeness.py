"""How near synthetic records are to what the randomized ones say directly: pairs, kept tables and kept regressions."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import numpy as np

from optrr.domain.domain import Domain
from optrr.errors import TooFewRecords
from optrr.mechanisms.matrix import MatrixMechanism, from_probabilities
from optrr.mechanisms.mechanism import Randomizer
from optrr.models.regression.building import read_reports
from optrr.models.regression.families import Equations
from optrr.models.regression.fitting import fitted, modelled
from optrr.models.regression.formulas import Formula
from optrr.models.regression.result import Fit
from optrr.models.regression.solving import estimated
from optrr.models.synthesis.pairs import product
from optrr.records.counts import Counts, count
from optrr.tables.distributions import norm
from optrr.tables.estimation.estimator import estimate
from optrr_solvers.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Closeness:
    """A table, or a regression, of the synthetic records beside its direct estimate from the randomized ones.

    ``within`` of its ``cells`` (a regression's: coefficients) lie in the direct estimate's intervals, and none is further from
    it than ``largest_difference``. ``kept`` is the share of the association that the records have: how far their table departs
    from independence in the direction of the unbiased estimate, over how far that does; of a regression the same of its
    coefficients in standard errors, levels left out. An effect in an additive model shrinks about as much as its pair.
    ``covered`` is about how often the interval of a share would hold that takes the records of one set for people, on average
    over the cells; NaN of a regression.
    """

    attributes: tuple[str, ...]
    cells: int
    within: int
    largest_difference: float
    kept: float
    covered: float = nan
    formula: str = ""

    @property
    def name(self) -> str:
        """What is compared, for people."""
        return self.formula or " × ".join(self.attributes)


def table_closeness(  # noqa: PLR0913 (what is compared, with what, and how)
    codes: IntArray, domain: Domain, counts: Counts, mechanism: Randomizer, confidence: float, sets: int
) -> Closeness:
    """A table of the records (N, m) of all sets beside its direct estimate."""
    direct = estimate(counts, mechanism, confidence=confidence)
    table = count(codes, domain, counts.domain.names).proportions
    inside = (direct.lower <= table) & (table <= direct.upper)
    difference = float(np.abs(table - direct.proportions).max())
    known = direct.standard_errors > 0
    halves = norm.isf((1 - confidence) / 2) * np.sqrt(table * (1 - table) * sets / len(codes))
    chances = 2 * norm.cdf(halves[known] / direct.standard_errors[known]) - 1
    covered = float(chances.mean()) if known.any() else nan
    share = kept(table, direct.proportions)
    return Closeness(counts.domain.names, table.size, int(inside.sum()), difference, share, covered)


def kept(table: FloatArray, unbiased: FloatArray) -> float:
    """The share of an unbiased table's departure from independence that a table has (least squares); 1 without one."""
    has, wanted = (each - product(_shares(each)) for each in (table, unbiased))
    return _share(has.ravel(), wanted.ravel())


def _shares(table: FloatArray) -> list[FloatArray]:
    """Of each attribute alone."""
    return [table.sum(axis=tuple(k for k in range(table.ndim) if k != axis)) for axis in range(table.ndim)]


def _share(has: FloatArray, wanted: FloatArray) -> float:
    square = float(np.sum(wanted**2))
    return max(float(np.sum(has * wanted)) / square, 0.0) if square > 0 else 1.0


def regression_closeness(  # noqa: PLR0913 (as above)
    codes: IntArray, domain: Domain, formula: str, counts: Counts, mechanism: Randomizer, confidence: float
) -> Closeness | None:
    """A regression of the records beside the one of the randomized records; None where these have no estimates.

    Raises
    ------
    InvalidInput
        as :func:`optrr.models.regression.regress` for the formula.
    """
    plain = MatrixMechanism(counts.domain, tuple(from_probabilities(np.eye(r)) for r in counts.domain.sizes))
    try:
        direct = fitted(*_modelled(formula, counts, mechanism), confidence)
        drawn = estimated(_modelled(formula, count(codes, domain, counts.domain.names), plain)[1])
    except TooFewRecords:
        return None
    if not (direct.estimated and drawn.converged[0]):
        return None
    limits = np.array([(row.lower, row.upper) for row in direct.coefficients])
    wanted, has = direct.estimates, drawn.theta[0]
    errors = np.array([row.standard_error for row in direct.coefficients])
    # those of rare categories, of which reports say next to nothing, do not count
    effects = [k for k in _effects(direct.fit) if errors[k] > 0]
    return Closeness(
        counts.domain.names,
        len(wanted),
        int(((limits[:, 0] <= has) & (has <= limits[:, 1])).sum()),
        float(np.abs(has - wanted).max()),
        _share(has[effects] / errors[effects], wanted[effects] / errors[effects]),
        formula=formula,
    )


def _modelled(formula: str, counts: Counts, mechanism: Randomizer) -> tuple[Fit, Equations]:
    read = Formula.of(formula)
    return modelled(read, read_reports(counts, mechanism, read.names, ()), None, {})


def _effects(fit: Fit) -> list[int]:
    """Places of the coefficients that are no levels."""
    columns = [c for c in range(len(fit.predictors.labels)) if c != fit.predictors.intercept]
    return [place for column in columns for place in fit.places(column)]
