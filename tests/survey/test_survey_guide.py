"""docs/survey.md against what it describes: its commands run as they are printed, and its settings are those of deploy/."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from survey_client import Server, call, report_body

import optrr

pytest.importorskip("starlette", reason="the survey's server needs the extra serve")

from optrr.cli.deploying import serve
from optrr.survey import guard, preparing, server, store
from optrr.survey.app import survey_app
from optrr.survey.results import LASTS, Admission, new_token
from optrr.survey.store import database_url, open_database

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
GUIDE = (ROOT / "docs" / "survey.md").read_text(encoding="utf-8")
# Every program that the guide's commands call and that is not of this machine is taken from a folder of our own.
OPTRR = f'#!/bin/sh\nexec "{sys.executable}" -P -c "from optrr.cli import main; main()" "$@"\n'
NOTED = '#!/bin/sh\necho "$(basename "$0") $*" >> "$NOTED"\n'


def block(holding: str) -> str:
    """The guide's code that holds this text, without its indent."""
    blocks = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", GUIDE, re.MULTILINE)
    (wanted,) = [text for text in blocks if holding in text]
    return re.sub(r"^ {4}", "", wanted.strip("\n"), flags=re.MULTILINE) + "\n"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with the questions of the guide."""
    (tmp_path / "questions.toml").write_text(block('title = "Health'), encoding="utf-8")
    return tmp_path


def test_the_languages_and_conditions_of_the_guide_are_read() -> None:
    text = f"epsilon = 1.0\n{block('السرقة')}\n{block('ask_if')}"
    made = optrr.Specification.of(tomllib.loads(text))
    assert made.wording.languages == ("de", "ar") and made.wording.labels["theft"]["ar"] == ["نعم", "لا"]
    assert made.branches["how often"].when == {"theft": ("yes",)}


@pytest.fixture
def programs(here: Path) -> Path:
    """A folder with optrr, and with programs that only note how they were called."""
    folder = here / "programs"
    folder.mkdir()
    for name in ("optrr", "docker", "nginx", "systemctl"):
        (folder / name).write_text(OPTRR if name == "optrr" else NOTED)
        (folder / name).chmod(0o755)
    return folder


def run(commands: str, here: Path) -> list[str]:
    """What other programs were asked to do by these commands, which all succeed."""
    path = os.pathsep.join([str(here / "programs"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "NOTED": str(here / "noted")}
    command = ["bash", "-euo", "pipefail", "-c", commands]
    done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    noted = here / "noted"
    return noted.read_text().splitlines() if noted.exists() else []


def settings(path: Path) -> dict[str, str]:
    """The NAME=value lines of a file that nobody else may read."""
    assert path.stat().st_mode & 0o777 == 0o600
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


@pytest.mark.slow
def test_the_commands_for_one_machine(here: Path, programs: Path) -> None:
    shutil.copytree(DEPLOY, here / "deploy")
    installing, *others = block("systemctl enable").splitlines()
    assert installing == 'python3 -m venv /opt/optrr && /opt/optrr/bin/pip install ".[serve]"'
    places = ("/opt/optrr", "/etc/optrr-survey", "/etc/systemd/system", "/etc/nginx/conf.d")
    for place in places[::2] + places[3:]:
        (here / f"root{place}").mkdir(parents=True)
    (here / "root/opt/optrr/bin").symlink_to(programs)

    def moved(text: str) -> str:
        for place in places:
            assert place in GUIDE
            text = text.replace(place, f"{here}/root{place}")
        return text

    asked = run(moved("\n".join(others)), here)
    assert asked == ["systemctl enable --now optrr-survey", "nginx -t", "systemctl reload nginx"]
    given = settings(here / "root/etc/optrr-survey/environment")
    assert list(given) == ["OPTRR_RESULTS_TOKEN"]
    Admission(given["OPTRR_RESULTS_TOKEN"])
    assert (here / "root/etc/nginx/conf.d/survey.conf").is_file()
    # the unit finds what the commands made
    unit = moved((here / "root/etc/systemd/system/optrr-survey.service").read_text())
    named = set(re.findall(rf"{here}/root[^\s=,]*", unit))
    assert len(named) > 4 and all(Path(name).exists() for name in named), named
    if shutil.which("systemd-analyze"):
        (here / "optrr-survey.service").write_text(unit)
        checked = ["systemd-analyze", "verify", "--man=no", str(here / "optrr-survey.service")]
        done = subprocess.run(checked, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_commands_for_containers(here: Path, programs: Path) -> None:
    shutil.copytree(DEPLOY, here / "deploy")
    assert run(block("docker compose up"), here) == ["docker compose up --build -d"]
    given = settings(here / "deploy" / ".env")
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    # what has a default need not be given
    assert set(given) == set(re.findall(r"\$\{(\w+)(?!\w|:-)", text))
    Admission(given["OPTRR_RESULTS_TOKEN"])
    # it stands in an address
    assert re.fullmatch("[0-9a-f]{48}", given["POSTGRES_PASSWORD"])
    assert database_url(f"postgresql://survey:{given['POSTGRES_PASSWORD']}@database/survey").host == "database"


def test_the_guide_and_the_containers_agree(compose: dict[str, Any]) -> None:
    services = compose["services"]
    collector, database = services["collector"], services["database"]["environment"]
    images = {name: service.get("image", "") for name, service in services.items()}
    assert images == {"proxy": "${CADDY_IMAGE:-caddy:2}", "collector": "", "database": "${POSTGRES_IMAGE:-postgres:17}"}
    # the commands that look up digests ask for the same ones
    assert all(f"docker pull {image}" in GUIDE for image in ("caddy:2", "postgres:17", "python:3.12-slim"))
    assert all(name in services for name in re.findall(r"docker compose (?:logs|exec) (\w+)", GUIDE))
    ports = [port.split(":")[0] for port in services["proxy"]["ports"]]
    assert f"ports {' and '.join(ports)} must be open" in GUIDE
    # design.json and questions.toml lie in deploy/survey/, and the collector reads them where that is mounted
    (mounted,) = collector["volumes"]
    source, inside, _ = mounted.split(":")
    assert f"Put `design.json` and `questions.toml` into `deploy/{source.removeprefix('./')}/`" in GUIDE
    read = [word.partition("=")[2] or word for word in collector["command"] if inside in word]
    assert read == [f"{inside}/design.json", f"{inside}/questions.toml"]
    used = database_url(re.sub("[${}]", "", collector["environment"]["OPTRR_DATABASE"]))
    assert (used.username, used.database) == (database["POSTGRES_USER"], database["POSTGRES_DB"])
    dumped = re.findall(r"docker compose exec (\w+) pg_dump -U (\w+) -Fc (\w+)", GUIDE)
    assert dumped == [(used.host, used.username, used.database)]


def test_settings_and_options_are_those_of_the_command(compose: dict[str, Any]) -> None:
    known = {str(parameter.envvar) for parameter in serve.params if parameter.envvar} | {"OPTRR_RESULTS_TOKEN"}
    unit = (DEPLOY / "optrr-survey.service").read_text(encoding="utf-8")
    assert set(compose["services"]["collector"]["environment"]) == known
    assert all(set(re.findall(r"OPTRR_[A-Z_]+", text)) == known for text in (GUIDE, unit))
    options = {option for parameter in serve.params for option in parameter.opts}
    (started,) = re.findall(r"^ExecStart=((?:.*\\\n)*.*)", unit, re.MULTILINE)
    given = " ".join([started, *compose["services"]["collector"]["command"]])
    given += " ".join(re.findall(r"--(?:database|public-url|wording|host|port)", GUIDE))
    assert set(re.findall(r"--[a-z-]+", given)) <= options


def test_limits_are_those_of_the_code() -> None:
    (limits,) = re.findall(r"^- \*\*Limits\*\*: (.*)$", GUIDE, re.MULTILINE)
    assert limits == (
        f"{guard.BODY_SECONDS:g} s for a body, {server.MOST_HEADER_BYTES >> 10} KiB of headers and of what follows a body, "
        f"{server._CONNECTIONS:,} connections, {store._WAITING:,} reports waiting for the disk."
    )
    assert f"at most {preparing._MOST_BYTES >> 10} kB" in GUIDE
    assert LASTS == 12 * 3600 and "once in twelve hours" in GUIDE


def filled(source: Path, database: str, n: int = 40) -> list[tuple[bytes, bytes]]:
    """What the database of these questions holds after so many reports."""
    survey = preparing.prepared(source)
    engine = open_database(database_url(database))
    app = survey_app(survey, engine, Admission(new_token()), secure=False)
    categories = [a.texts for a in survey.design.domain]
    for k in range(n):
        body = report_body(survey.deployment.design, f"{k:032x}", [texts[k % len(texts)] for texts in categories])
        assert call(app, "POST", "/reports", body, content_type="application/json").status == 200
    engine.dispose()
    return rows(database)


def rows(database: str) -> list[tuple[bytes, bytes]]:
    engine = open_database(database_url(database), lasting=False)
    with engine.connect() as connection:
        kept = connection.exec_driver_sql("SELECT identifier, record FROM reports ORDER BY identifier").all()
    return [(bytes(identifier), bytes(record)) for identifier, record in kept]


@pytest.mark.slow
def test_a_running_survey_is_estimated_and_copied_as_the_guide_says(here: Path, programs: Path) -> None:
    collector = Server(here / "questions.toml")
    kept = filled(here / "questions.toml", str(here / "questions.db"))
    estimating = block("optrr estimate questions.db").splitlines()[0]
    run(estimating, here)
    copying = block("pg_dump").splitlines()[0]
    if shutil.which("sqlite3") is None:
        pytest.skip("sqlite3 is not installed (apt install sqlite3)")
    # the newest reports are not in the file itself yet
    assert (here / "questions.db-wal").stat().st_size
    run(copying, here)
    assert collector.stop() == 0
    assert rows(str(here / "copy.db")) == kept
    # a restored copy goes on with its own design and its own texts
    texts = ["--wording", str(here / "questions.toml")]
    again = Server(here / "questions.design.json", "--database", str(here / "copy.db"), *texts)
    assert json.loads(again.get("/health")) == {"status": "ok"}
    assert again.stop() == 0


@pytest.mark.slow
def test_a_postgresql_survey_is_dumped_restored_and_tested_as_the_guide_says(here, programs, database, monkeypatch):
    if shutil.which("pg_dump") is None:
        pytest.skip("pg_dump is not installed (apt install postgresql-client)")
    import psycopg  # noqa: PLC0415 (only there where there is a server)

    address, _, _ = database.rpartition("/")
    made = psycopg.conninfo.conninfo_to_dict(database)
    for name, value in (("PGHOST", made["host"]), ("PGPORT", made["port"]), ("PGUSER", made["user"])):
        monkeypatch.setenv(name, str(value))
    run("createdb survey && createdb restored", here)
    kept = filled(here / "questions.toml", f"{address}/survey")
    (here / "questions.design.json").rename(here / "design.json")
    testing = block("optrr estimate questions.db").splitlines()[1]
    assert "postgresql://survey@host/survey " in testing
    run(testing.replace("postgresql://survey@host/survey", f"{address}/survey"), here)
    dumping, restoring = [line for line in block("pg_dump").splitlines() if line.startswith("pg_")]
    run(dumping, here)
    run(re.sub(r"-d \w+", "-d restored", restoring), here)
    assert rows(f"{address}/restored") == kept


@pytest.mark.slow
def test_a_survey_of_sampled_tables_is_made_as_the_guide_says(here: Path, programs: Path) -> None:
    allocating, serving = block("optrr serve asked.json").splitlines()
    run(allocating, here)
    names = serving.removeprefix("optrr serve ").split(" --wording ")
    made = preparing.prepared(*(here / name for name in names))
    assert isinstance(made.design, optrr.SampledTables)
    assert made.wording.questions and made.title == "Health and work"
    assert made.design.epsilon >= 1.0
