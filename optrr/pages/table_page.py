"""The page of a result that is one table with warnings: measures of two attributes, models, weighted estimates, posteriors."""

from __future__ import annotations

from optrr.domain.scores import told_scores
from optrr.models.loglinear.likelihood_ratio import Comparison
from optrr.models.loglinear.loglinear import LogLinear
from optrr.models.regression.result import Regression
from optrr.pages.sections import CHARTED, ROWS, Given
from optrr.show.charts import figure_svg
from optrr.show.parts import Chart, Page, Part, Section, Table, Text
from optrr.show.printable import amount, cell, crossed, sentence
from optrr.tables.bayes.result import PROMISE, Posterior
from optrr.tables.measures.measure import Measures
from optrr.tables.weighting.result import WeightedEstimate

_Warned = Measures | LogLinear | Regression | WeightedEstimate | Posterior

_FOREST = (
    "Dots are estimates and lines their intervals, as in the table; one without an end is drawn as far as the others."
)


def measures_page(measured: Measures, given: Given) -> Page:
    """Comparisons with their intervals."""
    title = crossed((measured.groups, measured.outcomes))
    together = "all together" if measured.simultaneous else "each"
    words = measured.measure.replace("-", " ").capitalize()
    lead = [
        f"{words} of {title} among the people behind {measured.n} randomized records. Intervals hold {together} with "
        f"{100 * measured.confidence:g} % confidence; where one has no end, the noise leaves none."
    ]
    scores = None if measured.scores is None else [measured.scores]
    parts: list[Part] = [
        measured.shown().first(ROWS),
        *(Text(sentence(line)) for line in told_scores([measured.outcomes], scores, 2)),
    ]
    if len(measured.rows) <= CHARTED:
        parts.insert(0, Chart(figure_svg(measured.plot()), _FOREST, f"{measured.measure} of {title} with intervals"))
    return _page(f"{title}: {measured.measure}", lead, Section("Comparisons", parts), given, measured)


def model_page(model: LogLinear, given: Given, compared: Comparison | None = None) -> Page:
    """Coefficients with their errors, how the model fits, and what another one gains."""
    lead = [
        f"Log odds and log odds ratios among the people behind {model.n} randomized records, each with all else in the model."
    ]
    fits = (
        f"Log-likelihood {model.log_likelihood:.2f}, BIC {model.bic:.2f}, {amount(model.terms.parameters, 'parameter')}. First "
        "categories are the references."
    )
    parts: list[Part] = [model.shown().first(ROWS), Text(fits)]
    if len(model.labels) <= CHARTED:
        parts.insert(0, Chart(figure_svg(model.plot()), _FOREST, "Coefficients with intervals, as in the table"))
    if compared is not None:
        parts += [Text(f"{compared.headline()}."), *map(Text, compared.warnings)]
    return _page(str(model.terms), lead, Section("Coefficients", parts), given, model)


def regression_page(result: Regression, given: Given) -> Page:
    """Coefficients with their intervals, and a test of every term."""
    holds = f" Intervals hold each with {100 * result.confidence:g} % confidence." if result.estimated else ""
    lead = [
        f"A {result.fit.family} regression of {cell(result.fit.outcome.name)} among the people behind {result.n} randomized "
        f"records, by {result.method}.{holds}"
    ]
    parts: list[Part] = [result.shown().first(ROWS)]
    if result.estimated and len(result.coefficients) <= CHARTED:
        parts.insert(0, Chart(figure_svg(result.plot()), _FOREST, "Coefficients with intervals, as in the table"))
    tests = [(t.term, t.statistic, t.df, t.p_value) for t in result.terms]
    terms = Table(["term", "statistic", "degrees of freedom", "p-value"], tests, "Is every coefficient of a term 0?")
    return _page(result.fit.formula, lead, Section("Coefficients", [*parts, terms]), given, result)


def weighted_page(result: WeightedEstimate, given: Given) -> Page:
    """A table for each group, and how the records were sampled."""
    title = crossed(result.domain.names)
    lead = [
        f"Shares of {title} in the population behind a sample of {result.n} randomized records: {result.sampling}. Each "
        f"interval holds the truth with {100 * result.confidence:g} % confidence."
    ]
    shown = result.shown()
    parts: list[Part] = [shown.first(ROWS), Text(result.interval_note)]
    if len(shown.rows) <= CHARTED:
        parts.insert(0, Chart(figure_svg(result.plot()), "", f"Shares of {title} with intervals"))
    return _page(f"{title}, weighted", lead, Section("Estimate", parts), given, result)


def posterior_page(result: Posterior, given: Given) -> Page:
    """Credible intervals of a table's cells, their prior, and what they promise."""
    title = crossed(result.domain.names)
    lead = [
        f"Shares of {title} among the people behind {result.n} randomized records, for somebody who thought beforehand what "
        f"the prior says: {100 * result.confidence:g}% credible intervals, each alone."
    ]
    notes = [Text(f"{said}.") for said in (result.prior_text, result.drawn_text)]
    parts: list[Part] = [result.shown().first(ROWS), *notes, Text(PROMISE)]
    if result.prior.size <= CHARTED:
        described = f"Posterior means of {title} with credible intervals, as in the table"
        parts.insert(0, Chart(figure_svg(result.plot()), description=described))
    return _page(f"{title}, posterior", lead, Section("Posterior", parts), given, result)


def _page(title: str, lead: list[str], section: Section, given: Given, result: _Warned) -> Page:
    return given.page(title, lead, [section], result.n, result.warnings)
