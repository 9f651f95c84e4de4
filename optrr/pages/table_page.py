"""The page of a result that is one table with warnings: measures of two attributes, models, weighted estimates, posteriors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from optrr.domain.scores import told_scores
from optrr.models.loglinear.likelihood_ratio import Comparison
from optrr.models.loglinear.loglinear import LogLinear
from optrr.models.regression.result import Regression
from optrr.pages.sections import CHARTED, ROWS, Given
from optrr.show.charts import figure_svg
from optrr.show.parts import Chart, Page, Part, Section, Table, Text
from optrr.show.printable import amount, cell, crossed, sentence
from optrr.show.result import TableResult
from optrr.tables.bayes.result import PROMISE, Posterior
from optrr.tables.measures.measure import Measures
from optrr.tables.weighting.result import WeightedEstimate

_OneTable = Measures | LogLinear | Regression | WeightedEstimate | Posterior

_FOREST = (
    "Dots are estimates and lines their intervals, as in the table; one without an end is drawn as far as the others."
)
_COEFFICIENTS = "Coefficients with intervals, as in the table"


@singledispatch
def table_page(result: TableResult, given: Given) -> Page:
    """The page of a result that is one table; a log-linear model's takes the ``comparison`` with another one, too."""
    raise NotImplementedError(type(result).__name__)


@table_page.register
def _(result: Measures, given: Given) -> Page:
    title = crossed((result.groups, result.outcomes))
    together = "all together" if result.simultaneous else "each"
    words = result.measure.replace("-", " ").capitalize()
    lead = (
        f"{words} of {title} among the people behind {result.n} randomized records. Intervals hold {together} with "
        f"{100 * result.confidence:g} % confidence; where one has no end, the noise leaves none."
    )
    scores = None if result.scores is None else [result.scores]
    notes = [Text(sentence(line)) for line in told_scores([result.outcomes], scores, 2)]
    chart = _FOREST, f"{result.measure} of {title} with intervals"
    return _page((f"{title}: {result.measure}", lead, "Comparisons"), result, given, chart, notes)


@table_page.register
def _(result: LogLinear, given: Given, comparison: Comparison | None = None) -> Page:
    lead = (
        f"Log odds and log odds ratios among the people behind {result.n} randomized records, each with all else in the "
        "model."
    )
    fits = (
        f"Log-likelihood {result.log_likelihood:.2f}, BIC {result.bic:.2f}, {amount(result.terms.parameters, 'parameter')}. "
        "First categories are the references."
    )
    beside = [] if comparison is None else [f"{comparison.headline()}.", *comparison.warnings]
    notes = [Text(line) for line in (fits, *beside)]
    return _page((str(result.terms), lead, "Coefficients"), result, given, (_FOREST, _COEFFICIENTS), notes)


@table_page.register
def _(result: Regression, given: Given) -> Page:
    holds = f" Intervals hold each with {100 * result.confidence:g} % confidence." if result.estimated else ""
    lead = (
        f"A {result.fit.family} regression of {cell(result.fit.outcome.name)} among the people behind {result.n} randomized "
        f"records, by {result.method}.{holds}"
    )
    tests = [(t.term, t.statistic, t.df, t.p_value) for t in result.terms]
    terms = Table(["term", "statistic", "degrees of freedom", "p-value"], tests, "Is every coefficient of a term 0?")
    chart = (_FOREST, _COEFFICIENTS) if result.estimated else None
    return _page((result.fit.formula, lead, "Coefficients"), result, given, chart, [terms])


@table_page.register
def _(result: WeightedEstimate, given: Given) -> Page:
    title = crossed(result.domain.names)
    lead = (
        f"Shares of {title} in the population behind a sample of {result.n} randomized records: {result.sampling}. Each "
        f"interval holds the truth with {100 * result.confidence:g} % confidence."
    )
    chart = "", f"Shares of {title} with intervals"
    return _page((f"{title}, weighted", lead, "Estimate"), result, given, chart, [Text(result.interval_note)])


@table_page.register
def _(result: Posterior, given: Given) -> Page:
    title = crossed(result.domain.names)
    lead = (
        f"Shares of {title} among the people behind {result.n} randomized records, for somebody who thought beforehand what "
        f"the prior says: {100 * result.confidence:g}% credible intervals, each alone."
    )
    notes = [Text(line) for line in (f"{result.prior_text}.", f"{result.drawn_text}.", PROMISE)]
    chart = "", f"Posterior means of {title} with credible intervals, as in the table"
    return _page((f"{title}, posterior", lead, "Posterior"), result, given, chart, notes)


def _page(
    said: tuple[str, str, str], result: _OneTable, given: Given, chart: tuple[str, str] | None, notes: Sequence[Part]
) -> Page:
    """A chart where rows are few, the table, and ``notes``; ``said``: title, opening and heading, ``chart``: what it shows."""
    title, lead, heading = said
    shown = result.shown()
    parts: list[Part] = [shown.first(ROWS), *notes]
    if chart is not None and len(shown.rows) <= CHARTED:
        parts.insert(0, Chart(figure_svg(result.plot()), *chart))
    return given.page(title, [lead], [Section(heading, parts)], result.n, result.warnings)
