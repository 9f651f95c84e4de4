"""The page of an estimate: its table and chart, statistics of the table, what fake reports could do, and what to know of it."""

from collections.abc import Sequence

from optrr.core.display.pages import ROWS, Given
from optrr.core.display.parts import Page, Section, Table, Text
from optrr.core.display.text import amount, crossed, sentence
from optrr.core.domain.domain import told_scores
from optrr.core.estimation.derived import Derived, told_estimators
from optrr.core.estimation.estimator import Estimate
from optrr.core.estimation.poisoned import Poisoning

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
        Section("Estimate", [*estimated.page_parts(), Text(f"M{estimated.method_note[1:]}.")]),
        *([_statistics(derived, estimated.domain.names)] if derived else []),
        *([_fakes(moved)] if moved is not None else []),
    ]
    said = [*estimated.warnings, *(line for each in derived for line in each.warnings)]
    return given.page(f"{title}, estimated", lead, sections, estimated.n, said)


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
