"""optrr gwas study."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from optrr.cli.genotype_options import PHENOTYPE, RESULTS, TEST, check_outputs, progress_bar
from optrr.cli.options import argument, command, group, option
from optrr.cli.outputs import REPORT, write_report
from optrr.cli.printing import give, warn
from optrr.cli.releasing import SEED
from optrr.core.display import counted
from optrr.core.errors import InvalidInput
from optrr.core.records import held_back
from optrr.genomics.cohort import read_panel
from optrr.genomics.phenotypes import PhenotypeColumns
from optrr.genomics.result_files import write_columns
from optrr.genomics.study import METHODS, SimulatedTrait, StudyOptions, run_study
from optrr.genomics.study.pages import study_page

_Number = TypeVar("_Number", int, float)


def _wanted(
    totals: tuple[str, ...] = option("Total epsilon, or several (1,2,4). Repeatable.", "--total-epsilon"),
    people: tuple[str, ...] = option(
        ("Number of people drawn from INPUT for each repeat, or several numbers. Repeatable."), "--n"
    ),
    repeats: int = option("Number of repeated randomizations.", default=20),
    methods: str = option("Protocols to compare, separated by commas.", default=",".join(METHODS)),
    test: str = TEST,
    alpha: float = option("Level of one test.", default=0.05),
    causal: int | None = option("Number of causal variants of a simulated phenotype, instead of people's status."),
    odds_ratio: float = option("Odds ratio of each causal variant, per allele copy.", default=1.3, needs="causal"),
    case_share: float = option("Proportion of cases of a simulated phenotype.", default=0.5, needs="causal"),
    missing: Literal["refuse", "exclude", "category"] = option(
        "Treatment of missing calls. exclude: leave them out; category: randomize them, too.", default="refuse"
    ),
    random_state: int | None = SEED,
) -> StudyOptions:
    return StudyOptions(
        totals=_numbers("totals", totals, float),
        repeats=repeats,
        methods=tuple(methods.split(",")),
        test=test,
        alpha=alpha,
        seed=1 if random_state is None else random_state,
        missing=missing,
        people=_numbers("people", people, int),
        trait=None if causal is None else SimulatedTrait(causal, odds_ratio, case_share),
    )


@command
def study(
    input: Path = argument(),
    wanted: StudyOptions = group(_wanted),
    output: Path | None = RESULTS,
    report: Path | None = REPORT,
    phenotype: PhenotypeColumns = PHENOTYPE,
) -> None:
    """Compare what association tests lose under several protocols.

    The comparison simulates studies of the people of INPUT. It randomizes all of them with their status, unless --n or
    --causal requires new draws of people.

    Example: optrr gwas study genotypes.csv --phenotype-column status --case case --total-epsilon 4,16 --repeats 2
    """
    check_outputs([output, report], [input, phenotype.table])
    panel = read_panel(input, phenotype, status=wanted.trait is None)
    made = run_study(panel, wanted, progress_bar("randomizing"))
    left_out = (f"left out: {counted(count, reason)}" for reason, count in made.left_out.items())
    warn([*left_out, *made.warnings])
    with held_back():
        if output is not None:
            table = made.to_arrow()
            write_columns(output, {name: np.array(table[name].to_pylist()) for name in table.column_names})
        write_report(report, lambda: study_page(made, f"Protected association study of {input.name}"))
    give(made)


def _numbers(name: str, texts: tuple[str, ...], kind: Callable[[str], _Number]) -> tuple[_Number, ...]:
    try:
        return tuple(kind(part) for text in texts for part in text.split(","))
    except ValueError as error:
        raise InvalidInput(f"``{name}`` {', '.join(texts)!r}: {error}; give numbers such as 10,20,40") from error
