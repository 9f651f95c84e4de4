"""The study as one page: what was compared, what it cost, what was found, and the naive test's failure as a warning.

A scan of randomized records as one page: what to know of it, plots, and the variants with the smallest p-values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student

from optrr.designs.design import Design
from optrr.genomics.plots import manhattan, qq
from optrr.genomics.sampled_variants import SampledVariants
from optrr.genomics.scan import Associations
from optrr.genomics.study import Outcome, Study
from optrr.genomics.tests import ASSUMPTION, genomic_control
from optrr.models.tests.testing import ASSUMING
from optrr.show.charts import COLOURS, PAGE_WIDTH, figure_svg, legend_below, new_figure
from optrr.show.parts import Chart, Page, Part, Section, Table, Text, warned, warnings
from optrr.show.text import bound_text, epsilon_text
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from optrr.pages.sections import Given


_TOP = 30
_INTERVALS = (
    "Every variant has an interval of its effect; a limit of 0 or infinity says that the noise leaves no limit on "
    "that side."
)
_ADJUSTED = (
    "Odds ratios are per copy, adjusted for the covariates, with Wald's intervals; they are missing, and limits 0 and "
    "infinity, where the noise leaves the equation without a solution."
)


def scan_page(
    associations: Associations, design: Design | SampledVariants, title: str, given: Given | None = None
) -> Page:
    """The page of a scan: what to know of it, a Manhattan plot, a QQ plot and the variants with the smallest p-values.

    ``given`` is where the records come from, and what was asked of them; without it the page does not say.
    """
    remarks = _remarks(associations)
    along = manhattan(associations.variants, associations.scores.p_value)
    spread = f"Genomic control factor {associations.lambda_gc:.3f}: {associations.notes_on_lambda}."
    people = int(associations.n.max())
    asked = [] if given is None else [given.told(), given.was_asked(people), given.check()]
    return Page(
        title,
        [
            *([] if given is None else warnings(given.doubts)),
            *([Section("To know", remarks)] if remarks else []),
            Section("Along the genome", [Chart(figure_svg(along))]),
            Section("QQ plot", [Chart(figure_svg(qq(_p_values(associations))), spread)]),
            Section("Top variants", [_top_variants(associations)]),
            *asked,
        ],
        _lead(associations, design),
    )


def _lead(associations: Associations, design: Design | SampledVariants) -> tuple[str, ...]:
    """What was tested, and at which ε."""
    people = int(associations.n.max())
    valid = "valid under the mechanism" + (
        " in Hardy-Weinberg proportions only" if associations.test == ASSUMING else ""
    )
    what = f"{len(associations.variants)} variants, up to {people} people each"
    form = " in score form" if associations.test != "linear" else " (linear regression of a trait)"
    adjusted = f", adjusted for public covariates ({associations.adjusted_for})" if associations.adjusted_for else ""
    tested = f"{what}; {associations.test} test{form}{adjusted}, {valid}."
    if isinstance(design, SampledVariants):
        spent = epsilon_text(design.epsilon)
        return tested, f"Everybody gave one answer, of total epsilon {spent} nats: {design.questions_asked}."
    return (
        tested,
        f"Total epsilon of a person's record {epsilon_text(design.epsilon)} nats "
        f"(certified at least {bound_text(design.lower_bound)}), largest conditional epsilon "
        f"{epsilon_text(float(design.conditional_epsilons.max()))}. Genotypes and status are one record and share it.",
    )


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
    if associations.skipped:
        parts.append(Table(["left out", "how many"], list(associations.skipped.items())))
    return parts


def _p_values(associations: Associations) -> dict[str, FloatArray]:
    """By the test's name, shape (V,) each; those of the naive test where it was asked for."""
    series = {f"{associations.test} test": associations.scores.p_value}
    return series if associations.naive is None else series | {"naive test": associations.naive.p_value}


def _top_variants(associations: Associations) -> Table:
    table = associations.rows(associations.top(_TOP))
    effect = "BETA" if "BETA" in table else "OR"
    columns = ["CHR", "SNP", "BP", "A1", "N", "STAT", "P", "FDR_BH", effect, "L95", "U95"]
    rows = list(zip(*(table[c].tolist() for c in columns), strict=True))
    return Table(columns, rows, note=_ADJUSTED if associations.adjusted_for and effect == "OR" else _INTERVALS)


# A type I error counts as a failure where chance alone would make it so large no more often than this.
_CHANCE = 1e-3

