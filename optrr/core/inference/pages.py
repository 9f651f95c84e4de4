"""HTML report of a test: its hypothesis, the result, the reliability of the p-value, and the tested tables."""

from collections.abc import Sequence

from optrr.core.display.charts import figure_svg
from optrr.core.display.pages import Given
from optrr.core.display.parts import Chart, Page, Part, Section, Table, Text
from optrr.core.display.result import TableResult
from optrr.core.display.text import crossed, sentence
from optrr.core.inference.result import TestResult

_MEANING = (
    "The p-value is the probability of a statistic at least as large as this one if the hypothesis holds: a small one "
    "is evidence against it, a large one is no proof of it. It accounts for the randomization. In many tests, some "
    "p-values are small by chance alone."
)
_SOUGHT = (
    "The proportions, estimated from the same records: a test shows whether there is a departure from the hypothesis, "
    "not how large it is."
)


def test_page(tested: TestResult, given: Given, tables: Sequence[tuple[str, TableResult]]) -> Page:
    """Build the HTML report of a test.

    ``tables`` are estimates of the tested tables with their titles.
    """
    title = crossed([*tested.attributes, *tested.given])
    lead = [
        f"Hypothesis: {tested.hypothesis}.",
        f"p = {tested.p_value:.4g} (statistic {tested.statistic:.4g}, {tested.freedom}, {tested.n} randomized "
        "records).",
    ]
    sections = [
        Section("The test", _result(tested)),
        *(Section(f"The table {of}".strip(), [Text(_SOUGHT), *each.page_parts()]) for of, each in tables),
    ]
    said = [*tested.warnings, *(line for _, each in tables for line in each.warnings)]
    return given.page(f"{title}: test of {tested.test}", lead, sections, tested.n, said)


test_page.__test__ = False  # type: ignore[attr-defined]  # tells pytest that this is no test


def _result(tested: TestResult) -> list[Part]:
    rows: list[tuple[str, object]] = [
        ("statistic", tested.statistic),
        ("degrees of freedom", tested.df),
        ("p-value", tested.p_value),
        ("source of the p-value", tested.source),
        ("relative error of the p-value", tested.relative_error),
        ("signed root of the statistic", tested.effect),
    ]
    parts: list[Part] = [Table(["item", "value"], [row for row in rows if row[1] is not None]), Text(_MEANING)]
    parts += [Text(sentence(line)) for line in tested.sentences()]
    said = f"Density of the χ² limit with {tested.freedom} and the statistic {tested.statistic:.4g}"
    caption = "" if tested.calibration == "asymptotic" else "The p-value does not come from this curve."
    return [*parts, Chart(figure_svg(tested.plot()), caption, said)]
