"""optrr gwas-design and gwas-randomize."""

from collections import Counter
from collections.abc import Sequence
from functools import partial, singledispatch
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np

from optrr.cli.genotype_options import (
    DESIGN_FILE,
    PHENOTYPE,
    STATUS_OPTIONS,
    check_outputs,
    checked_phenotype,
    load_genomic_design,
    progress_bar,
)
from optrr.cli.main import cleaned_up
from optrr.cli.one_person import OnePerson, report_one_person
from optrr.cli.options import argument, command, group, option, refuse_options
from optrr.cli.outputs import DESIGN_OUTPUT, OUTPUT
from optrr.cli.printing import give, heard, print_table, warn
from optrr.cli.releasing import AFTER, KEEP_ORDER, LIMIT, SEED
from optrr.core import files
from optrr.core.design import Design, Preserve, solution_warnings
from optrr.core.display import amount, bound_text, counted, epsilon_text
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms import ReleaseOptions, replaced_release
from optrr.core.provenance import Provenance
from optrr.core.records import released_file, written_suffixes
from optrr.genomics import designing, randomize
from optrr.genomics.alleles import aligned
from optrr.genomics.asking import AssociationDesign
from optrr.genomics.cohort import Cohort, listed_variants, read_cohort
from optrr.genomics.genotypes import refuse_single_copies, required
from optrr.genomics.layout import STATUS, layout_of
from optrr.genomics.people_tables import text_column
from optrr.genomics.phenotypes import PhenotypeColumns
from optrr.genomics.power import FARTHEST_ODDS, PlannedScan, Sight, sight
from optrr.genomics.sampled_variants import SCHEMA, SampledVariants
from optrr.genomics.writing import write_plink, write_records
from optrr_solvers.arrays import FloatArray
from optrr_solvers.randomness import as_source

# Those of gwas-randomize that one person's report has no use for.
_OF_MANY = ("after", "keep_order", "keep_names", "random_state", *STATUS_OPTIONS)


_NAMES_KEPT = (
    "people keep their names, which no epsilon covers: where names were given in an order, as numbers are, whoever sorts by "
    "them has that order back, and where it follows the status, that, too"
)


@command
def gwas_design(
    input: Path = argument(),
    output: Path | None = DESIGN_OUTPUT,
    total_epsilon: float | None = option("Total epsilon of a person's record; variants and status are scaled to it."),
    variant_epsilon: float | None = option("Epsilon of every variant, instead of a total."),
    budgets: Path | None = option(
        "CSV with columns variant and epsilon: the epsilon of each variant; with a total, only their ratios count."
    ),
    status_epsilon: float | None = option("Epsilon of the status; default: the most useful one at the total, else 1."),
    missing: Literal["refuse", "category"] = option("category: randomize missing calls too.", default="refuse"),
    method: str = option("Any method of optrr design; kronecker and inductive are baselines.", default="auto"),
    preserve: Preserve = option(
        "pairs: every pair of variant and status stays at least as visible as under Kronecker.", default="marginals"
    ),
    purpose: Literal["genotypes", "association"] = option(
        "association: everybody answers about a few variants, drawn at random; it serves tests of association.",
        "--for",
        default="genotypes",
    ),
    case_share: float | None = option(
        "Share of cases that is expected, for association and --people; default: not known, and half for --people."
    ),
    frequencies: Path | None = option(
        "CSV with columns variant and frequency, of A1, from public sources; default: A1 is rarer."
    ),
    people: int | None = option("How many will be asked: print which odds ratios the ways to ask them find."),
    odds_ratio: float | None = option("How many people each way needs for this one.  [default: 1.3]", needs="people"),
    alpha: float | None = option("Level of the tests.  [default: 5 % by the number of variants]", needs="people"),
    risk_frequencies: tuple[float, ...] = option(
        "Frequency of an allele that raises the risk. Repeatable.  [default: 0.05, 0.2, 0.5]",
        "--risk-frequency",
        needs="people",
    ),
    phenotype: PhenotypeColumns = PHENOTYPE,
) -> None:
    """Design for the variants of INPUT (bed, pgen, VCF, CSV, Parquet) and a case/control status; no genotype is looked at."""
    check_outputs([output], [input, budgets, frequencies, phenotype.table])
    association, kept = purpose == "association", preserve == "pairs"
    given = {"cases": case_share, "odds_ratio": odds_ratio, "alpha": alpha, "frequencies": risk_frequencies or None}
    known = {name: value for name, value in given.items() if value is not None}
    planned = None if people is None else PlannedScan(people, **known)  # type: ignore[arg-type]  # each name has its own
    if association:
        refuse_options(
            "does not go with --for association, which finds out what to ask from a total; leave it out",
            *("variant_epsilon", "budgets", "status_epsilon", "missing", "method", "preserve"),
        )
    else:
        refuse_options("is for association; give --for association too, or leave it out", "frequencies")
        if planned is None:
            refuse_options("is for --people and --for association; give one of them, or leave it out", "case_share")
    if variant_epsilon is not None:
        why = "says something else than --variant-epsilon, the same epsilon for every variant; leave out one of them"
        refuse_options(why, "budgets", "total_epsilon")
    if total_epsilon is None and variant_epsilon is None and budgets is None:
        raise InvalidInput("no epsilon is given; add --total-epsilon, --variant-epsilon or --budgets")
    with heard() as doubts:
        variants, skipped = listed_variants(input, checked_phenotype(phenotype, input))
    wanted = designing.Wanted.of(variants, missing == "category", method, kept)
    of_a1 = None if frequencies is None else _column_of(frequencies, "frequency", wanted.names)
    said: list[str] = []
    made: Design | SampledVariants
    if association:
        made = questions = designing.sampled_variants(wanted, total_epsilon, case_share, of_a1)  # type: ignore[arg-type]
        name, show_made = "association", partial(click.echo, questions.headline())
    else:
        each = variant_epsilon or 1.0 if budgets is None else _column_of(budgets, "epsilon", wanted.names)
        made = whole = designing.genomic_design(wanted, designing.Budget(total_epsilon, each, status_epsilon))
        unmet = designing.unmet_total(whole, total_epsilon)
        said = [*solution_warnings(whole), *designing.association_warnings(whole), *unmet]
        name, show_made = "pairs" if kept else "optimum" if method == "auto" else method, partial(_show_design, whole)
    if output is not None:
        files.save(made, output)
    not_designed = (f"left out of the design: {counted(count, reason)}" for reason, count in skipped.items() if count)
    warn([*doubts, *not_designed, *said])
    seen = None
    if planned is not None:
        seen = sight(wanted, made.epsilon, planned, cases=case_share, frequencies=of_a1, made={name: made})

    def show() -> None:
        show_made()
        _show_sight(seen)

    give(lambda: made.summary() | ({} if seen is None else {"sight": seen.summary()}), show)


