"""A fitted regression as a result: coefficients with errors, tests and intervals, predictions, a summary that people know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optrr.errors import InvalidInput
from optrr.models.regression.families import Choices, Levels
from optrr.models.regression.formulas import Fit
from optrr.records.counts import encoded
from optrr.show.result import TableResult, arrow_rows, intervals_said
from optrr.show.text import category_word
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Coefficient:
    """A parameter: its estimate, standard error, score test of 0 and interval; NaN and infinite where there is none.

    ``statistic`` is the signed root of the test's χ², large where the data ask for more than 0.
    """

    parameter: str
    estimate: float
    standard_error: float
    statistic: float
    p_value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class TermTest:
    """Score test that all columns of a term have coefficient 0; NaN where there is none."""

    term: str
    statistic: float
    df: int
    p_value: float


class RegressionSummary(dict[str, Any]):
    """The JSON object of a regression, which prints as a table."""

    def __str__(self) -> str:
        head = [
            f"{'Outcome':<12}{self['outcome']}   ({self['family']}{_event(self)})",
            f"{'Method':<12}{self['method']}",
            f"{'Records':<12}{self['n']}",
        ]
        if self["log_likelihood"] is not None:
            head.append(f"{'Log-lik.':<12}{self['log_likelihood']:.2f}")
        lines = self._aligned()
        rule = "=" * max(map(len, [*head, *lines]))
        tests = [
            f"{t['term']}: chi2({t['df']}) = {_shown(t['statistic'])}, p = {_shown(t['p_value'])}"
            for t in self["terms"]
            if t["statistic"] is not None
        ]
        return "\n".join([rule, *head, rule, *lines, rule, *tests, *(f"warning: {w}" for w in self["warnings"])])

    def _aligned(self) -> list[str]:
        """The coefficients' table."""
        tail = round((1 - self["confidence"]) / 2, 9)
        names = ["", "coef", "std err", "z", "P>|z|", f"{tail:g}", f"{round(1 - tail, 9):g}"]
        rows = [names, *([r["parameter"], *(_shown(r[k]) for k in _NUMBERS)] for r in self["coefficients"])]
        widths = [max(len(row[i]) for row in rows) for i in range(len(names))]
        return [
            "  ".join([row[0].ljust(widths[0]), *(v.rjust(w) for v, w in zip(row[1:], widths[1:], strict=True))])
            for row in rows
        ]

    __repr__ = __str__


_NUMBERS = ("estimate", "standard_error", "statistic", "p_value", "lower", "upper")


@dataclass(frozen=True, eq=False, repr=False)
class Regression(TableResult):
    """A regression of the true records, from randomized ones; the target is the population.

    ``covariance`` is that of the parameters, (p, p), in the order of ``coefficients``. Standard errors are for orientation:
    tests and intervals are not made from them (:mod:`optrr.models.regression.solving`). Where no solution of the equations is
    reached, there are tests alone: estimates and covariance are NaN, intervals the whole line, and ``estimated`` is False.
    """

    fit: Fit
    method: str
    n: int
    confidence: float
    coefficients: tuple[Coefficient, ...]
    terms: tuple[TermTest, ...]
    covariance: FloatArray
    log_likelihood: float | None
    warnings: tuple[str, ...] = ()

    in_summary = ("method", "n", "confidence", "coefficients", "terms", "log_likelihood", "warnings")

    @property
    def params(self) -> dict[str, float]:
        """Estimates by parameter."""
        return {c.parameter: c.estimate for c in self.coefficients}

    @property
    def estimates(self) -> FloatArray:
        """(p,)."""
        return np.array([c.estimate for c in self.coefficients])

    @property
    def estimated(self) -> bool:
        """Whether a solution of the equations was reached; else there are tests alone."""
        return bool(np.isfinite(self.estimates).all())

    def headline(self) -> str:
        """The formula, the family and the number of records."""
        alone = "" if self.estimated else ", tests without estimates"
        return f"{self.fit.formula} ({self.fit.family}), {self.n} records{alone}"

    def to_arrow(self) -> pa.Table:
        """One row per parameter: parameter, estimate, standard_error, statistic, p_value, lower, upper."""
        return arrow_rows(self.coefficients, ("parameter",), _NUMBERS)

    def plot(self) -> Figure:
        """Every coefficient with its interval, up to the largest finite number where it has no end, and a line at 0.

        Raises
        ------
        InvalidInput
            where there are no estimates.
        """
        self._check_estimated("draw")
        return super().plot()

    def _axis(self) -> tuple[str, float]:
        return f"coefficient, {intervals_said(self.confidence)}", 0.0

    def summary(self) -> RegressionSummary:
        """The command line's JSON object, which prints as a table; None for what is not a finite number."""
        outcome = self.fit.outcome
        return RegressionSummary(
            formula=self.fit.formula,
            family=self.fit.family,
            outcome=outcome.name,
            event=category_word(outcome.texts[1]) if self.fit.family == "logistic" else None,
            **super().summary(),
        )

    def predict(self, data: Any) -> FloatArray:
        """What the model expects: means (linear), chances of the second category (logistic) or of all (else).

        Parameters
        ----------
        data
            a frame or file with the predictors' columns, unrandomized: what a person's record would be.

        Returns
        -------
        (N,), or (N, r) for an ordered or multinomial outcome.

        Raises
        ------
        InvalidInput
            for missing columns, for undeclared values, by their place, and where there are no estimates.
        """
        self._check_estimated("predict from")
        predictors = self.fit.predictors
        x = predictors.at(encoded(data, predictors.domain).astype(np.int64))
        if self.fit.family == "linear":
            return np.asarray(x @ self.estimates)
        kept, r = [c for c in range(x.shape[1]) if c != predictors.intercept], self.fit.outcome.size
        if self.fit.family == "multinomial":
            level = x[:, self.fit.columns] @ self.estimates.reshape(r - 1, -1).T
            return np.asarray(Choices.of(level[None, None]).p[0, 0])
        chances = Levels.at(self.estimates[None], x[None, :, kept], r).p[0, 0]
        return np.asarray(chances[:, 1] if self.fit.family == "logistic" else chances)

    def _check_estimated(self, purpose: str) -> None:
        if not self.estimated:
            raise InvalidInput(
                f"there are no estimates to {purpose}: no solution of the equations of {self.fit.formula!r} was reached, and "
                "the result holds tests alone; collect more records, or leave out predictors"
            )


def _event(summary: RegressionSummary) -> str:
    return f", chances of {summary['event']}" if summary["event"] is not None else ""


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if abs(value) >= 0.001 or value == 0 else f"{value:.2g}"
