"""A fitted log-linear model as a result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from optrr.mechanisms.mechanism import Randomizer
from optrr.models.loglinear.fitting import FittedLogLinear, limits_of_coefficients
from optrr.models.loglinear.margins import Terms
from optrr.records.counts import Counts
from optrr.show.result import TableResult, in_json, intervals_said
from optrr.show.text import amount
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

    from optrr.tables.estimation.impossible import CountedTable

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
    fitted: FittedLogLinear
    limits: FloatArray
    confidence: float = 0.95
    simultaneous: bool = False
    hidden: tuple[str, ...] = ()
    without_intervals: str = ""

    in_summary = ("n", "log_likelihood", "bic", "confidence", "simultaneous", "warnings")

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

    @cached_property
    def coefficients(self) -> FloatArray:
        """β, (p,); infinite where shares that go to 0 take one there, NaN where they leave it without a limit."""
        empty = self.n * self.proportions.ravel() <= _NOBODY
        flat = self.terms.columns().reshape(self.terms.parameters, -1)
        return (
            limits_of_coefficients(self.fitted.coefficients, flat, empty) if empty.any() else self.fitted.coefficients
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


def check_seen(terms: Terms, mechanism: Randomizer) -> None:
    """Refuse a model with an interaction that the mechanism hides. Raises SingularMarginal, which names it."""
    for generator in terms.generators:
        mechanism.kernel(tuple(terms.domain.names[i] for i in generator)).check_invertible()
