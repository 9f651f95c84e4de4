"""Log-linear models of randomized counts as results: fits, intervals, the choice of one by BIC, one beside a larger one.

Intervals of coefficients invert tests: a value is in where the score test does not reject it. "β_k is v" is a smaller model:
the others are free, and k's column stays with the coefficient v. It is fitted as any model under test
(:mod:`optrr.analysis.loglinear.fitting`): from the larger model's fit to its margins, moved to v while the expectations of all
other columns stay, and on by the likelihood where noise took no margin out of the proportions. The test's score for k then has
the others' directions taken out. Where cells go to 0 a coefficient has no finite estimate, but a value can still be tested, so
that intervals end where the records end them, and are infinite on a side where they do not.

A model beside a larger one has its score test and the likelihood ratio,

    G = 2n (ℓ_larger − ℓ_smaller)  ~  χ²,  as many degrees of freedom as the larger model adds parameters.

The limit needs a larger model whose fitted shares are clear of 0. Where one of them is near 0, or at it, G falls short of χ²,
and no p-value of it is given; the score test needs the smaller model's margins only
(:mod:`optrr.analysis.loglinear.comparing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations
from math import copysign, isfinite, log, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from optrr.analysis.loglinear import fitting
from optrr.analysis.loglinear.comparing import LEAST_WORTH, ModelTest, compare_models
from optrr.core.display.parts import OneTable, Text
from optrr.core.display.result import Result, TableResult, in_json, intervals_said
from optrr.core.display.text import amount, records_enough
from optrr.core.estimation.distributions import chi2, norm
from optrr.core.estimation.estimator import check_confidence, check_records
from optrr.core.estimation.plausibility import warn_of_records
from optrr.core.estimation.score_interval import GROWTH, LIMIT, invert, outward
from optrr.core.inference.result import TestResult
from optrr.core.inference.simulation import CLEAR_OF_ZERO, MANY_EXPECTED
from optrr.core.mechanisms.mechanism import Randomizer, checked_mechanism
from optrr.core.records.counts import Counts
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

    from optrr.core.estimation.plausibility import CountedTable

_UNBOUNDED = (
    "a share of the fitted table is 0, so that some coefficients have no finite estimate; leave out an interaction, or merge "
    "categories"
)
_NOT_DONE = "the fit stopped before the likelihood was at its maximum; leave out an interaction"
# People that the fit expects in a cell that goes to 0, where it stops; so few have a maximum there only in theory.
_NOBODY = 1e-3
# A step that promises more nats per record than this is a fit that is not final.
_FINAL = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class LogLinear(TableResult):
    """A log-linear model of the true proportions of a table, by maximum likelihood.

    ``coefficients`` (p,) are logarithms of odds (one attribute) and of odds ratios (two) against first categories, in the
    order of ``labels``, infinite where they have no finite maximum, NaN where that leaves them no limit either;
    ``standard_errors`` come from the information of the randomized records, NaN where they have none.
    ``limits`` (p, 2) are ends of intervals that invert each coefficient's score test and hold for it alone, at ``confidence``,
    or for all coefficients together where ``simultaneous``: infinite where the records leave no limit, NaN where there are no
    intervals, and ``without_intervals`` says why.
    ``proportions`` is the fitted table, ``log_likelihood`` in nats over all n records. ``hidden`` are the interactions that a
    search left out because the mechanism hides them.
    """

    counts: Counts | CountedTable
    fitted: fitting.FittedLogLinear
    limits: FloatArray
    confidence: float = 0.95
    simultaneous: bool = False
    hidden: tuple[str, ...] = ()
    without_intervals: str = ""

    in_summary = ("n", "log_likelihood", "bic", "confidence", "simultaneous", "warnings")

    @property
    def terms(self) -> fitting.Terms:
        """The model's terms."""
        return self.fitted.terms

    @property
    def n(self) -> int:
        """Number of records."""
        return self.counts.n

    @property
    def labels(self) -> list[str]:
        """What each coefficient is about."""
        return self.terms.labels()

    @cached_property
    def coefficients(self) -> FloatArray:
        """β, (p,); infinite where shares that go to 0 take one there, NaN where they leave it without a limit."""
        empty = self.n * self.proportions.ravel() <= _NOBODY
        flat = self.terms.columns().reshape(self.terms.parameters, -1)
        return (
            fitting.limits_of_coefficients(self.fitted.coefficients, flat, empty)
            if empty.any()
            else self.fitted.coefficients
        )

    @property
    def _unbounded(self) -> bool:
        """Whether some coefficient has no finite maximum."""
        return not np.isfinite(self.coefficients).all()

    @cached_property
    def covariance(self) -> FloatArray:
        """Of the coefficients, (p, p); NaN where the records hold no information on all of them."""
        information = self.n * self.fitted.information
        if self._unbounded or np.linalg.cond(information) > 1 / np.finfo(np.float64).eps:
            return np.full(information.shape, np.nan)
        return np.asarray(np.linalg.inv(information))

    @property
    def standard_errors(self) -> FloatArray:
        """(p,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def proportions(self) -> FloatArray:
        """The fitted table."""
        return self.fitted.proportions

    @property
    def log_likelihood(self) -> float:
        """Of all records, in nats."""
        return self.n * self.fitted.log_likelihood(self.counts.proportions)

    @property
    def bic(self) -> float:
        """−2 log-likelihood + parameters · ln n: smaller is better (Schwarz, Ann. Stat. 6, 1978)."""
        return -2 * self.log_likelihood + self.terms.parameters * log(self.n)

    def _axis(self) -> tuple[str, float]:
        return f"coefficient, {intervals_said(self.confidence, self.simultaneous)}", 0.0

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know."""
        hidden = (
            f"the mechanism hides {', '.join(self.hidden)}, and the search left them out; preserve pairs to show pairs"
        )
        said = ((hidden, self.hidden), (_UNBOUNDED, self._unbounded), (_NOT_DONE, self.fitted.gain > _FINAL))
        lines = (self.without_intervals, *(line for line, holds in said if holds))
        return tuple(line for line in lines if line)

    def headline(self) -> str:
        """The model and how it fits."""
        size = amount(self.terms.parameters, "parameter")
        return f"{self.terms}: {size}, log-likelihood {self.log_likelihood:.2f}, {self.n} records"

    def on_page(self, comparison: Comparison | None = None, **_beside: Any) -> OneTable:
        """What stands on its page, with what a ``comparison`` with another model says."""
        lead = (
            f"Log odds and log odds ratios among the people behind {self.n} randomized records, each with all else in the "
            "model."
        )
        fits = (
            f"Log-likelihood {self.log_likelihood:.2f}, BIC {self.bic:.2f}, {amount(self.terms.parameters, 'parameter')}. "
            "First categories are the references."
        )
        beside = [] if comparison is None else [f"{comparison.headline()}.", *comparison.warnings]
        notes = [Text(line) for line in (fits, *beside)]
        return OneTable(
            str(self.terms), lead, "Coefficients", "Coefficients with intervals, as in the table", notes=notes
        )

    def to_arrow(self) -> pa.Table:
        """One row per coefficient: parameter, estimate, standard_error, lower, upper."""
        import pyarrow as pa  # noqa: PLC0415 (slow to import)

        return pa.table(
            {
                "parameter": pa.array(self.labels, pa.string()),
                "estimate": pa.array(self.coefficients),
                "standard_error": pa.array(self.standard_errors),
                "lower": pa.array(self.limits[:, 0]),
                "upper": pa.array(self.limits[:, 1]),
            }
        )

    def summary(self) -> dict[str, Any]:
        """As a JSON object; None for what is not known."""
        return {
            "model": str(self.terms),
            "attributes": list(self.counts.domain.names),
            "parameters": self.terms.parameters,
            "coefficients": in_json(self.to_arrow().to_pylist()),
            **super().summary(),
        }


