"""optrr test."""

from __future__ import annotations

from pathlib import Path

import click

from optrr.cli.output import json_option, print_json, warn
from optrr.cli.records import design_option, input_argument, split_names
from optrr.counts import count
from optrr.design_file import load_design
from optrr.infer import TESTS
from optrr.infer import test as test_table
from optrr.infer.testing import CALIBRATIONS


@click.command()
@input_argument
@design_option
@click.option("--attributes", required=True, metavar="A,B", help="The two attributes, separated by a comma.")
@click.option("--test", "name", type=click.Choice(TESTS), default="independence", show_default=True)
@click.option(
    "--calibration",
    type=click.Choice(CALIBRATIONS),
    default="auto",
    show_default=True,
    help="Where the p-value comes from: the χ² limit, or simulation under the fitted null.",
)
@click.option("--random-state", type=click.IntRange(min=0), help="Seed of the simulations.")
@json_option
def test(
    input: Path,
    design_file: Path,
    attributes: str,
    name: str,
    calibration: str,
    random_state: int | None,
    as_json: bool,
) -> None:
    """Test an association of two attributes on randomized records; valid for every mechanism."""
    design = load_design(design_file)
    counts = count(input, design.domain, split_names(attributes), allow_extra=True)
    found = test_table(
        counts,
        design.mechanism,
        name,  # type: ignore[arg-type]  # the choices are the literals
        calibration=calibration,  # type: ignore[arg-type]
        random_state=random_state,
    )
    if as_json:
        print_json(found.summary())
        return
    click.echo(
        f"{name} of {' × '.join(counts.domain.names)}: statistic {found.statistic:.4f}, {found.df} degrees of freedom, "
        f"p = {found.p_value:.4g} ({found.calibration}), n = {found.n}"
    )
    if not found.reliable:
        limit = "" if found.reliable_down_to is None else f" (reliable down to {found.reliable_down_to:.2g})"
        click.echo(f"the p-value cannot be trusted within a factor of two{limit}")
    warn(found.notes)
