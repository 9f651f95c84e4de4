"""optrr export."""

from __future__ import annotations

from pathlib import Path

import click

from optrr.cli.output import json_option, print_json
from optrr.designing.design import Design
from optrr.rounding import epsilon_text


@click.command()
@click.argument("design_file", metavar="DESIGN", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="File to write.")
@json_option
def export(design_file: Path, output: Path, as_json: bool) -> None:
    """Write what a device needs to randomize one person's record by DESIGN (docs/deployment-format.md)."""
    from optrr.deployment.export import deployment_of  # noqa: PLC0415

    design = Design.load(design_file)
    made = deployment_of(design.mechanism)
    made.save(output)
    if as_json:
        print_json({"output": str(output), "epsilon": float(made.stated.total), "states": made.automaton.states})
    else:
        click.echo(f"{output}: total epsilon {epsilon_text(float(made.stated.total))}, {made.automaton.states} states")
