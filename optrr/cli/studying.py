"""optrr gwas-study."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar

import click
import numpy as np

from optrr.cli.genotype_options import (
    PHENOTYPE,
    TEST,
    check_outputs,
    checked_phenotype,
    progress_bar,
)
from optrr.cli.options import argument, command, group, option, refuse_options
from optrr.cli.outputs import FIGURES, REPORT, TABBED, write_report
from optrr.cli.printing import give, print_table, warn
from optrr.core.display import counted
from optrr.core.errors import InvalidInput
from optrr.core.records import held_back
from optrr.genomics.cohort import read_panel
from optrr.genomics.phenotypes import PhenotypeColumns
from optrr.genomics.result_files import write_columns
from optrr.genomics.study import METHODS, PlantedTrait, Study, StudyOptions, run_study
from optrr.genomics.study.pages import study_page, write_figures

_Number = TypeVar("_Number", int, float)
_OF_TRAIT = ("odds_ratio", "heritability", "cases_share", "structure")
_OF_STATUS = ("cases", "controls")
_DEFAULT_ODDS = 1.3


def _wanted(
    totals: tuple[str, ...] = option("Total epsilon, or several (1,2,4). Repeatable.", "--total-epsilon"),
    people: tuple[str, ...] = option("How many are drawn from INPUT for each repeat, or several. Repeatable."),
    repeats: int = option("How often everybody is randomized anew.", default=20),
    methods: str = option("Ways to randomize, separated by commas.", default=",".join(METHODS)),
    test: str = TEST,
    alpha: float = option("Level of one test.", default=0.05),
    top: int = option("Variants to be found again, and ranked.", default=20),
    causal: int | None = option(
        "Plant a trait with so many causal variants, in place of people's statuses; a --phenotype-column is left out."
    ),
    odds_ratio: float | None = option("Of each causal variant, per copy.  [default: 1.3]"),
    heritability: float | None = option(
        "Of the causal variants together, of the liability; in place of an odds ratio."
    ),
    cases_share: float | None = option("Share of cases of a planted trait.  [default: 0.5]", "--prevalence"),
    structure: float | None = option(
        "Confounding of a planted trait: standard deviation of the groups' log odds (liability)."
    ),
    stretch: float | None = option(
        "Mean length, in base pairs, of what drawn people copy of one person; default: whole people."
    ),
    missing: Literal["refuse", "exclude", "category"] = option(
        "Missing calls. exclude: leave them out; category: randomize them too.", default="refuse"
    ),
    random_state: int = option("Seed.", type=click.IntRange(min=0), default=1),
) -> StudyOptions:
    trait = None
    if causal is None:
        refuse_options("is of a planted trait; give --causal too, or leave it out", *_OF_TRAIT)
    else:
        refuse_options("is of people's own statuses, which --causal replaces; leave out one of them", *_OF_STATUS)
        odds = _DEFAULT_ODDS if odds_ratio is None and heritability is None else odds_ratio
        given = {"cases": cases_share, "structure": structure}
        known = {name: value for name, value in given.items() if value is not None}
        trait = PlantedTrait(causal, odds, heritability, **known)
    return StudyOptions(
        totals=_numbers("total epsilons", totals, float),
        repeats=repeats,
        methods=tuple(methods.split(",")),
        test=test,
        alpha=alpha,
        top=top,
        seed=random_state,
        missing="refuse" if missing == "category" else missing,
        missing_category=missing == "category",
        people=_numbers("numbers of people", people, int),
        stretch=stretch,
        trait=trait,
    )


@command
def gwas_study(
    input: Path = argument(),
    wanted: StudyOptions = group(_wanted),
    group_column: str | None = option("Column of a group, such as an ancestry: drawn people are copied within it."),
    output: Path | None = option("Table of results to write (tab separated).", "-o", type=TABBED),
    report: Path | None = REPORT,
    figures: Path | None = option("Folder to write every figure (PDF) and its caption to.", type=FIGURES),
    phenotype: PhenotypeColumns = PHENOTYPE,
) -> None:
    """Randomize people of INPUT, or drawn from it, again and again, test, and compare with the truth.

    \b
    Ways (--methods): optimum, association, sampling, inductive (POR), kronecker, naive;
    labelled as of another trust: laplace, gaussian (a curator holds true records), unrandomized.
    Everybody of INPUT is randomized as they are, unless --people, --stretch or --causal draws people anew.
    """  # noqa: D301 (the mark tells click to keep the lines that follow as they are)
    check_outputs([output, report], [input, phenotype.table])
    phenotype = replace(checked_phenotype(phenotype, input), group=group_column)
    panel, groups = read_panel(input, phenotype, status=wanted.trait is None)
    study = run_study(panel, wanted, progress_bar("study"), groups=groups)
    warn(_study_warnings(study))
    with held_back():
        if output is not None:
            table = study.to_arrow()
            write_columns(output, {name: np.array(table[name].to_pylist()) for name in table.column_names})
        write_report(report, lambda: study_page(study, f"Protected association study of {input.name}"))
        if figures is not None:
            write_figures(study, figures)
    give(study.summary, lambda: _show_study(study))


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
