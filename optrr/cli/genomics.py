"""optrr gwas design and randomize."""

import sys
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from optrr.cli.genotype_options import DESIGN_FILE, PHENOTYPE, check_outputs
from optrr.cli.main import cleaned_up
from optrr.cli.options import argument, command, option, refuse_options
from optrr.cli.outputs import DESIGN_OUTPUT, OUTPUT
from optrr.cli.printing import give, heard, is_json, say, warn
from optrr.cli.releasing import AFTER, KEEP_ORDER, LIMIT, SEED
from optrr.core import files
from optrr.core.design import Design, Preserve, solution_warnings
from optrr.core.display import amount, counted, epsilon_text
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms import ReleaseOptions
from optrr.core.records import STANDARD_INPUT, refuse_randomized, whole_file
from optrr.genomics import designing
from optrr.genomics.asking import AssociationDesign, GenomicDesign, load_genomic_design
from optrr.genomics.cohort import listed_variants
from optrr.genomics.genotypes import Codes
from optrr.genomics.person import Absent, read_person
from optrr.genomics.person_reports import ENDING, spent_in
from optrr.genomics.phenotypes import PhenotypeColumns
from optrr.genomics.power import PlannedScan, sight
from optrr.genomics.randomize import MissingPolicy
from optrr.genomics.sampled_variants import SampledVariants

# Options for the file of one person.
_Person = tuple[Absent, MissingPolicy, float | None]
_FOLDER = click.Path(path_type=Path, file_okay=False)


