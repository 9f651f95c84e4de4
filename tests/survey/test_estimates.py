"""What a survey's reports estimate agrees with what `perturb` of the same records estimates, within their standard errors."""

import asyncio
import json
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import browsers
import javascript
import numpy as np
import pyarrow as pa
import pytest
import vectors
from scipy import stats

import optrr

pytest.importorskip("starlette", reason="the survey's server needs the extra serve")

from survey_client import Server, called

from optrr.designs.design import Design
from optrr.designs.solving import design
from optrr.domain.datasets import adult, adult_domain
from optrr.records.counts import count_many
from optrr.survey.app import survey_app
from optrr.survey.preparing import prepared
from optrr.survey.results import Admission, new_token
from optrr.survey.store import database_url, open_database
from optrr.tables.estimation.estimator import estimate

ATTRIBUTES = ("education", "marital-status", "race", "sex", "income")
# Of all cells together: the largest of them lies beyond its limit once in a million runs of these tests.
FALSE_ALARM = 1e-6


@pytest.fixture(scope="module")
def made() -> Design:
    """Pairs are kept visible, so that every pair's table can be estimated."""
    return design(adult_domain().subset(ATTRIBUTES), 1.5, preserve="pairs")


@pytest.fixture
def design_file(made: Design, tmp_path: Path) -> Path:
    path = tmp_path / "design.json"
    optrr.save(made, path)
    return path


def people(n: int) -> list[dict[str, str]]:
    """The first of Adult's records."""
    return adult().select(list(ATTRIBUTES)).slice(0, n).to_pylist()


def deviations(survey: Any, other: Any, made: Design) -> np.ndarray:
    """Differences of the estimates from two randomizations of the same records, in standard errors: every single and pair."""
    sets = [(a,) for a in ATTRIBUTES] + list(combinations(ATTRIBUTES, 2))
    counted = [count_many(data, made.domain, sets) for data in (survey, other)]
    z = []
    for names in sets:
        # these records are fixed and only the draws differ, so the errors are those for exactly these records
        first, second = (estimate(c[names], made.mechanism, target="data", interval_cells=0) for c in counted)
        spread = np.hypot(first.standard_errors, second.standard_errors)
        z.append(((first.proportions - second.proportions) / spread).ravel())
    return np.concatenate(z)


def agree(z: np.ndarray) -> bool:
    return bool(np.abs(z).max() < stats.norm.isf(FALSE_ALARM / 2 / z.size))


@pytest.mark.slow
def test_reports_of_the_python_client_agree_with_perturb(made: Design, design_file: Path) -> None:
    client = vectors.load_script(vectors.CLIENTS / "python" / "optrr_client.py")
    records = people(1500)
    survey = prepared(design_file)
    url = database_url(str(design_file.with_name("survey.db")))
    app = survey_app(survey, open_database(url), Admission(new_token()), secure=False)
    sampler = client.Sampler(survey.deployment.to_bytes())

    async def answer() -> None:
        for record in records:
            body = json.dumps(sampler.report(record)).encode()
            assert (await called(app, "POST", "/reports", body, content_type="application/json")).status == 200

    asyncio.run(answer())
    true = pa.Table.from_pylist(records)
    z = deviations(design_file.with_name("survey.db"), made.mechanism.perturb(true), made)
    assert agree(z)
    # records that nobody randomized would be seen
    assert not agree(deviations(true, made.mechanism.perturb(true), made))


def answered_in_node(address: str, records: list[dict[str, str]]) -> int:
    """People who answer with the JavaScript client in Node, each with a store of their own: how many were acknowledged."""
    command = [javascript.node(), vectors.CLIENTS.parent / "tests" / "clients" / "answer_survey.mjs"]
    done = subprocess.run(
        [*command, address, javascript.CLIENT / "optrr.js"],
        input="\n".join(map(json.dumps, records)),
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


# The page's own program, as it stands on the survey's address; only the form is not filled in.
_PEOPLE = """
async (people) => {
  const { answerOnce, readDeployment } = await import("./optrr.js");
  const { deliver } = await import("./sending.js");
  const deployment = await readDeployment(await (await fetch("sampler.json")).arrayBuffer());
  const aStore = () => ({ update: async (_, change) => change(undefined, []) });
  let acknowledged = 0;
  const answer = async (answers) => {
    const { report } = await answerOnce(deployment, answers, aStore());
    const { state } = await deliver(report);
    acknowledged += state === "sent";
  };
  const next = people.values();
  const person = async () => {
    for (const answers of next) await answer(answers);
  };
  await Promise.all(Array.from({ length: 6 }, person));
  return acknowledged;
}
"""


def answered_in_chromium(address: str, records: list[dict[str, str]]) -> int:
    """The same with the program of the survey's page, in Chromium."""
    with browsers.launched() as browser:
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector("form")
        return sum(page.evaluate(_PEOPLE, records[k : k + 1000]) for k in range(0, len(records), 1000))


@pytest.mark.slow
@pytest.mark.parametrize("answered", [answered_in_node, answered_in_chromium])
def test_twenty_thousand_reports_of_the_javascript_client_agree_with_perturb(answered, made, design_file):
    records = people(20_000)
    server = Server(design_file)
    assert answered(f"http://127.0.0.1:{server.port}", records) == 20_000
    assert server.stop() == 0
    true = pa.Table.from_pylist(records)
    database = design_file.with_name("design.db")
    z = deviations(database, made.mechanism.perturb(true), made)
    print(f"{z.size} cells, largest {np.abs(z).max():.2f} standard errors, mean square {np.mean(z**2):.3f}")
    assert agree(z)
    assert not agree(deviations(true, made.mechanism.perturb(true), made))
