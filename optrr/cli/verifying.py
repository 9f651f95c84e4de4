"""optrr verify."""

from __future__ import annotations

from pathlib import Path

import click

from optrr.cli.output import json_option, print_json
from optrr.deployment.deployment_file import is_deployment
from optrr.deployment.verify import verify_deployment
from optrr.designing.verify import verify as verified
from optrr.errors import InvalidInput


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--design",
    "design_file",
    type=click.Path(path_type=Path),
    help="Also check that a deployment file is that of this design.",
)
@click.option(
    "--no-limit",
    is_flag=True,
    help="Check a design however long it takes and however much memory; otherwise estimates above 30 s or 1 GB are refused.",
)
@json_option
def verify(file: Path, design_file: Path | None, no_limit: bool, as_json: bool) -> int:
    """Recompute every number of FILE; exit 1 where one does not hold.

    A design's numbers follow from its law and its certificate alone, those of a deployment file from its integers.
    """
    if is_deployment(file):
        result = verify_deployment(file, design_file)
    elif design_file is not None:
        raise InvalidInput(f"{file} is no deployment file; --design is for files from optrr export")
    else:
        result = verified(file, limited=not no_limit)
    if as_json:
        print_json(result.summary())
    else:
        for check in result.checks:
            click.echo(check.line())
        click.echo("digest holds" if result.digest else "digest FAILS: the file was changed after it was written")
        click.echo("verified" if result.holds else "NOT verified")
    return 0 if result.holds else 1
