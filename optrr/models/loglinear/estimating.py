"""Fitting a log-linear model to randomized counts, and the choice of one by its information criterion."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

import numpy as np

from optrr.mechanisms.randomizer import Randomizer, checked_mechanism
from optrr.models.loglinear.coefficients import affordable, coefficient_intervals
from optrr.models.loglinear.comparing import LEAST_WORTH
from optrr.models.loglinear.fitting import fit
from optrr.models.loglinear.loglinear import LogLinear, check_seen
from optrr.models.loglinear.margins import NullModel
from optrr.models.loglinear.terms import Terms
from optrr.records.counts import Counts
from optrr.show.rounding import records_enough
from optrr.tables.estimation.impossible import warn_of_records
from optrr.tables.estimation.result import check_confidence, check_records


def fit_loglinear(
    counts: Counts,
    mechanism: Randomizer,
    generators: Iterable[Iterable[str]] | Terms,
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
    return _with_intervals(result, mechanism)


def fitted_model(counts: Counts, mechanism: Randomizer, generators: Iterable[Iterable[str]] | Terms) -> LogLinear:
    """The fit of a model without intervals. Raises as :func:`fit_loglinear`."""
    check_records(counts.n)
    terms = generators if isinstance(generators, Terms) else Terms.of(counts.domain, generators)
    check_seen(terms, checked_mechanism(mechanism))
    fitted = fit(terms, counts.proportions, mechanism.kernel(counts.domain.names))
    return LogLinear(counts, fitted, np.full((terms.parameters, 2), np.nan))


def _with_intervals(result: LogLinear, mechanism: Randomizer) -> LogLinear:
    """The result with intervals at its confidence, or with the reason why there are none."""
    why = ""
    table, model = result.counts.table.astype(np.float64), NullModel.of(result.terms, mechanism)
    if not affordable(result.terms):
        cells = result.counts.table.size
        why = (
            f"no intervals: {result.terms.parameters} parameters in {cells} cells are too many; leave out interactions"
        )
    else:
        worth = float(model.records_worth(model.fitted(table[None]), np.array([result.n]))[0])
        if worth < LEAST_WORTH:
            why = (
                f"no intervals: these records tell as much of the model as {worth:.2g} true ones a cell would, and intervals "
                f"need {LEAST_WORTH:g}: {records_enough(result.n * LEAST_WORTH / worth)}; else merge categories"
            )
    each = 1 - (1 - result.confidence) / (result.terms.parameters if result.simultaneous else 1)
    limits = result.limits if why else coefficient_intervals(model, table, result.coefficients, each)
    return replace(result, limits=limits, without_intervals=why)


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
    best = fitted_model(counts, mechanism, Terms.of(domain, ()))
    warn_of_records([counts], mechanism)
    while True:
        tried = [fitted_model(counts, mechanism, terms) for terms in _neighbours(best.terms, seen)]
        better = min(tried, key=lambda model: model.bic, default=best)
        if better.bic >= best.bic:
            hidden = tuple("*".join(names[chosen]) for chosen in sets if chosen not in seen)
            best = replace(best, confidence=confidence, simultaneous=simultaneous, hidden=hidden)
            return _with_intervals(best, mechanism)
        best = better


def _neighbours(terms: Terms, seen: list[tuple[int, ...]]) -> Iterable[Terms]:
    present = set(terms.sets)
    for new in seen:
        if new not in present and all(part in present for part in combinations(new, len(new) - 1)):
            yield terms.with_term(new)
    for old in terms.generators:
        if len(old) > 1:
            yield terms.without_term(old)
