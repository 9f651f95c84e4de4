"""optrr gwas-design and gwas-perturb."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from optrr.cli.designing import preserving
from optrr.cli.genotype_options import (
    STATUS_OPTIONS,
    check_outputs,
    design_option,
    genotype_filter,
    genotype_options,
    input_argument,
    load_genomic_design,
    phenotype_of,
    phenotype_options,
    progress_bar,
)
from optrr.cli.inputs import FILE, refuse_options
from optrr.cli.main import cleaned_up
from optrr.cli.one_person import is_of_one_person, person_options, report_one_person
from optrr.cli.outputs import OUTPUT, design_output_option
from optrr.cli.printing import heard, json_option, print_json, print_table, warn
from optrr.cli.releasing import (
    after_option,
    epsilon_phrase,
    following,
    keep_order_option,
    limit_option,
    release_summary,
    replaced_release,
    seed_option,
)
from optrr.core.design.design import Design, solution_warnings
from optrr.core.design.design_file import save_design
from optrr.core.display.text import amount, bound_text, counted, epsilon_text
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.mechanism import ReleaseOptions
from optrr.core.provenance.provenance import Provenance
from optrr.core.records.writing import WRITTEN, released_file
from optrr.genomics import designing, randomize
from optrr.genomics.asking import AssociationDesign
from optrr.genomics.cohort import Cohort, listed_variants, read_cohort
from optrr.genomics.genotypes import refuse_single_copies, required
from optrr.genomics.layout import STATUS, layout_of
from optrr.genomics.people_tables import text_column
from optrr.genomics.power import FARTHEST_ODDS, PlannedScan, Sight, sight
from optrr.genomics.sampled_variants import SCHEMA, SampledVariants, save_sampled_variants
from optrr.genomics.writing import is_written_vcf, write_plink, write_records, write_vcf
from optrr_solvers.arrays import FloatArray
from optrr_solvers.randomness import BitSource, as_source

# Those of gwas-perturb that one person's report has no use for.
_OF_MANY = ("after", "keep_order", "keep_names", "random_state", "keep", *STATUS_OPTIONS)


_NAMES_KEPT = (
    "people keep their names, which no epsilon covers: where names were given in an order, as numbers are, whoever sorts by "
    "them has that order back, and where it follows the status, that, too"
)


@click.command("gwas-design")
@input_argument
@design_output_option
@click.option(
    "--total-epsilon", type=float, help="Total epsilon of a person's record; variants and status are scaled to it."
)
@click.option("--variant-epsilon", type=float, help="Epsilon of every variant, instead of a total.")
@click.option(
    "--budgets",
    type=FILE,
    help="CSV with columns variant and epsilon: the epsilon of each variant; with a total, only their ratios count.",
)
@click.option(
    "--status-epsilon", type=float, help="Epsilon of the status; default: the most useful one at the total, else 1."
)
@click.option(
    "--missing",
    type=click.Choice(["refuse", "category"]),
    default="refuse",
    help="category: randomize missing calls too.",
)
@click.option(
    "--method",
    default="auto",
    help="Any method of optrr design; kronecker and inductive are baselines.",
)
@preserving("every pair of variant and status")
@click.option(
    "--for",
    "purpose",
    type=click.Choice(["genotypes", "association"]),
    default="genotypes",
    help="association: everybody answers about a few variants, drawn at random; it serves tests of association.",
)
@click.option(
    "--case-share",
    type=float,
    help="Share of cases that is expected, for association and --people; default: not known, and half for --people.",
)
@click.option(
    "--frequencies",
    type=FILE,
    help="CSV with columns variant and frequency, of A1, from public sources; default: A1 is rarer.",
)
@click.option("--people", type=int, help="How many will be asked: print which odds ratios the ways to ask them find.")
@click.option(
    "--odds-ratio", type=float, help="With --people: how many people each way needs for this one.  [default: 1.3]"
)
@click.option(
    "--alpha", type=float, help="With --people: level of the tests.  [default: 5 % by the number of variants]"
)
@click.option(
    "--risk-frequency",
    "risk_frequencies",
    type=float,
    multiple=True,
    help="With --people: frequency of an allele that raises the risk. Repeatable.  [default: 0.05, 0.2, 0.5]",
)
@genotype_options
@phenotype_options
@json_option
def gwas_design(input: Path, as_json: bool, output: Path | None, **options: Any) -> None:
    """Design for the variants of INPUT (bed, pgen, VCF, CSV, Parquet) and a case/control status; no genotype is looked at."""
    check_outputs([output], [input, *(options[k] for k in ("budgets", "frequencies", "phenotype_file", "keep"))])
    planned = _planned(options)
    association = options["purpose"] == "association"
    if association:
        refuse_options(
            "does not go with --for association, which finds out what to ask from a total; leave it out",
            *("variant_epsilon", "budgets", "status_epsilon", "missing", "method", "preserve"),
        )
        if options["total_epsilon"] is None:
            raise InvalidInput("no epsilon is given; add --total-epsilon")
    else:
        refuse_options("is for association; give --for association too, or leave it out", "frequencies")
        if planned is None:
            refuse_options("is for --people and --for association; give one of them, or leave it out", "case_share")
        _check_budget(options)
    with heard() as doubts:
        variants, skipped = listed_variants(input, phenotype_of(options, input), genotype_filter(options))
    kept = options["preserve"] == "pairs"
    wanted = designing.Wanted.of(variants, options["missing"] == "category", options["method"], kept)
    made: Design | SampledVariants
    if association:
        made, said = _for_association(wanted, output, options), []
        name = "association"
    else:
        made = designing.genomic_design(wanted, _budget(wanted.names, options))
        if output is not None:
            save_design(made, output)
        unmet = designing.unmet_total(made, options["total_epsilon"])
        said = [*solution_warnings(made), *designing.association_warnings(made), *unmet]
        name = "pairs" if kept else "optimum" if options["method"] == "auto" else options["method"]
    not_designed = (f"left out of the design: {counted(count, reason)}" for reason, count in skipped.items() if count)
    warn([*doubts, *not_designed, *said])
    seen = None
    if planned is not None:
        cases, known = options["case_share"], _frequencies(wanted.names, options)
        seen = sight(wanted, made.epsilon, planned, cases=cases, frequencies=known, made={name: made})
    if as_json:
        print_json(made.summary() | ({} if seen is None else {"sight": seen.summary()}))
        return
    if isinstance(made, SampledVariants):
        click.echo(made.headline())
    else:
        _show_design(made)
    _show_sight(seen)


def _for_association(wanted: designing.Wanted, output: Path | None, options: dict[str, Any]) -> SampledVariants:
    """Questions about a few variants each, at a total."""
    frequencies = _frequencies(wanted.names, options)
    made = designing.sampled_variants(wanted, options["total_epsilon"], options["case_share"], frequencies)
    if output is not None:
        save_sampled_variants(made, output)
    return made


def _frequencies(names: Sequence[str], options: dict[str, Any]) -> FloatArray | None:
    file = options["frequencies"]
    return None if file is None else _column_of(file, "frequency", names)


def _planned(options: dict[str, Any]) -> PlannedScan | None:
    """The scan that is to be looked ahead to, where people are given."""
    if options["people"] is None:
        refuse_options("is for --people; give it too, or leave it out", "odds_ratio", "alpha", "risk_frequencies")
        return None
    given = {"cases": options["case_share"], "odds_ratio": options["odds_ratio"], "alpha": options["alpha"]}
    given["frequencies"] = options["risk_frequencies"] or None
    return PlannedScan(options["people"], **{name: value for name, value in given.items() if value is not None})


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


def _check_budget(options: dict[str, Any]) -> None:
    total, each, file = (options[k] for k in ("total_epsilon", "variant_epsilon", "budgets"))
    if each is not None and (file is not None or total is not None):
        raise InvalidInput(
            "--variant-epsilon gives every variant the same epsilon, so --budgets and --total-epsilon say something else; "
            "leave out --variant-epsilon, or both of them"
        )
    if total is None and each is None and file is None:
        raise InvalidInput("no epsilon is given; add --total-epsilon, --variant-epsilon or --budgets")


def _budget(names: Sequence[str], options: dict[str, Any]) -> designing.Budget:
    total, each, file, status = (options[k] for k in ("total_epsilon", "variant_epsilon", "budgets", "status_epsilon"))
    if file is None:
        return designing.Budget(total, 1.0 if each is None else each, status)
    return designing.Budget(total, _column_of(file, "epsilon", names), status)


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


@click.command("gwas-perturb")
@input_argument
@design_option
@click.option(
    "-o",
    "--output",
    required=True,
    type=OUTPUT,
    help=".bed (with .bim and .fam), .vcf or .vcf.gz (statuses in a .pheno file), .csv or .parquet; of one person .json, too.",
)
@click.option(
    "--missing",
    type=click.Choice(["refuse", "exclude"]),
    default="refuse",
    help="Missing calls. exclude: they stay missing, and which ones are missing is not protected.",
)
@after_option()
@limit_option
@keep_order_option
@click.option(
    "--keep-names",
    is_flag=True,
    help="Keep the names of people in INPUT, which may tell their order, instead of numbering them anew.",
)
@seed_option
@person_options
@genotype_options
@phenotype_options
@json_option
def gwas_perturb(input: Path, design_file: Path, output: Path, as_json: bool, **options: Any) -> None:
    """Randomize everybody's genotypes and status in INPUT, as one record each; or their answers, by a design for association.

    People are written in random order and numbered anew, because a place or a name may tell the status.

    With --status, INPUT is one person's file, and OUTPUT that person's report. It is drawn once for a design and remembered, so
    that another run writes the same one again. optrr gwas takes a folder of such reports.
    """
    alone = is_of_one_person(options, output)
    if alone:
        refuse_options("is for a file of many people; leave it out with --status or --status-file", *_OF_MANY)
    else:
        _check_output(output)
    read = [input, design_file, *(options[k] for k in ("phenotype_file", "keep"))]
    check_outputs([output], read)
    design = load_genomic_design(design_file)
    if alone:
        report_one_person(input, design, output, as_json, options)
        return
    answers = isinstance(design, SampledVariants)
    if answers:
        refuse_options("is for records of people; answers have no names to keep, so leave it out", "keep_names")
        if output.suffix.lower() not in WRITTEN:
            raise InvalidInput(
                f"cannot write {output}: this design is for association, and answers are written as .csv or .parquet"
            )
    layout = layout_of(design.domain)
    how = following(design.earlier, options["after"], **{x: options[x] for x in ("limit", "keep_order")})
    source = as_source(options["random_state"])
    provenance = how.provenance(design if isinstance(design, SampledVariants) else design.mechanism, source, input)
    replaced = replaced_release(output)
    chosen = genotype_filter(options)
    cohort, turned = designing.aligned(read_cohort(input, phenotype_of(options, input), chosen=chosen), layout)
    given = cohort.n
    if isinstance(design, SampledVariants):
        given = _write_answers(design, cohort, output, (how, provenance, source), options["missing"])
        gone = [f"people without a call that was asked for gave no answer ({cohort.n - given}): no epsilon covers who"]
        said, exposed = gone if given < cohort.n else [], 0
    else:
        exposed = _write_people(design, cohort, output, (provenance, source), options)
        said = [_NAMES_KEPT] if options["keep_names"] else []
    absent = chosen.absent_names(cohort.genotypes.people)
    warn([*replaced, *turned, *absent, *cohort.doubts(), *how.warnings(str(output)), *said])
    left_out = {**cohort.genotypes.skipped, **{f"people {k}": v for k, v in cohort.left_out.items()}}
    warn(f"left out: {counted(count, reason)}" for reason, count in left_out.items())
    warn(provenance.not_private(str(output)))
    if exposed:
        which = f"the missing calls of {amount(exposed, 'variant')}"
        warn([f"{which} are published as they are: no epsilon covers which calls are missing"])
    if as_json:
        made = {"records": given, "variants": layout.variants, **release_summary(provenance)}
        print_json(made | {"output": str(output), "left_out": left_out})
        return
    variants = amount(layout.variants, "variant")
    what = amount(given, "answer") if answers else f"{counted(given, 'people')} × {variants} randomized"
    click.echo(f"{what} at {epsilon_phrase(provenance)}, written to {output}")


def _write_people(
    design: Design, cohort: Cohort, output: Path, release: tuple[Provenance, BitSource], options: dict[str, Any]
) -> int:
    """Everybody's record; returns how many variants have missing calls that are published as they are."""
    layout, (provenance, source) = layout_of(design.domain), release
    by_variant = write_plink if _is_plink(output) else write_vcf if is_written_vcf(output) else None
    if by_variant is None:
        remedy = "only PLINK files and VCFs say which they are, and keep people's sex: write .bed"
        refuse_single_copies(cohort.variants.chromosome, remedy)
    records = randomize.records_of(cohort, layout, options["missing"])
    with progress_bar("randomizing") as progress:
        randomize.randomize_records(records, design.mechanism, source, progress)
    people: dict[str, Any] = {"random_state": source, **{x: options[x] for x in ("keep_order", "keep_names")}}
    with cleaned_up():
        if by_variant is not None:
            by_variant(randomize.randomized_cohort(cohort, records, layout), output, provenance, **people)
        else:
            write_records(records, design.domain, cohort.people, output, provenance, **people)
    return randomize.variants_with_missing(records)


def _write_answers(
    design: SampledVariants,
    cohort: Cohort,
    output: Path,
    release: tuple[ReleaseOptions, Provenance, BitSource],
    missing: randomize.MissingPolicy,
) -> int:
    """Everybody's answer about a few variants; returns how many gave one."""
    how, provenance, source = release
    records = AssociationDesign(design).records(cohort, missing)
    with cleaned_up(), released_file(output, SCHEMA, provenance) as writer:
        return writer.write(how.in_order(design.batches(records, source), source, writer.folder))


def _is_plink(output: Path) -> bool:
    return output.suffix.lower() == ".bed"


def _check_output(output: Path) -> None:
    if not _is_plink(output) and not is_written_vcf(output) and output.suffix.lower() not in WRITTEN:
        raise InvalidInput(
            f"{output} ends in {output.suffix!r}; randomized genotypes are written as .bed, .vcf, .vcf.gz, .csv or .parquet"
        )
    if _is_plink(output):
        required("bed_reader")  # it writes them, too
