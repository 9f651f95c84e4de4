"""One table of analyses: what a command prints is what the method of reports returns, with and without a sample's columns."""

import json
import shlex
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import optrr
from optrr import Attribute, Domain
from optrr.cli.main import run
from optrr.ways.protocols.sampled_tables import SampledTables

DOMAIN = Domain(
    (
        Attribute("sex", ("F", "M")),
        Attribute("level", (1, 2, 5)),
        Attribute("town", ("a", "b", "c"), missing=("NA",)),
        Attribute("hurt", ("no", "yes")),
    )
)
SAMPLE = {"weights": "w", "strata": "region", "clusters": "school", "single_cluster": "centred"}
OPTIONS = "--weight w --stratum region --cluster school --single-cluster centred"
POOL, WOMEN = {"town": ["b", "c"]}, {"sex": "F"}
TERMS = [{"of": {"level": 5}, "among": {"sex": sex}, "weight": weight} for sex, weight in (("F", 1), ("M", -1))]
SHARES = " ".join(f"--share '{json.dumps(term)}'" for term in TERMS)

# Commands beside the methods that they call; ``how`` is empty or names the sample's columns.
EITHER = {
    "estimate --attributes level,sex --among town=a,b": lambda r, how: r.table(
        "level", "sex", among={"town": ["a", "b"]}, **how
    ),
    "estimate --attributes town,sex --ignorable town": lambda r, how: r.table("town", "sex", ignorable="town", **how),
    "estimate --attributes town --complete-cases": lambda r, how: r.table("town", complete_cases=True, **how),
    "measure --attributes sex,level --measure odds-ratio --reference M": lambda r, how: r.measure(
        "odds-ratio", "sex", "level", reference="M", **how
    ),
    "measure --attributes sex,level --measure means --scores level=1,2,9 --among town=a,b --simultaneous": (
        lambda r, how: r.measure(
            "means", "sex", "level", scores=[1, 2, 9], among={"town": ["a", "b"]}, simultaneous=True, **how
        )
    ),
    "measure --attributes sex,town --measure row-shares --complete-cases": lambda r, how: r.measure(
        "row-shares", "sex", "town", complete_cases=True, **how
    ),
    "share --of level=5 --among sex=F": lambda r, how: r.share("level", 5, among=WOMEN, **how),
    f"contrast {SHARES}": lambda r, how: r.contrast(*TERMS, **how),
    "quantile --attributes level --at 0.2,0.5 --among sex=F": lambda r, how: r.quantiles(
        "level", [0.2, 0.5], among=WOMEN, **how
    ),
    "regress --formula 'hurt ~ sex + level'": lambda r, how: r.regress("hurt ~ sex + level", **how),
    "measure --attributes sex,town --measure odds-ratio --pool town=b,c": lambda r, how: r.pooled(POOL).measure(
        "odds-ratio", "sex", "town", **how
    ),
}
RECORDS = {
    "estimate --attributes town,sex": lambda r: r.table("town", "sex"),
    "estimate --attributes level,sex --method mle": lambda r: r.table("level", "sex", method="mle"),
    "estimate --attributes level,sex --method adjusted --simultaneous": lambda r: r.table(
        "level", "sex", method="adjusted", simultaneous=True
    ),
    "estimate --attributes level,sex --simultaneous --tables 2": lambda r: r.tables(["level", "sex"], ["town"])[0],
    "estimate --attributes town,sex --pool town=b,c": lambda r: r.pooled(POOL).table("town", "sex"),
    "test --attributes sex,level --random-state 1": lambda r: r.test("sex", "level", random_state=1),
    "test --attributes sex,level --test trend --scores level=0,1,9 --random-state 1": lambda r: r.test(
        "sex", "level", hypothesis="trend", scores=(None, [0, 1, 9]), random_state=1
    ),
    "test --attributes sex,level --test common-trend --given hurt --random-state 1": lambda r: r.test(
        "sex", "level", hypothesis="common-trend", given="hurt", random_state=1
    ),
    "test --attributes sex,level --also sex,hurt --adjust bh --random-state 1": lambda r: r.tests(
        [["sex", "level"], ["sex", "hurt"]], adjust="bh", random_state=1
    ),
    "test --attributes sex,town --pool town=b,c": lambda r: r.pooled(POOL).test("sex", "town"),
    "model --attributes sex,level,hurt --terms sex*level+hurt --simultaneous": lambda r: r.model(
        "sex*level+hurt", simultaneous=True
    ),
    "model --attributes sex,level,hurt --stepwise 2": lambda r: r.model(
        attributes=("sex", "level", "hurt"), stepwise=2
    ),
    "model --attributes sex,town --terms sex*town --pool town=b,c": lambda r: r.pooled(POOL).model("sex*town"),
    "regress --formula 'hurt ~ sex + region' --true-predictors region": lambda r: r.regress(
        "hurt ~ sex + region", public=["region"]
    ),
    "regress --formula 'hurt ~ level' --scores level=1,2,4": lambda r: r.regress(
        "hurt ~ level", scores={"level": [1, 2, 4]}
    ),
    "regress --formula 'level ~ sex' --family linear --confidence 0.9": lambda r: r.regress(
        "level ~ sex", family="linear", confidence=0.9
    ),
    "regress --formula 'hurt ~ sex' --unweighted": lambda r: r.regress("hurt ~ sex", unweighted=True),
    "estimate --attributes town,sex --pool 25%": lambda r: r.pooled("25%", "town", "sex").table("town", "sex"),
    "regress --formula 'hurt ~ town' --pool town=b,c": lambda r: r.pooled(POOL).regress("hurt ~ town"),
}


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Reports of a design and of questions, as files and opened; 1 of 3 strata has one cluster."""
    folder, rng, n = tmp_path_factory.mktemp("analyses"), np.random.default_rng(2), 900
    sex, school = rng.integers(0, 2, n), rng.integers(0, 8, n)
    region = rng.integers(0, 3, n)
    level = np.digitize(0.7 * sex + rng.normal(size=n), [-0.5, 1.2])
    town = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    hurt = (rng.random(n) < 0.3 + 0.2 * sex).astype(int)
    codes = dict(zip(DOMAIN.names, (sex, level, town, hurt), strict=True))
    frame = pd.DataFrame({a.name: [a.texts[c] for c in codes[a.name]] for a in DOMAIN})
    frame["town"] = np.array(["a", "b", "c", None], dtype=object)[town]
    design = optrr.design(DOMAIN, 3.0, preserve="pairs")
    beside = {"w": rng.uniform(0.5, 3, n), "region": region, "school": np.where(region == 2, 0, school)}
    released = design.randomize(frame, random_state=1).assign(**beside).fillna({"town": "NA"})
    optrr.save(design, folder / "d.json")
    released.to_csv(folder / "r.csv", index=False)
    asking = SampledTables(DOMAIN, (DOMAIN.names,), np.ones(1), 4.0)
    optrr.save(asking, folder / "q.json")
    pq.write_table(asking.perturb(frame, 5), folder / "a.parquet")
    return SimpleNamespace(
        reports=design.reports(folder / "r.csv"),
        answers=asking.reports(folder / "a.parquet"),
        records=[str(folder / "r.csv"), "--design", str(folder / "d.json")],
        answered=[str(folder / "a.parquet"), "--design", str(folder / "q.json")],
    )


def asked(place, line, *more):
    name, *options = shlex.split(line)
    return run([name, *place, *options, *more])


def check(capsys, place, line, result):
    """JSON is the result's summary; what is printed as text, on one line."""
    assert asked(place, line, "--json") == 0
    printed, wanted = json.loads(capsys.readouterr().out), json.loads(json.dumps(result.summary()))
    same = wanted.keys() - {"doubts", "seconds"}
    assert {k: printed[k] for k in same} == {k: wanted[k] for k in same}
    assert asked(place, line) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "900" in shown
    if "trend" in line:
        assert "scores of the categories: level" in shown
    return shown


