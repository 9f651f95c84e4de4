"""The page of a test: its hypothesis, the result, how far the p-value can be trusted, and the tables it was made on.

The page of a result that is one table with warnings: measures of two attributes, models, weighted estimates.

The page of an estimate: its table and chart, statistics of the table, what fake reports could do, and what to know of it.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch

from optrr.analysis.loglinear.estimating import Comparison, LogLinear
from optrr.analysis.measures.among import said_among
from optrr.analysis.measures.measure import Measures
from optrr.analysis.regression.fitting import Regression
from optrr.analysis.weighting.estimating import WeightedEstimate
from optrr.core.display.charts import figure_svg
from optrr.core.display.parts import Chart, Page, Part, Section, Table, Text, warned
from optrr.core.display.result import TableResult
from optrr.core.display.text import amount, cell, crossed, sentence
from optrr.core.domain.domain import told_scores
from optrr.core.estimation.derived import Derived, told_estimators
from optrr.core.estimation.estimator import Estimate
from optrr.core.estimation.poisoned import Poisoning
from optrr.core.inference.result import TestFamily, TestResult
from optrr.core.records.counts import Counts
from optrr.pages.sections import CHARTED, ROWS, Given

_OneTable = Measures | LogLinear | Regression | WeightedEstimate | TestFamily

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
    title = crossed(result.attributes)
    together = "all together" if result.simultaneous else "each"
    words = result.measure.replace("-", " ").capitalize()
    lead = (
        f"{words} of {title} behind {result.n} randomized records{said_among(result.among)}. Intervals hold {together} with "
        f"{100 * result.confidence:g} % confidence; where one has no end, the noise leaves none."
    )
    scores = None if result.scores is None else [result.scores]
    notes = [Text(sentence(line)) for line in told_scores(result.attributes[-1:], scores, 2)]
    notes += [Text(sentence(result.note))] if result.note else []
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
    lead = (
        f"A {result.fit.family} regression of {cell(result.fit.outcome.name)} among the people behind {result.n} randomized "
        f"records, by {result.method}. Intervals hold each with {100 * result.confidence:g} % confidence."
    )
    tests = [(t.term, t.statistic, t.df, t.p_value) for t in result.terms]
    terms = Table(["term", "statistic", "degrees of freedom", "p-value"], tests, "Is every coefficient of a term 0?")
    return _page((result.fit.formula, lead, "Coefficients"), result, given, (_FOREST, _COEFFICIENTS), [terms])


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
def _(result: TestFamily, given: Given) -> Page:
    hypotheses = list(dict.fromkeys(sentence(f"{each.hypothesis}") for each in result.tests))
    lead = (
        f"{amount(len(result.tests), 'test')} of hypotheses about the people behind {result.n} randomized records, each: "
        f"{' '.join(hypotheses)}"
    )
    chart = "Dots are adjusted p-values.", "Adjusted p-values, as in the table"
    return _page(("A family of tests", lead, "Tests"), result, given, chart, [Text(sentence(result.promise))])


def _page(
    said: tuple[str, str, str], result: _OneTable, given: Given, chart: tuple[str, str], notes: Sequence[Part]
) -> Page:
    """A chart where rows are few, the table, and ``notes``; ``said``: title, opening and heading, ``chart``: what it shows."""
    title, lead, heading = said
    shown = result.shown()
    parts: list[Part] = [shown.first(ROWS), *notes]
    if len(shown.rows) <= CHARTED:
        parts.insert(0, Chart(figure_svg(result.plot()), *chart))
    return given.page(title, [lead], [Section(heading, parts)], result.n, result.warnings)


_NUMBERS = ["estimate", "standard error", "lower", "upper"]


def estimate_page(
    estimated: Estimate, given: Given, derived: Sequence[Derived] = (), moved: Poisoning | None = None
) -> Page:
    """An estimate, and whatever else was asked about its table."""
    title = crossed(estimated.domain.names)
    lead = [
        f"Shares of {title} among the people behind {estimated.n} randomized records; nobody's true answer was needed. "
        f"Each interval holds the truth with {100 * estimated.confidence:g} % confidence."
        if estimated.interval != "none"
        else f"Shares of {title} among the people behind {estimated.n} randomized records, without intervals."
    ]
    sections = [
        Section("Estimate", [*estimate_parts(estimated), Text(f"M{estimated.method_note[1:]}.")]),
        *([_statistics(derived, estimated.domain.names)] if derived else []),
        *([_fakes(moved)] if moved is not None else []),
    ]
    said = [*estimated.warnings, *(line for each in derived for line in each.warnings)]
    return given.page(f"{title}, estimated", lead, sections, estimated.n, said)


def estimate_parts(estimated: Estimate, counts: Counts | None = None) -> list[Part]:
    """The table, with the randomized reports beside it where ``counts`` are given, and the chart."""
    table = _table(estimated, counts).first(ROWS)
    size, described = estimated.proportions.size, crossed(estimated.domain.names)
    if size > CHARTED or estimated.interval == "none":
        return [table]
    said = f"Estimated proportions of {described} with {100 * estimated.confidence:g}% intervals, as in the table"
    return [Chart(figure_svg(estimated.plot()), description=said), table]


def _table(estimated: Estimate, counts: Counts | None) -> Table:
    shown, m = estimated.shown(), estimated.domain.m
    heads, rows = shown.columns, shown.rows
    if counts is not None:
        heads = [*heads[:m], "randomized reports", *heads[m:]]
        tallies = counts.table.ravel().tolist()
        rows = [[*row[:m], reports, *row[m:]] for row, reports in zip(rows, tallies, strict=True)]
    return replace(shown, columns=heads, rows=rows, note=f"Proportions of the true answers; {estimated.interval_note}.")


def _statistics(derived: Sequence[Derived], names: Sequence[str]) -> Section:
    rows = [(d.statistic, d.value, d.standard_error, d.lower, d.upper, d.reliable) for d in derived]
    note = f"{100 * derived[0].confidence:g}% intervals, by inverting a test; χ² and G² are those of true records, as many."
    table = Table(["statistic", *_NUMBERS, "reliable"], rows, note=note)
    lines = (*told_estimators(derived), *(line for d in derived for line in told_scores(names, d.scores)))
    return Section("Statistics of the table", [table, *(Text(sentence(line)) for line in lines)])


def _fakes(moved: Poisoning) -> Section:
    said = (
        f"{amount(moved.fakes, 'fake report')} can move the estimate of a cell so far and no further, and fewer no further "
        f"either: added to the {moved.n}, in the place of as many of them, or where as many are fake and are left out."
    )
    return Section(
        "Fake reports",
        [Text(said), moved.shown().first(ROWS), Text(f"{sentence(moved.hundredth)} {sentence(moved.note)}")],
    )


_MEANING = (
    "The p-value is the chance of a statistic at least as large as this one where the hypothesis holds: a small one speaks "
    "against it, a large one is no proof of it. It takes the randomization into account. Test many tables, and some p-values "
    "are small by chance alone."
)
_SOUGHT = "The shares, estimated from the same records: a test says whether there is a pattern, not how large it is."


def test_page(tested: TestResult, given: Given, tables: Sequence[tuple[str, Estimate | WeightedEstimate]]) -> Page:
    """A test; ``tables`` are estimates of what it was made on, each with what it is of."""
    title = crossed(tables[0][1].domain.names)
    lead = [
        f"Hypothesis: {tested.hypothesis}.",
        f"p = {tested.p_value:.4g} (statistic {tested.statistic:.4g}, {tested.freedom}, {tested.n} randomized "
        "records).",
    ]
    sections = [
        Section("The test", _result(tested, tables[0][1].domain.names)),
        *(Section(f"The table {of}".strip(), [Text(_SOUGHT), *_shares(each)]) for of, each in tables),
    ]
    said = [*tested.warnings, *(line for _, each in tables for line in each.warnings)]
    return given.page(f"{title}: test of {tested.test}", lead, sections, tested.n, said)


test_page.__test__ = False  # type: ignore[attr-defined]  # tells pytest that this is no test


def _shares(estimated: Estimate | WeightedEstimate) -> list[Part]:
    if isinstance(estimated, WeightedEstimate):
        return [estimated.shown().first(ROWS), Text(estimated.interval_note)]
    return estimate_parts(estimated)


def _result(tested: TestResult, names: Sequence[str]) -> list[Part]:
    rows: list[tuple[str, object]] = [
        ("statistic", tested.statistic),
        ("degrees of freedom", tested.df),
        ("p-value", tested.p_value),
        ("where the p-value comes from", tested.source),
        ("relative error of the p-value", tested.relative_error),
        ("signed root of the statistic", tested.effect),
    ]
    parts: list[Part] = [Table(["what", "value"], [row for row in rows if row[1] is not None]), Text(_MEANING)]
    parts += [Text(sentence(line)) for line in told_scores(names, tested.scores)]
    if not tested.reliable:
        parts += warned([tested.unreliable])
    said = f"Density of the χ² limit with {tested.freedom} and the statistic {tested.statistic:.4g}"
    caption = "" if tested.calibration == "asymptotic" else "The p-value does not come from this curve."
    return [*parts, Chart(figure_svg(tested.plot()), caption, said)]
