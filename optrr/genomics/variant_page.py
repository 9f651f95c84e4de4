"""What randomized genotypes say of each variant as one page: remarks, p-values of the proportions, variants, and pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optrr.designs.design import Design
from optrr.genomics.linkage import Linkage
from optrr.genomics.plots import qq
from optrr.genomics.sampled_variants import SampledVariants
from optrr.genomics.variant_report import VariantReport
from optrr.show.charts import figure_svg
from optrr.show.parts import Chart, Page, Section, Table, Text, warned, warnings
from optrr.show.result import SHOWN
from optrr.show.text import epsilon_text

if TYPE_CHECKING:
    from optrr.pages.sections import Given

_ESTIMATES = (
    "Estimates are unbiased, so that noise may take a frequency outside 0..1; intervals of 95 % are inside. Columns that end "
    "in _U are of controls, in _A of cases."
)


def variants_page(
    report: VariantReport,
    pairs: Linkage | None,
    design: Design | SampledVariants,
    title: str,
    given: Given | None = None,
) -> Page:
    """The page of :class:`VariantReport` and, where they were asked for, of pairs; ``given`` as in :func:`scan_page`."""
    remarks = warned([*report.warnings, *(() if pairs is None else pairs.warnings)])
    if report.skipped:
        remarks.append(Table(["left out", "how many"], list(report.skipped.items())))
    proportions = qq({"everybody": report.proportions.p_value, "controls": report.proportions_in_controls.p_value})
    linked = (
        [] if pairs is None else [Section("Pairs of largest r²", [Text(f"{pairs.headline()}."), pairs.top_table()])]
    )
    people = int(report.n.max())
    asked = [] if given is None else [given.told(), given.was_asked(people), given.check()]
    return Page(
        title,
        [
            *([] if given is None else warnings(given.doubts)),
            *([Section("To know", remarks)] if remarks else []),
            Section("Variants", [report.brief(SHOWN), Text(_ESTIMATES)]),
            Section("Hardy-Weinberg tests", [Chart(figure_svg(proportions))]),
            *linked,
            *asked,
        ],
        (f"{report.headline()}.", f"Total epsilon of a person's record {epsilon_text(design.epsilon)} nats."),
    )
