"""optrr perturb, optrr estimate."""

from __future__ import annotations

from pathlib import Path

import click

from optrr.cli.output import json_option, late_bar, print_json
from optrr.design_file import load_design
from optrr.perturb import perturb_file

input_argument = click.argument("input", metavar="INPUT", type=click.Path(path_type=Path))
design_option = click.option(
    "--design", "design_file", required=True, type=click.Path(path_type=Path), help="Design file from optrr design."
)


@click.command()
@input_argument
@design_option
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="CSV or Parquet file to write.")
@click.option("--random-state", type=click.IntRange(min=0), help="Seed, for studies only; the default draws from the operating system.")
@json_option
def perturb(input: Path, design_file: Path, output: Path, random_state: int | None, as_json: bool) -> None:
    """Randomize the records of INPUT (CSV or Parquet); one column per attribute of the design."""
    design = load_design(design_file)
    with late_bar() as show:
        rows = perturb_file(
            input, design.mechanism, output, random_state, progress=lambda done: show(f"{done} records randomized", None)
        )
    if as_json:
        print_json({"records": rows, "epsilon": design.epsilon, "output": str(output)})
    else:
        click.echo(f"{rows} records randomized at total epsilon {design.epsilon:.6f}, written to {output}")
