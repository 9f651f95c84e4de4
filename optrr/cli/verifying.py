"""optrr verify."""

from __future__ import annotations

from pathlib import Path

import click

from optrr.cli.output import json_option, print_json
from optrr.designing.verify import verify as verified


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def verify(file: Path, as_json: bool) -> int:
    """Recompute every number of a design FILE from its law and its certificate alone; exit 1 where one does not hold."""
    result = verified(file)
    if as_json:
        print_json(result.summary())
    else:
        for check in result.checks:
            click.echo(check.line())
        click.echo("digest holds" if result.digest else "digest FAILS: the file was changed after it was written")
        click.echo("verified" if result.holds else "NOT verified")
    return 0 if result.holds else 1
