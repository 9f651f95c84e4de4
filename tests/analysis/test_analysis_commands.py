"""What a command of analysis prints is what the method of reports returns; refusals in one line."""

import json
import math
import shlex
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import optrr
from optrr import Attribute, Domain
from optrr.allocation.sampled_tables import SampledTables
from optrr.cli.main import run
from optrr.core.design.design_file import save_design
from optrr.core.estimation.derived import derive
from optrr.core.estimation.statistics import STATISTICS
from optrr.core.estimation.table import counted_table
from optrr.core.inference import drawn_power
from optrr.core.inference.groups import goodness_of_fit, homogeneity
from optrr.core.inference.power_analysis import (
    IntervalWidths,
    alternative_of,
    goodness_alternative,
    homogeneity_alternative,
    power,
    predicted_power,
    required_records,
)

DOMAIN = Domain(
    (
        Attribute("sex", ("F", "M")),
        Attribute("level", (1, 2, 5)),
        Attribute("town", ("a", "b", "c"), missing=("NA",)),
        Attribute("hurt", ("no", "yes")),
    )
)
SAMPLE = {"sample": optrr.Sample(weights="w", strata="region", psu="school", lonely_psu="centred")}
OPTIONS = "--weights w --strata region --psu school --lonely-psu centred"
SEED = optrr.Bootstrap(random_state=1)
POOL, WOMEN = {"town": ["b", "c"]}, {"sex": "F"}
TERMS = [{"of": {"level": 5}, "where": {"sex": sex}, "weight": weight} for sex, weight in (("F", 1), ("M", -1))]
SHARES = " ".join(f"--term '{json.dumps(term)}'" for term in TERMS)

