"""What the commands on genotypes share: options that say who is a case, and a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from optrr.cli.inputs import FILE
from optrr.cli.refusals import refuse_options
from optrr.designs.design import Design
from optrr.designs.specification_record import refuse_specification
from optrr.errors import InvalidInput
from optrr.genomics.phenotypes import PhenotypeColumns
from optrr.genomics.plink import PLINK_FILES
from optrr.genomics.tables import Progress
from optrr.models.tests.genotypes import GENOTYPE_TESTS
from optrr.releases.small_files import content_of

Command = TypeVar("Command", bound=Callable[..., Any])
input_argument = click.argument("input", metavar="INPUT", type=FILE)
design_option = click.option(
    "--design", "design_file", required=True, type=FILE, help="Design file from optrr gwas-design."
)
test_option = click.option(
    "--test",
    type=click.Choice(list(GENOTYPE_TESTS)),
    default="trend",
    show_default=True,
    help="allelic is the trend test, for frequencies of alleles; allelic-hwe is valid only in Hardy-Weinberg proportions.",
)


# The arguments of the options that say who is a case.
STATUS_OPTIONS = ("phenotype_file", "sample_column", "phenotype_column", "cases", "controls", "sex_column")


def load_genomic_design(path: Path) -> Design:
    """A design file. Raises InvalidInput as :meth:`Design.load`; of a specification with the command that suits genotypes."""
    held = content_of(path, "design file")
    refuse_specification(held.raw, held, "gwas-design GENOTYPES -o {1}")
    return Design.load(held)


def phenotype_options(command: Command) -> Command:
    """The options that say who is a case."""
    for option in (
        click.option(
            "--control",
            "controls",
            multiple=True,
            help="Value of controls; unless given, everyone with another value is one. Repeatable.",
        ),
        click.option(
            "--case", "cases", multiple=True, help="Value of cases; without a column, of the fam file. Repeatable."
        ),
        click.option(
            "--sex-column",
            help="Column that says who is a man, for variants of chromosomes X and Y; default: the fam file's.",
        ),
        click.option("--phenotype-column", help="Column of the phenotype table that tells cases from controls."),
        click.option("--sample-column", help="Column of people's names.  [default: sample]"),
        click.option(
            "--phenotype", "phenotype_file", type=FILE, help="CSV or Parquet with people and phenotypes; default: fam."
        ),
    ):
        command = option(command)
    return command


def phenotype_of(options: dict[str, Any], path: Path) -> PhenotypeColumns:
    """Where status stands, from the options above. Raises InvalidInput where values are named, and no column of them."""
    if options["phenotype_column"] is None and (path.suffix.lower() != ".bed" or options["phenotype_file"] is not None):
        refuse_options("is a value of a column; give --phenotype-column too, or leave it out", "cases", "controls")
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
    return [path.with_suffix(s) for s in PLINK_FILES] if path.suffix.lower() == ".bed" else [path]


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
