"""The page of an estimate: its table and chart, statistics of the table, what fake reports could do, and what to know of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optrr.domain.scores import told_scores
from optrr.pages.sections import CHARTED, ROWS, Given
from optrr.records.counts import Counts
from optrr.show.charts import figure_svg
from optrr.show.parts import Chart, Page, Part, Section, Table, Text
from optrr.show.printable import amount, crossed, sentence
from optrr.tables.estimation.derived import Derived
from optrr.tables.estimation.reach import Poisoning
from optrr.tables.estimation.result import Estimate

# Cells of a shaded table on a page.
_SHADED = 400
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
    if size > (_SHADED if estimated.domain.m == 2 else CHARTED) or estimated.interval == "none":
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
    counted = [Text(sentence(line)) for d in derived for line in told_scores(names, d.scores)]
    return Section("Statistics of the table", [table, *counted])


def _fakes(moved: Poisoning) -> Section:
    said = (
        f"{amount(moved.fakes, 'fake report')} can move the estimate of a cell so far and no further, and fewer no further "
        f"either: added to the {moved.n}, in the place of as many of them, or where as many are fake and are left out."
    )
    return Section(
        "Fake reports",
        [Text(said), moved.shown().first(ROWS), Text(f"{sentence(moved.hundredth)} {sentence(moved.note)}")],
    )
