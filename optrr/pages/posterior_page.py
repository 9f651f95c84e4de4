"""The page of a posterior: its table and chart, its prior, and what credible intervals promise."""

from __future__ import annotations

from optrr.bayes.result import PROMISE, Posterior
from optrr.charts import figure_svg
from optrr.pages.sections import CHARTED, ROWS, Given, warnings
from optrr.parts import Chart, Page, Part, Section, Text
from optrr.printable import crossed


def posterior_page(result: Posterior, given: Given) -> Page:
    """Credible intervals of a table's cells."""
    title = crossed(result.domain.names)
    lead = [
        f"Shares of {title} among the people behind {result.n} randomized records, for somebody who thought beforehand what "
        f"the prior says: {100 * result.confidence:g}% credible intervals, each alone."
    ]
    parts: list[Part] = [
        result.shown().first(ROWS),
        *(Text(f"{said}.") for said in (result.prior_text, result.drawn_text)),
    ]
    if result.prior.size <= CHARTED:
        described = f"Posterior means of {title} with credible intervals, as in the table"
        parts.insert(0, Chart(figure_svg(result.plot()), description=described))
    return Page(
        f"{title}, posterior",
        [
            *warnings([*given.doubts, *result.warnings]),
            Section("Posterior", [*parts, Text(PROMISE)]),
            given.told(),
            given.was_asked(result.n),
            given.check(),
        ],
        lead,
    )
