"""The wheel with the newest of every dependency, as a stranger has it: every command with --json prints JSON and nothing else.

OPTRR_NEWEST names the interpreter of that environment, as CI makes it:

    python -m venv build/newest && build/newest/bin/pip install '.[regression,serve]'
    OPTRR_NEWEST=build/newest/bin/python pytest tests/test_newest.py
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_examples import calls, prepare

NEWEST = os.environ.get("OPTRR_NEWEST", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not NEWEST, reason="OPTRR_NEWEST names no environment with the newest dependencies"),
]

# The survey is served where a port is free.
CALLS = calls() | {"serve": "optrr serve design.json --port 0 --database kept.db"}
# Those that an extra brings: without it they end in one line that names it.
EXTRAS = {"regress": ("formulaic", "regression"), "serve": ("starlette", "serve")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("newest")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        prepare(here)
    return here


def _installed(module: str) -> bool:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([NEWEST, "-c", code], check=False).returncode == 0


def _call(command: str, folder: Path) -> tuple[int, str, str]:
    asked = [NEWEST, "-m", *shlex.split(CALLS[command]), "--json"]
    with subprocess.Popen(asked, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        first = ""
        if command == "serve":
            assert running.stdout is not None
            first = running.stdout.readline()
            running.terminate()  # a runner in the background ignores interrupts, and hands that on
        out, error = running.communicate(timeout=300)
    return running.returncode, first + out, error


def test_every_command_prints_json_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    for command in CALLS:
        code, out, error = _call(command, shutil.copytree(folder, tmp_path / command))
        if command in EXTRAS and not _installed(EXTRAS[command][0]):
            assert (code, out) == (2, ""), command
            assert error.startswith("error: ") and error.count("\n") == 1 and f"optrr[{EXTRAS[command][1]}]" in error
            continue
        # the survey dies of the signal that ends it
        assert code == 0 or (command, code) == ("serve", -signal.SIGTERM), (command, code, error)
        assert isinstance(json.loads(out), dict), command
        # a banner of a solver belongs nowhere
        assert "HiGHS" not in out + error, command


def test_what_is_installed_is_no_checkout(folder: Path) -> None:
    code = "import optrr, optrr_solvers, pathlib; print(pathlib.Path(optrr.__file__).parents[1]); print(optrr_solvers.__file__)"
    done = subprocess.run([NEWEST, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.count("site-packages") == 2


# Everything that a survey does in one process: a report, the page of results with a chart, every download.
WHOLE_SURVEY = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from survey_client import call, report_body
from optrr.survey.app import survey_app
from optrr.survey.store import database_url, open_database
from optrr.survey.preparing import prepared
from optrr.survey.server import configured
from optrr.survey.results import Admission

survey, admission = prepared(Path("d.json")), Admission("t" * 30)
app = survey_app(survey, open_database(database_url("whole.db")), admission, secure=False)
configured(app).load()
for sex in "FMM":
    body = report_body(survey.files.digest, os.urandom(16).hex(), [sex, "65+", "low"])
    assert call(app, "POST", "/reports", body, content_type="application/json").status == 200
for path in ("/", "/sampler.json", "/results", "/results/published.html", "/results/counts.csv", "/results/reports.parquet"):
    assert call(app, "GET", path, cookie=f"optrr_results={admission.cookie()}").status == 200, path
"""


def test_the_extra_brings_all_that_a_survey_needs(folder: Path) -> None:
    design = ["design", "spec.toml", "-o", "d.json", "--preserve", "pairs"]
    subprocess.run([NEWEST, "-m", "optrr", *design], cwd=folder, check=True, capture_output=True)
    call = [NEWEST, "-c", WHOLE_SURVEY, str(Path(__file__).parent)]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
