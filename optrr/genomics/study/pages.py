"""HTML report of a study: its protocols, their privacy statements, results, and warnings."""

import math
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
    warnings,
)
from optrr.genomics.study.result import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ACCOUNTING = (
    "Genotypes and status of one person are one record: the total epsilon covers all of it at once, whatever is "
    "tested later. "
    "The conditional epsilon bounds the information on one attribute for an attacker who knows all others; at the "
    "optimum it is at most the total, under independent randomized response it is the attribute's epsilon."
)
_MEASURES = (
    "Noncentrality left: the tests' noncentrality relative to true records, as if only this proportion of the people "
    "took part without randomization; for each total, protocols are sorted by it. Power: proportion of the associated "
    "variants with a p-value at most the level. Recall: proportion of the truly most associated variants among as "
    "many of the smallest p-values. Type I error: proportion of p-values at most the level under permuted statuses, "
    "where every rejection is an error. Bias and coverage are of odds ratios of associated variants (of alleles; per "
    "copy for association), "
    "the bias of those that are finite. {coverage}χ² error: mean |χ² − χ² of these people's true records| of the "
    "estimate "
    "from the unbiased table; bias: the same with its sign. A small error does not imply that a protocol is "
    "informative: an answer that is always 0 has {zero}. The naive test treats randomized counts as true counts: it "
    "rejects too often if the mechanism makes genotype and status dependent, as every mechanism does that is better "
    "than independent randomized response."
)
_NO_COVERAGE = (
    "Coverage is left out: 95 % intervals account for the sampling of people, but every repeat has the same people. "
)
_TABLES = {
    "Tests": ("predicted_noncentrality_ratio", "noncentrality_ratio", "power", "power_bonferroni", "power_genome_wide"),
    "Permuted statuses": ("type_one", "naive_type_one"),
    "Ranks": ("recall", "rank_correlation"),
    "Estimates": ("odds_bias", "odds_finite", "odds_coverage", "chi2_error", "chi2_bias"),
}
_COST = ["people", "total", "method", "epsilon", "lower_bound", "variants_reported", "variant_epsilon"]
_COST += ["status_epsilon", "max_conditional_epsilon", "joint_eigenvalue"]
# Plotted measures: axis label, value without loss, and whether the axis is logarithmic.
_CURVES: dict[str, tuple[str, float | None, bool]] = {
    "noncentrality_ratio": ("Noncentrality left", 1.0, True),
    "power": ("Power at level {alpha:g}", None, False),
    "recall": ("Recall of the top {top}", None, False),
    "type_one": ("Type I error at level {alpha:g}", None, False),
    "odds_coverage": ("Coverage of 95 % intervals", 0.95, False),
    "chi2_error": ("Mean |χ² − true χ²|", None, True),
}
# Smallest plotted noncentrality: a smaller one needs more than ten thousand times as many people.
_LEAST_KEPT = 1e-5


def study_page(study: Study, title: str) -> Page:
    """Build the HTML report of a study."""
    coverage = "" if study.options.draws_people else _NO_COVERAGE
    charts = [
        Chart(figure_svg(_curve(study, measure)), f"Figure {k}. {_caption(study, measure)}")
        for k, measure in enumerate((m for m in _CURVES if _is_known(study, m)), start=1)
    ]
    sections = [
        Section("Cost", _cost(study)),
        Section("Results", [Text(_MEASURES.format(zero=study.zero_said, coverage=coverage)), *charts]),
        Section("Tables", _tables(study)),
        Section("Made from", [Table(["item", "value"], [*study.left_out.items(), ("seed", study.options.seed)])]),
    ]
    return Page(title, [*warnings(study.warnings), *sections], (_who(study), study.options.errors_said, _ACCOUNTING))


def _who(study: Study) -> str:
    o, trait = study.options, study.options.trait
    out = f"{study.headline()}; {o.test} test at level {o.alpha:g}, seed {o.seed}. "
    if o.draws_people:
        out += f"People are drawn from a panel of {study.n}, with replacement. "
    else:
        out += f"The people are those of the panel, {study.cases} of them cases. "
    if trait is None:
        return f"{out}{study.truth.associated.size} variants are associated (Bonferroni at 5 %, true records of the panel)."
    return (
        f"{out}The trait is simulated: {trait.causal} causal variants with an odds ratio of {trait.odds_ratio:g} per "
        "copy "
        f"each, {100 * trait.cases:g} % cases."
    )


def _cost(study: Study) -> list[Part]:
    rows = [list(row.values()) for row in study.to_arrow().select(_COST).to_pylist()]
    note = "The joint eigenvalue is the attenuation of a variant's association by the mechanism."
    heads = [name.replace("_", " ") for name in _COST]
    return [Table(heads, rows, "Protocols at the same total, in nats", note)]


def _tables(study: Study) -> list[Part]:
    out: list[Part] = []
    for title, names in _TABLES.items():
        known = [name for name in names if _is_known(study, name)]
        heads = [x for name in known for x in (name.replace("_", " ").replace("chi2", "χ²"), "±")]
        rows = [[o.people, o.total, o.method, *(x for name in known for x in o.measures[name])] for o in study.outcomes]
        out.append(Table(["people", "total", "protocol", *heads], rows, title, "Means, and ± one standard error."))
    return out


def _is_known(study: Study, measure: str) -> bool:
    return any(math.isfinite(o.measures[measure][0]) for o in study.outcomes)


def _curve(study: Study, measure: str) -> "Figure":
    """Plot a measure against the total, a line per protocol, at the largest n."""
    label, reference, decades = _CURVES[measure]
    people = max(o.people for o in study.outcomes)
    outcomes = sorted((o for o in study.outcomes if o.people == people), key=lambda o: o.total)
    figure = new_figure(PAGE_WIDTH, 4.6)
    axes: Any = figure.add_subplot()
    if reference is not None:
        axes.axhline(reference, color="#bbbbbb", linewidth=1, zorder=0)
    for method, colour in zip(dict.fromkeys(o.method for o in study.outcomes), COLOURS, strict=False):
        mine = [o for o in outcomes if o.method == method]
        y, spread = (np.array(column) for column in zip(*(o.measures[measure] for o in mine), strict=True))
        bars = {"yerr": np.nan_to_num(spread), "capsize": 2, "marker": "o", "markersize": 4, "color": colour}
        axes.errorbar([o.total for o in mine], y, **bars, label=method)
    ticks = sorted({o.total for o in outcomes})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    if decades and any(o.measures[measure][0] > 0 for o in outcomes):
        axes.set_yscale("log")
        if measure == "noncentrality_ratio":
            axes.set_ylim(bottom=max(axes.get_ylim()[0], _LEAST_KEPT))
    axes.set_xlabel("total ε, nats")
    axes.set_ylabel(label.format(alpha=study.options.alpha, top=study.options.top))
    legend_below(figure, 3)
    return figure


def _caption(study: Study, measure: str) -> str:
    label, reference, _ = _CURVES[measure]
    people = max(o.people for o in study.outcomes)
    return (
        f"{label.format(alpha=study.options.alpha, top=study.options.top)} against the total ε of a person's record, "
        f"{people:,} people, {len(study.variants)} variants, {study.truth.compared.size} of them compared; "
        f"{study.options.test} test. Points: means of {study.options.repeats} repeats; bars: one standard error up "
        "and down." + ("" if reference is None else f" Grey line: {reference:g}.")
    )
