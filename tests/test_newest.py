"""The wheel with the newest of every dependency, as a stranger has it: every command with --json prints JSON and nothing else.

OPTRR_NEWEST names the interpreter of that environment, as CI makes it:

    python -m venv build/newest && build/newest/bin/pip install '.[regression,serve]'
    OPTRR_NEWEST=build/newest/bin/python pytest tests/test_newest.py
"""

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from optrr.cli.main import COMMANDS
from tests.fuzz.commands import PRIVATE

NEWEST = os.environ.get("OPTRR_NEWEST", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not NEWEST, reason="OPTRR_NEWEST names no environment with the newest dependencies"),
]

ATTRIBUTES = {"a": 2, "b": 3, "c": 2}
SPEC = "epsilon = 1.0\n" + "".join(f'[[attributes]]\nname = "{k}"\nsize = {r}\n' for k, r in ATTRIBUTES.items())
# In this order: later ones read what earlier ones wrote.
LINES = r"""
plan spec.toml --write -o planned
spec true.csv
design spec.toml -o d.json --preserve pairs
compare spec.toml
allocate spec.toml --total-epsilon 3 --workload pairs
randomize true.csv --design d.json -o out.csv
estimate out.csv --design d.json --attributes a,b --statistic cramers-v
test out.csv --design d.json --attributes a,b
estimate out.csv --design d.json --statistic proportion --of b=1
estimate out.csv --design d.json --statistic contrast --term '{"of": {"b": 1}}' --term '{"of": {"b": 2}, "weight": -1}'
estimate out.csv --design d.json --statistic quantile --attributes a
estimate out.csv --design d.json --attributes a,b --statistic row-proportions
model out.csv --design d.json --attributes a,b --terms 'a*b'
regress out.csv --design d.json --formula 'a ~ b'
synthesize out.csv --design d.json -o drawn.csv
synthesize sets.csv --combine
power --design d.json --attributes a,b --truth .1,.1,.1,.2,.2,.3
cluster out.csv --design d.json --max-combinations 6 --min-dependence 0.01
export d.json -o sampler.json
account out.csv
verify d.json
audit sampler.json --n 500
sign d.json --private-key key.pem
waves design spec.toml --lifetime-epsilon 3 -o long.json
waves randomize people.csv --design long.json --secret key --new-secret --id-column who --wave 1 -o round.csv
waves estimate round.csv --design long.json --id-column who --attributes a
worksheet d.json
gwas design snps.csv --total-epsilon 20 -o snps.json
gwas randomize snps.csv --phenotype status.csv --phenotype-column status --case 1 --design snps.json -o snps-out.csv
gwas scan snps-out.csv --design snps.json
gwas variants snps-out.csv --design snps.json
gwas study snps.csv --phenotype status.csv --phenotype-column status --case 1 --total-epsilon 20 --repeats 2
serve d.json --port 0 --database kept.db
demo --random-state 1
"""
CALLS = {line.split()[0]: shlex.split(line)[1:] for line in LINES.split("\n") if line}
# Those that an extra brings: without it they end in one line that names it.
EXTRAS = {"regress": ("formulaic", "regression"), "serve": ("starlette", "serve")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("newest")
    (here / "spec.toml").write_text(SPEC)
    (here / "sets.csv").write_text("parameter,estimate\na,0.1\na,0.3\n")
    rows = [(k % 2, k % 3, k // 2 % 2) for k in range(3000)]
    (here / "true.csv").write_text("a,b,c\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    (here / "people.csv").write_text("who,a,b,c\n" + "".join(f"p{k},{a},{b},{c}\n" for k, (a, b, c) in enumerate(rows)))
    people = [(k, k % 3, k * k % 3, k // 3 % 3, k % 2) for k in range(300)]
    (here / "snps.csv").write_text("sample,rs1,rs2,rs3\n" + "".join(f"p{k},{x},{y},{z}\n" for k, x, y, z, _ in people))
    (here / "status.csv").write_text("sample,status\n" + "".join(f"p{k},{s}\n" for k, *_, s in people))
    (here / "key.pem").write_text(PRIVATE)
    return here


def _installed(module: str) -> bool:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([NEWEST, "-c", code], check=False).returncode == 0


def _call(command: str, folder: Path) -> tuple[int, str, str]:
    asked = [NEWEST, "-m", "optrr", command, *CALLS[command], "--json"]
    with subprocess.Popen(asked, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        first = ""
        if command == "serve":
            assert running.stdout is not None
            first = running.stdout.readline()
            running.terminate()  # a runner in the background ignores interrupts, and hands that on
        out, error = running.communicate(timeout=300)
    return running.returncode, first + out, error


def test_every_command_is_called() -> None:
    assert set(CALLS) == set(COMMANDS)


def test_every_command_prints_json_and_nothing_else(folder: Path) -> None:
    for command in CALLS:
        code, out, error = _call(command, folder)
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
for a in "011":
    body = report_body(survey.files.digest, os.urandom(16).hex(), [a, "2", "0"])
    assert call(app, "POST", "/reports", body, content_type="application/json").status == 200
for path in ("/", "/sampler.json", "/results", "/results/report.html", "/results/counts.csv", "/results/reports.parquet"):
    assert call(app, "GET", path, cookie=f"optrr_results={admission.cookie()}").status == 200, path
"""


def test_the_extra_brings_all_that_a_survey_needs(folder: Path) -> None:
    design = ["design", "spec.toml", "-o", "d.json", "--preserve", "pairs"]
    subprocess.run([NEWEST, "-m", "optrr", *design], cwd=folder, check=True, capture_output=True)
    call = [NEWEST, "-c", WHOLE_SURVEY, str(Path(__file__).parent)]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
