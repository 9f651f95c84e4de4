"""What the commands on genotypes share: their options, what is checked of them first, and how a scan is written."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from optrr.cli.inputs import FILE, refuse_options, several
from optrr.cli.outputs import PLOT, TABBED
from optrr.core.design.design import Design
from optrr.core.design.design_file import load_design
from optrr.core.design.specification import refuse_specification
from optrr.core.errors import InvalidInput
from optrr.core.inference.testing import GENOTYPE_TESTS
from optrr.core.provenance.sealed import SAMPLED_VARIANTS, content_of, kind_of
from optrr.genomics.filters import GenotypeFilter
from optrr.genomics.phenotypes import PhenotypeColumns, side_file
from optrr.genomics.plink import PGEN_FILES, PLINK_FILES
from optrr.genomics.plots import check_plot
from optrr.genomics.result_files import FORMATS
from optrr.genomics.sampled_variants import SampledVariants, load_sampled_variants
from optrr.genomics.scan import PLOTS
from optrr.genomics.score_tests import Progress
from optrr.genomics.writing import is_written_vcf

# The arguments of these options.
GENOTYPE_OPTIONS = ("regions", "keep", "all_filters")


# The options that choose variants and people.
genotype_options = several(
    click.option(
        "--region",
        "regions",
        multiple=True,
        metavar="CHR[:FROM-TO]",
        help="Use variants in this region only, both ends included; not for tables. Repeatable.",
    ),
    click.option("--keep", type=FILE, help="Text file of the people to use: a name, or FID and IID, on each line."),
    click.option("--all-filters", is_flag=True, help="VCF: use records, too, that did not pass its filters (FILTER)."),
)


def genotype_filter(options: dict[str, Any]) -> GenotypeFilter:
    """What to use of the file, from the options above. Raises InvalidInput for regions that are none."""
    return GenotypeFilter(*(options[name] for name in GENOTYPE_OPTIONS))


def refuse_genotype_options(why: str) -> None:
    """Raise InvalidInput naming the option, where one of them is given to a command that reads no genotypes."""
    refuse_options(why, *GENOTYPE_OPTIONS)


# Where the table of results goes, and in which form.
scan_output_options = several(
    click.option(
        "-o",
        "--output",
        type=TABBED,
        help="Table of results to write (tab separated; compressed where it ends in .gz).",
    ),
    click.option(
        "--format",
        "form",
        type=click.Choice(FORMATS),
        default=FORMATS[0],
        help="Columns of the table: this program's, or those of plink2 --glm.",
    ),
)


# Plots of the scan.
plot_options = several(
    click.option("--manhattan", "manhattan_file", type=PLOT, help="Manhattan plot to write (.svg, .png, .pdf)."),
    click.option("--qq", "qq_file", type=PLOT, help="QQ plot to write, with a 95 % band."),
)


def plot_files(options: dict[str, Any]) -> dict[str, Path]:
    """The plots that are asked for, by kind. Raises InvalidInput for names that no plot is written under."""
    files = {kind: options[f"{kind}_file"] for kind in PLOTS if options[f"{kind}_file"] is not None}
    for path in files.values():
        check_plot(path)
    return files


input_argument = click.argument("input", metavar="INPUT", type=FILE)


design_option = click.option(
    "--design", "design_file", required=True, type=FILE, help="Design file from optrr gwas-design."
)


test_option = click.option(
    "--test",
    type=click.Choice(list(GENOTYPE_TESTS)),
    default="trend",
    help="trend: one effect per copy of A1; genotypic: any difference of the genotypes (two degrees of freedom).",
)


# Options that leave variants out.
filter_options = several(
    *(
        click.option(
            name,
            type=float,
            default=0.0,
            metavar="THRESHOLD",
            help=f"Leave out variants whose estimated {what} is below this.",
        )
        for name, what in (
            ("--maf", "minor allele frequency"),
            ("--hwe", "p-value of Hardy-Weinberg proportions in controls"),
            ("--call-rate", "share of people with a call"),
        )
    )
)


# The arguments of the options that say who is a case.
STATUS_OPTIONS = (
    *("phenotype_file", "sample_column", "phenotype_column", "cases", "controls", "sex_column"),
    "zero_one",
)


def load_genomic_design(path: Path) -> Design | SampledVariants:
    """A design file, for genotypes or for association.

    Raises InvalidInput as :func:`load_design`; of a specification with the command that suits genotypes.
    """
    held = content_of(path, "design file")
    refuse_specification(held.raw, held, "gwas-design GENOTYPES -o {1}")
    return load_sampled_variants(held) if kind_of(held) == SAMPLED_VARIANTS else load_design(held)


# The options that say who is a case.
phenotype_options = several(
    click.option(
        "--phenotype",
        "phenotype_file",
        type=FILE,
        help="People and phenotypes: CSV, Parquet, or a file of PLINK's that begins with FID IID or #IID; default: fam.",
    ),
    click.option("--sample-column", help="Column of people's names.  [default: sample, or IID in PLINK's files]"),
    click.option("--phenotype-column", help="Column of the phenotype table that tells cases from controls."),
    click.option(
        "--sex-column",
        help="Column that says who is a man, for variants of chromosomes X and Y; default: the fam file's.",
    ),
    click.option(
        "--zero-one",
        "--1",
        "zero_one",
        is_flag=True,
        help="Cases are 1 and controls 0, as PLINK's --1 has it; -9 and NA are unknown.",
    ),
    click.option(
        "--case",
        "cases",
        multiple=True,
        help="Value of cases; without a column, of the fam file. Repeatable.  [default: PLINK's 2, with 1 for controls]",
    ),
    click.option(
        "--control",
        "controls",
        multiple=True,
        help="Value of controls; unless given, everyone with another value is one. Repeatable.",
    ),
)


def phenotype_of(options: dict[str, Any], path: Path) -> PhenotypeColumns:
    """Where status stands, from the options above. Raises InvalidInput where values are named, and no column of them."""
    beside = path.suffix.lower() in (".bed", ".pgen") and options["phenotype_file"] is None
    if options["phenotype_column"] is None and not beside:
        refuse_options(
            "is of the values of a column; give --phenotype-column too, or leave it out",
            "cases",
            "controls",
            "zero_one",
        )
    return PhenotypeColumns(*(options[name] for name in STATUS_OPTIONS))


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Refuse, before any work, outputs that cannot be written, are inputs, or are one file.

    Raises
    ------
    InvalidInput
        naming the file.
    """
    read = {file.resolve() for path in inputs if path is not None for file in _with_siblings(path)}
    written: set[Path] = set()
    for path in outputs:
        for file in () if path is None else _with_siblings(path):
            if file.is_dir():
                raise InvalidInput(f"cannot write {file}: it is a directory; name a file in it")
            if not file.parent.is_dir():
                raise InvalidInput(f"cannot write {file}: there is no directory {file.parent}; create it first")
            if file.resolve() in read:
                raise InvalidInput(f"{file} is an input of this command; write to another file")
            if file.resolve() in written:
                raise InvalidInput(f"{file} is to be written twice; name a file for each")
            written.add(file.resolve())


def _with_siblings(path: Path) -> list[Path]:
    for kind in (PLINK_FILES, PGEN_FILES):
        if path.suffix.lower() == kind[0]:
            return [path.with_suffix(suffix) for suffix in kind]
    return [path, side_file(path)] if is_written_vcf(path) else [path]


@contextmanager
def progress_bar(description: str) -> Iterator[Progress]:
    """A bar on standard error, on a terminal only."""
    from rich.console import Console  # noqa: PLC0415 (60 ms to import)
    from rich.progress import Progress as Bar  # noqa: PLC0415

    console = Console(stderr=True)
    with Bar(console=console, transient=True, disable=not console.is_terminal) as bar:
        task: Any = None

        def report(done: int, total: int) -> None:
            nonlocal task
            if task is None:
                task = bar.add_task(description, total=total)
            bar.update(task, completed=done, total=total)

        yield report
