"""What a test within strata, or of one log-linear model against a larger one, sees of a true table.

As for two attributes (:mod:`optrr.models.tests.power_analysis`): the statistic of the expected reports, per record, is the
noncentrality of the χ² that the test has there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2

from optrr.domain.domain import Domain
from optrr.domain.scores import GivenScores
from optrr.mechanisms.randomizer import Randomizer, checked_mechanism
from optrr.models.loglinear.comparing import LEAST_SHOWN, LEAST_WORTH, ModelTest, StratifiedName, within_strata
from optrr.models.loglinear.margins import TableFits
from optrr.models.tests.drawn_power import FIT_WORK, MANY_RECORDS, Surveys, drawn_from, records_clear
from optrr.models.tests.power_analysis import Alternative, checked_effect, spread_towards
from optrr_solvers.arrays import FloatArray

# Where records show what is tested so many times as well as a test asks for, hardly any survey of them is refused. Margins that
# are clear of 0 are shown well enough.
_NOT_REFUSED = 2.0


def stratified_alternative(
    proportions: ArrayLike,
    domain: Domain,
    mechanism: Randomizer,
    name: StratifiedName = "conditional-independence",
    scores: GivenScores | None = None,
) -> Alternative:
    """What one of `STRATIFIED` sees of a true joint distribution of two attributes and those that make strata.

    Raises
    ------
    InvalidInput
        where ``proportions`` is not a distribution of the domain's shape. SingularMarginal where the mechanism hides what the
        test is about.
    """
    return model_alternative(proportions, within_strata(name, domain, checked_mechanism(mechanism), scores))


def model_alternative(proportions: ArrayLike, test: ModelTest) -> Alternative:
    """What the test of a log-linear model against a larger one sees of a true distribution."""
    kernel = test.null.kernel
    expected = kernel.expected(checked_effect(proportions, kernel.sizes))
    tables = MANY_RECORDS * expected[None]
    fits = test.null.fitted(tables)
    noncentrality = float(test.statistics(tables, fits)[0]) / MANY_RECORDS
    spread = spread_towards(test.influence(fits)[0], fits.expected.ravel(), expected.ravel())
    return Alternative(noncentrality, test.df, spread, _surveys(expected, fits, test))


def _surveys(expected: FloatArray, fits: TableFits, test: ModelTest) -> Surveys:
    """Of people whose reports have these chances, with the fit of the smaller model to very many of them."""

    def tested(tables: FloatArray, _rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        own, n = test.null.fitted(tables), tables.sum(axis=test.null.kernel.axes)
        statistic = test.statistics(tables, own)
        answered = (test.null.records_worth(own, n) >= LEAST_WORTH) & (test.shown(own, n) >= LEAST_SHOWN)
        return statistic, np.where(answered, chi2.sf(statistic, test.df), np.nan)

    null = fits.expected[0]
    fewest = float(min(expected.min(), null.min()))
    work = FIT_WORK + expected.size * (test.df + test.null.terms.parameters) ** 2
    return Surveys(drawn_from(expected), tested, test.df, fewest, work, drawn_from(null), _clear(test, fits))


def _clear(test: ModelTest, fits: TableFits) -> float:
    """Records from which the smaller model's margins are clear of 0 and no test is refused."""
    by_one = max(float(test.shown(fits, np.ones(1))[0]), float(np.finfo(np.float64).tiny))
    records = [_NOT_REFUSED * LEAST_SHOWN / by_one]
    for chosen, part in zip(test.null.terms.generators, test.null.parts, strict=True):
        rest = tuple(i + 1 for i in range(fits.expected.ndim - 1) if i not in chosen)
        shares, reports = fits.proportions.sum(axis=rest), fits.expected.sum(axis=rest)
        records.append(records_clear(shares, part.exact_variance(reports, 1.0)))
    return max(records)
