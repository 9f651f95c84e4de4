"""What the commands on genotypes share: their options, what is checked of them first, and how a scan is written."""

from collections.abc import Iterable
from inspect import signature
from pathlib import Path
from typing import Any

import click

from optrr.cli.options import group, option, refuse_options
from optrr.cli.outputs import PLOT
from optrr.cli.printing import progress
from optrr.core.design import load_design, refuse_specification
from optrr.core.errors import InvalidInput
from optrr.core.provenance import SAMPLED_VARIANTS, content_of, kind_of
from optrr.genomics.asking import AssociationDesign, GenomicDesign
from optrr.genomics.person_reports import ReportedDesign
from optrr.genomics.phenotypes import PhenotypeColumns
from optrr.genomics.plink import PGEN_FILES, PLINK_FILES
from optrr.genomics.plots import check_plot
from optrr.genomics.sampled_variants import load_sampled_variants
from optrr.genomics.scan import PLOTS, Thresholds
from optrr.genomics.score_tests import Progress, genotype_tests


def _left_out(what: str) -> Any:
    return option(f"Leave out variants whose estimated {what} is below this.", default=0.0, metavar="THRESHOLD")


def _phenotype(
    table: Path | None = option(
        "People and phenotypes: CSV, Parquet, or a file of PLINK's that begins with FID IID or #IID; default: fam.",
        "--phenotype",
    ),
    sample: str | None = option("Column of people's names.  [default: sample, or IID in PLINK's files]", "--id-column"),
    column: str | None = option("Column of the phenotype table that tells cases from controls.", "--phenotype-column"),
    sex: str | None = option(
        "Column that says who is a man, for variants of chromosomes X and Y; default: the fam file's.", "--sex-column"
    ),
    cases: tuple[str, ...] = option(
        "Value of cases; without a column, of the fam file. Repeatable.  [default: PLINK's 2, with 1 for controls]",
        "--case",
    ),
    controls: tuple[str, ...] = option(
        "Value of controls; unless given, everyone with another value is one. Repeatable.", "--control"
    ),
) -> PhenotypeColumns:
    return PhenotypeColumns(table, sample, column, cases, controls, sex)


def _thresholds(
    maf: float = _left_out("minor allele frequency"),
    hwe: float = _left_out("p-value of Hardy-Weinberg proportions in controls"),
    call_rate: float = _left_out("share of people with a call"),
) -> Thresholds:
    return Thresholds(maf, hwe, call_rate)


def _plots(
    manhattan_file: Path | None = option("Manhattan plot to write (.svg, .png, .pdf).", "--manhattan", type=PLOT),
    qq_file: Path | None = option("QQ plot to write, with a 95 % band.", "--qq", type=PLOT),
) -> dict[str, Path]:
    """The plots that are asked for, by kind. Raises InvalidInput for names that no plot is written under."""
    files = {kind: file for kind, file in zip(PLOTS, (manhattan_file, qq_file), strict=True) if file is not None}
    for path in files.values():
        check_plot(path)
    return files


# Who is a case, which variants are left out, and the plots of a scan.
PHENOTYPE, THRESHOLDS, PLOT_FILES = group(_phenotype), group(_thresholds), group(_plots)
STATUS_OPTIONS = tuple(signature(_phenotype).parameters)
DESIGN_FILE = option("Design file from optrr gwas-design.", "--design", required=True)
TEST = option(
    "; ".join(f"{name}: {text}" for name, text in genotype_tests().items()) + ".",
    type=click.Choice(list(genotype_tests())),
    default="trend",
)


def load_genomic_design(path: Path) -> ReportedDesign:
    """A design file, for genotypes or for association.

    Raises InvalidInput as :func:`load_design`; of a specification with the command that suits genotypes.
    """
    held = content_of(path, "design file")
    refuse_specification(held.raw, held, "gwas-design GENOTYPES -o {1}")
    if kind_of(held) == SAMPLED_VARIANTS:
        return AssociationDesign(load_sampled_variants(held))
    return GenomicDesign(load_design(held))


def checked_phenotype(phenotype: PhenotypeColumns, path: Path) -> PhenotypeColumns:
    """Where status stands. Raises InvalidInput where values are named, and no column of them."""
    beside = path.suffix.lower() in (".bed", ".pgen") and phenotype.table is None
    if phenotype.column is None and not beside:
        refuse_options(
            "is of the values of a column; give --phenotype-column too, or leave it out", "cases", "controls"
        )
    return phenotype


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
    return [path]


def progress_bar(description: str) -> Progress:
    """What a long computation tells how far it is."""
    return lambda done, total: progress(description, done / total)
