"""What a test within strata, or of one log-linear model against a larger one, sees of a true table.

As for two attributes (:mod:`optrr.inference.power_analysis`): the statistic of the expected reports, per record, is the
noncentrality of the χ² that the test has there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optrr.inference.drawn_power import MANY_RECORDS, Surveys, drawn_from
from optrr.inference.power_analysis import Alternative, checked_effect, relative_spread
from optrr.inference.simulation import Simulation
from optrr.mechanisms.randomizer import Randomizer, checked_mechanism
from optrr.models.comparing import LEAST_WORTH, ModelTest, StratifiedName, within_strata
from optrr.records.domain import Domain
from optrr.records.scores import GivenScores
from optrr_solvers.arrays import FloatArray


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
    spread = 1.0
    if test.df == 1:
        spread = relative_spread(test.influence(fits)[0, 0], fits.expected.ravel(), expected.ravel())
    return Alternative(noncentrality, test.df, spread, _surveys(expected, fits.expected[0], test))


def _surveys(expected: FloatArray, null: FloatArray, test: ModelTest) -> Surveys:
    """Of people whose reports have these chances, and by the fitted smaller model the chances ``null``."""

    def tested(tables: FloatArray, rng: np.random.Generator, rule: Simulation) -> tuple[FloatArray, FloatArray]:
        out = test.p_values(tables, rng, rule)
        return out.statistic, np.where(out.worth >= LEAST_WORTH, out.p_value, np.nan)

    fewest = float(min(expected.min(), null.min()))
    return Surveys(drawn_from(expected), tested, test.df, fewest, null=drawn_from(null))
