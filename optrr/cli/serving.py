"""optrr serve."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from optrr.cli.designing import preserve_option
from optrr.cli.inputs import key_option, refuse_longitudinal, signature_option
from optrr.cli.printing import json_option, print_json, warn, watched
from optrr.designs.signing import require_signed
from optrr.errors import not_installed
from optrr.releases.small_files import content_of
from optrr.show.rounding import epsilon_text

_TOKEN = "OPTRR_RESULTS_TOKEN"
_DATABASE = "OPTRR_DATABASE"


@click.command()
@click.argument("source", metavar="SPEC_OR_DESIGN", type=click.Path(path_type=Path))
@click.option(
    "--database",
    metavar="URL",
    envvar=_DATABASE,
    help="postgresql://… or the path of a SQLite file; by default NAME.db beside SPEC_OR_DESIGN.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free one.")
@click.option(
    "--wording", type=click.Path(path_type=Path), help="With a design: the specification whose texts are shown."
)
@click.option(
    "--public-url", metavar="URL", help="Address that people use, where a proxy stands before this one: https://…"
)
@preserve_option
@key_option
@signature_option
@json_option
def serve(
    source: Path,
    database: str | None,
    host: str,
    port: int,
    wording: Path | None,
    public_url: str | None,
    preserve: str,
    key: Path | None,
    signature: Path | None,
    as_json: bool,
) -> None:
    """Run a survey: its page, the collector of its reports, and the results.

    Answers are randomized in the browser; only the result is sent, and it is on disk before it is acknowledged. SPEC is
    designed first, and the design saved beside it. The results' token is drawn anew, or taken from OPTRR_RESULTS_TOKEN.
    """
    try:
        # the survey's room brings a web server and a database
        from optrr.survey.server import listening, run  # noqa: PLC0415
        from optrr.survey.session import new_token  # noqa: PLC0415
        from optrr.survey.starting import Settings, started  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise not_installed(error, "optrr serve needs", "serve") from error

    held = require_signed(content_of(source, "specification or design"), key, signature)
    refuse_longitudinal(held)
    given = os.environ.get(_TOKEN)
    token = given or new_token()
    with watched("designing") as options:
        settings = Settings(held, token, database, wording, public_url, preserve)  # type: ignore[arg-type] # the literals
        start = started(settings, options)
    warn(start.warnings)
    with listening(host, port) as bound:
        base = (public_url or _own_address(host, bound.getsockname()[1])).rstrip("/")
        said = {
            "survey": f"{base}/",
            "epsilon": start.epsilon,
            "results": f"{base}/results",
            "database": start.database,
        }
        # a token that was given is known already, and what is printed is often kept in a log
        _show({**said, "token": None if given else token}, as_json)
        run(start.app, bound)
    _close(start.app.loss())


def _close(loss: str | None) -> None:
    """The last line, and status 1 where acknowledged reports may be lost."""
    if loss is None:
        click.echo("stopped; every acknowledged report is kept", err=True)
        return
    click.echo(f"stopped; acknowledged reports are in the files that were opened, or lost with them: {loss}", err=True)
    raise click.exceptions.Exit(1)


def _own_address(host: str, port: int) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"


def _show(said: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(said)
        return
    click.echo(f"survey at total epsilon {epsilon_text(said['epsilon'])}: {said['survey']}")
    click.echo(f"results: {said['results']}   token: {said['token'] or f'from {_TOKEN}'}")
    click.echo(f"reports are kept in {said['database']}")
