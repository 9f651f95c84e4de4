"""optrr export and serve: deployment files for clients, and surveys."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import click

from optrr.allocation.sampled_tables import load_asking
from optrr.cli.inputs import PUBLIC_KEY, split_names
from optrr.cli.options import argument, command, option
from optrr.cli.outputs import OUTPUT
from optrr.cli.printing import give, warn, watched
from optrr.core import files
from optrr.core.design import require_signed
from optrr.core.display import Result, epsilon_text
from optrr.core.errors import InvalidInput, not_installed
from optrr.core.provenance import content_of


@command
def export(
    design_file: Path = argument(metavar="DESIGN"),
    output: Path = option("File to write.", "-o", required=True, type=OUTPUT),
    max_bytes: int = option(
        "Maximum compressed size of a deployment file, in bytes.",
        type=click.IntRange(min=256),
        default=files.MOST_BYTES,
    ),
    form: Literal["deployment", "matrix", "events", "program"] = option(
        (
            "Content of the file; for other software: the distortion matrix, the probability of each change set, or "
            "POR's linear program."
        ),
        default="deployment",
    ),
    attributes: str | None = option(
        "Attributes of a matrix or of change sets; write a comma in a name twice.", metavar="A,B"
    ),
    public_key: Path | None = PUBLIC_KEY,
) -> None:
    """Write the deployment file of DESIGN for clients.

    If the weights of the mechanism are too fine for a client, coarser ones replace them; a design with these weights is
    then written to the folder of OUTPUT, for estimation. DESIGN may be sampled tables, of which each client answers
    one.

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
        "Database: postgresql://… or the path of a SQLite file; default: NAME.db in the folder of SPEC_OR_DESIGN.",
        metavar="URL",
        envvar=_DATABASE,
    ),
    host: str = option("Address to listen on.", default="127.0.0.1"),
    port: int = option("Port to listen on; use 0 for a free one.", type=click.IntRange(0, 65535), default=8000),
    wording: Path | None = option("Specification with the texts to show for a design."),
    public_url: str | None = option("Public address of the survey behind a proxy: https://…", metavar="URL"),
    kiosk: bool = option("Let many people answer on one device: nothing of a person stays in its browser."),
    invite: int | None = option(
        "Number of personal links of a new survey, written to NAME.links.txt; only they admit to it.",
        type=click.IntRange(1, 1_000_000),
        metavar="N",
    ),
    public_key: Path | None = PUBLIC_KEY,
) -> None:
    """Run a survey: its page, the collector of its reports, and the results.

    Answers are randomized in the browser. Only the result is sent, and it is on disk before it is acknowledged. For
    SPEC, a design is made first and saved in the same folder. The results need a token, which is drawn at random or
    taken from OPTRR_RESULTS_TOKEN.

    Example: optrr serve spec.toml --port 8000
    """
    try:
        # the survey package imports a web server and a database
        from optrr.survey.app import survey_app  # noqa: PLC0415
        from optrr.survey.invitations import Links  # noqa: PLC0415
        from optrr.survey.preparing import prepared  # noqa: PLC0415
        from optrr.survey.results import Admission, new_token  # noqa: PLC0415
        from optrr.survey.server import address, listening, run  # noqa: PLC0415
        from optrr.survey.store import database_url, open_database, shown  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise not_installed(error, "optrr serve needs", "serve") from error

    # a design may take minutes, so quick checks come first
    if invite and kiosk:
        raise InvalidInput("--invite: a personal link is for one browser; leave out --kiosk, or the links")
    if invite and not (public_url or port):
        raise InvalidInput("--invite: the links need an address; give a --port, or the --public-url")
    given = os.environ.get(_TOKEN)
    token = given or new_token()
    admission, secure = Admission(token), _is_secure(public_url)
    beside = source.parent / (source.name.split(".")[0] or "survey")
    url = database_url(database or f"{beside}.db")
    own = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    links = Links(invite, public_url or own, Path(f"{beside}.links.txt")) if invite else None
    held = require_signed(content_of(source, "specification or design"), public_key)
    survey = replace(prepared(held, wording, watched()), kiosk=kiosk)
    app = survey_app(survey, open_database(url), admission, secure, links)
    warn((*survey.warnings, *survey.unworded()))
    with listening(host, port) as bound:
        base = (public_url or address(bound)).rstrip("/")
        file = str(links.file) if links else None
        # a token that was given is not printed, because output is often kept in a log
        said = None if given else token
        give(Served(f"{base}/", survey.design.epsilon, f"{base}/results", shown(url), said, file))
        run(app, bound)
    loss = app.loss()
    if loss is None:
        click.echo("stopped; every acknowledged report is kept", err=True)
        return
    click.echo(f"stopped; acknowledged reports may be lost, because a file {loss}", err=True)
    raise click.exceptions.Exit(1)


def _is_secure(public_url: str | None) -> bool:
    """Check whether respondents connect by https."""
    if public_url is None:
        return False
    parts = urlsplit(public_url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise InvalidInput(f"--public-url {public_url!r}: not an address; write it like https://survey.example.org/")
    return parts.scheme == "https"


@dataclass(frozen=True, repr=False)
class Served(Result):
    """Addresses of a running survey."""

    survey: str
    epsilon: float
    results: str
    database: str
    token: str | None
    links: str | None = None

    def headline(self) -> str:
        """Summarize the survey and its total ε."""
        return f"survey with total epsilon {epsilon_text(self.epsilon)}: {self.survey}"

    def sentences(self) -> list[str]:
        """State the address of the results and where reports are kept."""
        token = self.token or f"from {_TOKEN}"
        invited = [] if self.links is None else [f"by invitation only: the personal links are in {self.links}"]
        return [f"results: {self.results}   token: {token}", *invited, f"reports are stored in {self.database}"]