# Newton steps that bring the other columns' expectations back, how near they come, and the longest step of an exponent.
_STEPS, _NEAR, _LONGEST = 40, 1e-9, 3.0
# A share that counts as 0 in logarithms.
_FLOOR = 1e-300
# First step from the estimate towards a limit in standard errors, and the farthest value, odds of e^25: those beyond it count
# as infinite.
_FIRST, _FARTHEST = 2.0, 25.0
# Where a cell goes to 0 its standard error is of no use; steps of this size do not miss a limit.
_LARGEST_ERROR = 1.0
# Parameters cubed times cells: a limit takes some ten fits, so that the intervals of such a model take about ten seconds.
_MOST_WORK = 20_000_000


@dataclass(frozen=True, eq=False)
class PinnedModel(fitting.NullModel):
    """A model one of whose coefficients, the one of column ``pinned``, is held at a value."""

    pinned: int

    @classmethod
    def of_model(cls, model: fitting.NullModel, pinned: int) -> PinnedModel:
        """With one of the model's coefficients held."""
        return cls(model.terms, model.kernel, model.parts, pinned)

    @cached_property
    def columns(self) -> FloatArray:
        """Those whose coefficients are free, (p − 1, *sizes); where there are none, a column of zeros, which moves nothing."""
        others = np.delete(self.terms.columns(), self.pinned, axis=0)
        return others if len(others) else np.zeros_like(self.column)

    @cached_property
    def column(self) -> FloatArray:
        """The pinned one, (1, *sizes)."""
        return self.terms.columns()[[self.pinned]]

    @cached_property
    def _reading(self) -> FloatArray:
        """(R,) what of the logarithms of a table of the model makes the coefficient."""
        flat = self.terms.columns().reshape(self.terms.parameters, -1)
        design = np.vstack([np.ones(flat.shape[1]), flat]).T
        return np.asarray(np.linalg.pinv(design)[1 + self.pinned])

    def estimated(self, fits: fitting.TableFits) -> FloatArray:
        """The coefficient of tables of the model, (B,)."""
        return np.asarray(np.log(np.maximum(fits.proportions.reshape(len(fits.proper), -1), _FLOOR)) @ self._reading)

    def at(self, values: FloatArray, tables: FloatArray, fits: fitting.TableFits) -> fitting.TableFits:
        """The fit of tables (B, *sizes), which the whole model fits by ``fits``, with the coefficient at ``values`` (B,)."""
        n = tables.sum(axis=self.kernel.axes)
        moved = self._moved(values, fits)
        start = fitting.TableFits(moved, self.reports(moved), fits.proper)
        return self._likeliest(tables / n.reshape(-1, *(1,) * (tables.ndim - 1)), n, start)

    def _moved(self, values: FloatArray, fits: fitting.TableFits) -> FloatArray:
        """Tables with the coefficient at these values and the other columns' expectations as they were."""
        b = values.size
        flat = self.columns.reshape(len(self.columns), -1)
        shares = fits.proportions.reshape(b, -1)
        wanted = shares @ flat.T
        logs = np.log(np.maximum(shares, _FLOOR)) + (values - self.estimated(fits))[:, None] * self.column.reshape(
            1, -1
        )
        for _ in range(_STEPS):
            shares = _proportions(logs)
            missed = wanted - shares @ flat.T
            if np.abs(missed).max(initial=0.0) <= _NEAR:
                break
            centred = flat[None] - (shares @ flat.T)[:, :, None]
            information = (centred * shares[:, None, :]) @ np.swapaxes(centred, 1, 2)
            step = fitting.scaled_solve(information, missed[:, :, None])[:, :, 0] @ flat
            step = step - np.sum(step * shares, axis=1, keepdims=True)
            logs = logs + step * np.minimum(1.0, _LONGEST / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1e-300))
        return _proportions(logs).reshape(fits.proportions.shape)

    def error(self, tables: FloatArray, fits: fitting.TableFits) -> float:
        """Standard error of the coefficient of the first table, from the information at its fit."""
        first = fitting.TableFits(fits.proportions[:1], fits.expected[:1], fits.proper[:1])
        weights = ModelTest("coefficient", self, self.column).influence(first)[0, 0]
        information = float(tables[0].sum() * np.sum(weights**2 * first.expected.ravel()))
        return float(min(1 / np.sqrt(max(information, np.finfo(np.float64).tiny)), _LARGEST_ERROR))

    def deviations(self, values: FloatArray, tables: FloatArray, fits: fitting.TableFits) -> FloatArray:
        """How many standard deviations the score for the coefficient lies above 0 where it is at ``values``, (B,)."""
        b = values.size
        pinned = self.at(values, tables, fits)
        weights = ModelTest("coefficient", self, self.column).influence(pinned)[:, 0]
        lam = pinned.expected.reshape(b, -1)
        n = tables.sum(axis=self.kernel.axes)
        distance = tables.reshape(b, -1) / n[:, None] - lam
        return np.asarray(np.sqrt(n) * np.sum(weights * distance, axis=1) / np.sqrt(np.sum(weights**2 * lam, axis=1)))


