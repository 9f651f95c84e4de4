"""A study as one page: what was compared, what it cost, what was found, and the naive test's failure as a warning.

Its figures have captions that stand on their own: for the page, and as files for a paper.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optrr.core.display import (
    COLOURS,
    PAGE_WIDTH,
    Chart,
    Page,
    Part,
    Section,
    Table,
    Text,
    figure_svg,
    legend_below,
    new_figure,
)
from optrr.core.records import whole_file
from optrr.genomics.plots import qq, save_figure
from optrr.genomics.study.result import Outcome, Study
from optrr.genomics.study.ways import StudiedWay

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ACCOUNTING = (
    "Genotypes and status of one person are one record: the total epsilon covers all of it at once, whatever is tested later. "
    "The conditional epsilon says what somebody who already knows a person's other attributes learns about one of them; at the "
    "optimum it goes up to the total, under Kronecker it is that attribute's own epsilon. Ways marked with * are under another "
    "trust than the local one: somebody holds everybody's true records, and their epsilon protects against those who see what "
    "is published, not against the holder."
)
_MEASURES = (
    "Noncentrality left: how much of what the tests see is left, as if only this share of the people had been asked, "
    "without randomization; of each total the way comes first that leaves most. Power: share of the associated variants "
    "with a p-value at most the level. Recall: share of the truly most associated variants among as many of the smallest "
    "p-values. Type I error: share of p-values at most the level under permuted statuses, where every rejection is an "
    "error. Bias and coverage are of odds ratios of associated variants (of alleles; per copy for association), "
    "the bias of those that are finite. {coverage}χ² error: mean |χ² − χ² of these people's true records| of the estimate "
    "from the unbiased table; bias: the same with its sign. A small error does not say that a way tells much: an answer "
    "that is always 0 has {zero}. λ with confounding groups: genomic control where statuses are permuted within groups, so "
    "that only groups tell of the status."
)
_NO_COVERAGE = (
    "Coverage is left out: 95 % intervals count the chance that draws people, and here the same people are asked in every "
    "repeat. Draw people (--people) to see it. "
)
_NAIVE = (
    "A test that takes randomized counts for true ones rejects too often wherever the mechanism itself makes genotype and "
    "status dependent, as every mechanism that is better than Kronecker does. Where it keeps its level, as the trend test does "
    "under Kronecker, its χ² is still not that of the people."
)
_TABLES = {
    "Tests": ("predicted_noncentrality_ratio", "noncentrality_ratio", "power", "power_bonferroni", "power_genome_wide"),
    "Permuted statuses": ("type_one", "qq_slope", "naive_type_one", "naive_qq_slope"),
    "Ranks": ("recall", "rank_correlation", "rank_correlation_all", "lambda_null", "lambda_structure"),
    "Estimates": ("odds_bias", "odds_finite", "odds_coverage", "chi2_error", "chi2_bias"),
}
_COST = ["people", "total", "method", "trust", "epsilon", "lower_bound", "variants_reported", "variant_epsilon"]
_COST += ["status_epsilon", "max_conditional_epsilon", "joint_eigenvalue"]

# Colour, marker and line of each way: local ones are drawn through, those of another trust dashed.
_STYLES = {
    "optimum": (COLOURS[0], "o", "-"),
    "association": (COLOURS[2], "o", "-"),
    "sampling": (COLOURS[1], "o", "-"),
    "inductive": (COLOURS[3], "^", "-"),
    "kronecker": (COLOURS[5], "v", "-"),
    "naive": (COLOURS[4], "x", "-"),
    "laplace": (COLOURS[3], "D", "--"),
    "gaussian": (COLOURS[2], "D", "--"),
    "unrandomized": (COLOURS[4], "", "--"),
}
# Measures that are drawn: what stands beside the axis, and where nothing is lost.
_CURVES: dict[str, tuple[str, float | None]] = {
    "noncentrality_ratio": ("Noncentrality left", 1.0),
    "power": ("Power at level {alpha:g}", None),
    "power_genome_wide": ("Power at 5e-8", None),
    "recall": ("Recall of the top {top}", None),
    "rank_correlation_all": ("Rank correlation, all variants", 1.0),
    "type_one": ("Type I error at level {alpha:g}", None),
    "odds_bias": ("Bias of ln odds ratio", 0.0),
    "odds_coverage": ("Coverage of 95 % intervals", 0.95),
    "chi2_error": ("Mean |χ² − true χ²|", None),
    "chi2_bias": ("Bias of χ²", 0.0),
    "lambda_structure": ("λ with confounding groups", 1.0),
}
# Those whose axis has decades, and those that are drawn against the number of people, too, where there are several.
_DECADES, _BY_PEOPLE = ("noncentrality_ratio", "chi2_error"), ("power", "power_genome_wide", "recall")
# Smaller shares of the noncentrality are not drawn: nobody has ten thousand times as many people.
_LEAST_KEPT = 1e-5


def study_page(study: Study, title: str) -> Page:
    """The report."""
    warning = [naive_warning(study)] if study.naive_failures else []
    lead = (_who(study), study.options.errors_said, _ACCOUNTING, *warning)
    charts: list[Part] = [
        Chart(figure_svg(figure), f"Figure {k}. {caption}")
        for k, (_, figure, caption) in enumerate(all_figures(study), start=1)
    ]
    coverage = "" if study.options.draws_people else _NO_COVERAGE
    measures = Text(_MEASURES.format(zero=study.zero_said, coverage=coverage))
    naive = [Text(naive_warning(study), bool(warning)), Text(_NAIVE)]
    sections = [
        Section("Cost", _cost(study)),
        Section("What is found", [measures, *charts]),
        Section("Tables", _tables(study)),
        Section("The naive test", naive),
        Section("Made from", [Table(["what", "value"], [*study.left_out.items(), ("seed", study.options.seed)])]),
    ]
    return Page(title, sections, lead)


def _who(study: Study) -> str:
    o, trait = study.options, study.options.trait
    out = f"{study.headline()}; {o.test} test at level {o.alpha:g}, seed {o.seed}. "
    if o.draws_people:
        stretch = "whole people, with replacement" if o.stretch is None else f"stretches of {o.stretch:g} on average"
        out += f"People are drawn from a panel of {study.n}: {stretch}."
    else:
        out += f"The people are those of the panel, {study.cases} of them cases."
    if trait is None:
        return f"{out} {study.truth.associated.size} variants are associated (Bonferroni at 5 %, true records of the panel)."
    return f"{out} The trait is planted: {trait.said}."


def _cost(study: Study) -> list[Part]:
    table = study.to_arrow().select(_COST)
    heads = [name.replace("_", " ") for name in _COST]
    note = "The joint eigenvalue is the share of a variant's association that remains visible to those who report it."
    rows = [list(row.values()) for row in table.to_pylist()]
    parts: list[Part] = [Table(heads, rows, "What each way buys for the same total, in nats", note)]
    if study.unavailable:
        parts.append(Table(["total", "way", "why it is not here"], study.unavailable, "Not available"))
    return parts


def _tables(study: Study) -> list[Part]:
    out: list[Part] = []
    for title, names in _TABLES.items():
        known = [name for name in names if _is_known(study, name)]
        heads = [x for name in known for x in (name.replace("_", " ").replace("chi2", "χ²"), "±")]
        rows = [[o.people, o.total, o.method, *(x for name in known for x in o.measures[name])] for o in study.outcomes]
        out.append(Table(["people", "total", "way", *heads], rows, title, "Means, and ± one standard error."))
    return out


def _is_known(study: Study, measure: str) -> bool:
    return any(math.isfinite(o.measures[measure][0]) for o in study.outcomes)


def naive_warning(study: Study) -> str:
    """What the naive test did where nothing was associated, in a sentence or two."""
    worst = max(study.naive_failures, key=lambda o: o.measures["naive_type_one"][0], default=None)
    if worst is None:
        return (
            "In this run the naive test kept its level within Monte Carlo error. It does so where the mechanism randomizes "
            "genotype and status independently, or where one of them is nearly uniform, and not elsewhere."
        )
    return (
        f"WARNING: the naive test is wrong on these data. For {worst.method} at total epsilon "
        f"{worst.total:g} it calls {100 * worst.measures['naive_type_one'][0]:.1f} % of the variants associated when "
        f"nothing is, at a stated level of {100 * study.options.alpha:g} %. Use an ordinary χ² or trend test only "
        "where the mechanism randomizes genotype and status independently."
    )


def all_figures(study: Study) -> Iterator[tuple[str, "Figure", str]]:
    """Every figure of the report, in its order, with the name of its file and its caption.

    Measures against the total ε, of the most people, and some against people, at the largest total; then the naive test.
    """
    outcomes = study.outcomes
    if not outcomes:
        return
    people, total = max(o.people for o in outcomes), max(o.total for o in outcomes)
    many = [o for o in outcomes if o.people == people]
    dear = [o for o in outcomes if o.total == total]
    for measure in _CURVES:
        if not _is_known(study, measure):
            continue
        against = f"the total ε of a person's record, {people:,} people"
        yield measure, *_curve(study, measure, many, against, ("total ε, nats", lambda o: o.total))
        if measure in _BY_PEOPLE and len({o.people for o in outcomes}) > 1:
            against = f"the number of people, total ε {total:g}"
            yield f"{measure}_by_people", *_curve(study, measure, dear, against, ("people", lambda o: o.people))
    worst = max(outcomes, key=lambda o: np.nan_to_num(o.measures["naive_type_one"][0]))
    caption = (
        f"p-values where nothing is associated: {worst.method}, total ε {worst.total:g}, {worst.people:,} people, statuses "
        f"permuted, {study.options.repeats} repeats together; the naive test takes its records for true ones."
    )
    yield "null", qq({worst.method: worst.null_p, "naive test": worst.naive_null_p}), caption


def _curve(
    study: Study,
    measure: str,
    outcomes: Sequence[Outcome],
    against: str,
    along: tuple[str, Callable[[Outcome], float]],
) -> tuple["Figure", str]:
    """One line for each way, and a caption; ``along``: what the horizontal axis says, and an outcome's place on it."""
    (label, reference), (said, place) = _CURVES[measure], along
    label = label.format(alpha=study.options.alpha, top=study.options.top)
    figure = new_figure(PAGE_WIDTH, 4.6)
    axes: Any = figure.add_subplot()
    if reference is not None:
        axes.axhline(reference, color="#bbbbbb", linewidth=1, zorder=0)
    others: dict[str, str] = {}
    for method in dict.fromkeys(o.method for o in outcomes):
        mine = sorted((o for o in outcomes if o.method == method), key=place)
        x = [place(o) for o in mine]
        y, spread = (np.array(column) for column in zip(*(o.measures[measure] for o in mine), strict=True))
        colour, marker, line = _STYLES[method]
        if (trust := mine[0].way.trust) != StudiedWay.trust:
            others[method] = trust
        if measure == "noncentrality_ratio":
            axes.plot(x, [o.predicted for o in mine], color=colour, linestyle=line, linewidth=1)
            line = "none"
        bars = {"yerr": np.nan_to_num(spread), "capsize": 2, "marker": marker, "markersize": 4, "color": colour}
        axes.errorbar(x, y, **bars, linestyle=line, label=f"{method} *" if method in others else method)
    ticks = sorted({place(o) for o in outcomes})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    if measure in _DECADES and any(o.measures[measure][0] > 0 for o in outcomes):
        axes.set_yscale("log")
        if measure == "noncentrality_ratio":
            axes.set_ylim(bottom=max(axes.get_ylim()[0], _LEAST_KEPT))
    axes.set_xlabel(said)
    axes.set_ylabel(label)
    legend_below(figure, 3)
    trusts = "; ".join(f"{method}: {trust}" for method, trust in others.items())
    caption = (
        f"{label} against {against}, {len(study.variants)} variants, {study.truth.compared.size} of them compared; "
        f"{study.options.test} test. Points: means of {study.options.repeats} repeats; bars: one standard error up and down."
        + (" Lines: as predicted from the designs." if measure == "noncentrality_ratio" else "")
        + ("" if reference is None else f" Grey line: {reference:g}.")
        + (f" Dashed: under another trust than the local one ({trusts})." if others else "")
    )
    return figure, caption


def write_figures(study: Study, folder: Path) -> None:
    """Each figure as a file, and all captions in captions.txt; the folder is made where it is not there."""
    folder.mkdir(exist_ok=True)
    captions = []
    for name, figure, caption in all_figures(study):
        save_figure(figure, folder / f"{name}.pdf")
        captions.append(f"{name}.pdf\n{caption}\n")
    with whole_file(folder / "captions.txt") as partial:
        partial.write_text("\n".join(captions), encoding="utf-8")