def _show_sight(seen: Sight | None) -> None:
    if seen is None:
        click.echo("add --people to see which odds ratios a scan of so many finds")
        return
    scan = seen.scan
    n, wanted, alpha = f"n for odds ratio {scan.odds_ratio:g}", f"{100 * scan.wanted:g} %", f"{seen.alpha:.2g}"
    print_table(
        f"What {scan.people:,} people show, {100 * scan.cases:.3g} % of them cases: the smallest odds ratio per copy of the "
        f"risk allele that is found with {wanted} power by p-values of 5 %, {alpha} and 5e-8, and people needed",
        ["way", "frequency", "kept", "effective n", "odds ratio, 5 %", alpha, "5e-8", f"{n}, 5 %", alpha, "5e-8"],
        [
            (
                *(row.way, row.frequency, f"{100 * row.kept:.3g} %", f"{row.effective_people:.3g}"),
                *(_finite(x, f">{FARTHEST_ODDS:g}") for x in (row.odds_5pct, row.odds_alpha, row.odds_genome_wide)),
                *(_finite(x, "none") for x in (row.people_5pct, row.people_alpha, row.people_genome_wide)),
            )
            for row in seen.rows
        ],
    )
    for name, why in seen.unavailable.items():
        click.echo(f"{name}: {why}")
    click.echo(seen.said)


def _finite(number: float, otherwise: str) -> str:
    return f"{number:.3g}" if np.isfinite(number) else otherwise


def _column_of(file: Path, column: str, names: Sequence[str]) -> FloatArray:
    """A number for each variant, from a table with a column ``variant`` and this one."""
    listed = text_column(file, "variant")
    given = dict(zip(listed, text_column(file, column), strict=True))
    if len(given) < len(listed):
        raise InvalidInput(f"{file} lists variant {Counter(listed).most_common(1)[0][0]!r} twice; list each once")
    absent = [name for name in names if given.get(name) is None]
    if absent:
        raise InvalidInput(
            f"{file} has no {column} for variant {absent[0]!r} ({len(absent)} in all); give one for each"
        )
    try:
        return np.array([float(str(given[name])) for name in names])
    except ValueError as error:
        raise InvalidInput(f"{file}, column {column!r}: {error}; give a number for each variant") from error


def _show_design(made: Design) -> None:
    layout = layout_of(made.domain)
    one, conditional = made.attribute_epsilons, made.conditional_epsilons
    click.echo(
        f"{amount(layout.variants, 'variant')} and the status: total epsilon {epsilon_text(made.epsilon)}   "
        f"certified lower bound {bound_text(made.lower_bound)}   Kronecker's total "
        f"{epsilon_text(made.kronecker_epsilon)}   method {made.method}"
    )
    groups = (("variants", layout.attributes), (STATUS, np.array([layout.status])))
    print_table(
        "epsilon in nats; one person's genotypes and status are one record",
        ["attributes", "smallest", "largest", "largest conditional"],
        [(name, float(one[at].min()), float(one[at].max()), float(conditional[at].max())) for name, at in groups],
    )