def _proportions(logs: FloatArray) -> FloatArray:
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def affordable(terms: fitting.Terms) -> bool:
    """Whether the intervals of a model's coefficients end in about ten seconds."""
    return terms.parameters**3 * prod(map(int, terms.domain.sizes)) <= _MOST_WORK


def coefficient_intervals(
    model: fitting.NullModel,
    table: FloatArray,
    estimates: FloatArray,
    confidence: float,
    pinned_at: Callable[[fitting.NullModel, int], PinnedModel] = PinnedModel.of_model,
) -> FloatArray:
    """Limits of every coefficient, (p, 2), for a table of counts; infinite where the records leave none on that side.

    They hold the ``estimates`` (p,), infinite ones too, and end where values are first rejected on the way out. The score test
    may accept values beyond that again, where cells are nearly 0 and hardly move its score; the likelihood rejects nearly all.
    ``pinned_at`` makes the model with one coefficient held.
    """
    tables, quantile = table[None].astype(np.float64), float(norm.isf((1 - confidence) / 2))
    fits = model.fitted(tables)
    out = np.empty((model.terms.parameters, 2))
    for k, estimate in enumerate(estimates):
        pinned = pinned_at(model, k)

        @cache
        def deviation(value: float, pinned: PinnedModel = pinned) -> float:
            return float(pinned.deviations(np.array([value]), tables, fits)[0])

        start, error = float(pinned.estimated(fits)[0]), pinned.error(tables, fits)
        middle = _middle(deviation, start, error, quantile)
        low, high = (_limit(deviation, middle, side * error, quantile) for side in (-1, 1))
        # an estimate without a limit is NaN, and moves no end
        out[k] = np.fmin(low, estimate), np.fmax(high, estimate)
    return out


