"""optrr serve."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from optrr.cli.output import json_option, print_json, watched
from optrr.errors import InvalidInput
from optrr.rounding import epsilon_text

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
@json_option
def serve(
    source: Path,
    database: str | None,
    host: str,
    port: int,
    wording: Path | None,
    public_url: str | None,
    as_json: bool,
) -> None:
    """Run a survey: its page, the collector of its reports, and the results.

    Answers are randomized in the browser; only the result is sent, and it is on disk before it is acknowledged. SPEC is
    designed first, and the design saved beside it. The results' token is drawn anew, or taken from OPTRR_RESULTS_TOKEN.
    """
    _check_public(public_url)
    try:
        # the survey's room brings a web server and a database
        from optrr.survey.app import survey_app  # noqa: PLC0415
        from optrr.survey.database import database_url, open_database, shown  # noqa: PLC0415
        from optrr.survey.preparing import prepared  # noqa: PLC0415
        from optrr.survey.server import listening, run  # noqa: PLC0415
        from optrr.survey.session import Admission, new_token  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise InvalidInput(f"optrr serve needs the package {error.name}; install optrr[serve]") from error

    given = os.environ.get(_TOKEN)
    token = given or new_token()
    with watched("designing") as options:
        survey = prepared(source, wording, options)
    address = database_url(database or str(source.with_name(f"{source.name.split('.')[0]}.db")))
    secure = public_url is not None and public_url.startswith("https:")
    app = survey_app(survey, open_database(address), Admission(token), secure)
    with listening(host, port) as bound:
        base = (public_url or _own_address(host, bound.getsockname()[1])).rstrip("/")
        # a token that was given is known already, and what is printed is often logged
        said = {
            "survey": f"{base}/",
            "epsilon": survey.design.epsilon,
            "results": f"{base}/results",
            "token": None if given else token,
            "database": shown(address),
        }
        _show(said, as_json)
        run(app, bound)
    click.echo("stopped; every acknowledged report is kept", err=True)


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


def _check_public(url: str | None) -> None:
    if url is None:
        return
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise InvalidInput(f"--public-url {url!r} is no address; write it like https://survey.example.org/")
