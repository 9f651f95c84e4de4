"""From what an operator asks for to what is served: everything that can be wrong is noticed before anybody is asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from optrr.designs.wishes import Preserve
from optrr.errors import InvalidInput
from optrr.releases.small_files import Given, path_of
from optrr.survey.app import SurveyApp, survey_app
from optrr.survey.database import database_url, open_database, shown
from optrr.survey.preparing import prepared
from optrr.survey.session import Admission
from optrr_solvers import SolveOptions


@dataclass(frozen=True)
class Settings:
    """How a survey is served.

    Parameters
    ----------
    source
        a specification or a design file.
    token
        admits to the results.
    database
        see :func:`optrr.survey.database.database_url`; by default ``NAME.db`` beside the source.
    wording
        a specification whose texts are shown with a design file.
    public_url
        the address that people use, where it is not the server's own.
    preserve
        of a specification: :func:`optrr.design`'s.
    """

    source: Given
    token: str
    database: str | None = None
    wording: Path | None = None
    public_url: str | None = None
    preserve: Preserve = "marginals"


@dataclass(frozen=True)
class Start:
    """An application ready to be served, its total ε in nats, where its reports are kept, and warnings, for people."""

    app: SurveyApp
    epsilon: float
    database: str
    warnings: tuple[str, ...] = ()


def started(settings: Settings, options: SolveOptions) -> Start:
    """Design where there is no design yet, and open the database.

    Raises
    ------
    InvalidInput
        for settings that cannot be used; see also :func:`optrr.survey.preparing.prepared` and
        :func:`optrr.survey.app.survey_app`.
    """
    # a design may take minutes, so what is quickly checked comes first
    admission = Admission(settings.token)
    secure = _is_secure(settings.public_url)
    source = path_of(settings.source)
    beside = source.parent / f"{source.name.split('.')[0] or 'survey'}.db"
    url = database_url(settings.database or str(beside))
    survey = prepared(settings.source, settings.wording, options, settings.preserve)
    app = survey_app(survey, open_database(url), admission, secure)
    return Start(app, survey.design.epsilon, shown(url), survey.warnings)


def _is_secure(public_url: str | None) -> bool:
    """Whether people come by https."""
    if public_url is None:
        return False
    parts = urlsplit(public_url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise InvalidInput(f"--public-url {public_url!r} is no address; write it like https://survey.example.org/")
    return parts.scheme == "https"
