"""Records of a survey carry what its specification declared: they estimate as a randomized file of the same records does."""

import csv
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("starlette", reason="the survey's server needs the extra serve")

from optrr.cli.main import run as run_command
from optrr.designs.specification import read_specification
from optrr.mechanisms.perturb import perturb
from optrr.records.reading.registry import open_source
from optrr.survey.preparing import Survey, prepared
from optrr.survey.store import Report, Store, begin_survey, database_url, open_database
from optrr.survey.stored_records import Packing

SPECIFICATION = """
epsilon = 1.5
[[attributes]]
name = "age"
bins = [-inf, 18, 40, 65, inf]
missing = ["NA", "99"]
[[attributes]]
name = "grade"
categories = ["low", "middle", "high"]
ordered = true
rest = "low"
[[attributes]]
name = "dose"
categories = [0, 0.5, 1]
[[attributes]]
name = "member"
categories = [true, false]
missing = ["?"]
[[attributes]]
name = "born"
bins = [1900-01-01, 1970-01-01, 2000-01-01]
[[attributes]]
name = "mixed"
categories = [1, "one"]
[[attributes]]
name = "huge"
categories = [1, 36893488147419103232]
"""
N = 300


@pytest.fixture
def survey(tmp_path: Path) -> Survey:
    path = tmp_path / "questions.toml"
    path.write_text(SPECIFICATION)
    return prepared(path)


def truth(path: Path) -> None:
    """Raw records as people's files have them: numbers and dates for bins, marks, undeclared values."""
    rng = np.random.default_rng(0)
    columns = {
        "age": rng.choice(["17", "18", "39.5", "70", "NA", "99"], N),
        "grade": rng.choice(["low", "middle", "high", "none of these"], N),
        "dose": rng.choice(["0", "0.5", "1.0"], N),
        "member": rng.choice(["true", "FALSE", "?"], N),
        "born": rng.choice(["1969-12-31", "1970-01-01", "1999-05-05"], N),
        "mixed": rng.choice(["1", "one"], N),
        "huge": rng.choice(["1", "36893488147419103232"], N),
    }
    lines = [",".join(row) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([",".join(columns), *lines]) + "\n")


def kept(survey: Survey, randomized: Path, database: Path) -> None:
    """A survey's database with the records of a randomized CSV file as reports, one after another."""
    engine = open_database(database_url(str(database)))
    begin_survey(engine, survey.files)
    with randomized.open(newline="") as file:
        header, *lines = csv.reader(file)
    packing, domain = Packing(survey.design.domain), survey.design.domain
    order = [header.index(name) for name in domain.names]
    rows = [[a.codes[line[k] or None] for a, k in zip(domain, order, strict=True)] for line in lines]
    Store(engine).add([Report(os.urandom(16), packing.pack(row)) for row in rows])
    engine.dispose()


@pytest.mark.slow
@pytest.mark.parametrize("names", ["age", "age,grade", "dose,member", "born,mixed", "huge"])
def test_a_survey_estimates_as_a_randomized_file_of_the_same_records(names, survey, tmp_path, capsys):
    truth(tmp_path / "true.csv")
    design, randomized, database = (str(tmp_path / n) for n in ("questions.design.json", "random.csv", "s.db"))
    assert run_command(["perturb", str(tmp_path / "true.csv"), "--design", design, "-o", randomized]) == 0
    kept(survey, Path(randomized), Path(database))
    said = []
    for source in (randomized, database):
        capsys.readouterr()
        assert run_command(["estimate", source, "--design", design, "--attributes", names, "--json"]) == 0
        said.append(json.loads(capsys.readouterr().out))
    assert said[0]["n"] == N
    assert said[0] == said[1]


def test_everything_declared_is_there(survey: Survey, tmp_path: Path) -> None:
    truth(tmp_path / "true.csv")
    perturb(tmp_path / "true.csv", survey.design.mechanism, tmp_path / "random.csv")
    kept(survey, tmp_path / "random.csv", tmp_path / "s.db")
    records = open_source(tmp_path / "s.db")
    # bins, order, marks and the rest take part in this comparison
    assert records.domain == read_specification(tmp_path / "questions.toml").domain
    ordered = pa.dictionary(pa.int32(), pa.string(), ordered=True)
    types = [ordered, ordered, pa.float64(), pa.bool_(), ordered, pa.string(), pa.string()]
    assert records.schema.types == types
    table = pa.Table.from_batches(list(records.batches(records.column_names())), records.schema)
    pq.write_table(table, tmp_path / "reports.parquet")
    frame = pq.read_table(tmp_path / "reports.parquet").to_pandas()
    assert list(frame["age"].cat.categories) == ["< 18", "[18, 40)", "[40, 65)", ">= 65"]
    assert frame["grade"].cat.ordered and list(frame["grade"].cat.categories) == ["low", "middle", "high"]
    assert table.num_rows == N
