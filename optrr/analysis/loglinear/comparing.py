"""Tests of one log-linear model against a larger one, and the named tests of three attributes.

With J_0 the derivatives of the expected reports in the parameters of the smaller model, J_1 those in the parameters that the
larger one adds, all at a fit of the smaller, and W = diag(1/λ_0),

    E = J_1 − J_1WJ_0ᵀ (J_0WJ_0ᵀ)⁻¹ J_0,      T = n ‖(EWEᵀ)^(−1/2) EW(λ̂ − λ_0)‖²  ~  χ²,  rows of J_1 df.

At the maximum-likelihood table this is Rao's score test (Proc. Camb. Phil. Soc. 44, 1948); at any other consistent one,
Neyman's C(α): the part that the fit misses at first order lies in the rows of J_0 and does not count. T is unaffected
by cells that the larger model would fit with 0, at which the likelihood ratio 2n (ℓ_1 − ℓ_0) falls short of χ². For the
true records it is Pearson's statistic; for two attributes it is the score test of independence.

    conditional-independence   a*c + b*c against the model with all three: general association in any stratum of c
    common-association         a*c + b*c against a*b + a*c + b*c: the same odds ratios in all strata (Cochran–Mantel–Haenszel)
    common-trend               a*c + b*c with one parameter more, for the product of scores: a trend alike in all strata
    same-odds-ratios           a*b + a*c + b*c against the model with all three: do odds ratios differ between strata?
    (Agresti, Categorical Data Analysis, 2013, §8.4 and §9)

p-values are those of χ² where every report expects 50 records, the smaller model's margins are clear of 0, and p is not
so far in the tail that χ² may be wrong by a factor of two; elsewhere they come from tables drawn from the fitted
smaller model. Where the records hardly show these margins, the part that they explain cannot be separated from the
tested effects, and the test is refused: with margins worth 3 to 7 true records a cell, tests at 5 % were measured to
reject up to 12 % of the time. It is refused as well where they hardly show the tested effects, such as odds ratios of
margins that may be empty: the law of drawn tables is another there (levels of 3 to 7 %), and the test would have no
power, as half a true record a cell of two 2 × 2 strata leaves the logarithm of the ratio of their odds ratios a
standard error of
4. Levels: benchmarks/model_levels.py.

With E the contribution of a report to the score of each tested column, λ the probabilities under the fit and n records,
the information on the columns is n E diag(λ) Eᵀ. An even table of one true record a cell has A Aᵀ, A the columns
without the part that the smaller model explains. The largest eigenvalue of the first relative to the second is the
number of true records a cell with as much information on the columns, in the direction with the most information.

Power is as for two attributes (:mod:`optrr.core.inference.power_analysis`): the statistic of the expected reports of a true
table, per record, is the noncentrality of the χ² that the test has there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optrr.analysis.loglinear.fitting import NullModel, TableFits, Terms, check_seen, check_size, pushed, scaled_solve
from optrr.analysis.loglinear.within import StrataRatio
from optrr.core.display import amount, records_enough
from optrr.core.domain import Domain, GivenScores, PairScores, plain_scores, scores_of_pair
from optrr.core.errors import InvalidInput, TooFewRecords
from optrr.core.estimation import chi2, warn_of_records
from optrr.core.inference import (
    FIT_WORK,
    HELD,
    MANY_EXPECTED,
    MANY_RECORDS,
    Alternative,
    Draw,
    LimitOrDrawn,
    Simulation,
    Surveys,
    TestResult,
    check_testable,
    checked_proportions,
    drawn_from,
    drawn_statistics,
    records_clear,
    simulated_p_values,
    simulated_result,
    spread_towards,
    trend_contrast,
)
from optrr.core.mechanisms import Randomizer, checked_mechanism
from optrr.core.records import Counts
from optrr_solvers.arrays import FloatArray

# Columns that are looked at; of more, some direction is shown wherever the margins are, and eigenvalues take long.
_MOST_COLUMNS = 256


StratifiedName = Literal["conditional-independence", "common-association", "common-trend", "same-odds-ratios"]
STRATIFIED: tuple[str, ...] = get_args(StratifiedName)
# Minimum information on every margin, in true records a cell; below it a test is refused.
LEAST_WORTH = 10.0
# Minimum information on the tested effects, in true records a cell. Not far above it, levels are stated.
LEAST_SHOWN, FAINTLY_SHOWN = 0.5, 2.0
_MEASURED = "p-values from as little information as this were measured to reject 3 to 9 % of the time at level 5 %"
_RATIO = (
    "the statistic is the likelihood ratio, because some margins within strata are near 0 or reports few; it has no "
    "χ² limit there, and its p-value comes from drawn tables and needs no degrees of freedom"
)
# The records may have no information on the tested effects.
_TINY = 1e-12
# Tables of a bootstrap: the larger number where fits are fast.
_DRAWS, _LARGE, _CELLS = 1999, 9999, 100


@dataclass(frozen=True, eq=False)
class ModelTest:
    """Test of a log-linear model inside a larger one.

    The larger one adds the columns (d, *sizes); ``saturated`` if it fits any table.

    ``scores`` are those of the two attributes of a trend.
    """

    name: str
    null: NullModel
    added: FloatArray
    scores: PairScores | None = None

    @property
    def df(self) -> int:
        """Parameters that the larger model adds."""
        return len(self.added)

    @property
    def saturated(self) -> bool:
        """Whether the larger model fits any table."""
        return self.df + self.null.terms.parameters == self.null.kernel.cells - 1

    def statistics(self, tables: FloatArray, fits: TableFits) -> FloatArray:
        """Compute T of tables of counts (B, *sizes) with their fits, (B,)."""
        b, kernel = tables.shape[0], self.null.kernel
        n = tables.sum(axis=kernel.axes)
        lam = fits.expected.reshape(b, 1, -1)
        distance = (tables.reshape(b, -1) / n[:, None])[:, :, None] - np.swapaxes(lam, 1, 2)
        if self.saturated:
            old = pushed(self.null.columns, fits.proportions, kernel)
            weighted = old / lam
            score = weighted @ distance
            missed = np.sum(score * scaled_solve(weighted @ np.swapaxes(old, 1, 2), score), axis=(1, 2))
            return np.asarray(n * (np.sum(distance[:, :, 0] ** 2 / lam[:, 0], axis=1) - missed))
        weights = self.influence(fits)
        score = weights @ distance
        return np.asarray(
            n * np.sum(score * scaled_solve((weights * lam) @ np.swapaxes(weights, 1, 2), score), axis=(1, 2))
        )

    def influence(self, fits: TableFits) -> FloatArray:
        """Compute one report's contribution to the score of each added column.

        The smaller model's directions are projected out: (B, d, R).
        """
        b, kernel = fits.expected.shape[0], self.null.kernel
        lam = fits.expected.reshape(b, 1, -1)
        old, new = (pushed(columns, fits.proportions, kernel) for columns in (self.null.columns, self.added))
        weighted = old / lam
        share = scaled_solve(weighted @ np.swapaxes(old, 1, 2), weighted @ np.swapaxes(new, 1, 2))
        return np.asarray((new - np.swapaxes(share, 1, 2) @ old) / lam)

    @cached_property
    def ratio(self) -> StrataRatio | None:
        """Likelihood ratio used where χ² does not hold; None if the score is drawn."""
        return StrataRatio.of(self.null, None if self.saturated else self.added)

    def measured(self, tables: FloatArray, fits: TableFits) -> tuple[FloatArray, NDArray[np.bool_], NDArray[np.bool_]]:
        """Compute statistics, whether they are the score's, and whether they inform.

        ``tables`` are counts (B, *sizes); all three have shape (B,).
        """
        statistic, n = self.statistics(tables, fits), tables.sum(axis=self.null.kernel.axes)
        if self.ratio is None:
            faint = (self.null.records_worth(fits, n) < LEAST_WORTH) | (self.shown(fits, n) < LEAST_SHOWN)
            return statistic, np.ones(n.size, dtype=bool), ~faint
        fewest = n * fits.expected.min(axis=self.null.kernel.axes)
        by_score = (fewest >= MANY_EXPECTED) & self.null.clear_of_zero(fits, n)
        others = np.flatnonzero(~by_score)
        if others.size:
            statistic[others] = self.ratio.tested(tables[others], fits.part(others))
        return statistic, by_score, np.ones(n.size, dtype=bool)

    def shown(self, fits: TableFits, n: FloatArray) -> FloatArray:
        """Compute the equivalent number of true records per cell, (B,).

        True records of an even table that would show the best-shown tested direction as well.
        """
        if not self._even_scale.size:
            return np.full(n.size, np.inf)
        step = max(1, HELD // (self.null.kernel.cells * (self.df + self.null.terms.parameters)))
        blocks = [fits.part(np.arange(b, min(b + step, n.size))) for b in range(0, n.size, step)]
        best = []
        for block in blocks:
            influence, expected = self.influence(block), block.expected.reshape(len(block.proper), 1, -1)
            information = (influence * expected) @ np.swapaxes(influence, 1, 2)
            best.append(np.linalg.eigvalsh(self._even_scale @ information @ self._even_scale.T)[:, -1])
        return np.asarray(n * np.concatenate(best))

    @cached_property
    def _even_scale(self) -> FloatArray:
        """Scaling of an even table's information A Aᵀ to the identity, (d, d).

        Empty if more columns were added than are examined.
        """
        if len(self.added) > _MOST_COLUMNS:
            return np.zeros((0, 0))
        old = self.null.columns
        explained = np.vstack([np.ones(self.added[0].size), old.reshape(len(old), -1)]).T
        new = self.added.reshape(len(self.added), -1).T
        apart = new - explained @ np.linalg.lstsq(explained, new, rcond=None)[0]
        return np.asarray(np.linalg.inv(np.linalg.cholesky(apart.T @ apart)))

    def draw(self, fits: TableFits, n: FloatArray, rng: np.random.Generator) -> Draw:
        """Draw tables from fits of the smaller model and compute their statistics."""

        def statistics(tables: FloatArray) -> FloatArray:
            return self.statistics(tables, self.null.fitted(tables))

        doubles = self.null.kernel.cells * (self.df + self.null.terms.parameters)
        return drawn_statistics(n, self.null.cautious(fits, n.astype(np.int64)), statistics, doubles, rng)


def compare_models(
    counts: Counts,
    mechanism: Randomizer,
    smaller: Iterable[Iterable[str]],
    larger: Iterable[Iterable[str]],
    random_state: int | np.random.Generator | None = None,
) -> TestResult:
    """Score test of a log-linear model against a larger one.

    Raises
    ------
    InvalidInput
        if the smaller model is not part of the larger one, if there are fewer than two records or too little
        information in them, or if the mechanism hides an effect of one of the models.
    """
    checked_mechanism(mechanism)
    warn_of_records([counts], mechanism)
    inner, outer = (Terms.of(counts.domain, model) for model in (smaller, larger))
    return _tested(model_test(mechanism, inner, outer), counts, np.random.default_rng(random_state))


def model_test(mechanism: Randomizer, smaller: Terms, larger: Terms, name: str = "models") -> ModelTest:
    """Build the test of a model inside a larger one, for any number of tables.

    Raises as :func:`compare_models` does.
    """
    added = tuple(s for s in larger.sets if s not in smaller.sets)
    if not smaller <= larger or not added:
        raise InvalidInput(f"the model {smaller} is not a part of {larger}; a test needs one model inside the other")
    check_size(larger)
    check_seen(larger, mechanism)
    return ModelTest(name, NullModel.of(smaller, mechanism), Terms(smaller.domain, added).columns())


def stratified_test(
    counts: Counts,
    mechanism: Randomizer,
    name: StratifiedName = "conditional-independence",
    random_state: int | np.random.Generator | None = None,
    scores: GivenScores | None = None,
) -> TestResult:
    """Test an association of the first two attributes within strata.

    The other attributes form the strata.

    Parameters
    ----------
    counts
        Counts of the two attributes, then of those whose categories together are the strata.
    name
        one of `STRATIFIED`.
    scores
        Scores of the two attributes, for "common-trend"; as in :func:`optrr.test`.

    Raises
    ------
    InvalidInput
        for an unknown test, fewer than three attributes, or fewer than two records. SingularMarginal if the mechanism
        hides a tested effect.
    """
    if name not in STRATIFIED:
        raise InvalidInput(f"there is no test {name!r}; choose among {', '.join(STRATIFIED)}")
    if counts.domain.m < 3:
        raise InvalidInput(f"{name!r} needs two attributes and at least one that makes strata; count three")
    test = within_strata(name, counts.domain, checked_mechanism(mechanism), scores)
    warn_of_records([counts], mechanism)
    return _tested(test, counts, np.random.default_rng(random_state))


def within_strata(
    name: StratifiedName, domain: Domain, mechanism: Randomizer, scores: GivenScores | None = None
) -> ModelTest:
    """Build one of the tests `STRATIFIED`, for any number of tables.

    Raises InvalidInput for invalid scores, or scores of another test. SingularMarginal if the mechanism hides a tested
    effect.
    """
    if scores is not None and name != "common-trend":
        raise InvalidInput(f"scores are for the common-trend test; leave the scores out for {name!r}")
    common = model_test(mechanism, *models_within_strata(name, domain), name)
    if name != "common-trend":
        return common
    pair = scores_of_pair(domain, scores)
    # a trend is the same wherever its scores begin, and far from 0 their products would lose digits
    return replace(common, added=product_column([each - each.min() for each in pair], domain), scores=pair)


def models_within_strata(name: str, domain: Domain) -> tuple[Terms, Terms]:
    """Return the hypothesis of one of `STRATIFIED` and its alternative.

    The alternative of a trend has more terms than it adds.
    """
    a, b, *strata = domain.names
    apart, everything = Terms.of(domain, [(a, *strata), (b, *strata)]), Terms.of(domain, [domain.names])
    if name == "same-odds-ratios":
        return apart.with_term((0, 1)), everything
    return apart, everything if name == "conditional-independence" else apart.with_term((0, 1))


def product_column(scores: Sequence[FloatArray], domain: Domain) -> FloatArray:
    """Build the column (1, *sizes) of a trend: the product of two scores."""
    sizes = tuple(map(int, domain.sizes))
    return np.broadcast_to(trend_contrast(*scores).reshape(1, *sizes[:2], *(1,) * (domain.m - 2)), (1, *sizes)).copy()


def _tested(test: ModelTest, counts: Counts, rng: np.random.Generator) -> TestResult:
    check_testable(counts.n)
    null, table = test.null, counts.table[None].astype(np.float64)
    fits, n = null.fitted(table), table.sum(axis=null.kernel.axes)
    statistics, by_score, answered = test.measured(table, fits)
    worth, shown = float(null.records_worth(fits, n)[0]), float(test.shown(fits, n)[0])
    # both grow with the records, so the same design with as many times more would be enough
    short = max(LEAST_WORTH / worth, LEAST_SHOWN / max(shown, _TINY))
    remedy = f"{records_enough(counts.n * short)}; else merge categories"
    if counts.n >= LEAST_WORTH * null.kernel.cells:
        remedy += ", or give the attributes a larger epsilon"
    if not answered[0] and worth < LEAST_WORTH:
        raise TooFewRecords(
            f"these {counts.n} records have as much information on {null.terms} as {worth:.2g} true records a cell, "
            f"and a test of added terms needs {LEAST_WORTH:g}: {remedy}"
        )
    if not answered[0]:
        raise TooFewRecords(
            f"these {counts.n} records have as much information on the tested associations as {shown:.1g} true "
            f"records a cell, and a test needs {LEAST_SHOWN:g}: {remedy}"
        )
    statistic = float(statistics[0])
    limit, scores = float(chi2.sf(statistic, test.df)), plain_scores(test.scores)
    plain = TestResult(test.name, statistic, test.df, limit, counts.n, scores=scores)
    rule = Simulation(most=_LARGE if null.kernel.cells <= _CELLS else _DRAWS)
    rule = rule if test.ratio is None else test.ratio.rule
    if test.ratio is not None and not by_score[0]:
        p, reached = simulated_p_values(statistics, test.ratio.draw(table, fits, rng), rule)
        said = [_RATIO]
        if worth < LEAST_WORTH or shown < LEAST_SHOWN:
            said.append(
                f"only strong associations are likely to be detected: these {counts.n} records have as much "
                f"information on {null.terms} as {worth:.1g} true records a cell, and on the tested effects as "
                f"{shown:.1g}: {remedy}"
            )
    else:
        clear, fewest = null.clear_of_zero(fits, n), counts.n * fits.expected.min(axis=null.kernel.axes)
        out = LimitOrDrawn.of(statistics, test.df, fewest, lambda _: test.draw(fits, n, rng), rule, clear=clear)
        if not out.simulated[0]:
            return plain
        p, reached, said = out.p_value, out.reached, []
        if not clear[0]:
            said.append(
                f"some margins of {null.terms} are 0 or within two standard errors of it, so that the records show fewer than "
                f"{amount(test.df, 'degree')} of freedom; the p-value comes from drawn tables and needs none"
            )
        if shown < FAINTLY_SHOWN:
            said.append(f"{_MEASURED}, and 0.03 to 0.5 % of the time at level 0.1 %")
    drawn = simulated_result(plain, p[0], reached[0], rule)
    return replace(drawn, warnings=(*drawn.warnings, *said))


# Multiple of the required information on the tested effects at which hardly any survey is refused. Margins that are
# clear of 0 have enough information.
_NOT_REFUSED = 2.0
# Cells up to which likelihood ratios of drawn surveys take seconds; power in larger ones is that of the score statistic, which
# the ratio's was below in 3 of 102 rows of real tables. And multiplications that a ratio takes, by the cube of the cells.
_MOST_FITTED, _RATIO_WORK = 24, 40


def stratified_alternative(
    proportions: ArrayLike,
    domain: Domain,
    mechanism: Randomizer,
    name: StratifiedName = "conditional-independence",
    scores: GivenScores | None = None,
) -> Alternative:
    """Compute the alternative of one of `STRATIFIED` at a true distribution.

    It is the distribution of two attributes and those that form strata.

    Raises InvalidInput if ``proportions`` is not a distribution of the domain's shape. SingularMarginal if the
    mechanism hides a tested effect.
    """
    return model_alternative(proportions, within_strata(name, domain, checked_mechanism(mechanism), scores))


def model_alternative(proportions: ArrayLike, test: ModelTest) -> Alternative:
    """Compute the alternative of a model test at a true distribution."""
    kernel = test.null.kernel
    expected = kernel.expected(checked_proportions(proportions, kernel.sizes, "truth"))
    tables = MANY_RECORDS * expected[None]
    fits = test.null.fitted(tables)
    noncentrality = float(test.statistics(tables, fits)[0]) / MANY_RECORDS
    spread = spread_towards(test.influence(fits)[0], fits.expected.ravel(), expected.ravel())

    def tested(tables: FloatArray, _rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        own = test.null.fitted(tables)
        if test.ratio is not None and kernel.cells > _MOST_FITTED:
            return test.statistics(tables, own), np.zeros(len(tables))
        statistic, _, answered = test.measured(tables, own)
        return statistic, np.where(answered, chi2.sf(statistic, test.df), np.nan)

    null = fits.expected[0]
    fewest = float(min(expected.min(), null.min()))
    work = FIT_WORK + expected.size * (test.df + test.null.terms.parameters) ** 2
    if test.ratio is not None and kernel.cells <= _MOST_FITTED:
        work += _RATIO_WORK * expected.size**3
    surveys = Surveys(drawn_from(expected), tested, test.df, fewest, work, drawn_from(null), _clear(test, fits))
    return Alternative(noncentrality, test.df, spread, surveys)


def _clear(test: ModelTest, fits: TableFits) -> float:
    """Compute the number of records at which margins are clear of 0.

    From that number on no test is refused.
    """
    by_one = max(float(test.shown(fits, np.ones(1))[0]), float(np.finfo(np.float64).tiny))
    records = [_NOT_REFUSED * LEAST_SHOWN / by_one]
    for chosen, part in zip(test.null.terms.generators, test.null.parts, strict=True):
        rest = tuple(i + 1 for i in range(fits.expected.ndim - 1) if i not in chosen)
        shares, reports = fits.proportions.sum(axis=rest), fits.expected.sum(axis=rest)
        records.append(records_clear(shares, part.exact_variance(reports, 1.0)))
    return max(records)