@command
def design(
    input: Path = argument(),
    output: Path | None = DESIGN_OUTPUT,
    total: float | None = option(
        "Total epsilon of a person's record; the epsilons of variants and status are scaled to it.", "--total-epsilon"
    ),
    variants: str | None = option(
        ("Epsilon of every variant, or a CSV with columns variant and epsilon; with a total, only their ratios count."),
        "--variant-epsilon",
        metavar="NUMBER|FILE",
    ),
    status: float | None = option(
        "Epsilon of the status; default: the most powerful one at the total, otherwise 1.", "--status-epsilon"
    ),
    missing: Literal["refuse", "category"] = option("category: randomize missing calls, too.", default="refuse"),
    method: str = option("Any method of optrr design; kronecker and inductive are baselines.", default="auto"),
    preserve: Preserve = option(
        (
            "pairs: keep the association of every variant and status at least as strong as with independent randomized "
            "response."
        ),
        default="marginals",
    ),
    purpose: Literal["genotypes", "association"] = option(
        "association: each respondent answers about a few random variants, which is for association tests only.",
        "--for",
        default="genotypes",
    ),
    case_share: float | None = option("Expected proportion of cases, for association and --n."),
    frequencies: Path | None = option(
        "CSV with columns variant and frequency (of A1), from public sources; default: A1 is the rarer allele."
    ),
    n: int | None = option("Number of respondents; print which odds ratios a scan of them detects."),
    odds_ratio: float = option(
        "Odds ratio per allele copy for which to print the required number of people.", default=1.3, needs="n"
    ),
    alpha: float | None = option("Level of the tests.  [default: 5 % divided by the number of variants]", needs="n"),
    phenotype: PhenotypeColumns = PHENOTYPE,
) -> None:
    """Design for the variants of INPUT and a case/control status.

    INPUT is bed, pgen, VCF, CSV or Parquet. Its genotypes are not used.

    Example: optrr gwas design genotypes.csv --phenotype-column status --case case --total-epsilon 8 -o gwas.json
    """
    source = None if variants is None or _is_number(variants) else Path(variants)
    if total is None and (variants is None or purpose == "association"):
        raise InvalidInput("no epsilon is given; add --total-epsilon or --variant-epsilon")
    if purpose == "genotypes" and total is not None and variants is not None and source is None:
        raise InvalidInput(
            f"``variants`` {variants}: only ratios count with a total; name a file, or leave one of them out"
        )
    check_outputs([output], [input, source, frequencies, phenotype.table])
    share = 0.5 if case_share is None else case_share
    planned = None if n is None else PlannedScan(n, share, odds_ratio=odds_ratio, alpha=alpha)
    with heard() as said:
        listed, skipped = listed_variants(input, phenotype)
    wanted = designing.Wanted.of(listed, missing == "category", method, preserve == "pairs")
    of_a1 = None if frequencies is None else designing.numbers_by_variant(frequencies, "frequency", wanted.names)
    made: Design | SampledVariants
    if purpose == "association":
        why = "cannot be combined with --for association, which derives it from the total; leave it out"
        refuse_options(why, "variants", "status", "missing", "method", "preserve")
        made, name = designing.sampled_variants(wanted, float(total or 0), case_share, of_a1), "association"
    else:
        refuse_options("requires --for association; give it too, or leave this option out", "frequencies")
        each = designing.numbers_by_variant(source, "epsilon", wanted.names) if source else float(variants or 1.0)
        with heard() as more:
            made = designing.genomic_design(wanted, designing.Budget(total, each, status))
        said += [*solution_warnings(made), *designing.association_warnings(made), *more]
        name = "pairs" if preserve == "pairs" else "optimum" if method == "auto" else method
    if output is not None:
        files.save(made, output)
    warn([*said, *(f"left out of the design: {counted(count, reason)}" for reason, count in skipped.items() if count)])
    if planned is None:
        give(made)
        return
    seen = sight(wanted, made.epsilon, planned, cases=case_share, frequencies=of_a1, made={name: made})
    give(made, sight=seen.summary())
    if not is_json():
        say(f"\n{seen}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@command
def randomize(
    input: Path = argument(),
    design_file: Path = DESIGN_FILE,
    output: Path = option(
        ".bed (with .bim and .fam), .csv or .parquet; of one person .json.", "-o", required=True, type=OUTPUT
    ),
    missing: MissingPolicy = option(
        "Treatment of missing calls. exclude: they stay missing, and their places are not protected.", default="refuse"
    ),
    after: tuple[Path, ...] = AFTER,
    limit: float | None = LIMIT,
    keep_order: bool = KEEP_ORDER,
    keep_names: bool = option(
        "Keep the names of people in INPUT, which may reveal their order, instead of new numbers."
    ),
    random_state: int | None = SEED,
    status: str | None = option(
        (
            "Status of the person of INPUT: write that person's one report. Use - to read it from standard input "
            "(shells save commands)."
        ),
        metavar="case|control|-",
    ),
    absent: Absent = option(
        (
            "Genotype of variants that the person's file does not contain: two copies of the reference allele, or a "
            "missing call."
        ),
        default="refuse",
        needs="status",
    ),
    diary: Path | None = option(
        (
            "Folder that remembers the person's reports, as the Python client does.  [default: INPUT.diary, in the "
            "folder of INPUT]"
        ),
        type=_FOLDER,
        needs="status",
    ),
    phenotype: PhenotypeColumns = PHENOTYPE,
) -> None:
    """Randomize everybody's genotypes and status in INPUT, as one record each.

    With a design for association, it randomizes everybody's answer instead. People are written in random order with new
    numbers, because a position or a name may reveal the status.

    With --status, INPUT is the file of one person, and OUTPUT that person's report. The report is drawn once for a
    design and remembered, so that another run writes the same one. optrr gwas scan reads a folder of such reports.

    Example: optrr gwas randomize genotypes.csv --phenotype-column status --case case --design gwas.json -o out.csv
    """
    check_outputs([output], [input, design_file, phenotype.table])
    asked = load_genomic_design(design_file)
    if status is not None:
        many = ("after", "keep_order", "keep_names", "random_state", "table", "column", "cases")
        refuse_options("is for a file of many people; leave it out with --status", *many)
        _report_one_person(asked, (input, output, diary), status, (absent, missing, limit))
        return
    kept: dict[str, Any] = {"random_state": random_state, "keep_names": keep_names}
    with heard() as said, cleaned_up():
        how = ReleaseOptions.following(asked.design.earlier, after, limit=limit, keep_order=keep_order)
        made = asked.release_file(input, output, phenotype, missing=missing, options=how, **kept)
    warn(dict.fromkeys([*said, *made.warnings]))
    give(made)


def _report_one_person(
    asked: GenomicDesign | AssociationDesign, files: tuple[Path, Path, Path | None], status: str, how: _Person
) -> None:
    """Write the memoized report of this design, or draw and memoize one first."""
    (input, output, diary), (absent, missing, limit) = files, how
    if output.suffix.lower() != ENDING:
        raise InvalidInput(f"cannot write {output}: the report of one person is written as {ENDING}; name such a file")
    word = sys.stdin.read(64) if status == "-" else status
    if word.strip().casefold() not in ("case", "control"):
        # the word may be a diagnosis, so it is not shown
        raise InvalidInput("--status: must be case or control; write one of these words")
    case = word.strip().casefold() == "case"
    if str(input) == STANDARD_INPUT and diary is None:
        raise InvalidInput("--diary: missing, because standard input has no folder; name a folder (--diary FOLDER)")
    folder = diary or input.with_name(f"{input.name}.diary")

    def record() -> Codes:
        refuse_randomized(input)
        person, said = read_person(input, asked.layout, case, absent)
        true = asked.records(person, missing)
        # before anything is drawn, because --strict draws nothing
        warn([*said, *asked.exposed(true)])
        return true

    report, new = asked.report_once(record, folder, limit)
    with whole_file(output) as partial:
        partial.write_bytes(msgspec.json.encode(report) + b"\n")
    variants, spent, epsilon = asked.layout.variants, spent_in(folder), asked.design.epsilon
    made = {"records": 1, "variants": variants, "epsilon": epsilon, "new": new, "spent": spent}
    line = (
        f"one report about {amount(variants, 'variant')} at total epsilon {epsilon_text(epsilon)}, "
        f"{'drawn now' if new else 'drawn before: the same report again'}; written to {output}, remembered in "
        f"{folder} (total epsilon consumed: {epsilon_text(spent)})"
    )
    give(made | {"output": str(output), "diary": str(folder)}, line)
