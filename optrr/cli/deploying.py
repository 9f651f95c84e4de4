"""optrr export and serve: what clients need to randomize by a design, and surveys."""

import os
from pathlib import Path
from typing import Literal

import click

from optrr.allocation.sampled_tables import load_asking
from optrr.cli.inputs import PUBLIC_KEY, split_names
from optrr.cli.options import argument, command, option
from optrr.cli.outputs import OUTPUT
from optrr.cli.printing import give, warn, watched
from optrr.core import files
from optrr.core.design import require_signed
from optrr.core.errors import not_installed
from optrr.core.provenance import content_of


@command
def export(
    design_file: Path = argument(metavar="DESIGN"),
    output: Path = option("File to write.", "-o", required=True, type=OUTPUT),
    max_bytes: int = option(
        "Maximum size of a deployment file, compressed.", type=click.IntRange(min=256), default=files.MOST_BYTES
    ),
    form: Literal["deployment", "matrix", "events", "program"] = option(
        "What to write; for other software the distortion matrix, the probability of each change set, or POR's linear program.",
        default="deployment",
    ),
    attributes: str | None = option(
        "Attributes of a matrix or of change sets; a comma inside a name is written twice.", metavar="A,B"
    ),
    public_key: Path | None = PUBLIC_KEY,
) -> None:
    """Write the deployment file of DESIGN for clients.

    If the weights of the mechanism are too fine for a client, coarser ones take their place; the design to estimate with
    is then written beside OUTPUT. DESIGN may be sampled tables, one of which each client answers.

    Example: optrr export design.json -o sampler.json
    """
    held = require_signed(content_of(design_file, "design file"), public_key)
    chosen = None if attributes is None else split_names(attributes)
    made = files.export(load_asking(held), output, max_bytes=max_bytes, form=form, attributes=chosen)
    warn(made.warnings)
    give(made)


_TOKEN, _DATABASE = "OPTRR_RESULTS_TOKEN", "OPTRR_DATABASE"


@command
def serve(
    source: Path = argument(metavar="SPEC_OR_DESIGN"),
    database: str | None = option(
        "postgresql://… or the path of a SQLite file; by default NAME.db beside SPEC_OR_DESIGN.",
        metavar="URL",
        envvar=_DATABASE,
    ),
    host: str = option("Address to listen on.", default="127.0.0.1"),
    port: int = option("Port to listen on; 0 takes a free one.", type=click.IntRange(0, 65535), default=8000),
    wording: Path | None = option("Specification whose texts are shown with a design."),
    public_url: str | None = option("Address that people use, of a proxy in front: https://…", metavar="URL"),
    public_key: Path | None = PUBLIC_KEY,
) -> None:
    """Run a survey: its page, the collector of its reports, and the results.

    Answers are randomized in the browser; only the result is sent, and it is on disk before it is acknowledged. SPEC is
    designed first, and the design saved beside it. The results' token is drawn anew, or taken from OPTRR_RESULTS_TOKEN.

    Example: optrr serve spec.toml --port 8000
    """
    try:
        # the survey package imports a web server and a database
        from optrr.survey.app import Served, Settings, started  # noqa: PLC0415
        from optrr.survey.results import new_token  # noqa: PLC0415
        from optrr.survey.server import address, listening, run  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise not_installed(error, "optrr serve needs", "serve") from error

    held = require_signed(content_of(source, "specification or design"), public_key)
    given = os.environ.get(_TOKEN)
    token = given or new_token()
    start = started(Settings(held, token, database, wording, public_url), watched())
    warn(start.warnings)
    with listening(host, port) as bound:
        base = (public_url or address(bound)).rstrip("/")
        shown = None if given else token
        give(Served(f"{base}/", start.epsilon, f"{base}/results", start.database, shown))
        run(start.app, bound)
    loss = start.app.loss()
    if loss is None:
        click.echo("stopped; every acknowledged report is kept", err=True)
        return
    click.echo(f"stopped; acknowledged reports are in the files that were opened, or lost with them: {loss}", err=True)
    raise click.exceptions.Exit(1)