# Commands beside the methods that they call; ``how`` is empty or names the sample's columns.
EITHER = {
    "estimate --attributes level,sex --where town=a,b": lambda r, how: r.table(
        "level", "sex", where={"town": ["a", "b"]}, **how
    ),
    "estimate --attributes town,sex --missing-at-random town": lambda r, how: r.table(
        "town", "sex", missing=optrr.MissingAtRandom("town"), **how
    ),
    "estimate --attributes town --complete-cases": lambda r, how: r.table("town", missing="complete-cases", **how),
    "estimate --attributes sex,level --statistic odds-ratio --reference sex=M": lambda r, how: r.measure(
        "odds-ratio", "sex", "level", coding={"sex": "M"}, **how
    ),
    "estimate --attributes sex,level --statistic means --scores level=1,2,9 --where town=a,b --simultaneous": (
        lambda r, how: r.measure(
            "means", "sex", "level", coding={"level": [1, 2, 9]}, where={"town": ["a", "b"]}, simultaneous=True, **how
        )
    ),
    "estimate --attributes sex,town --statistic row-proportions --complete-cases": lambda r, how: r.measure(
        "row-proportions", "sex", "town", missing="complete-cases", **how
    ),
    "estimate --statistic proportion --of level=5 --where sex=F": lambda r, how: r.proportion(
        {"level": 5}, where=WOMEN, **how
    ),
    f"estimate --statistic contrast {SHARES}": lambda r, how: r.contrast(*TERMS, **how),
    "estimate --statistic quantile --attributes level --probabilities 0.2,0.5 --where sex=F": lambda r, how: (
        r.quantiles("level", [0.2, 0.5], where=WOMEN, **how)
    ),
    "regress --formula 'hurt ~ sex + level'": lambda r, how: r.regress("hurt ~ sex + level", **how),
    "estimate --attributes sex,town --statistic odds-ratio --collapse town=b,c": lambda r, how: r.collapsed(
        POOL
    ).measure("odds-ratio", "sex", "town", **how),
}
RECORDS = {
    "estimate --attributes town,sex": lambda r: r.table("town", "sex"),
    "estimate --attributes level,sex --method mle": lambda r: r.table("level", "sex", method="mle"),
    "estimate --attributes level,sex --method adjusted --simultaneous": lambda r: r.table(
        "level", "sex", method="adjusted", simultaneous=True
    ),
    "estimate --attributes town,sex --collapse town=b,c": lambda r: r.collapsed(POOL).table("town", "sex"),
    "test --attributes sex,level --random-state 1": lambda r: r.test("sex", "level", calibration=SEED),
    "test --attributes sex,level --hypothesis trend --scores level=0,1,9 --random-state 1": lambda r: r.test(
        "sex", "level", hypothesis="trend", scores={"level": [0, 1, 9]}, calibration=SEED
    ),
    "test --attributes sex,level --hypothesis common-trend --given hurt --random-state 1": lambda r: r.test(
        "sex", "level", hypothesis="common-trend", given="hurt", calibration=SEED
    ),
    "test --attributes sex,level --also sex,hurt --adjust bh --random-state 1": lambda r: r.tests(
        [["sex", "level"], ["sex", "hurt"]], adjust="bh", calibration=SEED
    ),
    "test --attributes sex,town --collapse town=b,c": lambda r: r.collapsed(POOL).test("sex", "town"),
    "model --attributes sex,level,hurt --terms sex*level+hurt --simultaneous": lambda r: r.model(
        "sex*level+hurt", simultaneous=True
    ),
    "model --attributes sex,level,hurt --stepwise 2": lambda r: r.model(
        attributes=("sex", "level", "hurt"), stepwise=2
    ),
    "model --attributes sex,town --terms sex*town --collapse town=b,c": lambda r: r.collapsed(POOL).model("sex*town"),
    "regress --formula 'hurt ~ sex + region' --public region": lambda r: r.regress(
        "hurt ~ sex + region", public=["region"]
    ),
    "regress --formula 'hurt ~ level' --scores level=1,2,4": lambda r: r.regress(
        "hurt ~ level", scores={"level": [1, 2, 4]}
    ),
    "regress --formula 'level ~ sex' --family linear --confidence 0.9": lambda r: r.regress(
        "level ~ sex", family="linear", confidence=0.9
    ),
    "regress --formula 'hurt ~ sex' --unweighted": lambda r: r.regress("hurt ~ sex", sample="ignore"),
    "estimate --attributes town,sex --collapse 25%": lambda r: r.collapsed("25%", "town", "sex").table("town", "sex"),
    "regress --formula 'hurt ~ town' --collapse town=b,c": lambda r: r.collapsed(POOL).regress("hurt ~ town"),
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
    design = optrr.design(DOMAIN, 3.0, constraints=optrr.Constraints(preserve="pairs"))
    beside = {"w": rng.uniform(0.5, 3, n), "region": region, "school": np.where(region == 2, 0, school)}
    released = design.randomize(frame, random_state=1).assign(**beside).fillna({"town": "NA"})
    optrr.save(design, folder / "d.json")
    released.to_csv(folder / "r.csv", index=False)
    asking = SampledTables(DOMAIN, (DOMAIN.names,), np.ones(1), 4.0)
    optrr.save(asking, folder / "q.json")
    pq.write_table(asking.randomize(frame, random_state=5), folder / "a.parquet")
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
@pytest.mark.parametrize(
    "line", [line for line in EITHER if "--collapse" not in line and "--missing-at-random" not in line]
)
def test_command_prints_what_the_method_returns_of_answers(given, capsys, line):
    check(capsys, given.answered, line, EITHER[line](given.answers, {}))
    assert asked(given.answered, line, "--weights", "w") == 2
    assert "--weights: answers to local queries have no public columns" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in EITHER if "contrast" not in line])
def test_command_writes_a_table_and_a_page(given, capsys, tmp_path, line):
    table, page = tmp_path / "t.csv", tmp_path / "p.html"
    assert asked(given.records, line, "-o", str(table), "--html", str(page)) == 0
    assert list(pd.read_csv(table).columns) == list(EITHER[line](given.reports, {}).to_pandas().columns)
    assert page.stat().st_size > 1000


