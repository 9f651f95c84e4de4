"""The application of a test module's ``survey`` over an empty database."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from postgresql_server import postgresql, reason_to_skip
from survey_client import TOKEN


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Any]:
    from optrr.survey.store import database_url, open_database  # noqa: PLC0415 (an extra)

    engine = open_database(database_url(str(tmp_path / "survey.db")))
    yield engine
    engine.dispose()


@pytest.fixture
def app(survey: Any, engine: Any) -> Any:
    from optrr.survey.app import survey_app  # noqa: PLC0415 (an extra)
    from optrr.survey.results import Admission  # noqa: PLC0415 (an extra)

    return survey_app(survey, engine, Admission(TOKEN), secure=False)


@pytest.fixture
def database() -> Iterator[str]:
    """The address of a PostgreSQL database of its own."""
    reason = reason_to_skip()
    if reason:
        pytest.skip(reason)
    with postgresql() as url:
        yield url


@pytest.fixture(scope="session")
def compose() -> dict[str, Any]:
    """The file that describes the containers."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (pip install pyyaml)")
    text = (Path(__file__).parents[2] / "deploy" / "compose.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))
