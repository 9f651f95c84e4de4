"""optrr verify."""

from __future__ import annotations

from pathlib import Path

import click

from optrr.cli.output import json_option, print_json
from optrr.designing.design_file import read_stated
from optrr.designing.verify import checks


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def verify(file: Path, as_json: bool) -> int:
    """Recompute every number of a design FILE from its law and its certificate alone; exit 1 where one does not hold."""
    design, stated, untouched = read_stated(file)
    found = checks(design, stated)
    holds = untouched and all(c.holds for c in found)
    if as_json:
        print_json(
            {
                "holds": holds,
                "digest": untouched,
                "checks": [
                    {"name": c.name, "holds": c.holds, "stated": c.stated, "recomputed": c.recomputed, "how": c.how}
                    for c in found
                ],
            }
        )
    else:
        for c in found:
            click.echo(c.line())
        click.echo("digest holds" if untouched else "digest FAILS: the file was changed after it was written")
        click.echo("verified" if holds else "NOT verified")
    return 0 if holds else 1
