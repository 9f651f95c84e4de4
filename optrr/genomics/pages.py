"""HTML reports of a scan of randomized records and of its variants: warnings, plots, and tables."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from optrr.core.display import (
    SHOWN,
    Chart,
    Page,
    Part,
    Section,
    Table,
    Text,
    epsilon_text,
    figure_svg,
    warned,
    warnings,
)
from optrr.genomics.person_reports import ReportedDesign
from optrr.genomics.plots import manhattan, manhattan_text, qq
from optrr.genomics.scan import ON_LAMBDA, Associations
from optrr.genomics.variant_report import VariantReport

if TYPE_CHECKING:
    from optrr.core.display import Given


_ESTIMATES = (
    "Estimates are unbiased, so a frequency can lie outside 0..1 because of noise; 95 % intervals lie inside. Columns "
    "that end "
    "in _U are of controls, in _A of cases."
)


def scan_page(associations: Associations, asked: ReportedDesign, title: str, given: "Given | None" = None) -> Page:
    """Build the HTML report of a scan.

    It has warnings, a Manhattan plot, a QQ plot and the variants with the smallest p-values.

    ``given`` describes the source of the records and the options; without it the report leaves these out.
    """
    p_value = associations.scores.p_value
    along = Chart(
        figure_svg(manhattan(associations.variants, p_value)),
        description=manhattan_text(associations.variants, p_value),
    )
    people = int(associations.n.max())
    lead = f"{associations.headline()}; up to {people} people each, valid under the mechanism.", asked.spent_said
    spread = f"Genomic control factor {associations.lambda_gc:.3f}: {ON_LAMBDA}."
    sections = [
        Section("Along the genome", [along]),
        Section("QQ plot", [Chart(figure_svg(qq({f"{associations.test} test": p_value})), spread)]),
        Section("Top variants", [associations.shown()]),
    ]
    return _page(title, _remarks(associations), sections, given, people, lead)


def _page(  # noqa: PLR0913 (what stands on every page of genotypes)
    title: str,
    remarks: Sequence[Part],
    sections: Sequence[Section],
    given: "Given | None",
    people: int,
    lead: tuple[str, ...],
) -> Page:
    to_know = [Section("To know", remarks)] if remarks else []
    if given is None:
        return Page(title, [*to_know, *sections], lead)
    sources = [given.told(), given.was_asked(people), given.check()]
    return Page(title, [*warnings(given.doubts), *to_know, *sections, *sources], lead)


def _remarks(result: Associations | VariantReport) -> list[Part]:
    """List warnings and left-out people and variants."""
    left_out = [Table(["left out", "how many"], list(result.skipped.items()))] if result.skipped else []
    return [*warned(result.warnings), *left_out]


def variants_page(report: VariantReport, asked: ReportedDesign, title: str, given: "Given | None" = None) -> Page:
    """Build the HTML report of :class:`VariantReport`.

    ``given`` is that of :func:`scan_page`.
    """
    proportions = qq({"everybody": report.proportions.p_value, "controls": report.proportions_in_controls.p_value})
    sections = [
        Section("Variants", [report.shown(SHOWN), Text(_ESTIMATES)]),
        Section("Hardy-Weinberg tests", [Chart(figure_svg(proportions))]),
    ]
    spent = f"Total epsilon of a person's record {epsilon_text(asked.design.epsilon)} nats."
    return _page(title, _remarks(report), sections, given, int(report.n.max()), (f"{report.headline()}.", spent))
