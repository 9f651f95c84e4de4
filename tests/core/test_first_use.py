"""What somebody meets on the first day: raw data, odd columns, repeated options, missing answers, notebooks."""

import warnings
from pathlib import Path

import nbclient
import nbformat
import numpy as np
import pandas as pd
import pytest

import optrr
import optrr.analysis.loglinear
import optrr.analysis.measures
import optrr.analysis.regression.fitting
import optrr.analysis.synthesis.drawing
import optrr.analysis.weighting.estimating
import optrr.core.estimation
from optrr.cli.main import run
from optrr.core.design.infer import Proposing, propose
from optrr.core.design.specification import read_specification
from optrr.core.domain.datasets import adult, adult_domain
from optrr.core.errors import InvalidInput
from optrr.core.estimation.table import counted_table
from optrr.core.records.counts import count

NAMES = ["sex", "income"]


@pytest.fixture(scope="module")
def design():
    return optrr.design(adult_domain().subset(NAMES), 1.0, constraints=optrr.Constraints(preserve="pairs"))


@pytest.fixture
def place(tmp_path, monkeypatch, design):
    monkeypatch.chdir(tmp_path)
    adult().select(NAMES).to_pandas()[:2000].to_csv("raw.csv", index=False)
    optrr.save(design, "design.json")
    return tmp_path


