"""A study as one page: what was compared, what it cost, what was found, and the naive test's failure as a warning."""

from __future__ import annotations

import math

from optrr.genomics.study.figures import StudyFigure, curve_figures, null_figure, por_figures, release_figures
from optrr.genomics.study.por import PorErrors
from optrr.genomics.study.result import Study
from optrr.genomics.tests import ASSUMPTION
from optrr.models.tests.testing import ASSUMING
from optrr.show.charts import figure_svg
from optrr.show.parts import Chart, Page, Part, Section, Table, Text

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
    "error. Bias and coverage are of odds ratios of associated variants (of alleles; per copy for association and subset), "
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


def study_page(study: Study, title: str) -> Page:
    """The report."""
    o = study.options
    lead = (
        _who(study),
        o.errors_said,
        _ACCOUNTING,
        *([naive_warning(study)] if study.naive_failures else []),
        *([f"{ASSUMPTION[0].upper()}{ASSUMPTION[1:]}."] if o.test == ASSUMING else []),
    )
    sections = [_cost(study), *_measured(study), _naive(study), _release(study), _inputs(study)]
    return Page(title, [s for s in sections if s is not None], lead)


def por_page(errors: PorErrors, title: str) -> Page:
    """The report of POR's Fig. 5."""
    charts = [_chart(k + 1, figure) for k, figure in enumerate(por_figures(errors))]
    said = (
        "The authors' public code randomizes the last SNP's records for every SNP; the two ways with the slip repeat that, all "
        "others do not. The total ε is that of the heuristic; Kronecker and the optimum may spend as much."
    )
    inputs = Table(["what", "value"], [("seed", errors.setting.seed), ("SHA-256 of the setting", errors.digest)])
    sections = [Section("Errors", charts), Section("Table", [errors.shown()]), Section("Made from", [inputs])]
    return Page(title, sections, (f"{errors.headline()}.", said))


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


def _chart(number: int, figure: StudyFigure) -> Chart:
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