@pytest.mark.slow
@pytest.mark.parametrize("line", [*EITHER, *RECORDS])
def test_command_prints_what_the_method_returns(given, capsys, line):
    result = EITHER[line](given.reports, {}) if line in EITHER else RECORDS[line](given.reports)
    check(capsys, given.records, line, result)


@pytest.mark.slow
@pytest.mark.parametrize("line", EITHER)
def test_command_prints_what_the_method_returns_of_a_sample(given, capsys, line):
    result = EITHER[line](given.reports, SAMPLE)
    assert "weighted" in check(capsys, given.records, f"{line} {OPTIONS}", result)
    assert any("only one cluster" in warning for warning in result.warnings)
    assert any("'w'" in warning and "public" in warning for warning in result.warnings)


@pytest.mark.slow
def test_command_tests_independence_of_a_sample(given, capsys):
    result = given.reports.test("sex", "level", **SAMPLE)
    assert "Rao and Scott" in check(capsys, given.records, f"test --attributes sex,level {OPTIONS}", result)


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in EITHER if "--pool" not in line and "--ignorable" not in line])
def test_command_prints_what_the_method_returns_of_answers(given, capsys, line):
    check(capsys, given.answered, line, EITHER[line](given.answers, {}))
    assert asked(given.answered, line, "--weight", "w") == 2
    assert "answers to questions take no --weight" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in EITHER if line.split()[0] != "contrast"])
