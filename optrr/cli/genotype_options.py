"""Options of the commands that read genotypes: which variants, people and calls of a file are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from optrr.cli.inputs import FILE, refuse_options
from optrr.genomics.genotypes import GenotypeFilter

Command = TypeVar("Command", bound=Callable[..., Any])

# The arguments of these options.
GENOTYPE_OPTIONS = ("regions", "keep", "all_filters", "min_gq", "min_dp", "dosage_threshold")


def genotype_options(command: Command) -> Command:
    """The options that choose variants, people and calls."""
    for option in (
        click.option(
            "--dosage-threshold",
            type=float,
            help="VCF (DS) and .pgen: make calls of dosages that are this near to 0, 1 or 2 (such as 0.1), others missing.",
        ),
        click.option(
            "--min-dp", type=float, help="VCF: make calls of a smaller depth (DP), or of none that is said, missing."
        ),
        click.option(
            "--min-gq", type=float, help="VCF: make calls of a smaller quality (GQ), or of none that is said, missing."
        ),
        click.option(
            "--all-filters", is_flag=True, help="VCF: use records, too, that did not pass its filters (FILTER)."
        ),
        click.option("--keep", type=FILE, help="Text file of the people to use: a name, or FID and IID, on each line."),
        click.option(
            "--region",
            "regions",
            multiple=True,
            metavar="CHR[:FROM-TO]",
            help="Use variants in this region only, both ends included; not for tables. Repeatable.",
        ),
    ):
        command = option(command)
    return command


def genotype_filter(options: dict[str, Any]) -> GenotypeFilter:
    """What to use of the file, from the options above. Raises InvalidInput for regions and numbers that are none."""
    return GenotypeFilter(*(options[name] for name in GENOTYPE_OPTIONS))


def refuse_genotype_options(why: str) -> None:
    """Raise InvalidInput naming the option, where one of them is given to a command that reads no genotypes."""
    refuse_options(why, *GENOTYPE_OPTIONS)
