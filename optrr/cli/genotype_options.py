"""Options and file checks that the commands on genotypes share."""

from collections.abc import Iterable
from pathlib import Path

import click

from optrr.cli.options import group, option
from optrr.cli.outputs import TABBED
from optrr.cli.printing import progress
from optrr.core.errors import InvalidInput
from optrr.genomics.phenotypes import PhenotypeColumns
from optrr.genomics.plink import PGEN_FILES, PLINK_FILES
from optrr.genomics.score_tests import Progress, genotype_tests


def _phenotype(
    table: Path | None = option(
        (
            "People and phenotypes: CSV, Parquet, or a PLINK file that begins with FID IID or #IID; default: the fam "
            "file."
        ),
        "--phenotype",
    ),
    sample: str | None = option("Column of people's names.  [default: sample, or IID in PLINK files]", "--id-column"),
    column: str | None = option(
        "Column of the phenotype table that distinguishes cases and controls.", "--phenotype-column"
    ),
    sex: str | None = option(
        "Column of people's sex, for variants on chromosomes X and Y; default: that of the fam file.", "--sex-column"
    ),
    cases: tuple[str, ...] = option(
        (
            "Value of cases, in the column or the fam file. Repeatable.  [default: 2 in PLINK files, with 1 for "
            "controls]"
        ),
        "--case",
    ),
    controls: tuple[str, ...] = option("Value of controls; default: every other value. Repeatable.", "--control"),
) -> PhenotypeColumns:
    return PhenotypeColumns(table, sample, column, cases, controls, sex)


PHENOTYPE = group(_phenotype)
DESIGN_FILE = option("Design file from optrr gwas design.", "--design", required=True)
RESULTS = option("Table of results to write (tab-separated; compressed if its name ends in .gz).", "-o", type=TABBED)
TEST = option(
    "; ".join(f"{name}: {text}" for name, text in genotype_tests().items()) + ".",
    type=click.Choice(list(genotype_tests())),
    default="trend",
)


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Raise InvalidInput, before any work, for outputs that are inputs or one file."""
    known = {file.resolve() for path in inputs if path is not None for file in _with_siblings(path)}
    for file in (file for path in outputs if path is not None for file in _with_siblings(path)):
        if file.resolve() in known:
            raise InvalidInput(f"{file}: is also an input, or another output, of this command; write to another file")
        known.add(file.resolve())


def _with_siblings(path: Path) -> list[Path]:
    """List a file, or all files of a PLINK set."""
    kind = next((kind for kind in (PLINK_FILES, PGEN_FILES) if path.suffix.lower() == kind[0]), [path.suffix])
    return [path.with_suffix(suffix) for suffix in kind]


def progress_bar(description: str) -> Progress:
    """Create the progress callback of a long computation."""
    return lambda done, total: progress(description, done / max(total, 1))