def _middle(deviation: Callable[[float], float], start: float, error: float, quantile: float) -> float:
    """A value near the estimate at which the score is 0. Scores fall as values rise.

    Where it stays on one side of 0 however far the value is, the estimate is infinite: the value of the least score, if that is
    not rejected, and the estimate's otherwise.
    """
    start = float(np.clip(start, -_FARTHEST, _FARTHEST))
    side = copysign(1.0, deviation(start))
    middle = invert(lambda value: side * deviation(value), start, side * error, side * _FARTHEST)
    if isfinite(middle):
        return middle
    points = outward(start, side * error, GROWTH, side * _FARTHEST)
    least = min(points, key=lambda value: abs(deviation(value)))
    return least if abs(deviation(least)) < quantile else start


def _limit(deviation: Callable[[float], float], middle: float, error: float, quantile: float) -> float:
    """Where values, on the way in the direction of ``error``, are first rejected."""
    side = copysign(1.0, error)

    def excess(value: float) -> float:
        return quantile + side * deviation(value)

    if excess(middle) <= 0:
        return middle
    return invert(excess, middle, _FIRST * error, side * _FARTHEST, precision=LIMIT / _FIRST)


def fit_loglinear(
    counts: Counts,
    mechanism: Randomizer,
    generators: Iterable[Iterable[str]] | fitting.Terms,
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> LogLinear:
    """Fit a hierarchical log-linear model to the true proportions behind randomized counts.

    Parameters
    ----------
    counts
        of the attributes that the model speaks of; up to some 10^5 cells.
    generators
        attribute sets that interact, such as ``[("sex", "income"), ("age",)]``; their subsets are included.
    confidence
        of each coefficient's interval; large models, whose intervals would take longer than some ten seconds, have none.
    simultaneous
        intervals that all hold together with that confidence, by Bonferroni's inequality, instead of each alone.

    Raises
    ------
    InvalidInput
        for unknown attributes, too many parameters, or interactions that the mechanism hides.
    """
    check_confidence(confidence)
    result = replace(fitted_model(counts, mechanism, generators), confidence=confidence, simultaneous=simultaneous)
    warn_of_records([counts], mechanism)
    return with_intervals(result, fitting.NullModel.of(result.terms, mechanism), counts.table.astype(np.float64))


def fitted_model(
    counts: Counts, mechanism: Randomizer, generators: Iterable[Iterable[str]] | fitting.Terms
) -> LogLinear:
    """The fit of a model without intervals. Raises as :func:`fit_loglinear`."""
    check_records(counts.n)
    terms = generators if isinstance(generators, fitting.Terms) else fitting.Terms.of(counts.domain, generators)
    fitting.check_seen(terms, checked_mechanism(mechanism))
    fitted = fitting.fit(terms, counts.proportions, mechanism.kernel(counts.domain.names))
    return LogLinear(counts, fitted, np.full((terms.parameters, 2), np.nan))


def with_intervals(
    result: LogLinear,
    model: fitting.NullModel,
    table: FloatArray,
    pinned_at: Callable[[fitting.NullModel, int], PinnedModel] = PinnedModel.of_model,
    least_worth: float = LEAST_WORTH,
) -> LogLinear:
    """The result with intervals at its confidence, or with the reason why there are none.

    ``table`` of counts, ``pinned_at`` as in :func:`coefficient_intervals`; the records must tell as much as ``least_worth``
    true ones a cell.
    """
    why, terms = "", result.terms
    if not affordable(terms):
        why = f"no intervals: {terms.parameters} parameters in {table.size} cells are too many; leave out interactions"
    elif least_worth:
        worth = float(model.records_worth(model.fitted(table[None]), np.array([result.n]))[0])
        if worth < least_worth:
            why = (
                f"no intervals: these records tell as much of the model as {worth:.2g} true ones a cell would, and intervals "
                f"need {least_worth:g}: {records_enough(result.n * least_worth / worth)}; else merge categories"
            )
    if why:
        return replace(result, without_intervals=why)
    each = 1 - (1 - result.confidence) / (terms.parameters if result.simultaneous else 1)
    return replace(result, limits=coefficient_intervals(model, table, result.coefficients, each, pinned_at))


def stepwise(
    counts: Counts, mechanism: Randomizer, order: int = 2, confidence: float = 0.95, simultaneous: bool = False
) -> LogLinear:
    """The model found by adding or leaving out one interaction after the other while BIC falls; a search, not a proof.

    It starts from independence and considers sets of up to ``order`` attributes, each once all of its subsets are in. The
    search chose the model because it fits, so that errors and tests from the same records are too good; the result does not
    know that. Sets that the mechanism hides are left out, and the result names them.
    """
    check_confidence(confidence)
    domain = counts.domain
    sets = [chosen for size in range(2, order + 1) for chosen in combinations(range(domain.m), size)]
    names = {chosen: tuple(domain.names[i] for i in chosen) for chosen in sets}
    seen = [chosen for chosen in sets if checked_mechanism(mechanism).kernel(names[chosen]).is_invertible]
    best = fitted_model(counts, mechanism, fitting.Terms.of(domain, ()))
    warn_of_records([counts], mechanism)
    while True:
        tried = [fitted_model(counts, mechanism, terms) for terms in _neighbours(best.terms, seen)]
        better = min(tried, key=lambda model: model.bic, default=best)
        if better.bic >= best.bic:
            hidden = tuple("*".join(names[chosen]) for chosen in sets if chosen not in seen)
            best = replace(best, confidence=confidence, simultaneous=simultaneous, hidden=hidden)
            return with_intervals(best, fitting.NullModel.of(best.terms, mechanism), counts.table.astype(np.float64))
        best = better


def _neighbours(terms: fitting.Terms, seen: list[tuple[int, ...]]) -> Iterable[fitting.Terms]:
    present = set(terms.sets)
    for new in seen:
        if new not in present and all(part in present for part in combinations(new, len(new) - 1)):
            yield terms.with_term(new)
    for old in terms.generators:
        if len(old) > 1:
            yield terms.without_term(old)


_NEAR_ZERO = (
    "the likelihood ratio has no p-value: shares of the larger model are near 0, or reports few, where it falls short of χ²; "
    "the score test holds there"
)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """Two models fitted to the same records, the smaller inside the larger; ``score`` tests the smaller one.

    ``ratio`` is the likelihood ratio G, ``ratio_p_value`` that of χ² with the score test's degrees of freedom, None where χ²
    does not hold.
    """

    smaller: LogLinear
    larger: LogLinear
    score: TestResult
    ratio: float
    ratio_p_value: float | None

    in_summary = ("score", "bic_difference", "warnings")

    @property
    def bic_difference(self) -> float:
        """BIC of the larger model minus that of the smaller: below 0 it gains more than its parameters cost."""
        return self.larger.bic - self.smaller.bic

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know."""
        fits = [line for model in (self.smaller, self.larger) for line in model.warnings]
        ratio = () if self.ratio_p_value is not None else (_NEAR_ZERO,)
        return (*dict.fromkeys([*fits, *self.score.warnings]), *ratio)

    def headline(self) -> str:
        """Both models, both tests."""
        ratio = "no p-value" if self.ratio_p_value is None else f"p = {self.ratio_p_value:.4g}"
        return (
            f"{self.smaller.terms} against {self.larger.terms}: score {self.score.statistic:.4f}, p = {self.score.p_value:.4g} "
            f"({self.score.source}); likelihood ratio {self.ratio:.4f}, {ratio}; {self.score.freedom}; BIC "
            f"{self.bic_difference:+.2f}"
        )

    def summary(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "smaller": str(self.smaller.terms),
            "larger": str(self.larger.terms),
            "df": self.score.df,
            "likelihood_ratio": self.ratio,
            "likelihood_ratio_p_value": self.ratio_p_value,
            **super().summary(),
        }

    def plot(self) -> Figure:
        """That of the score test."""
        return self.score.plot()


def beside(
    counts: Counts,
    mechanism: Randomizer,
    one: Iterable[Iterable[str]] | fitting.Terms,
    other: Iterable[Iterable[str]] | fitting.Terms,
    random_state: int | np.random.Generator | None = None,
) -> Comparison:
    """Compare two log-linear models of which one, in either place, is part of the other.

    Raises InvalidInput where neither is part of the other, and as :func:`optrr.analysis.loglinear.comparing.compare_models`.
    """
    first, second = (m if isinstance(m, fitting.Terms) else fitting.Terms.of(counts.domain, m) for m in (one, other))
    smaller, larger = (second, first) if second <= first else (first, second)
    score = compare_models(counts, mechanism, smaller, larger, random_state)
    inner, outer = fitted_model(counts, mechanism, smaller), fitted_model(counts, mechanism, larger)
    ratio = max(2 * (outer.log_likelihood - inner.log_likelihood), 0.0)
    return Comparison(inner, outer, score, ratio, float(chi2.sf(ratio, score.df)) if _clear(outer) else None)


def _clear(model: LogLinear) -> bool:
    """Whether a model's shares are clear of 0, and all of its expected reports many."""
    if np.isnan(model.covariance).any() or model.n * model.fitted.expected.min() < MANY_EXPECTED:
        return False
    shares, columns = model.proportions.ravel(), model.terms.columns().reshape(model.terms.parameters, -1)
    slopes = shares * (columns - (columns @ shares)[:, None])
    errors = np.sqrt(np.einsum("kc,kl,lc->c", slopes, model.covariance, slopes))
    return bool((shares >= CLEAR_OF_ZERO * errors).all())
