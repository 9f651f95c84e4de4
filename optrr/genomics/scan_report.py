"""A scan of randomized records as one page: plots, top variants, warnings."""

from __future__ import annotations

import numpy as np

from optrr.charts import figure_svg
from optrr.designing.design import Design
from optrr.genomics.associations import Associations
from optrr.genomics.multiple import genomic_control
from optrr.genomics.plots import manhattan, qq
from optrr.inference.genotypes import ASSUMING
from optrr.reports.page import Chart, Page, Section, Table, Text
from optrr.rounding import bound_text, epsilon_text

_TOP = 30
_INTERVALS = (
    "Every variant has an interval of its odds ratio; a limit of 0 or infinity says that the noise leaves no limit on "
    "that side."
)


def scan_page(associations: Associations, design: Design, title: str) -> Page:
    """The report."""
    people = int(associations.n.max())
    valid = "valid under the mechanism" + (
        " in Hardy-Weinberg proportions only" if associations.test == ASSUMING else ""
    )
    lead = (
        f"{len(associations.variants)} variants, up to {people} people each; {associations.test} test in score form, {valid}.",
        f"Total epsilon of a person's record {epsilon_text(design.epsilon)} nats "
        f"(certified at least {bound_text(design.lower_bound)}), largest conditional epsilon "
        f"{epsilon_text(float(design.conditional_epsilons.max()))}. Genotypes and status are one record and share it.",
    )
    columns = ["CHR", "SNP", "BP", "A1", "N", "STAT", "P", "FDR_BH", "OR", "L95", "U95"]
    table = associations.rows(associations.top(_TOP))
    rows = [[_plain(table[c][k]) for c in columns] for k in range(len(table["P"]))]
    series = {f"{associations.test} test": associations.scores.p_value}
    parts: list[Text | Table | Chart] = [Text(w) for w in associations.warnings]
    if associations.naive is not None:
        series["naive test"] = associations.naive.p_value
        said, lead_in = associations.notes_on_naive, "" if associations.naive_harmless == 1 else "WARNING: "
        parts.append(
            Text(
                f"{lead_in}{said[0].upper()}{said[1:]}. Its genomic control factor is "
                f"{genomic_control(associations.naive.statistic, associations.naive.df):.3g}, the {associations.test} test's "
                f"{associations.lambda_gc:.3g}.",
                warning=associations.naive_harmless != 1,
            )
        )
    if associations.skipped:
        parts.append(Table(["left out", "how many"], list(associations.skipped.items())))
    return Page(
        title,
        [
            *([Section("To know", parts)] if parts else []),
            Section(
                "Along the genome", [Chart(figure_svg(manhattan(associations.variants, associations.scores.p_value)))]
            ),
            Section(
                "QQ plot",
                [
                    Chart(
                        figure_svg(qq(series)),
                        f"Genomic control factor {associations.lambda_gc:.3f}: {associations.notes_on_lambda}.",
                    )
                ],
            ),
            Section("Top variants", [Table(columns, rows, note=_INTERVALS)]),
        ],
        lead,
    )


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and np.isnan(value) else value