_ACCOUNTING = (
    "Genotypes and status of one person are one record: the total epsilon covers all of it at once, whatever is "
    "tested later. "
    "The conditional epsilon says what somebody who already knows a person's other attributes learns about one of "
    "them; at the "
    "optimum it goes up to the total, under Kronecker it is that attribute's own epsilon."
)
_MEASURES = (
    "Power: share of the truly associated variants (Bonferroni at 5 % without randomization) with p at most the level. "
    "Type I error: the same share under permuted phenotypes, where every rejection is an error. Ratio of noncentralities: "
    "how much of what the tests see is left, as if only this share of the people had been asked, without randomization; "
    "predicted from the design, and as it came out. Of each total the method comes first that leaves most. χ² error: mean "
    "|χ² − χ² without randomization| of the estimate from the unbiased table; bias: the same with its sign. A small error "
    "does not say that a method tells much: an answer that is always 0 has {zero}. Rank correlation: Spearman's, over the "
    "truly most associated variants."
)


def study_rows(study: Study) -> tuple[list[str], list[list[object]]]:
    """The results as a table: column names and one row for each protocol and total."""
    table = study.to_arrow()
    return table.column_names, [list(row.values()) for row in table.to_pylist()]


def naive_failures(study: Study) -> list[Outcome]:
    """Outcomes whose naive test rejects true null hypotheses clearly more often than its level."""
    level, repeats = study.options.alpha, study.options.repeats
    # where repeats happen to agree, the standard error is still taken to be that of independent draws
    least = np.sqrt(level * (1 - level) / (repeats * study.truth.usable.size))
    reach = student.isf(_CHANCE, repeats - 1)
    measured = [(o, *o.measures["naive_type_one"]) for o in study.outcomes]
    return [o for o, rate, error in measured if rate > level + reach * max(error, least)]


def study_page(study: Study, title: str) -> Page:
    """The report."""
    o = study.options
    lead = (
        f"{study.n} people ({study.cases} cases), {len(study.variants)} variants, {study.truth.associated.size} of "
        f"them truly "
        f"associated; {o.test} test at level {o.alpha:g}, {o.repeats} repeats each, seed {o.seed}.",
        _ACCOUNTING,
        *([naive_warning(study)] if naive_failures(study) else []),
        *([f"{ASSUMPTION[0].upper()}{ASSUMPTION[1:]}."] if o.test == ASSUMING else []),
    )
    sections = [_cost(study), _detections(study), _naive(study), _null(study), _example(study), _left_out(study)]
    return Page(title, [s for s in sections if s is not None], lead)


def _cost(study: Study) -> Section:
    columns = [
        "asked total", "method", "total epsilon", "certified at least", "variants per person", "epsilon per variant "
        "(median)",
        "epsilon of status", "largest conditional", "joint eigenvalue",
    ]  # fmt: skip
    rows = [row[: len(columns)] for row in study_rows(study)[1]]
    note = "The joint eigenvalue is the share of a variant's association that remains visible to those who report it."
    parts: list[Part] = [Table(columns, rows, "What each protocol buys for the same total, in nats", note)]
    if study.unavailable:
        reasons = [[t, m, why] for t, m, why in study.unavailable]
        parts.append(Table(["asked total", "method", "why it is not here"], reasons, "Not available"))
    return Section("Cost and accuracy", parts)


def _detections(study: Study) -> Section:
    charts = [
        ("power", f"Power at level {study.options.alpha:g}", False),
        ("power_bonferroni", "Power at Bonferroni's 5 %", False),
        ("noncentrality_ratio", "Ratio of noncentralities", False),
        ("chi2_error", "χ² error", True),
        ("rank_correlation", "Rank correlation of the top variants", False),
    ]
    parts: list[Part] = [Text(_MEASURES.format(zero=f"{study.truth.error_of_zero:.4g}"))]
    parts += [
        Chart(figure_svg(_curve(study, key, label, log)), f"{label} against total epsilon.")
        for key, label, log in charts
    ]
    shown = [*((key, label) for key, label, _ in charts), ("chi2_bias", "χ² bias")]
    columns = ["total", "method", "predicted ratio", *(c for _, label in shown for c in (label, "±"))]
    rows = [
        [
            o.total,
            o.protocol.name,
            o.measures["predicted_noncentrality_ratio"][0],
            *(x for key, _ in shown for x in o.measures[key]),
        ]
        for o in study.outcomes
    ]
    parts.append(Table(columns, rows, "Means over the repeats, and their standard errors"))
    return Section("What is found", parts)


