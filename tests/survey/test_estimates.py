"""What a survey's reports estimate agrees with what `perturb` of the same records estimates, within their standard errors."""

import asyncio
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import vectors
from scipy import stats

import optrr

pytest.importorskip("starlette", reason="the survey's server needs the extra serve")

from survey_client import called

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