def said_in_python(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(w.filename == __file__ for w in caught)
    return [str(w.message) for w in caught if issubclass(w.category, optrr.OptrrWarning)]


ANALYSES = {
    "estimate": lambda d, data: d.reports(data).table(*NAMES),
    "counts": lambda d, data: optrr.estimate(count(data, d.domain, NAMES), d.mechanism),
    "derive": lambda d, data: optrr.core.estimation.derive(
        counted_table(count(data, d.domain, NAMES), d.mechanism), "cramers-v"
    ),
    "test": lambda d, data: optrr.test(count(data, d.domain, NAMES), d.mechanism),
    "measure": lambda d, data: optrr.analysis.measures.measure(
        counted_table(count(data, d.domain, NAMES), d.mechanism), "odds-ratio"
    ),
    "where": lambda d, data: optrr.analysis.measures.estimate_where(
        counted_table(count(data, d.domain, NAMES), d.mechanism), {}
    ),
    "model": lambda d, data: optrr.analysis.fit_loglinear(count(data, d.domain, NAMES), d.mechanism, [NAMES]),
    "regress": lambda d, data: optrr.analysis.regression.fitting.regress(data, d.mechanism, "income ~ sex"),
    "synthesize": lambda d, data: optrr.analysis.synthesis.drawing.synthesize(data, d.mechanism, n=10),
    "weighted": lambda d, data: optrr.analysis.weighting.estimating.estimate_weighted(data, d.mechanism, ["sex"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("analysis", ANALYSES)
def test_raw_records_are_doubted_in_python(design, analysis):
    raw = adult().select(NAMES)
    said = said_in_python(lambda: ANALYSES[analysis](design, raw))
    assert any("has no provenance metadata" in line for line in said), said
    released = design.randomize(raw)
    assert not said_in_python(lambda: ANALYSES[analysis](design, released))


def test_python_doubts_what_the_command_doubts(place, design, capsys):
    said = said_in_python(lambda: design.reports("raw.csv").table(*NAMES))
    assert run(["estimate", "raw.csv", "--design", "design.json", "--attributes", ",".join(NAMES)]) == 0
    printed = [line.removeprefix("warning: ") for line in capsys.readouterr().err.splitlines()]
    assert printed == said and len(said) == 2


def test_strict_writes_nothing_where_there_is_a_warning(place, capsys):
    before = sorted(p.name for p in place.iterdir())
    estimate = ["estimate", "raw.csv", "--design", "design.json", "--attributes", "sex", "-o", "t.csv", "--strict"]
    randomize = ["randomize", "raw.csv", "--design", "design.json", "-o", "r.csv", "--strict"]
    for call in (estimate, [*randomize, "--random-state", "1"]):
        assert run(call) == 1
        out, err = capsys.readouterr()
        assert not out and "warning: " in err and "error: --strict" in err
        assert sorted(p.name for p in place.iterdir()) == before
    assert run(randomize) == 0
    assert {"r.csv", "r.csv.optrr.json"} <= {p.name for p in place.iterdir()}


@pytest.mark.parametrize(
    "repeated",
    [
        "estimate raw.csv --design design.json --attributes sex --attributes income",
        "regress raw.csv --design design.json --formula income~sex --scores sex=0,1 --scores sex=0,1",
        "spec raw.csv --bins sex=3 --bins sex=4",
        "allocate --attribute a=2 --attribute b=2 --total-epsilon 1 --min-epsilon a=.1 --min-epsilon a=.2",
    ],
)
def test_of_two_options_none_is_forgotten(place, capsys, repeated):
    assert run(repeated.split()) == 2
    assert "give it once" in capsys.readouterr().err


ODD = {
    "spellings": (["ja", " ja", "Ja", "nein"], "differ only in spaces, capitals"),
    "accents": (["café", "cafe\u0301", "tee", "tee"], "differ only in spaces, capitals or how accents"),
    "dates": (["01.03.2024", "02.03.2024", "01.03.2024", "-"], "look like dates such as 01.03.2024"),
    "commas": (["1,5", "2,25", "3", "1,5"], "decimal comma"),
    "sentinel": ([1, 2, 3, -99], "-99 may also mean a missing answer"),
    "refused": (["yes", "no", "Refused", "-"], "'Refused' may also mean a missing answer"),
    "n/a": (["yes", "no", "N/A", "-"], "'N/A' may also mean a missing answer"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_columns_are_said(name):
    values, expected = ODD[name]
    frame = pd.DataFrame({name: values, "plain": ["a", "b", "a", "b"]})
    said = propose(frame, Proposing(missing=["-"])).doubts
    assert [expected in line for line in said] == [True], said


def test_rows_that_are_no_people_are_left_out_and_said(tmp_path, monkeypatch, capsys):
    """Qualtrics' questions and ImportId rows, which randomize leaves out, too."""
    monkeypatch.chdir(tmp_path)
    ids = ",".join(f'"{{""ImportId"":""QID{k}""}}"' for k in (1, 2))
    Path("q.csv").write_text(f'Q1,Q2\n"How are\nyou?","Your ""sex"", please"\n{ids}\nGood,F\nPoor,M\nGood,F\n')
    assert run(["spec", "q.csv", "-o", "q.toml"]) == 0
    said = "two rows of headers below the names, as Qualtrics writes them, are left out"
    assert said in capsys.readouterr().err
    assert [list(a.categories) for a in read_specification("q.toml").domain] == [["Good", "Poor"], ["F", "M"]]
    assert (
        run(["design", "q.toml", "-o", "d.json"])
        == run(["randomize", "q.csv", "--design", "d.json", "-o", "o.csv"])
        == 0
    )
    assert said in capsys.readouterr().err and len(pd.read_csv("o.csv")) == 3


def test_decimal_commas_and_dates_are_read_as_pandas_reads_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng, n = np.random.default_rng(1), 400
    days = pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 20_000, n), unit="D")
    pays = [f"{x:.2f}".replace(".", ",") for x in rng.uniform(5, 90, n)]
    pd.DataFrame({"pay": pays, "born": days.strftime("%d.%m.%Y")}).to_csv("de.csv", sep=";", index=False)
    how = ["--decimal", ",", "--date-format", "%d.%m.%Y"]
    assert run(["spec", "de.csv", *how, "--bins", "pay=10,50,inf,-inf", "--bins", "born=4", "-o", "de.toml"]) == 2
    assert run(["spec", "de.csv", *how, "--bins", "pay=-inf,10,50,inf", "--bins", "born=4", "-o", "de.toml"]) == 0
    domain = read_specification("de.toml").domain
    read = pd.read_csv("de.csv", sep=";", decimal=",", parse_dates=["born"], date_format="%d.%m.%Y")
    place = optrr.RecordsAt("de.csv", decimal=",", date_format="%d.%m.%Y")
    pay, born = (optrr.count(place, domain, name).table for name in ("pay", "born"))
    np.testing.assert_array_equal(
        pay, pd.cut(read.pay, [-np.inf, 10, 50, np.inf], right=False).value_counts(sort=False)
    )
    edges = [pd.Timestamp(edge) for edge in domain["born"].bins.edges[1:-1]]
    np.testing.assert_array_equal(born, np.bincount(np.searchsorted(edges, read.born, side="right"), minlength=4))
    read.to_parquet("de.parquet")
    for option, said in (
        ("decimal", "a decimal separator"),
        ("date_format", "a format of dates"),
        ("encoding", "an encoding"),
    ):
        with pytest.raises(InvalidInput, match=rf"{said} is for CSV, and de\.parquet is read as parquet; leave out"):
            optrr.count(optrr.RecordsAt("de.parquet", **{option: ","}), domain, "pay")


def test_ordinary_columns_are_not_doubted():
    frame = pd.DataFrame(
        {"age": [30, 99, 41, 60], "n": [1, 2, 2, 1], "sex": ["f", "m", "m", "f"], "k": ["1", "2", "3", "4"]}
    )
    assert not propose(frame, Proposing()).doubts


def test_from_frame_says_what_it_leaves_out():
    frame = pd.DataFrame({"id": [f"p{k}" for k in range(60)], "sex": ["f", "m"] * 30})
    (said,) = said_in_python(lambda: optrr.Specification.from_frame(frame))
    assert said.startswith("column 'id' is left out: 60 diff")


def test_columns_that_a_specification_leaves_out_are_dropped_when_asked(place, capsys):
    frame = pd.read_csv("raw.csv").assign(id=lambda f: [f"p{k}" for k in f.index], day=1)
    frame.to_csv("people.csv", index=False)
    assert run(["spec", "people.csv", "-o", "people.toml"]) == 0
    assert run(["design", "people.toml", "-o", "design.json"]) == 0
    randomize = ["randomize", "people.csv", "--design", "design.json", "-o", "released.csv"]
    assert run(randomize) == 2
    assert "columns 'id', 'day' are not attributes" in capsys.readouterr().err
    assert run([*randomize, "--drop-undeclared"]) == 0
    assert "left out, because the design does not declare them: 'id', 'day'" in capsys.readouterr().out
    assert list(pd.read_csv("released.csv").columns) == NAMES


def test_among_is_the_ratio_of_the_unbiased_table():
    domain = optrr.Domain((optrr.Attribute("vote", ("yes", "no", None)), optrr.Attribute("sex", ("f", "m"))))
    design, rng = optrr.design(domain, 1.5, constraints=optrr.Constraints(preserve="pairs")), np.random.default_rng(1)
    counts = optrr.Counts(domain, rng.multinomial(5000, [0.3, 0.2, 0.15, 0.2, 0.1, 0.05]).reshape(3, 2))
    table = np.linalg.solve(design.mechanism.matrix().T, counts.table.ravel() / counts.n).reshape(3, 2)[:2]
    result = optrr.analysis.measures.estimate_where(counted_table(counts, design.mechanism), {"vote": ["yes", "no"]})
    np.testing.assert_allclose(result.estimate, table / table.sum(), atol=1e-9)
    assert result.domain["vote"].categories == ("yes", "no") and result.share == pytest.approx(table.sum())
    assert np.all(result.lower <= result.estimate) and np.all(result.estimate <= result.upper)
    restricted = optrr.analysis.measures.measure(
        counted_table(counts, design.mechanism), "odds-ratio", where={"vote": ["yes", "no"]}
    )
    assert restricted.rows[0].estimate == pytest.approx(
        table[1, 1] * table[0, 0] / (table[1, 0] * table[0, 1]), rel=0.1
    )
    for wrong in ({"vote": ["yes", "maybe"]}, {"vote": ["yes"]}, {"age": ["1", "2"]}):
        with pytest.raises(InvalidInput):
            optrr.analysis.measures.estimate_where(counted_table(counts, design.mechanism), wrong)


@pytest.mark.slow
def test_intervals_among_cover():
    # 150 tables of 4 shares at 95 %: with independent tables fewer than 90 % of the shares covered has a chance below 1e-4
    domain = optrr.Domain((optrr.Attribute("vote", ("yes", "no", None)), optrr.Attribute("sex", ("f", "m"))))
    mechanism, rng = (
        optrr.design(domain, 1.0, constraints=optrr.Constraints(preserve="pairs")).mechanism,
        np.random.default_rng(5),
    )
    truth = np.array([[0.3, 0.2], [0.2, 0.2], [0.05, 0.05]])
    reports, shares = mechanism.kernel(domain.names).forward(truth).ravel(), truth[:2] / truth[:2].sum()
    hits = []
    for _ in range(150):
        counts = optrr.Counts(domain, rng.multinomial(2000, reports / reports.sum()).reshape(3, 2))
        result = optrr.analysis.measures.estimate_where(counted_table(counts, mechanism), {"vote": ["yes", "no"]})
        hits.append((result.lower <= shares) & (shares <= result.upper))
    assert np.mean(hits) > 0.9


@pytest.mark.slow
def test_notebooks_show_figures_and_short_errors():
    source = [
        "import optrr\nd = optrr.design(optrr.Domain.of({'a': ['x', 'y'], 'b': 3}), 1.0)\nd.plot()",
        "import pandas as pd\nd.reports(pd.DataFrame({'a': ['x', 'z'], 'b': [0, 1]})).table('a')",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in source])
    nbclient.NotebookClient(book, allow_errors=True, kernel_name="python3").execute()
    figure, error = book.cells[0].outputs[0], book.cells[1].outputs[-1]
    assert figure["data"]["image/svg+xml"].startswith("<svg")
    line, said = error["traceback"]
    assert line.startswith("line 2: d.reports(") and said.startswith("InvalidInput: col")


@pytest.mark.parametrize(
    "call",
    [
        ["verify", "design.json", "--worksheet", "x.html"],
        ["design", "--attribute", "a=2:1", "-o", "x.html"],
        ["design", "--attribute", "a=2:1", "-o", "x.json", "--html", "x.pdf"],
        ["export", "design.json", "-o", "x.csv"],
    ],
)
def test_a_suffix_says_what_is_written(place, capsys, call):
    before = sorted(p.name for p in place.iterdir())
    assert run(call) == 2
    error = capsys.readouterr().err
    assert "is written as ." in error or "must be ." in error
    assert sorted(p.name for p in place.iterdir()) == before


@pytest.mark.parametrize(
    ("declared", "value", "said"),
    [
        (optrr.Bins((10, 20, 30)), "59.6", "a number outside the bins; they are"),
        (tuple(range(10, 70)), "59.6", r"unknown category \(a number\)"),
        (("a", "b"), "59.6", r"unknown category \(a number\)"),
    ],
)
def test_numbers_are_called_numbers(tmp_path, declared, value, said):
    (tmp_path / "x.csv").write_text(f"a\n{value}\n")
    with pytest.raises(InvalidInput, match=said) as caught:
        count(tmp_path / "x.csv", optrr.Domain.of({"a": declared}), ["a"])
    assert value not in str(caught.value).partition("declared")[0].partition("they are")[0]
