"""HTML report of an estimate: its table and chart, the effect of fake reports, and notes."""

from optrr.core.display.pages import ROWS, Given
from optrr.core.display.parts import Page, Section, Text
from optrr.core.display.text import amount, crossed, sentence
from optrr.core.estimation.estimator import Estimate
from optrr.core.estimation.poisoned import Poisoning


def estimate_page(estimated: Estimate, given: Given, moved: Poisoning | None = None) -> Page:
    """Build the HTML report of an estimate and of poisoning attacks on it."""
    title = crossed(estimated.domain.names)
    lead = [
        f"Proportions of {title} among the respondents of {estimated.n} randomized records; no true answer was needed. "
        f"Each interval covers the truth with {100 * estimated.confidence:g} % confidence."
        if estimated.interval != "none"
        else f"Proportions of {title} among the respondents of {estimated.n} randomized records, without intervals."
    ]
    sections = [
        Section("Estimate", [*estimated.page_parts(), Text(f"M{estimated.method_note[1:]}.")]),
        *([_fakes(moved)] if moved is not None else []),
    ]
    return given.page(f"{title}, estimated", lead, sections, estimated.n, estimated.warnings)


def _fakes(moved: Poisoning) -> Section:
    said = (
        f"{amount(moved.fakes, 'fake report')} or fewer can change the estimate of a cell by no more than this: added "
        f"to the {moved.n}, replacing as many of them, or where as many of them are fake and are left out."
    )
    return Section(
        "Fake reports",
        [Text(said), moved.shown().first(ROWS), Text(f"{sentence(moved.hundredth)} {sentence(moved.note)}")],
    )