@command
def gwas_randomize(
    input: Path = argument(),
    design_file: Path = DESIGN_FILE,
    output: Path = option(
        ".bed (with .bim and .fam), .csv or .parquet; of one person .json, too.",
        "-o",
        required=True,
        type=OUTPUT,
    ),
    missing: randomize.MissingPolicy = option(
        "Missing calls. exclude: they stay missing, and which ones are missing is not protected.", default="refuse"
    ),
    after: tuple[Path, ...] = AFTER,
    limit: float | None = LIMIT,
    keep_order: bool = KEEP_ORDER,
    keep_names: bool = option(
        "Keep the names of people in INPUT, which may tell their order, instead of numbering them anew."
    ),
    random_state: int | None = SEED,
    one: OnePerson = group(OnePerson),
    phenotype: PhenotypeColumns = PHENOTYPE,
) -> None:
    """Randomize everybody's genotypes and status in INPUT, as one record each; or their answers, by a design for association.

    People are written in random order and numbered anew, because a place or a name may tell the status.

    With --status, INPUT is one person's file, and OUTPUT that person's report. It is drawn once for a design and remembered, so
    that another run writes the same one again. optrr gwas takes a folder of such reports.
    """
    if one.asked(output):
        refuse_options("is for a file of many people; leave it out with --status or --status-file", *_OF_MANY)
    else:
        _check_output(output)
    check_outputs([output], [input, design_file, phenotype.table])
    asked = load_genomic_design(design_file)
    if one.asked(output):
        report_one_person(one, input, asked, output, (missing, limit))
        return
    # a design of no genotypes is told before anybody is read
    layout = asked.layout
    how = ReleaseOptions.following(asked.design.earlier, after, limit=limit, keep_order=keep_order)
    source = as_source(random_state)
    provenance = how.provenance(asked.design, source, input)
    replaced = replaced_release(output)
    cohort = read_cohort(input, checked_phenotype(phenotype, input))
    cohort, turned = aligned(cohort, layout)
    people = {"random_state": source, "keep_order": keep_order, "keep_names": keep_names}
    given, what, said = _write(asked, cohort, output, (how, provenance), missing, people)
    warn([*replaced, *turned, *cohort.doubts(), *how.warnings(str(output)), *said])
    left_out = {**cohort.genotypes.skipped, **{f"people {k}": v for k, v in cohort.left_out.items()}}
    warn(f"left out: {counted(count, reason)}" for reason, count in left_out.items())
    warn(provenance.not_private(str(output)))
    made = {"records": given, "variants": layout.variants, **provenance.summary()}
    give(
        lambda: made | {"output": str(output), "left_out": left_out},
        lambda: click.echo(f"{what} at {provenance.phrase()}, written to {output}"),
    )


@singledispatch
def _write(
    asked: Any,
    cohort: Cohort,
    output: Path,
    release: tuple[ReleaseOptions, Provenance],
    missing: randomize.MissingPolicy,
    people: dict[str, Any],
) -> tuple[int, str, list[str]]:
    """Everybody's record, or answer: how many there are, what they are, and what to say of them."""
    layout, (_, provenance) = asked.layout, release
    if not _is_plink(output):
        remedy = "only PLINK files say which they are, and keep people's sex: write .bed"
        refuse_single_copies(cohort.variants.chromosome, remedy)
    records = asked.records(cohort, missing)
    randomize.randomize_records(records, asked.design.mechanism, people["random_state"], progress_bar("randomizing"))
    with cleaned_up():
        if _is_plink(output):
            write_plink(randomize.randomized_cohort(cohort, records, layout), output, provenance, **people)
        else:
            write_records(records, asked.design.domain, cohort.people, output, provenance, **people)
    said = [_NAMES_KEPT] if people["keep_names"] else []
    if exposed := randomize.variants_with_missing(records):
        which = f"the missing calls of {amount(exposed, 'variant')}"
        said.append(f"{which} are published as they are: no epsilon covers which calls are missing")
    what = f"{counted(cohort.n, 'people')} × {amount(layout.variants, 'variant')} randomized"
    return cohort.n, what, said


@_write.register
def _write_answers(
    asked: AssociationDesign,
    cohort: Cohort,
    output: Path,
    release: tuple[ReleaseOptions, Provenance],
    missing: randomize.MissingPolicy,
    people: dict[str, Any],
) -> tuple[int, str, list[str]]:
    refuse_options("is for records of people; answers have no names to keep, so leave it out", "keep_names")
    if output.suffix.lower() not in written_suffixes():
        raise InvalidInput(
            f"cannot write {output}: this design is for association, and answers are written as .csv or .parquet"
        )
    (how, provenance), source = release, people["random_state"]
    records = asked.records(cohort, missing)
    with cleaned_up(), released_file(output, SCHEMA, provenance) as writer:
        given = writer.write(how.in_order(asked.design.batches(records, source), source, writer.folder))
    gone = [f"people without a call that was asked for gave no answer ({cohort.n - given}): no epsilon covers who"]
    return given, amount(given, "answer"), gone if given < cohort.n else []


def _is_plink(output: Path) -> bool:
    return output.suffix.lower() == ".bed"


def _check_output(output: Path) -> None:
    if not _is_plink(output) and output.suffix.lower() not in written_suffixes():
        raise InvalidInput(
            f"{output} ends in {output.suffix!r}; randomized genotypes are written as .bed, .csv or .parquet"
        )
    if _is_plink(output):
        required("bed_reader")  # it writes them, too