def test_command_writes_a_table_and_a_page(given, capsys, tmp_path, line):
    table, page = tmp_path / "t.csv", tmp_path / "p.html"
    assert asked(given.records, line, "-o", str(table), "--report", str(page)) == 0
    assert list(pd.read_csv(table).columns) == list(EITHER[line](given.reports, {}).to_pandas().columns)
    assert page.stat().st_size > 1000


@pytest.mark.slow
def test_command_compares_models(given, capsys, tmp_path):
    line = "model --attributes sex,level,hurt --terms sex*level+hurt --random-state 1 --simultaneous"
    larger, page = "sex*level+sex*hurt+level*hurt", tmp_path / "page.html"
    assert asked(given.records, line, "--against", larger, "--json", "--report", str(page)) == 0
    compared = json.loads(capsys.readouterr().out)["comparison"]
    assert compared["smaller"] == "hurt + sex*level" and compared["df"] == 3 and 0 <= compared["score"]["p_value"] <= 1
    assert "likelihood ratio" in page.read_text()
    assert asked(given.records, line, "--against", larger) == 0
    shown = capsys.readouterr().out
    assert "hurt + sex*level against sex*level + sex*hurt + level*hurt: score" in shown
    assert "intervals for all" in shown


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("measure --attributes sex,level --measure means --scores level=1,x", "--scores level=1,x takes numbers"),
        ("measure --attributes sex,level --measure means --scores 1,2,4", "write --scores"),
        ("measure --attributes sex,level --measure means --scores sex=1,2", "given for 'sex'; it is for 'level'"),
        ("regress --formula 'hurt ~ level' --scores level:1,2", "write --scores"),
        ("test --attributes sex,level --scores level=0,1,2", "--scores is for --test trend"),
        ("test --attributes sex,level --test trend --scores hurt=0,1", "it is for 'sex', 'level'"),
        ("test --attributes sex,level --test trend --scores level=0,1", "3 categories; give a finite score"),
        ("estimate --attributes sex,level --scores level=0,1,2", "--scores is for --derive correlation"),
        ("test --attributes sex,level --given hurt --test trend", "--given is for --test conditional-independence or"),
        ("test --attributes sex,level --given hurt --calibration bootstrap", "leave out --calibration"),
        ("test --attributes sex --given hurt", "--given is for an association of two"),
        ("test --attributes sex,level --test common-trend", "needs --given"),
        ("model --attributes sex,level", "--terms or searched"),
        ("model --attributes sex,level,hurt --terms sex*level --against level*hurt+sex", "not a part of"),
        ("share --of wealth=1", "is not understood"),
        ("share --of level=1 --of level=2", "given twice"),
        ("contrast --share {", "is not JSON"),
        ("quantile --attributes level,sex", "name one"),
        ("test --attributes sex,level --also level,sex", "would count twice"),
        ("quantile --attributes level --at half", "is not understood"),
        ("estimate --attributes level --tables 3", "give --simultaneous"),
        ("estimate --attributes town --complete-cases --method mle", "takes no --method"),
        ("test --attributes sex,level --adjust bh", "family of tests"),
        ("share --of level=5 --weight w --stratum region --cluster school", "have only one cluster"),
        ("share --of level=5 --single-cluster centred", "none is declared"),
        ("measure --attributes sex,level --measure means --weight w --unweighted", "--unweighted ignores"),
        ("estimate --attributes level --among town=a --by region", "takes no --among"),
        ("estimate --attributes level --among town=a --derive entropy --weight w", "takes no --derive"),
        ("estimate --attributes level --method mle --weight w", "takes no --method"),
        ("test --attributes sex,level --pool few", "give a share such as 1%"),
    ],
)
def test_command_refuses_in_a_line(given, capsys, line, said):
    assert asked(given.records, line) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "line",
    [
        "estimate --attributes sex --method mle",
        "test --attributes sex,level --bootstrap 9",
        "model --attributes sex,level --stepwise 2",
    ],
)
def test_command_refuses_answers_in_a_line(given, capsys, line):
    assert asked(given.answered, line) == 2
    assert capsys.readouterr().err.count("\n") == 1