@pytest.mark.slow
def test_command_compares_models(given, capsys, tmp_path):
    line = "model --attributes sex,level,hurt --terms sex*level+hurt --random-state 1 --simultaneous"
    larger, page = "sex*level+sex*hurt+level*hurt", tmp_path / "page.html"
    assert asked(given.records, line, "--against", larger, "--json", "--html", str(page)) == 0
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
        (
            "estimate --attributes sex,level --statistic means --scores level=1,x",
            "--scores '1,x': not a list of numbers",
        ),
        ("estimate --attributes sex,level --statistic means --scores 1,2,4", "write NAME=VALUE"),
        ("estimate --attributes sex,level --statistic means --scores sex=1,2", "'sex' makes the groups"),
        ("regress --formula 'hurt ~ level' --scores level:1,2", "write NAME=VALUE"),
        ("test --attributes sex,level --scores level=0,1,2", "scores are for the trend test; leave the scores out"),
        (
            "test --attributes sex,level --hypothesis trend --scores hurt=0,1",
            "--scores: 'hurt' is not among 'sex', 'level'",
        ),
        ("test --attributes sex,level --hypothesis trend --scores level=0,1", "3 categories; give a finite score"),
        ("estimate --attributes sex,level --scores level=0,1,2", "--scores: not accepted by a table"),
        (
            "test --attributes sex,level --given hurt --hypothesis trend",
            "--given: only for conditional-independence or",
        ),
        ("test --attributes sex,level --given hurt --calibration bootstrap", "--calibration: not available"),
        ("test --attributes sex --given hurt", "--given: an association is of two"),
        ("test --attributes sex,level --hypothesis common-trend", "--given: missing"),
        ("model --attributes sex,level", "searched with --stepwise; give one"),
        ("model --attributes sex,level,hurt --terms sex*level --against level*hurt+sex", "not a part of"),
        ("estimate --statistic proportion --of wealth=1", "no attribute 'wealth'"),
        ("estimate --statistic proportion --of level=1 --of level=2", "given twice"),
        ("estimate --statistic contrast --term {", "--term {: not JSON"),
        ("estimate --statistic quantile --attributes level,sex", "name one"),
        ("test --attributes sex,level --also level,sex", "would count twice"),
        ("estimate --statistic quantile --attributes level --probabilities half", "not a list of numbers"),
        ("estimate --attributes town --complete-cases --method mle", "--method: excludes --complete-cases"),
        ("test --attributes sex,level --adjust bh", "family of tests"),
        (
            "estimate --statistic proportion --of level=5 --weights w --strata region --psu school",
            "have only one cluster",
        ),
        ("estimate --statistic proportion --of level=5 --lonely-psu centred", "--lonely-psu: no column describes"),
        (
            "estimate --attributes sex,level --statistic means --weights w --unweighted",
            "--weights: excludes --unweighted",
        ),
        ("estimate --attributes level --where town=a --by region", "--by: excludes --where"),
        (
            "estimate --attributes level --by sex",
            "--by: 'sex' is randomized; use --attributes sex,level --statistic row-proportions",
        ),
        (
            "estimate --attributes level --where town=a --statistic entropy --weights w",
            "--where: not accepted by entropy",
        ),
        ("estimate --attributes level --method mle --weights w", "is not defined for a weighted"),
        ("test --attributes sex,level --collapse few", "give one such as 1%"),
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
        "test --attributes sex,level --draws 9",
        "model --attributes sex,level --stepwise 2",
    ],
)
def test_command_refuses_answers_in_a_line(given, capsys, line):
    assert asked(given.answered, line) == 2
    assert capsys.readouterr().err.count("\n") == 1


