"""Figures of a study, each with a caption that stands on its own: for the report, and as files for a paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optrr.genomics.plots import manhattan, save_figure
from optrr.genomics.study.por import PorErrors
from optrr.genomics.study.por_draws import PEOPLE, PUBLISHED, SNP_EPSILONS
from optrr.genomics.study.result import Outcome, Study
from optrr.genomics.study.ways import TRUST
from optrr.records.whole_files import whole_file
from optrr.show.charts import COLOURS, PAGE_WIDTH, legend_below, new_figure
from optrr.tables.distributions import chi_squared_tails

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colour, marker and line of each way: local ones are drawn through, those of another trust dashed.
_STYLES = {
    "optimum": (COLOURS[0], "o", "-"),
    "pairs": (COLOURS[0], "s", ":"),
    "association": (COLOURS[2], "o", "-"),
    "sampling": (COLOURS[1], "o", "-"),
    "subset": (COLOURS[1], "s", ":"),
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
# Of POR's Fig. 5: label, colour and line.
_POR_STYLES = {
    "published heuristic": ("heuristic, with the slip", COLOURS[1], ":"),
    "published Kronecker": ("Kronecker, with the slip", COLOURS[0], ":"),
    "kronecker": ("Kronecker", COLOURS[0], "-"),
    "heuristic": ("heuristic", COLOURS[1], "-"),
    "optimum": ("optimum", COLOURS[2], "-"),
}
# Also drawn against the number of people, where there are several.
_BY_PEOPLE = ("power", "power_genome_wide", "recall")


@dataclass(frozen=True, eq=False)
class StudyFigure:
    """A figure, the name of its file, and its caption."""

    name: str
    figure: Figure
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
) -> Figure:
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


def por_figures(errors: PorErrors) -> Iterator[StudyFigure]:
    """POR Fig. 5, and the same with unbiased statistics."""
    for key, statistic in (
        ("naive", "statistics of the perturbed counts, as published"),
        ("unbiased", "unbiased statistics"),
    ):
        figure = new_figure(PAGE_WIDTH, 4.2)
        axes: Any = figure.add_subplot()
        for method, (label, colour, line) in _POR_STYLES.items():
            mine = [r for r in errors.rows if r.method == method]
            if not mine or (key == "unbiased" and method in PUBLISHED):
                continue
            x, y, bars = ([getattr(r, name) for r in mine] for name in ("snps", key, f"{key}_se"))
            bars = np.nan_to_num(bars)
            axes.errorbar(
                x, y, yerr=bars, color=colour, linestyle=line, marker="o", markersize=4, capsize=2, label=label
            )
        axes.set_xlabel("SNPs")
        axes.set_ylabel("mean |χ² − χ² of the true table|")
        axes.set_ylim(bottom=0)
        legend_below(figure, 2)
        caption = (
            f"POR Fig. 5: mean error of χ² against the number of SNPs, {PEOPLE:,} people, one allele × status attribute for "
            f"each SNP, ε_i uniform in {SNP_EPSILONS[0]}..{SNP_EPSILONS[1]}, equal total ε; {statistic}. Points: means of "
            f"{errors.setting.repeats} draws of the ε_i (fewer of the optimum); bars: one standard error up and down."
        )
        yield StudyFigure(f"por_fig5_{key}", figure, caption)


def write_figures(figures: Iterator[StudyFigure], folder: Path, suffix: str = ".pdf") -> None:
    """Each figure as a file, and all captions in captions.txt; the folder is made where it is not there."""
    folder.mkdir(exist_ok=True)
    captions = []
    for each in figures:
        save_figure(each.figure, folder / f"{each.name}{suffix}")
        captions.append(f"{each.name}{suffix}\n{each.caption}\n")
    with whole_file(folder / "captions.txt") as partial:
        partial.write_text("\n".join(captions), encoding="utf-8")
