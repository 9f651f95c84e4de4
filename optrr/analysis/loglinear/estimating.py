"""Results of log-linear models of randomized counts: fits, intervals, selection by BIC, comparison of nested models.

Intervals of coefficients invert tests: a value is inside where the score test does not reject it, with the others at
their maximum-likelihood values (:mod:`optrr.analysis.equations`). Where cells go to 0 a coefficient has no finite
estimate, but a value can still be tested, so that intervals are finite on a side where the records bound them, and
infinite elsewhere.

The limit of the likelihood ratio (:mod:`optrr.analysis.nested`) needs a larger model whose fitted proportions are clear
of 0. Where one of them is near 0, or at it, G falls short of χ², and no p-value of it is given; the score test needs
the smaller model's margins only (:mod:`optrr.analysis.loglinear.comparing`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import inf, log
from typing import TYPE_CHECKING, Any

import numpy as np

from optrr.analysis.equations import Solved, limits
from optrr.analysis.loglinear import fitting
from optrr.analysis.loglinear.comparing import LEAST_WORTH, compare_models
from optrr.analysis.nested import Comparison
from optrr.core.display import OneTable, TableResult, Text, amount, in_json, intervals_said, records_enough, sentence
from optrr.core.errors import InvalidInput
from optrr.core.estimation import EstimatedTable, check_confidence, check_records, chi2, norm, warn_of_records
from optrr.core.inference import CLEAR_OF_ZERO, MANY_EXPECTED
from optrr.core.mechanisms import Randomizer, checked_mechanism
from optrr.core.records import Counts
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

_UNBOUNDED = (
    "a proportion of the fitted table is 0, so that some coefficients have no finite estimate; leave out an "
    "interaction, or merge "
    "categories"
)
_NOT_DONE = "the fit stopped before the likelihood was at its maximum; leave out an interaction"
# People that the fit expects in a cell that goes to 0, where it stops; so few have a maximum there only in theory.
_NOBODY = 1e-3


@dataclass(frozen=True, eq=False, repr=False)
class LogLinear(TableResult):
    """A log-linear model of the true proportions of a table, by maximum likelihood.

    ``coefficients`` (p,) are logarithms of odds (one attribute) and of odds ratios (two) against first categories, in
    the order of ``labels``, infinite where they have no finite maximum, NaN if that leaves them no limit either;
    ``standard_errors`` come from the information of the randomized records, NaN if they have none. ``limits`` (p, 2)
    are ends of intervals that invert each coefficient's score test and hold for it alone, at ``confidence``, or for all
    coefficients together where ``simultaneous``: infinite where the records give no limit, NaN if there are no
    intervals, and ``without_intervals`` says why. ``proportions`` is the fitted table, ``log_likelihood`` in nats over
    all n records, None for complete cases and answers to local queries, of which a fit is generalised least squares and
    has no AIC or BIC. ``hidden`` are the interactions that a search left out because the mechanism hides them.
    """

    counts: Counts | EstimatedTable
    terms: fitting.Terms
    equations: fitting.LogLinearEquations
    solved: Solved
    limits: FloatArray
    mechanism: Randomizer | None = None
    confidence: float = 0.95
    simultaneous: bool = False
    hidden: tuple[str, ...] = ()
    without_intervals: str = ""

    in_summary = ("n", "log_likelihood", "aic", "bic", "confidence", "simultaneous", "warnings")

    @property
    def n(self) -> int:
        """Number of records."""
        return self.counts.n

    @property
    def labels(self) -> list[str]:
        """Names of the coefficients."""
        return self.terms.labels()

    @cached_property
    def coefficients(self) -> FloatArray:
        """Estimated coefficients β, shape (p,).

        Infinite if vanishing proportions take a coefficient there, NaN if it has no limit.
        """
        empty = self.n * self.proportions.ravel() <= _NOBODY
        found = self.solved.theta[0]
        return fitting.limits_of_coefficients(found, self.equations.columns, empty) if empty.any() else found

    @property
    def _unbounded(self) -> bool:
        """Whether some coefficient has no finite maximum."""
        return not np.isfinite(self.coefficients).all()

    @cached_property
    def covariance(self) -> FloatArray:
        """Covariance of the coefficients, (p, p).

        NaN if the records do not inform about all of them.
        """
        information = self.n * self.equations.efficient(self.solved.theta)[1][0]
        if self._unbounded or np.linalg.cond(information) > 1 / np.finfo(np.float64).eps:
            return np.full(information.shape, np.nan)
        return np.asarray(np.linalg.inv(information))

    @property
    def standard_errors(self) -> FloatArray:
        """Standard errors of the coefficients, shape (p,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def proportions(self) -> FloatArray:
        """The fitted table."""
        return np.asarray(self.equations.proportions(self.solved.theta)[0].reshape(self.terms.domain.sizes))

    @property
    def log_likelihood(self) -> float | None:
        """Log-likelihood of all records, in nats; None if there is no likelihood."""
        found = self.equations.log_likelihood(self.solved.theta)
        return None if found is None else float(found[0])

    @property
    def aic(self) -> float | None:
        """Akaike's criterion, −2 log-likelihood + 2 parameters; smaller is better.

        Akaike, IEEE Trans. Automat. Contr. 19, 1974.
        """
        return None if (likely := self.log_likelihood) is None else 2 * (self.terms.parameters - likely)

    @property
    def bic(self) -> float | None:
        """Schwarz's criterion, −2 log-likelihood + parameters · ln n.

        Schwarz, Ann. Stat. 6, 1978.
        """
        return (
            None if (likely := self.log_likelihood) is None else self.terms.parameters * self.log_records - 2 * likely
        )

    @property
    def log_records(self) -> float:
        """ln n."""
        return log(self.n)

    @property
    def model(self) -> str:
        """The terms, as a formula has them."""
        return str(self.terms)

    def compare(self, other: LogLinear | str, random_state: int | np.random.Generator | None = None) -> Comparison:
        """Compare with a model of the same records that holds this one or is part of it.

        Parameters
        ----------
        other
            another fit, or its terms, such as "a*b + c".
        random_state
            Seed or generator of the tables that the score test's p-value may be drawn from.

        Returns
        -------
        Comparison
            The score test, the likelihood ratio, AIC and BIC.

        Raises
        ------
        InvalidInput
            where neither model is part of the other, for other records, and for a model of an estimated table.
        """
        if self.mechanism is None or isinstance(self.counts, EstimatedTable):
            raise InvalidInput(
                "models of answers to local queries and of complete cases have no likelihood; compare them by tests"
            )
        if isinstance(other, str):
            other = fitted_model(self.counts, self.mechanism, fitting.parse_terms(other, self.counts.domain))
        theirs = other.counts if isinstance(other.counts, Counts) else None
        if theirs is None or theirs.domain != self.counts.domain or (theirs.table != self.counts.table).any():
            raise InvalidInput("the two models are of other records or attributes; fit both to the same table")
        inner, outer = (other, self) if other.terms <= self.terms else (self, other)
        score = compare_models(self.counts, self.mechanism, inner.terms, outer.terms, random_state)
        most, least = outer.log_likelihood, inner.log_likelihood
        assert most is not None and least is not None  # both are of records
        ratio = max(2 * (most - least), 0.0)
        clear = _clear(outer)
        p_value = float(chi2.sf(ratio, score.df)) if clear else None
        return Comparison(inner, outer, score, ratio, p_value, () if clear else (_NEAR_ZERO,))

    def _axis(self) -> tuple[str, float]:
        return f"coefficient, {intervals_said(self.confidence, self.simultaneous)}", 0.0

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the reader."""
        hidden = (
            f"the mechanism hides {', '.join(self.hidden)}, and the search left them out; preserve pairs in the "
            "design to estimate them"
        )
        said = ((hidden, self.hidden), (_UNBOUNDED, self._unbounded), (_NOT_DONE, not self.solved.converged[0]))
        lines = (self.without_intervals, *(line for line, holds in said if holds))
        return tuple(line for line in lines if line)

    def headline(self) -> str:
        """Summarize the model, its size and the number of records."""
        size = amount(self.terms.parameters, "parameter")
        return f"{self.terms}: {size}, {self.n} records"

    def sentences(self) -> list[str]:
        """Explain intervals, coefficients and goodness of fit."""
        kind = intervals_said(self.confidence, self.simultaneous)
        return [f"log odds and log odds ratios against first categories, {kind}", *self._fit()]

    def _fit(self) -> list[str]:
        """State the likelihood, if there is one."""
        if self.log_likelihood is None:
            return []
        return [f"log-likelihood {self.log_likelihood:.2f}, AIC {self.aic:.2f}, BIC {self.bic:.2f}"]

    def on_page(self, comparison: Comparison | None = None, **_beside: Any) -> OneTable:
        """Build the content of the HTML report, with a ``comparison`` if given."""
        lead = (
            f"Log odds and log odds ratios among the respondents of {self.n} randomized records, each with all else "
            "in the "
            "model."
        )
        fits = f"{amount(self.terms.parameters, 'parameter')}. First categories are the references."
        beside = [] if comparison is None else [f"{comparison.headline()}.", *comparison.warnings]
        notes = [Text(line) for line in (fits, *map(sentence, self._fit()), *beside)]
        return OneTable(
            str(self.terms), lead, "Coefficients", "Coefficients with intervals, as in the table", notes=notes
        )

    def to_arrow(self) -> pa.Table:
        """Convert to a table with one row per coefficient.

        Columns are parameter, estimate, standard_error, lower, upper.
        """
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
        """Return the JSON object, with None for unknown values."""
        return {
            "model": self.model,
            "attributes": list(self.counts.domain.names),
            "parameters": self.terms.parameters,
            "coefficients": in_json(self.to_arrow().to_pylist()),
            **super().summary(),
        }


# Where a cell goes to 0 a standard error is of no use; steps of this size do not miss a limit.
_LARGEST_ERROR = 1.0
# And no search of a limit begins at larger log odds.
_FARTHEST_START = 12.0
# Parameters cubed times cells: a limit takes some ten fits, so that the intervals of such a model take about ten seconds.
_MOST_WORK = 20_000_000


def fit_loglinear(
    counts: Counts,
    mechanism: Randomizer,
    generators: Iterable[Iterable[str]],
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> LogLinear:
    """Fit a hierarchical log-linear model to randomized counts.

    The model is that of the true proportions.

    Parameters
    ----------
    counts
        Counts of the model's attributes; up to some 10^5 cells.
    generators
        attribute sets that interact, such as ``[("sex", "income"), ("age",)]``; their subsets are included.
    confidence
        Confidence of each coefficient's interval; large models, whose intervals would take longer than some ten
        seconds, have none.
    simultaneous
        intervals with that confidence jointly, by Bonferroni's inequality, instead of each alone.

    Raises
    ------
    InvalidInput
        for unknown attributes, too many parameters, or interactions that the mechanism hides.
    """
    check_confidence(confidence)
    result = replace(fitted_model(counts, mechanism, generators), confidence=confidence, simultaneous=simultaneous)
    warn_of_records([counts], mechanism)
    return _shown_by(result, counts, mechanism)


def fitted_model(counts: Counts, mechanism: Randomizer, generators: Iterable[Iterable[str]]) -> LogLinear:
    """Fit a model without intervals; raise as :func:`fit_loglinear` does."""
    check_records(counts.n)
    terms = fitting.Terms.of(counts.domain, generators)
    fitting.check_seen(terms, checked_mechanism(mechanism))
    fitted = fitting.fit(terms, counts.proportions, mechanism.kernel(counts.domain.names), counts.n)
    return LogLinear(counts, terms, *fitted, np.full((terms.parameters, 2), np.nan), mechanism)


def with_intervals(result: LogLinear, worth: float = inf) -> LogLinear:
    """Add intervals to a result, or the reason for their absence.

    ``worth`` true records a cell would have as much information as the result's.
    """
    why, terms, cells = "", result.terms, result.equations.columns.shape[1]
    if terms.parameters**3 * cells > _MOST_WORK:
        why = f"no intervals: {terms.parameters} parameters in {cells} cells are too many; leave out interactions"
    elif worth < LEAST_WORTH:
        why = (
            f"no intervals: these records have as much information on the model as {worth:.2g} true records a cell, "
            f"and intervals need {LEAST_WORTH:g}: {records_enough(result.n * LEAST_WORTH / worth)}; else merge "
            "categories"
        )
    if why:
        return replace(result, without_intervals=why)
    each = (1 - result.confidence) / (terms.parameters if result.simultaneous else 1)
    theta, deviate = result.solved.theta[0], float(norm.isf(each / 2))
    errors = np.minimum(np.nan_to_num(result.standard_errors, nan=_LARGEST_ERROR), _LARGEST_ERROR)
    ends = []
    for k, error in enumerate(errors):
        # a search that begins where a cell is empty has no score to begin with
        start = theta.copy()
        start[k] = np.clip(start[k], -_FARTHEST_START, _FARTHEST_START)
        ends.append(limits(result.equations, k, start, float(error), deviate))
    # an estimate without a limit is NaN, and moves no end
    low, high = np.array(ends).T
    return replace(
        result, limits=np.stack([np.fmin(low, result.coefficients), np.fmax(high, result.coefficients)], axis=1)
    )


def _shown_by(result: LogLinear, counts: Counts, mechanism: Randomizer) -> LogLinear:
    """Add intervals if the records show the model's margins well enough."""
    model = fitting.NullModel.of(result.terms, mechanism)
    fits = model.fitted(counts.table[None].astype(np.float64))
    return with_intervals(result, float(model.records_worth(fits, np.array([counts.n]))[0]))


def stepwise(
    counts: Counts, mechanism: Randomizer, order: int = 2, confidence: float = 0.95, simultaneous: bool = False
) -> LogLinear:
    """Search for a model by adding or removing one interaction at a time.

    It continues while BIC falls and does not guarantee the best model.

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
        better = min([best, *tried], key=lambda model: inf if model.bic is None else model.bic)
        if better is best:
            hidden = tuple("*".join(names[chosen]) for chosen in sets if chosen not in seen)
            best = replace(best, confidence=confidence, simultaneous=simultaneous, hidden=hidden)
            return _shown_by(best, counts, mechanism)
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
    "the likelihood ratio has no p-value: proportions of the larger model are near 0, or reports few, where it falls "
    "short of χ²; "
    "the score test holds there"
)


def _clear(model: LogLinear) -> bool:
    """Check that proportions are clear of 0 and all expected reports are many."""
    if (
        np.isnan(model.covariance).any()
        or model.n * model.equations.at(model.solved.theta).expected.min() < MANY_EXPECTED
    ):
        return False
    shares, columns = model.proportions.ravel(), model.equations.columns
    slopes = shares * (columns - (columns @ shares)[:, None])
    errors = np.sqrt(np.einsum("kc,kl,lc->c", slopes, model.covariance, slopes))
    return bool((shares >= CLEAR_OF_ZERO * errors).all())