TRUTH = np.array([[0.20, 0.10], [0.15, 0.25], [0.05, 0.25]])
PROPORTIONS = ",".join(str(x) for x in TRUTH.ravel())
CALL = ("--design", "design.json", "--attributes", "grade,sex")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A design and two groups of randomized records."""
    monkeypatch.chdir(tmp_path)
    domain = optrr.Domain.of({"grade": 3, "sex": ["F", "M"], "other": 4})
    made = optrr.design(domain, 1.5, constraints=optrr.Constraints(preserve="pairs"))
    save_design(made, "design.json")
    for k, name in enumerate(("here.csv", "there.csv")):
        rng = np.random.default_rng(k)
        cell = rng.choice(6, 4000, p=TRUTH.ravel())
        codes = np.stack([cell // 2, cell % 2, rng.integers(0, 4, 4000)], axis=1)
        rows = made.mechanism.randomize_codes(codes, k)
        Path(name).write_text("grade,sex,other\n" + "".join(f"{a},{'FM'[b]},{c}\n" for a, b, c in rows))
    return made


def answer(capsys, *arguments):
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    text = capsys.readouterr().out
    assert text.count("\n") == 1
    return json.loads(text)


def refused(capsys, *arguments):
    capsys.readouterr()
    assert run(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("error: ") and captured.err.count("\n") == 1
    return captured.err


def counted(made, name):
    return optrr.count(name, made.domain, ["grade", "sex"], allow_extra=True)


def test_statistics_of_a_table(place, capsys):
    for name in STATISTICS:
        table = counted_table(counted(place, "here.csv"), place.mechanism)
        expected = json.loads(json.dumps(derive(table, name).summary()))
        got = answer(capsys, "estimate", "here.csv", *CALL, "--statistic", name)
        assert {key: got[key] for key in expected} == expected
    assert run(["estimate", "here.csv", *CALL, "--statistic", "cramers-v"]) == 0
    assert "cramers-v" in capsys.readouterr().out
    single = ("estimate", "here.csv", "--design", "design.json", "--attributes", "sex", "--statistic")
    assert answer(capsys, *single, "entropy")["statistic"] == "entropy"
    assert "two attributes" in refused(capsys, *single, "correlation")
    assert "is not one of" in refused(capsys, *single, "median")


def test_goodness_of_fit(place, capsys):
    call = ("test", "here.csv", *CALL, "--hypothesis", "goodness-of-fit")
    printed = answer(capsys, *call, "--proportions", PROPORTIONS)
    expected = goodness_of_fit(counted(place, "here.csv"), place.mechanism, TRUTH)
    assert (printed["statistic"], printed["p_value"], printed["df"]) == (expected.statistic, expected.p_value, 5)
    # the same from a nested list
    Path("null.json").write_text(json.dumps(TRUTH.tolist()))
    assert answer(capsys, *call, "--proportions", "null.json") == printed
    assert run([*call, "--proportions", PROPORTIONS]) == 0
    assert "goodness-of-fit of grade × sex: statistic" in capsys.readouterr().out
    Path("wrong.json").write_text('{"table": []}')
    for options, message in (
        ((), "--proportions: missing"),
        (("--proportions", "0.5,0.5"), "each of the 6 cells"),
        (("--proportions", "a,b,c,d,e,f"), "not a list of numbers"),
        (("--proportions", "1,1,1,1,1,1"), "sum to 1"),
        (("--proportions", "wrong.json"), "estimate that table"),
        (("--proportions", PROPORTIONS, "--calibration", "bootstrap"), "--calibration: not available"),
    ):
        assert message in refused(capsys, *call, *options)


def test_proportions_from_an_estimate_are_of_the_attributes_it_names(place, capsys):
    """Tables of alike sizes are alike in shape: only the file's own words tell which axis is which."""
    domain = optrr.Domain.of({"a": ["x", "y"], "b": ["x", "y"], "c": ["x", "y"]})
    save_design(optrr.design(domain, 1.5, constraints=optrr.Constraints(preserve="pairs")), "design.json")
    Path("here.csv").write_text("a,b,c\n" + "x,x,x\n" * 60 + "x,y,y\n" * 55 + "y,x,x\n" * 40 + "y,y,y\n" * 45)
    call = ("here.csv", "--design", "design.json", "--attributes")
    Path("ab.json").write_text(json.dumps(answer(capsys, "estimate", *call, "a,b")))
    fit = ("--hypothesis", "goodness-of-fit", "--proportions")
    # no cell is at its bound, so the unbiased estimate fits its own table exactly, which a transposed table would not
    assert answer(capsys, "test", *call, "a,b", *fit, "ab.json")["statistic"] < 1e-9
    assert answer(capsys, "test", *call, "b,a", *fit, "ab.json")["statistic"] < 1e-9
    turned = ",".join(str(x) for x in np.array(json.loads(Path("ab.json").read_text())["estimate"]).T.ravel())
    assert answer(capsys, "test", *call, "a,b", *fit, turned)["statistic"] > 1
    assert "nor an estimate of 'a', 'c'" in refused(capsys, "test", *call, "a,c", *fit, "ab.json")
    held = json.loads(Path("ab.json").read_text())
    Path("ab.json").write_text(json.dumps(held | {"categories": [["x", "y"], ["y", "x"]]}))
    assert "nor an estimate of 'a', 'b'" in refused(capsys, "test", *call, "a,b", *fit, "ab.json")
    Path("ab.json").write_text(json.dumps(held | {"estimate": [[1.0], [0.0, 0.0]]}))
    assert "not a list of numbers" in refused(capsys, "test", *call, "a,b", *fit, "ab.json")
    negative = "0.6,0.5,-0.1,0"
    assert "method projection" in refused(capsys, "test", *call, "a,b", *fit, negative)
    power_of = ("power", "--design", "design.json", "--attributes")
    message = refused(capsys, *power_of, "a,b", "--truth", negative)
    assert message.startswith("error: --truth: numbers of shape (2, 2) with sum 1 and smallest -0.1; give proportions")
    assert "no effect to detect" in refused(capsys, *power_of, "a,b", "--truth", "0.25,0.25,0.25,0.25")
    assert "name two" in refused(capsys, *power_of, "a", "--truth", "0.5,0.5")


