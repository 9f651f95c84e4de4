"""A scan of randomized records as one page, and what they say of each variant: what to know of it, plots, and tables."""

from collections.abc import Mapping, Sequence
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
from optrr.genomics.score_tests import genomic_control
from optrr.genomics.variant_report import VariantReport

if TYPE_CHECKING:
    from optrr.core.display import Given


_TOP = 30
_INTERVALS = (
    "Every variant has an interval of its effect; a limit of 0 or infinity says that the noise leaves no limit on "
    "that side."
)
_ADJUSTED = (
    "Odds ratios are per copy, adjusted for the covariates, with Wald's intervals; they are missing, and limits 0 and "
    "infinity, where the noise leaves the equation without a solution."
)
_ESTIMATES = (
    "Estimates are unbiased, so that noise may take a frequency outside 0..1; intervals of 95 % are inside. Columns that end "
    "in _U are of controls, in _A of cases."
)


def scan_page(associations: Associations, asked: ReportedDesign, title: str, given: "Given | None" = None) -> Page:
    """The page of a scan: what to know of it, a Manhattan plot, a QQ plot and the variants with the smallest p-values.

    ``given`` is where the records come from, and what was asked of them; without it the page does not say.
    """
    p_value, naive = associations.scores.p_value, associations.naive
    along = Chart(
        figure_svg(manhattan(associations.variants, p_value)),
        description=manhattan_text(associations.variants, p_value),
    )
    p_values = {f"{associations.test} test": p_value} | ({} if naive is None else {"naive test": naive.p_value})
    spread = f"Genomic control factor {associations.lambda_gc:.3f}: {ON_LAMBDA}."
    sections = [
        Section("Along the genome", [along]),
        Section("QQ plot", [Chart(figure_svg(qq(p_values)), spread)]),
        Section("Top variants", [_top_variants(associations)]),
    ]
    return _page(title, _remarks(associations), sections, given, int(associations.n.max()), _lead(associations, asked))


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


def _lead(associations: Associations, asked: ReportedDesign) -> tuple[str, ...]:
    """What was tested, and at which ε."""
    people = int(associations.n.max())
    what = f"{len(associations.variants)} variants, up to {people} people each"
    form = " in score form" if associations.test != "linear" else " (linear regression of a trait)"
    adjusted = f", adjusted for public covariates ({associations.adjusted_for})" if associations.adjusted_for else ""
    return f"{what}; {associations.test} test{form}{adjusted}, valid under the mechanism.", asked.spent_said


def _remarks(associations: Associations) -> list[Part]:
    """Warnings, what the naive test is worth, and what was left out."""
    parts = warned(associations.warnings)
    if associations.naive is not None:
        said, lead_in = associations.notes_on_naive, "" if associations.naive_harmless == 1 else "WARNING: "
        parts.append(
            Text(
                f"{lead_in}{said[0].upper()}{said[1:]}. Its genomic control factor is "
                f"{genomic_control(associations.naive.statistic, associations.naive.df):.3g}, the {associations.test} test's "
                f"{associations.lambda_gc:.3g}.",
                warning=associations.naive_harmless != 1,
            )
        )
    return [*parts, *_left_out(associations.skipped)]


def _top_variants(associations: Associations) -> Table:
    table = associations.rows(associations.top(_TOP))
    effect = "BETA" if "BETA" in table else "OR"
    columns = ["CHR", "SNP", "BP", "A1", "N", "STAT", "P", "FDR_BH", effect, "L95", "U95"]
    rows = list(zip(*(table[c].tolist() for c in columns), strict=True))
    return Table(columns, rows, note=_ADJUSTED if associations.adjusted_for and effect == "OR" else _INTERVALS)


def variants_page(report: VariantReport, asked: ReportedDesign, title: str, given: "Given | None" = None) -> Page:
    """The page of :class:`VariantReport`; ``given`` as in :func:`scan_page`."""
    proportions = qq({"everybody": report.proportions.p_value, "controls": report.proportions_in_controls.p_value})
    sections = [
        Section("Variants", [report.brief(SHOWN), Text(_ESTIMATES)]),
        Section("Hardy-Weinberg tests", [Chart(figure_svg(proportions))]),
    ]
    remarks = [*warned(report.warnings), *_left_out(report.skipped)]
    spent = f"Total epsilon of a person's record {epsilon_text(asked.design.epsilon)} nats."
    return _page(title, remarks, sections, given, int(report.n.max()), (f"{report.headline()}.", spent))


def _left_out(skipped: Mapping[str, int]) -> list[Part]:
    return [Table(["left out", "how many"], list(skipped.items()))] if skipped else []
