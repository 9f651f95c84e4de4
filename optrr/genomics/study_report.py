"""The study as one page: what was compared, what it cost, what was found, and the naive test's failure as a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student

from optrr.genomics.plots import manhattan, qq
from optrr.genomics.scores import ASSUMPTION
from optrr.genomics.study import Outcome, Study
from optrr.models.tests.genotypes import ASSUMING
from optrr.show.charts import COLOURS, PAGE_WIDTH, figure_svg, legend_below, new_figure
from optrr.show.parts import Chart, Page, Part, Section, Table, Text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
