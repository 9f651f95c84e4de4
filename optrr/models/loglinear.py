"""A fitted log-linear model as a result, and the choice of one by its information criterion."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from optrr.errors import InvalidInput
from optrr.mechanisms.randomizer import Randomizer, checked_mechanism
from optrr.models.fitting import Fitted, fit
from optrr.models.terms import Terms
from optrr.records.counts import Counts
from optrr.results import TableResult
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

_UNBOUNDED = (
    "a share of the fitted table is 0, so that some coefficients have no finite estimate; leave out an interaction, or merge "
    "categories"
)
_NOT_DONE = "the fit stopped before the likelihood was at its maximum; leave out an interaction"
# A step that promises more nats per record than this is a fit that is not final.
_FINAL = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class LogLinear(TableResult):
    """A log-linear model of the true proportions of a table, by maximum likelihood.

    ``coefficients`` (p,) are logarithms of odds (one attribute) and of odds ratios (two) against first categories, in the
    order of ``labels``; ``standard_errors`` come from the information of the randomized records, NaN where they have none.
    ``proportions`` is the fitted table, ``log_likelihood`` in nats over all n records. ``hidden`` are the interactions that a
    search left out because the mechanism hides them.
    """

    counts: Counts
    fitted: Fitted
    hidden: tuple[str, ...] = ()

    @property
    def terms(self) -> Terms:
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

    @property
    def coefficients(self) -> FloatArray:
        """β, (p,)."""
        return self.fitted.coefficients

    @cached_property
    def covariance(self) -> FloatArray:
        """Of the coefficients, (p, p); NaN where the records hold no information on all of them."""
        information = self.n * self.fitted.information
        if self.fitted.unbounded or np.linalg.cond(information) > 1 / np.finfo(np.float64).eps:
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

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know."""
        hidden = (
            f"the mechanism hides {', '.join(self.hidden)}, and the search left them out; preserve pairs to show pairs"
        )
        said = ((hidden, self.hidden), (_UNBOUNDED, self.fitted.unbounded), (_NOT_DONE, self.fitted.gain > _FINAL))
        return tuple(line for line, holds in said if holds)

    def headline(self) -> str:
        """The model and how it fits."""
        return f"{self.terms}: {self.terms.parameters} parameters, log-likelihood {self.log_likelihood:.2f}, {self.n} records"

    def to_arrow(self) -> pa.Table:
        """One row per coefficient: parameter, estimate, standard_error."""
        import pyarrow as pa  # noqa: PLC0415 (slow to import)

        return pa.table(
            {
                "parameter": pa.array(self.labels, pa.string()),
                "estimate": pa.array(self.coefficients),
                "standard_error": pa.array(self.standard_errors),
            }
        )

    def summary(self) -> dict[str, Any]:
        """As a JSON object; None for what is not known."""
        rows = [
            {k: None if isinstance(v, float) and np.isnan(v) else v for k, v in row.items()}
            for row in self.to_arrow().to_pylist()
        ]
        return {
            "model": str(self.terms),
            "attributes": list(self.counts.domain.names),
            "n": self.n,
            "parameters": self.terms.parameters,
            "log_likelihood": self.log_likelihood,
            "bic": self.bic,
            "coefficients": rows,
            "warnings": list(self.warnings),
        }


def fit_loglinear(
    counts: Counts,
    mechanism: Randomizer,
    generators: Iterable[Iterable[str]] | Terms,
) -> LogLinear:
    """Fit a hierarchical log-linear model to the true proportions behind randomized counts.

    Parameters
    ----------
    counts
        of the attributes that the model speaks of; up to some 10^5 cells.
    generators
        attribute sets that interact, such as ``[("sex", "income"), ("age",)]``; their subsets are included.

    Raises
    ------
    InvalidInput
        for unknown attributes, too many parameters, or interactions that the mechanism hides.
    """
    if counts.n < 2:
        raise InvalidInput(f"{counts.n} record shows no proportions; count at least 2")
    terms = generators if isinstance(generators, Terms) else Terms.of(counts.domain, generators)
    check_seen(terms, checked_mechanism(mechanism))
    return LogLinear(counts, fit(terms, counts.proportions, mechanism.kernel(counts.domain.names)))


def check_seen(terms: Terms, mechanism: Randomizer) -> None:
    """Refuse a model with an interaction that the mechanism hides. Raises SingularMarginal, which names it."""
    for generator in terms.generators:
        mechanism.kernel(tuple(terms.domain.names[i] for i in generator)).check_invertible()


def stepwise(counts: Counts, mechanism: Randomizer, order: int = 2) -> LogLinear:
    """The model found by adding or leaving out one interaction after the other while BIC falls; a search, not a proof.

    It starts from independence and considers sets of up to ``order`` attributes, each once all of its subsets are in. The
    search chose the model because it fits, so that errors and tests from the same records are too good; the result does not
    know that. Sets that the mechanism hides are left out, and the result names them.
    """
    domain = counts.domain
    sets = [chosen for size in range(2, order + 1) for chosen in combinations(range(domain.m), size)]
    names = {chosen: tuple(domain.names[i] for i in chosen) for chosen in sets}
    seen = [chosen for chosen in sets if checked_mechanism(mechanism).kernel(names[chosen]).is_invertible]
    best = fit_loglinear(counts, mechanism, Terms.of(domain, ()))
    while True:
        tried = [fit_loglinear(counts, mechanism, terms) for terms in _neighbours(best.terms, seen)]
        better = min(tried, key=lambda model: model.bic, default=best)
        if better.bic >= best.bic:
            return replace(best, hidden=tuple("*".join(names[chosen]) for chosen in sets if chosen not in seen))
        best = better


def _neighbours(terms: Terms, seen: list[tuple[int, ...]]) -> Iterable[Terms]:
    present = set(terms.sets)
    for new in seen:
        if new not in present and all(part in present for part in combinations(new, len(new) - 1)):
            yield terms.with_term(new)
    for old in terms.generators:
        if len(old) > 1:
            yield terms.without_term(old)