def _curve(study: Study, key: str, label: str, log: bool) -> Figure:
    figure = new_figure(PAGE_WIDTH, 3.6)
    axes: Any = figure.add_subplot()
    for method, colour in zip(study.options.methods, COLOURS, strict=False):
        mine = [o for o in study.outcomes if o.protocol.name == method]
        if mine:
            x = [o.total for o in mine]
            y, spread = zip(*(o.measures[key] for o in mine), strict=True)
            axes.errorbar(
                x, y, yerr=np.nan_to_num(spread), color=colour, marker="o", markersize=4, label=method, capsize=2
            )
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(study.options.totals), [f"{t:g}" for t in sorted(study.options.totals)])
    axes.minorticks_off()
    if log:
        axes.set_yscale("log")
    axes.set_xlabel("total epsilon, nats")
    axes.set_ylabel(label)
    legend_below(figure)
    return figure


def _naive(study: Study) -> Section:
    failed = naive_failures(study)
    columns = ["total", "method", f"{study.options.test} test: type I", "±", "QQ slope", "±"]
    columns += ["naive test: type I", "±", "QQ slope", "±", "naive test"]
    keys = ("type_one", "qq_slope", "naive_type_one", "naive_qq_slope")
    rows = [
        [o.total, o.protocol.name, *(x for k in keys for x in o.measures[k]), "wrong" if o in failed else ""]
        for o in study.outcomes
    ]
    why = (
        "A test that takes randomized counts for true ones rejects too often wherever the mechanism itself makes "
        "genotype and status dependent, as every mechanism that is better than Kronecker does. Where it keeps its level, as "
        "the trend test does under Kronecker, its χ² is still not that of the people."
    )
    note = "Wrong: the naive test exceeds its level by more than chance would once in a thousand such studies."
    parts: list[Part] = [
        Text(naive_warning(study), bool(failed)),
        Text(why),
        Table(columns, rows, "Permuted phenotypes", note),
    ]
    return Section("The naive test", parts)


def naive_warning(study: Study) -> str:
    """What the naive test did where nothing was associated, in a sentence or two."""
    worst = max(naive_failures(study), key=lambda o: o.measures["naive_type_one"][0], default=None)
    if worst is None:
        return (
            "In this run the naive test kept its level within Monte Carlo error. It does so where the mechanism randomizes "
            "genotype and status independently, or where one of them is nearly uniform, and not elsewhere."
        )
    return (
        f"WARNING: the naive test is wrong on these data. For method {worst.protocol.name} at total epsilon "
        f"{worst.total:g} it calls {100 * worst.measures['naive_type_one'][0]:.1f} % of the variants associated when "
        f"nothing is, at a stated level of {100 * study.options.alpha:g} %. Use an ordinary χ² or trend test only "
        "where the mechanism randomizes genotype and status independently."
    )


def _null(study: Study) -> Section | None:
    shown = [o for o in study.outcomes if o.protocol.name in ("optimum", "kronecker")]
    if not shown:
        return None
    worst = max(shown, key=lambda o: o.measures["naive_type_one"][0])
    total = worst.total
    series = {f"{o.protocol.name}, {study.options.test}": o.null_p for o in shown if o.total == total}
    series |= {f"{o.protocol.name}, naive": o.naive_null_p for o in shown if o.total == total}
    figure = qq(series, f"Permuted phenotypes, total epsilon {total:g}")
    return Section(
        "p-values where nothing is associated", [Chart(figure_svg(figure), "A valid test follows the line.")]
    )


def _example(study: Study) -> Section | None:
    shown = [o for o in study.outcomes if o.protocol.name == "optimum"]
    if not shown:
        return None
    last = shown[-1]
    truth = study.truth
    rows = [
        [
            str(study.variants.name[k]), str(study.variants.chromosome[k]), int(study.variants.position[k]),
            float(truth.scores.statistic[k]), float(truth.scores.p_value[k]),
            float(last.first.statistic[k]), float(last.first.p_value[k]),
        ]
        for k in truth.top.tolist()
    ]  # fmt: skip
    columns = ["variant", "chromosome", "position", "χ²", "p", "χ² randomized", "p randomized"]
    return Section(
        "One release",
        [
            Chart(figure_svg(manhattan(study.variants, truth.scores.p_value, "without randomization"))),
            Chart(figure_svg(manhattan(study.variants, last.first.p_value, f"optimum, total epsilon {last.total:g}"))),
            Table(columns, rows, f"The truly most associated variants, optimum at total epsilon {last.total:g}"),
        ],
    )


def _left_out(study: Study) -> Section | None:
    if not study.left_out:
        return None
    return Section("Left out", [Table(["what", "how many"], list(study.left_out.items()))])