def test_what_is_not_reliable_is_said_once(place, capsys):
    far = ",".join(str(x) for x in np.full(6, 1 / 6))
    assert run(["test", "here.csv", *CALL, "--hypothesis", "goodness-of-fit", "--proportions", far]) == 0
    printed = capsys.readouterr()
    assert "may be off by more than a factor of two here" in printed.out
    report = answer(capsys, "test", "here.csv", *CALL, "--hypothesis", "goodness-of-fit", "--proportions", far)
    assert not report["reliable"] and report["p_value"] < report["reliable_down_to"] < 1


def test_homogeneity(place, capsys):
    call = ("test", "here.csv", *CALL, "--hypothesis", "homogeneity")
    printed = answer(capsys, *call, "--group", "there.csv")
    expected = homogeneity([counted(place, "here.csv"), counted(place, "there.csv")], place.mechanism)
    assert (printed["statistic"], printed["p_value"]) == (expected.statistic, expected.p_value)
    assert (printed["df"], printed["n"]) == (5, 8000)
    Path("third.csv").write_text("".join(Path("here.csv").read_text().splitlines(keepends=True)[:2001]))
    assert answer(capsys, *call, "--group", "there.csv", "--group", "third.csv")["df"] == 10
    assert "--group: missing" in refused(capsys, *call)
    # a group that was not randomized is told of, whether it is the first or the last
    Path("raw.csv").write_text("grade,sex,other\n" + "0,F,0\n" * 4000)
    for first, second in (("raw.csv", "here.csv"), ("here.csv", "raw.csv")):
        capsys.readouterr()
        assert run(["test", first, *CALL, "--hypothesis", "homogeneity", "--group", second]) == 0
        assert "does not look like data randomized by this design" in capsys.readouterr().err
    # groups with the same answers, and with fewer ones than the randomization alone is expected to make
    save_design(optrr.design({"a": 2}, 4.0), "few.json")
    Path("few.csv").write_text("a\n" + "0\n" * 986 + "1\n" * 14)
    Path("alike.csv").write_text("a\n" + "1\n" * 14 + "0\n" * 986)
    same = ["test", "few.csv", "--design", "few.json", "--attributes", "a", "--hypothesis", "homogeneity"]
    same += ["--group", "alike.csv"]
    assert answer(capsys, *same)["p_value"] == 1
    assert run(same) == 0 and "(bootstrap)" in capsys.readouterr().out
    # it is what follows from a group
    assert answer(capsys, "test", "here.csv", *CALL, "--group", "there.csv") == printed
    independence = ("test", "here.csv", *CALL, "--hypothesis", "independence", "--group", "there.csv")
    assert "--group: only for homogeneity; leave this argument out for independence" in refused(capsys, *independence)
    both = (*call, "--group", "there.csv", "--proportions", PROPORTIONS)
    assert "--proportions: only for goodness-of-fit; leave this argument out for homogeneity" in refused(capsys, *both)


@pytest.fixture
def few_surveys(monkeypatch):
    """Powers of few drawn surveys: enough where the command is held against the functions."""
    monkeypatch.setattr(drawn_power, "_MOST_SURVEYS", 2000)


