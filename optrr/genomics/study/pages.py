"""A study as one page: what was compared, what it cost, what was found, and the naive test's failure as a warning.

Its figures have captions that stand on their own: for the page, and as files for a paper.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optrr.core.display.charts import COLOURS, PAGE_WIDTH, figure_svg, legend_below, new_figure
from optrr.core.display.parts import Chart, Page, Part, Section, Table, Text
from optrr.core.estimation.distributions import chi_squared_tails
from optrr.core.records.atomic import whole_file
from optrr.genomics.plots import manhattan, save_figure
from optrr.genomics.study.result import Outcome, Study
from optrr.genomics.study.ways import TRUST

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ACCOUNTING = (
    "Genotypes and status of one person are one record: the total epsilon covers all of it at once, whatever is "
    "tested later. "
    "The conditional epsilon says what somebody who already knows a person's other attributes learns about one of "
    "them; at the "
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
_TABLES = (
    ("Tests", ("noncentrality_ratio", "power", "power_bonferroni", "power_genome_wide", "type_one")),
    ("Ranks", ("recall", "rank_correlation", "rank_correlation_all", "lambda_null", "lambda_structure")),
    ("Estimates", ("odds_bias", "odds_finite", "odds_coverage", "chi2_error", "chi2_bias")),
)

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


@dataclass(frozen=True)
class MeasureCurve:
    """A measure that is drawn: its name, what stands beside its axis, where nothing is lost, and whether decades are drawn."""

    measure: str
    label: str
    reference: float | None = None
    decades: bool = False


CURVES = (
    MeasureCurve("noncentrality_ratio", "Noncentrality left", 1.0, decades=True),
    MeasureCurve("power", "Power at level {alpha:g}"),
    MeasureCurve("power_genome_wide", "Power at 5e-8"),
    MeasureCurve("recall", "Recall of the top {top}"),
    MeasureCurve("rank_correlation_all", "Rank correlation, all variants", 1.0),
    MeasureCurve("type_one", "Type I error at level {alpha:g}"),
    MeasureCurve("odds_bias", "Bias of ln odds ratio", 0.0),
    MeasureCurve("odds_coverage", "Coverage of 95 % intervals", 0.95),
    MeasureCurve("chi2_error", "Mean |χ² − true χ²|", decades=True),
    MeasureCurve("chi2_bias", "Bias of χ²", 0.0),
    MeasureCurve("lambda_structure", "λ with confounding groups", 1.0),
)
# Smaller shares of the noncentrality are not drawn: nobody has ten thousand times as many people.
_LEAST_KEPT = 1e-5
# Also drawn against the number of people, where there are several.
_BY_PEOPLE = ("power", "power_genome_wide", "recall")


def study_page(study: Study, title: str) -> Page:
    """The report."""
    o = study.options
    lead = (
        _who(study),
        o.errors_said,
        _ACCOUNTING,
        *([naive_warning(study)] if study.naive_failures else []),
    )
    sections = [_cost(study), *_measured(study), _naive(study), _release(study), _inputs(study)]
    return Page(title, [s for s in sections if s is not None], lead)


def _who(study: Study) -> str:
    o, trait = study.options, study.options.trait
    out = f"{study.headline()}; {o.test} test at level {o.alpha:g}, seed {o.seed}. "
    if not o.draws_people:
        out += f"The people are those of the panel, {study.cases} of them cases."
    else:
        stretch = "whole people, with replacement" if o.stretch is None else f"stretches of {o.stretch:g} on average"
        out += f"People are drawn from a panel of {study.n}: {stretch}."
    if trait is None:
        return f"{out} {study.truth.associated.size} variants are associated (Bonferroni at 5 %, true records of the panel)."
    effect = (
        f"an odds ratio of {trait.odds_ratio:g} per copy each"
        if trait.odds_ratio is not None
        else f"a heritability of {trait.heritability:g} on the scale of the liability"
    )
    shift = f"; groups are shifted by {trait.structure:g} (standard deviation)" if trait.structure else ""
    return f"{out} The trait is planted: {trait.causal} causal variants with {effect}, {100 * trait.cases:g} % cases{shift}."


def _cost(study: Study) -> Section:
    rows = [
        [
            o.total, o.label, o.epsilon if math.isfinite(o.epsilon) else "none", o.labels.get("lower_bound"), o.reported,
            *(o.labels.get(k) for k in ("variant_epsilon", "status_epsilon", "max_conditional_epsilon", "joint_eigenvalue")),
        ]
        for o in study.outcomes
        if o.people == study.outcomes[0].people
    ]  # fmt: skip
    columns = [
        "asked total", "way", "total epsilon", "certified at least", "variants per person",
        "epsilon per variant (median)", "epsilon of status", "largest conditional", "joint eigenvalue",
    ]  # fmt: skip
    note = "The joint eigenvalue is the share of a variant's association that remains visible to those who report it."
    parts: list[Part] = [Table(columns, rows, "What each way buys for the same total, in nats", note)]
    if study.unavailable:
        reasons = [[t, m, why] for t, m, why in study.unavailable]
        parts.append(Table(["asked total", "way", "why it is not here"], reasons, "Not available"))
    return Section("Cost", parts)


def _measured(study: Study) -> list[Section]:
    coverage = "" if study.options.draws_people else _NO_COVERAGE
    text = Text(_MEASURES.format(zero=study.zero_said, coverage=coverage))
    figures: list[Part] = [text, *(_chart(k + 1, f) for k, f in enumerate(curve_figures(study)))]
    out = [Section("What is found", figures)]
    tables: list[Part] = []
    for title, names in _TABLES:
        known = [n for n in names if any(math.isfinite(o.measures[n][0]) for o in study.outcomes)]
        columns = ["people", "total", "way"] + (["predicted ratio"] if title == "Tests" else [])
        columns += [c for n in known for c in (n.replace("_", " ").replace("chi2", "χ²"), "±")]
        rows = [
            [
                *(o.people, o.total, o.method),
                *([o.measures["predicted_noncentrality_ratio"][0]] if title == "Tests" else []),
                *(x for n in known for x in o.measures[n]),
            ]
            for o in study.outcomes
        ]
        tables.append(Table(columns, rows, title, "Means, and ± one standard error."))
    return [*out, Section("Tables", tables)]


def _chart(number: int, figure: "StudyFigure") -> Chart:
    return Chart(figure_svg(figure.figure), f"Figure {number}. {figure.caption}")


def _naive(study: Study) -> Section:
    failed = study.naive_failures
    columns = ["people", "total", "way", f"{study.options.test} test: type I", "±", "QQ slope", "±"]
    columns += ["naive test: type I", "±", "QQ slope", "±", "naive test"]
    keys = ("type_one", "qq_slope", "naive_type_one", "naive_qq_slope")
    rows = [
        [o.people, o.total, o.method, *(x for k in keys for x in o.measures[k]), "wrong" if o in failed else ""]
        for o in study.outcomes
    ]
    why = (
        "A test that takes randomized counts for true ones rejects too often wherever the mechanism itself makes "
        "genotype and status dependent, as every mechanism that is better than Kronecker does. Where it keeps its level, as "
        "the trend test does under Kronecker, its χ² is still not that of the people."
    )
    note = "Wrong: the naive test exceeds its level by more than chance would once in a thousand such studies."
    null = null_figure(study)
    return Section(
        "The naive test",
        [
            Text(naive_warning(study), bool(failed)),
            Text(why),
            *([] if null is None else [Chart(figure_svg(null.figure), null.caption)]),
            Table(columns, rows, "Permuted statuses", note),
        ],
    )


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


def _release(study: Study) -> Section | None:
    charts = [Chart(figure_svg(f.figure), f.caption) for f in release_figures(study)]
    return Section("One release", charts) if charts else None


def _inputs(study: Study) -> Section:
    rows: list[tuple[str, object]] = [*study.left_out.items(), ("seed", study.options.seed)]
    rows += [(f"SHA-256 of {name}", value) for name, value in study.digests.items() if value]
    note = "Genotypes (with the variants' names and places), statuses and groups as read; the study: all of it and the version."
    return Section("Made from", [Table(["what", "value"], rows, note=note)])


@dataclass(frozen=True, eq=False)
class StudyFigure:
    """A figure, the name of its file, and its caption."""

    name: str
    figure: "Figure"
    caption: str


def curve_figures(study: Study) -> Iterator[StudyFigure]:
    """The measures against the total ε, of the most people, and some against people, at the largest total."""
    people = sorted({o.people for o in study.outcomes})
    totals = sorted({o.total for o in study.outcomes})
    if not people:
        return
    for curve in CURVES:
        label = curve.label.format(alpha=study.options.alpha, top=study.options.top)
        if not any(np.isfinite(o.measures[curve.measure][0]) for o in study.outcomes):
            continue
        most = [o for o in study.outcomes if o.people == people[-1]]
        where = f"{label} against the total ε of a person's record, {people[-1]:,} people"
        figure = curve_figure(most, curve, label, ("total ε, nats", totals, lambda o: o.total))
        yield StudyFigure(curve.measure, figure, _caption(study, where, most, curve))
        if curve.measure in _BY_PEOPLE and len(people) > 1:
            largest = [o for o in study.outcomes if o.total == totals[-1]]
            where = f"{label} against the number of people, total ε {totals[-1]:g}"
            figure = curve_figure(largest, curve, label, ("people", people, lambda o: o.people))
            yield StudyFigure(f"{curve.measure}_by_people", figure, _caption(study, where, largest, curve))


def _caption(study: Study, where: str, shown: Sequence[Outcome], curve: MeasureCurve) -> str:
    others = {o.method: o.trust for o in shown if o.trust != TRUST}
    dashed = "; ".join(f"{method}: {trust}" for method, trust in others.items())
    predicted = " Lines: as predicted from the designs." if curve.measure == "noncentrality_ratio" else ""
    grey = "" if curve.reference is None else f" Grey line: {curve.reference:g}."
    return (
        f"{where}, {len(study.variants)} variants, {study.truth.compared.size} of them compared; {study.options.test} test. "
        f"Points: means of {study.options.repeats} repeats; bars: one standard error up and down.{predicted}{grey}"
        + (f" Dashed: under another trust than the local one ({dashed})." if dashed else "")
    )


def curve_figure(
    outcomes: Sequence[Outcome],
    curve: MeasureCurve,
    label: str,
    along: tuple[str, Sequence[float], Callable[[Outcome], float]],
) -> "Figure":
    """One line for each way; ``along``: what the horizontal axis says, its ticks, and an outcome's place on it."""
    figure = new_figure(PAGE_WIDTH, 4.6)
    axes: Any = figure.add_subplot()
    said, ticks, place = along
    if curve.reference is not None:
        axes.axhline(curve.reference, color="#bbbbbb", linewidth=1, zorder=0)
    for method in dict.fromkeys(o.method for o in outcomes):
        mine = sorted((o for o in outcomes if o.method == method), key=place)
        x = [place(o) for o in mine]
        y, spread = (np.array(column) for column in zip(*(o.measures[curve.measure] for o in mine), strict=True))
        colour, marker, line = _STYLES[method]
        drawn = curve.measure != "noncentrality_ratio"
        label_of = method if mine[0].trust == TRUST else f"{method} *"
        bars = {"yerr": np.nan_to_num(spread), "capsize": 2, "marker": marker, "markersize": 4, "color": colour}
        axes.errorbar(x, y, **bars, linestyle=line if drawn else "none", label=label_of)
        if not drawn:
            predicted = [o.measures["predicted_noncentrality_ratio"][0] for o in mine]
            axes.plot(x, predicted, color=colour, linestyle=line, linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    if curve.decades and any(o.measures[curve.measure][0] > 0 for o in outcomes):
        axes.set_yscale("log")
        if curve.measure == "noncentrality_ratio":
            axes.set_ylim(bottom=max(axes.get_ylim()[0], _LEAST_KEPT))
    axes.set_xlabel(said)
    axes.set_ylabel(label)
    legend_below(figure, 3)
    return figure


def null_figure(study: Study) -> StudyFigure | None:
    """A QQ plot of every way under permuted statuses, at the total where the naive test is worst."""
    worst = max(study.outcomes, key=lambda o: np.nan_to_num(o.measures["naive_type_one"][0]), default=None)
    if worst is None:
        return None
    figure = new_figure(PAGE_WIDTH, 4.6)
    axes: Any = figure.add_subplot()
    reach = 1.0
    same = [o for o in study.outcomes if (o.people, o.total) == (worst.people, worst.total) and o.method != "naive"]
    for o in same:
        colour, _, line = _STYLES[o.method]
        axes.plot(*o.qq.T, color=colour, linestyle=line, linewidth=1.2, label=o.method)
        reach = max(reach, float(o.qq[0, 0]) if o.qq.size else 0.0)
    axes.plot(*worst.naive_qq.T, color=COLOURS[1], linestyle="none", marker="x", markersize=3, label="naive test")
    axes.plot([0, reach], [0, reach], color="#bbbbbb", linewidth=1, zorder=0)
    axes.set_xlabel("expected −log10 p")
    axes.set_ylabel("observed −log10 p")
    legend_below(figure, 3)
    caption = (
        f"p-values where nothing is associated, total ε {worst.total:g}, {worst.people:,} people, statuses permuted, "
        f"{study.options.repeats} repeats together. A valid test follows the grey line. Crosses: the test that takes "
        f"the records of {worst.method} for true ones."
    )
    return StudyFigure("null", figure, caption)


def release_figures(study: Study) -> Iterator[StudyFigure]:
    """Along the genome: without randomization, and one release of the local way that keeps most at the largest total."""
    local = [o for o in study.outcomes if o.trust == TRUST and o.method != "naive"]
    if not local:
        return
    truth = study.truth
    shown = max(local, key=lambda o: (o.people, o.total, o.measures["predicted_noncentrality_ratio"][0]))
    # noncentralities grow as the people do
    true_p = chi_squared_tails(truth.statistic * shown.people / truth.people, truth.df)
    yield StudyFigure(
        "true_scan",
        manhattan(study.variants, true_p, "without randomization"),
        f"p-values that the {study.options.test} test of {shown.people:,} people has without randomization, by the truth.",
    )
    yield StudyFigure(
        "one_release",
        manhattan(study.variants, shown.first, f"{shown.method}, total epsilon {shown.total:g}"),
        f"p-values of one release by {shown.method}, total ε {shown.total:g}, {shown.people:,} people.",
    )


def all_figures(study: Study) -> Iterator[StudyFigure]:
    """Every figure of the report, in its order."""
    yield from curve_figures(study)
    null = null_figure(study)
    if null is not None:
        yield null
    yield from release_figures(study)


def write_figures(figures: Iterator[StudyFigure], folder: Path) -> None:
    """Each figure as a file, and all captions in captions.txt; the folder is made where it is not there."""
    folder.mkdir(exist_ok=True)
    captions = []
    for each in figures:
        save_figure(each.figure, folder / f"{each.name}.pdf")
        captions.append(f"{each.name}.pdf\n{each.caption}\n")
    with whole_file(folder / "captions.txt") as partial:
        partial.write_text("\n".join(captions), encoding="utf-8")
