"""optrr gwas-study."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from optrr.cli.genotype_options import (
    check_outputs,
    genotype_filter,
    genotype_options,
    phenotype_of,
    phenotype_options,
    progress_bar,
    test_option,
)
from optrr.cli.inputs import FILE, refuse_options
from optrr.cli.outputs import FIGURES, TABBED, report_option, write_report
from optrr.cli.printing import json_option, print_json, print_table, warn
from optrr.core.display.result import TableResult
from optrr.core.display.text import counted
from optrr.core.errors import InvalidInput
from optrr.core.records.atomic import held_back, whole_file
from optrr.genomics.cohort import read_panel
from optrr.genomics.study import METHODS, PlantedTrait, Study, StudyOptions, run_study
from optrr.genomics.study.pages import all_figures, study_page, write_figures

_Number = TypeVar("_Number", int, float)
_OF_TRAIT = ("odds_ratio", "heritability", "cases_share", "structure")
_OF_STATUS = ("cases", "controls", "zero_one")
_DEFAULT_ODDS = 1.3


@click.command("gwas-study")
@click.argument("input", type=FILE)
@click.option("--total-epsilon", "totals", multiple=True, help="Total epsilon, or several (1,2,4). Repeatable.")
@click.option("--people", multiple=True, help="How many are drawn from INPUT for each repeat, or several. Repeatable.")
@click.option("--repeats", type=int, default=20, help="How often everybody is randomized anew.")
@click.option("--methods", default=",".join(METHODS), help="Ways to randomize, separated by commas.")
@test_option
@click.option("--alpha", type=float, default=0.05, help="Level of one test.")
@click.option("--top", type=int, default=20, help="Variants to be found again, and ranked.")
@click.option(
    "--causal",
    type=int,
    help="Plant a trait with so many causal variants, in place of people's statuses; a --phenotype-column is left out.",
)
@click.option("--odds-ratio", type=float, help="Of each causal variant, per copy.  [default: 1.3]")
@click.option(
    "--heritability", type=float, help="Of the causal variants together, of the liability; in place of an odds ratio."
)
@click.option("--prevalence", "cases_share", type=float, help="Share of cases of a planted trait.  [default: 0.5]")
@click.option(
    "--structure",
    type=float,
    help="Confounding of a planted trait: standard deviation of the groups' log odds (liability).",
)
@click.option("--group-column", help="Column of a group, such as an ancestry: drawn people are copied within it.")
@click.option(
    "--stretch",
    type=float,
    help="Mean length, in base pairs, of what drawn people copy of one person; default: whole people.",
)
@click.option(
    "--missing",
    type=click.Choice(["refuse", "exclude", "category"]),
    default="refuse",
    help="Missing calls. exclude: leave them out; category: randomize them too.",
)
@click.option("--random-state", type=click.IntRange(min=0), default=1, help="Seed.")
@click.option("-o", "--output", type=TABBED, help="Table of results to write (tab separated).")
@report_option
@click.option("--figures", type=FIGURES, help="Folder to write every figure (PDF) and its caption to.")
@genotype_options
@phenotype_options
@json_option
def gwas_study(
    input: Path, output: Path | None, report: Path | None, figures: Path | None, as_json: bool, **options: Any
) -> None:
    """Randomize people of INPUT, or drawn from it, again and again, test, and compare with the truth.

    \b
    Ways (--methods): optimum, association, sampling, inductive (POR), kronecker, naive;
    labelled as of another trust: laplace, gaussian (a curator holds true records), unrandomized.
    Everybody of INPUT is randomized as they are, unless --people, --stretch or --causal draws people anew.
    """  # noqa: D301 (the mark tells click to keep the lines that follow as they are)
    check_outputs([output, report], [input, options["phenotype_file"], options["keep"]])
    chosen = _chosen(options)
    phenotype = replace(phenotype_of(options, input), group=options["group_column"])
    filters = genotype_filter(options)
    panel, groups = read_panel(input, phenotype, filters, status=chosen.trait is None)
    with progress_bar("study") as progress:
        study = run_study(panel, chosen, progress, groups=groups)
    warn([*filters.absent_names(panel.genotypes.people), *_study_warnings(study)])
    with held_back():
        _write_rows(output, study)
        write_report(report, lambda: study_page(study, f"Protected association study of {input.name}"))
        if figures is not None:
            write_figures(all_figures(study), figures)
    if as_json:
        print_json(study.summary())
    else:
        _show_study(study)


def _chosen(options: dict[str, Any]) -> StudyOptions:
    category = options["missing"] == "category"
    return StudyOptions(
        totals=_numbers("total epsilons", options["totals"], float),
        repeats=options["repeats"],
        methods=tuple(options["methods"].split(",")),
        test=options["test"],
        alpha=options["alpha"],
        top=options["top"],
        seed=options["random_state"],
        missing="refuse" if category else options["missing"],
        missing_category=category,
        people=_numbers("numbers of people", options["people"], int),
        stretch=options["stretch"],
        trait=_trait(options),
    )


def _trait(options: dict[str, Any]) -> PlantedTrait | None:
    if options["causal"] is None:
        refuse_options("is of a planted trait; give --causal too, or leave it out", *_OF_TRAIT)
        return None
    refuse_options("is of people's own statuses, which --causal replaces; leave out one of them", *_OF_STATUS)
    odds, heritability = options["odds_ratio"], options["heritability"]
    if odds is None and heritability is None:
        odds = _DEFAULT_ODDS
    given = {"cases": options["cases_share"], "structure": options["structure"]}
    known = {name: value for name, value in given.items() if value is not None}
    return PlantedTrait(options["causal"], odds, heritability, **known)


def _show_study(study: Study) -> None:
    shown = ["people", "total", "method", "predicted_noncentrality_ratio", "noncentrality_ratio", "power", "recall"]
    shown += ["type_one", *(["odds_coverage"] if study.options.draws_people else []), "chi2_error"]
    heads = ["people", "total", "way", "predicted ratio", "ratio", *(name.replace("_", " ") for name in shown[5:])]
    title = (
        "means over the repeats; ratio: how much of the tests' noncentrality is left, most of it first (an answer that is "
        f"always 0 leaves none, and has chi2 error {study.zero_said})"
    )
    print_table(title, heads, [[row[c] for c in shown] for row in study.to_arrow().to_pylist()])
    click.echo(study.options.errors_said)


def _numbers(what: str, texts: tuple[str, ...], kind: Callable[[str], _Number]) -> tuple[_Number, ...]:
    try:
        return tuple(kind(part) for text in texts for part in text.split(","))
    except ValueError as error:
        raise InvalidInput(f"{what} {', '.join(texts)!r}: {error}; give numbers such as 10,20,40") from error


def _study_warnings(study: Study) -> list[str]:
    return [
        *(f"left out: {counted(count, reason)}" for reason, count in study.left_out.items()),
        *(f"total {t:g}: {m} is not available: {why}" for t, m, why in study.unavailable),
        *(
            f"{o.people} people, total {o.total:g}, {o.method}: the naive test's type I error is "
            f"{o.measures['naive_type_one'][0]:.3f} at level {study.options.alpha:g}; it is not valid"
            for o in study.naive_failures
        ),
    ]


def _cell(value: object) -> str:
    if value is None or (isinstance(value, float) and value != value):  # noqa: PLR0124 (NaN)
        return "NA"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _write_rows(path: Path | None, result: TableResult) -> None:
    if path is None:
        return
    table = result.to_arrow()
    rows: Sequence[dict[str, object]] = table.to_pylist()
    with whole_file(path) as partial, partial.open("w", encoding="utf-8") as out:
        out.write("\t".join(table.column_names) + "\n")
        for row in rows:
            out.write("\t".join(_cell(v) for v in row.values()) + "\n")