@pytest.mark.slow
@pytest.mark.usefixtures("few_surveys")
@pytest.mark.parametrize("name", ["independence", "trend"])
def test_power(place, capsys, name):
    kernel = place.mechanism.kernel(("grade", "sex"))
    effect = alternative_of(name, TRUTH, kernel, domain=place.domain.subset(["grade", "sex"]))
    call = ("power", *CALL, "--truth", PROPORTIONS, "--hypothesis", name)
    needed = answer(capsys, *call, "--power", "0.9", "--alpha", "0.01")
    assert needed["n"] == required_records(effect, 0.9, 0.01) and needed["power"] >= 0.9
    printed = answer(capsys, *call, "--n", "500", "--alpha", "0.01")
    own = predicted_power(effect, 500, 0.01)
    assert (printed["power"], printed["power_source"]) == (own.power, own.source) == (power(effect, 500, 0.01), "drawn")
    assert printed["power_standard_error"] == own.standard_error
    assert run([*call, "--n", "500"]) == 0
    error = predicted_power(effect, 500).standard_error
    assert f"standard error of this power {100 * error:.2g} points" in capsys.readouterr().out


@pytest.mark.usefixtures("few_surveys")
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_power_beside_what_no_mechanism_keeps(place, capsys, epsilon):
    """Of one attribute, half of the people in each category, tanh²(ε/2) is kept, and sinh²(ε/2) is the bound."""
    assert run(["design", "--attribute", f"sex=2:{epsilon}", "-o", "one.json", "--json"]) == 0
    capsys.readouterr()
    call = ("power", "--design", "one.json", "--attributes", "sex")
    printed = answer(capsys, *call, "--truth", "0.501,0.499", "--proportions", "0.5,0.5")
    assert printed["noncentrality_kept"] == pytest.approx(math.tanh(epsilon / 2) ** 2, rel=1e-6)
    assert printed["noncentrality_bound"] == pytest.approx(min(1.0, math.sinh(epsilon / 2) ** 2), rel=1e-12)


OTHER = np.array([[0.30, 0.20], [0.20, 0.15], [0.05, 0.10]])


def texts(*tables):
    return [word for table in tables for word in ("--truth", ",".join(str(x) for x in table.ravel()))]


@pytest.mark.slow
@pytest.mark.usefixtures("few_surveys")
def test_power_of_every_test_and_records_for_a_width(place, capsys):
    kernel = place.mechanism.kernel(("grade", "sex"))
    call, one = ("power", *CALL), texts(TRUTH)
    for name, effect, options in (
        ("genotypic", alternative_of("genotypic", TRUTH, kernel), one),
        ("likelihood-ratio", alternative_of("likelihood-ratio", TRUTH, kernel), one),
        ("goodness-of-fit", goodness_alternative(TRUTH, OTHER, kernel), [*one, "--proportions", texts(OTHER)[1]]),
        ("homogeneity", homogeneity_alternative([TRUTH, OTHER], kernel), texts(TRUTH, OTHER)),
        ("homogeneity", homogeneity_alternative([TRUTH, OTHER], kernel, [0.3, 0.7]), texts(0.3 * TRUTH, 0.7 * OTHER)),
    ):
        printed = answer(capsys, *call, "--hypothesis", name, *options)
        assert (printed["n"], printed["df"]) == (required_records(effect), effect.df)
        assert 0 < printed["noncentrality_kept"] < printed["noncentrality_bound"]
    widths = IntervalWidths(place.domain.subset(["grade", "sex"]), place.mechanism, TRUTH, 0.9)
    printed = answer(capsys, *call, *one, "--width", "0.05", "--confidence", "0.9")
    assert 0.0499 < widths.widest(printed["n"]) == printed["widest"] <= 0.05
    assert run([*call, *one, "--width", "0.05"]) == 0
    assert "no 95% interval of a cell of grade × sex is wider than 0.05" in capsys.readouterr().out
    for wrong, said in (
        (("--power", "1.5"), "--power: 1.5"),
        (("--n", "10", "--alpha", "2"), "--alpha: 2"),
        (("--n", "10", "--power", "0.9"), "--power: excludes --n"),
        (("--width", "2"), "--width: 2"),
        (("--hypothesis", "goodness-of-fit"), "--proportions: missing"),
        (("--hypothesis", "trend", "--proportions", PROPORTIONS), "--proportions: only for goodness-of-fit"),
        (("--hypothesis", "homogeneity"), "1 groups with 1 shares"),
        (("--truth", texts(OTHER)[1]), "--truth: numbers of shape"),
        (("--hypothesis", "common-trend"), "--given: missing"),
        (("--scores", "grade=1,2,3"), "--scores: only for trends"),
    ):
        assert said in refused(capsys, *call, *one, *wrong)
