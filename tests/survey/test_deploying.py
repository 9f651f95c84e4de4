"""The files in deploy/: whether they are whole, what must be configured is written down, and what they run runs here."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from survey_client import free_port

import optrr
from optrr.core.design.solving import design
from optrr.core.domain.domain import Domain

pytest.importorskip("starlette", reason="the survey's server needs the extra serve")

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
OPTRR = [sys.executable, "-P", "-c", "from optrr.cli import main; main()"]
# Seconds for a collector to start on a busy machine.
PATIENCE = 120


def instructions(word: str) -> list[str]:
    """What stands behind this word in the Dockerfile, continued lines joined."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    return re.findall(rf"^{word} (.*)$", text, re.MULTILINE)


def test_every_setting_is_explained(compose: dict[str, Any]) -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    images = {"PYTHON_IMAGE", "CADDY_IMAGE", "POSTGRES_IMAGE"}
    settings = set(re.findall(r"\$\{(\w+)", text)) - images
    explained = (ROOT / "docs" / "survey.md").read_text(encoding="utf-8")
    # what can be pinned has a name that works without
    assert all(f"${{{name}:-" in text and f"`{name}`" in explained for name in images)
    (image,) = re.findall(r"\$\{PYTHON_IMAGE:-(.*)\}", text)
    assert instructions("ARG") == [f"PYTHON_IMAGE={image}"] and instructions("FROM") == ["${PYTHON_IMAGE}"]
    # an example that can be copied, and a refusal to start without
    assert all(f"{name}=" in explained and f"${{{name}:?" in text for name in settings)


def test_no_container_can_do_more_than_it_needs(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service.get("cap_add", []) == (["NET_BIND_SERVICE"] if name == "proxy" else []), name
        # what is written goes to memory or to a volume; what comes from this folder is read only
        assert service["tmpfs"]
        assert all(v.endswith(":ro") for v in service["volumes"] if v.startswith("."))


def test_the_parts_fit_together(compose: dict[str, Any]) -> None:
    services, volumes = compose["services"], compose["volumes"]
    mounted = [v.split(":") for service in services.values() for v in service.get("volumes", [])]
    for source, *_ in mounted:
        # the folder for the design is made by whoever runs the survey
        assert source in volumes or source == "./survey" or (DEPLOY / source).is_file(), source
    assert all(name in services for service in services.values() for name in service.get("depends_on", []))
    build = services["collector"]["build"]
    assert (DEPLOY / build["context"]).resolve() == ROOT and (ROOT / build["dockerfile"]).is_file()
    # nobody reaches the database or a collector but through the proxy
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    (port,) = instructions("EXPOSE")
    assert f"reverse_proxy collector:{port} " in (DEPLOY / "Caddyfile").read_text(encoding="utf-8")
    assert f"server 127.0.0.1:{port};" in (DEPLOY / "nginx.conf").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_image_holds_the_whole_package_and_nothing_else(tmp_path: Path) -> None:
    """The wheel of what the image copies is that of the checkout; files with passwords beside it are not copied."""
    pytest.importorskip("hatchling", reason="hatchling is not installed (pip install hatchling)")
    from hatchling.builders.wheel import WheelBuilder  # noqa: PLC0415

    def wheel(source: Path, name: str) -> set[str]:
        (built,) = WheelBuilder(str(source)).build(directory=str(tmp_path / name), versions=["standard"])
        with zipfile.ZipFile(built) as archive:
            return set(archive.namelist())

    copied = tmp_path / "src"
    for line in instructions("COPY"):
        *sources, target = shlex.split(line)
        assert target.startswith("/src/")
        for source in map(ROOT.joinpath, sources):
            into = tmp_path / target.strip("/")
            if source.is_dir():
                shutil.copytree(source, into, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                into.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, into)
    held = {path.relative_to(copied).parts[0] for path in copied.rglob("*")}
    assert held == {"pyproject.toml", "README.md", "LICENSE", "constraints.txt", "optrr", "solvers", "clients"}
    assert wheel(copied, "of the image") == wheel(ROOT, "of the checkout")


@pytest.fixture(params=["compose", "systemd"])
def command(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """How a collector is started, with this machine's places."""
    if request.param == "compose":
        assert [json.loads(x) for x in instructions("ENTRYPOINT")] == [["optrr"]]
        given = request.getfixturevalue("compose")["services"]["collector"]["command"]
        folder = "/survey/"
    else:
        unit = (DEPLOY / "optrr-survey.service").read_text(encoding="utf-8").replace("\\\n", " ")
        program, *given = shlex.split(dict(re.findall(r"^(\w+)=(.*)$", unit, re.MULTILINE))["ExecStart"])
        assert program.endswith("/optrr")
        folder = "/etc/optrr-survey/"
    text = [x.replace("${SURVEY_HOST}", "survey.example.org").replace(folder, f"{tmp_path}/") for x in given]
    assert any(x.startswith(str(tmp_path)) for x in text)
    return [*OPTRR, *text]


@pytest.fixture
def collector(command: list[str], tmp_path: Path) -> Iterator[int]:
    """The port of a collector that was started so."""
    optrr.save(design(Domain.of({"sex": ["F", "M"], "age": 3}), 1.0), tmp_path / "design.json")
    attributes = '[[attributes]]\nname = "sex"\ncategories = ["F", "M"]\n[[attributes]]\nname = "age"\nsize = 3\n'
    (tmp_path / "questions.toml").write_text(f"epsilon = 1\n{attributes}")
    port = free_port()
    settings = {"OPTRR_DATABASE": str(tmp_path / "survey.db"), "OPTRR_RESULTS_TOKEN": "t" * 30}
    with (tmp_path / "log").open("wb") as log:
        call, environment = [*command, f"--port={port}"], {**os.environ, **settings}
        process = subprocess.Popen(call, env=environment, stdout=log, stderr=log, cwd=tmp_path)
    try:
        for _ in range(10 * PATIENCE):
            assert process.poll() is None, (tmp_path / "log").read_text()
            try:
                urlopen(f"http://127.0.0.1:{port}/health").close()
                break
            except URLError:
                time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0


@pytest.mark.slow
def test_the_collector_starts_and_its_health_is_seen(collector: int, tmp_path: Path) -> None:
    with urlopen(f"http://127.0.0.1:{collector}/sampler.json") as answer:
        assert json.load(answer)["format"] == "optrr-deployment/1"
    assert (tmp_path / "survey.db").is_file()
    said = (tmp_path / "log").read_text()
    assert "https://survey.example.org/results" in said
    # what was given is not printed, since logs are kept
    assert "t" * 30 not in said
    ((_, check),) = re.findall(r"(.*)CMD (\[.*\])", " ".join(instructions("HEALTHCHECK")))
    _, *arguments = json.loads(check)
    for port, code in ((collector, 0), (free_port(), 1)):
        asked = [sys.executable, *(x.replace("127.0.0.1:8000", f"127.0.0.1:{port}") for x in arguments)]
        assert subprocess.run(asked, capture_output=True, check=False).returncode == code
