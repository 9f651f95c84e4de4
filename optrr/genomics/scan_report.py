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


def scan_page(found: Associations, design: Design, title: str) -> Page:
    """The report."""
    people = int(found.n.max())
    valid = "valid under the mechanism" + (" in Hardy-Weinberg proportions only" if found.test == ASSUMING else "")
    lead = (
        f"{len(found.variants)} variants, up to {people} people each; {found.test} test in score form, {valid}.",
        f"Total epsilon of a person's record {epsilon_text(design.epsilon)} nats "
        f"(certified at least {bound_text(design.lower_bound)}), largest conditional epsilon "
        f"{epsilon_text(float(design.conditional_epsilons.max()))}. Genotypes and status are one record and share it.",
    )
    columns = ["CHR", "SNP", "BP", "A1", "N", "STAT", "P", "FDR_BH", "OR", "L95", "U95"]
    table = found.rows(found.top(_TOP))
    rows = [[_plain(table[c][k]) for c in columns] for k in range(len(table["P"]))]
    series = {f"{found.test} test": found.scores.p_value}
    parts: list[Text | Table | Chart] = [Text(w) for w in found.warnings]
    if found.naive is not None:
        series["naive test"] = found.naive.p_value
        said, lead_in = found.notes_on_naive, "" if found.naive_harmless == 1 else "WARNING: "
        parts.append(
            Text(
                f"{lead_in}{said[0].upper()}{said[1:]}. Its genomic control factor is "
                f"{genomic_control(found.naive.statistic, found.naive.df):.3g}, the {found.test} test's "
                f"{found.lambda_gc:.3g}.",
                warning=found.naive_harmless != 1,
            )
        )
    if found.skipped:
        parts.append(Table(["left out", "how many"], list(found.skipped.items())))
    return Page(
        title,
        [
            *([Section("To know", parts)] if parts else []),
            Section("Along the genome", [Chart(figure_svg(manhattan(found.variants, found.scores.p_value)))]),
            Section(
                "QQ plot",
                [
                    Chart(
                        figure_svg(qq(series)),
                        f"Genomic control factor {found.lambda_gc:.3f}: {found.notes_on_lambda}.",
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
