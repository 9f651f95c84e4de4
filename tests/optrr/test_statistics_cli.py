"""optrr estimate --derive, test of goodness of fit and homogeneity, power: the library's answers, and refusals in one line."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import optrr
from optrr.cli.main import run
from optrr.designs.design_file import save_design
from optrr.models.tests import drawn_power
from optrr.models.tests.homogeneity import goodness_of_fit, homogeneity
from optrr.models.tests.power_analysis import (
    IntervalWidths,
    alternative_of,
    goodness_alternative,
    homogeneity_alternative,
    power,
    predicted_power,
    required_records,
)
from optrr.tables.estimation.derived import derive
from optrr.tables.estimation.statistics import STATISTICS

TRUTH = np.array([[0.20, 0.10], [0.15, 0.25], [0.05, 0.25]])
SHARES = ",".join(str(x) for x in TRUTH.ravel())
CALL = ("--design", "design.json", "--attributes", "grade,sex")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A design and two groups of randomized records."""
    monkeypatch.chdir(tmp_path)
    domain = optrr.Domain.of({"grade": 3, "sex": ["F", "M"], "other": 4})
    made = optrr.design(domain, 1.5, preserve="pairs")
    save_design(made, "design.json")
    for k, name in enumerate(("here.csv", "there.csv")):
        rng = np.random.default_rng(k)
        cell = rng.choice(6, 4000, p=TRUTH.ravel())
        codes = np.stack([cell // 2, cell % 2, rng.integers(0, 4, 4000)], axis=1)
        rows = made.mechanism.perturb_codes(codes, k)
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


def test_derived_statistics(place, capsys):
    printed = answer(capsys, "estimate", "here.csv", *CALL, *(x for s in STATISTICS for x in ("--derive", s)))
    for got, s in zip(printed["derived"], STATISTICS, strict=True):
        assert got == json.loads(json.dumps(derive(counted(place, "here.csv"), place.mechanism, s).summary()))
    assert "derived" not in answer(capsys, "estimate", "here.csv", *CALL)
    assert run(["estimate", "here.csv", *CALL, "--derive", "cramers-v"]) == 0
    assert "cramers-v" in capsys.readouterr().out
    single = ("estimate", "here.csv", "--design", "design.json", "--attributes", "sex", "--derive")
    assert answer(capsys, *single, "entropy")["derived"][0]["statistic"] == "entropy"
    assert "two attributes" in refused(capsys, *single, "correlation")
    assert "is not one of" in refused(capsys, *single, "median")


def test_goodness_of_fit(place, capsys):
    call = ("test", "here.csv", *CALL, "--test", "goodness-of-fit")
    printed = answer(capsys, *call, "--proportions", SHARES)
    expected = goodness_of_fit(counted(place, "here.csv"), place.mechanism, TRUTH)
    assert (printed["statistic"], printed["p_value"], printed["df"]) == (expected.statistic, expected.p_value, 5)
    # the same from a nested list
    Path("null.json").write_text(json.dumps(TRUTH.tolist()))
    assert answer(capsys, *call, "--proportions", "null.json") == printed
    assert run([*call, "--proportions", SHARES]) == 0
    assert "goodness-of-fit of grade × sex: statistic" in capsys.readouterr().out
    Path("wrong.json").write_text('{"table": []}')
    for options, message in (
        ((), "needs --proportions"),
        (("--proportions", "0.5,0.5"), "has shape (2,)"),
        (("--proportions", "a,b,c,d,e,f"), "not a number"),
        (("--proportions", "1,1,1,1,1,1"), "sum to 1"),
        (("--proportions", "wrong.json"), "missing required field `attributes`"),
        (("--proportions", SHARES, "--calibration", "bootstrap"), "exact p-values where χ² is not good enough"),
    ):
        assert message in refused(capsys, *call, *options)


def test_proportions_from_an_estimate_are_of_the_attributes_it_names(place, capsys):
    """Tables of alike sizes are alike in shape: only the file's own words tell which axis is which."""
    domain = optrr.Domain.of({"a": ["x", "y"], "b": ["x", "y"], "c": ["x", "y"]})
    save_design(optrr.design(domain, 1.5, preserve="pairs"), "design.json")
    Path("here.csv").write_text("a,b,c\n" + "x,x,x\n" * 60 + "x,y,y\n" * 55 + "y,x,x\n" * 40 + "y,y,y\n" * 45)
    call = ("here.csv", "--design", "design.json", "--attributes")
    Path("ab.json").write_text(json.dumps(answer(capsys, "estimate", *call, "a,b")))
    fit = ("--test", "goodness-of-fit", "--proportions")
    # no cell is at its bound, so the unbiased estimate fits its own table exactly, which a transposed table would not
    assert answer(capsys, "test", *call, "a,b", *fit, "ab.json")["statistic"] < 1e-9
    assert answer(capsys, "test", *call, "b,a", *fit, "ab.json")["statistic"] < 1e-9
    turned = ",".join(str(x) for x in np.array(json.loads(Path("ab.json").read_text())["estimate"]).T.ravel())
    assert answer(capsys, "test", *call, "a,b", *fit, turned)["statistic"] > 1
    assert "is a table of 'a', 'b', not of 'a', 'c'" in refused(capsys, "test", *call, "a,c", *fit, "ab.json")
    held = json.loads(Path("ab.json").read_text())
    Path("ab.json").write_text(json.dumps(held | {"categories": [["x", "y"], ["y", "x"]]}))
    assert "other categories" in refused(capsys, "test", *call, "a,b", *fit, "ab.json")
    Path("ab.json").write_text(json.dumps(held | {"estimate": [[1.0], [0.0, 0.0]]}))
    assert "not a number" in refused(capsys, "test", *call, "a,b", *fit, "ab.json")
    negative = "0.6,0.5,-0.1,0"
    assert "method projection" in refused(capsys, "test", *call, "a,b", *fit, negative)
    power_of = ("power", "--design", "design.json", "--attributes")
    message = refused(capsys, *power_of, "a,b", "--proportions", negative)
    assert "none negative" in message and "smallest -0.1; of estimates take" in message
    assert "nothing to see" in refused(capsys, *power_of, "a,b", "--proportions", "0.25,0.25,0.25,0.25")
    assert "name two" in refused(capsys, *power_of, "a", "--proportions", "0.5,0.5")


def test_what_is_not_reliable_is_said_once(place, capsys):
    far = ",".join(str(x) for x in np.full(6, 1 / 6))
    assert run(["test", "here.csv", *CALL, "--test", "goodness-of-fit", "--proportions", far]) == 0
    printed = capsys.readouterr()
    assert "may be off by more than a factor of two here" in printed.out
    report = answer(capsys, "test", "here.csv", *CALL, "--test", "goodness-of-fit", "--proportions", far)
    assert not report["reliable"] and report["p_value"] < report["reliable_down_to"] < 1


def test_homogeneity(place, capsys):
    call = ("test", "here.csv", *CALL, "--test", "homogeneity")
    printed = answer(capsys, *call, "--group", "there.csv")
    expected = homogeneity([counted(place, "here.csv"), counted(place, "there.csv")], place.mechanism)
    assert (printed["statistic"], printed["p_value"]) == (expected.statistic, expected.p_value)
    assert (printed["df"], printed["n"]) == (5, 8000)
    Path("third.csv").write_text("".join(Path("here.csv").read_text().splitlines(keepends=True)[:2001]))
    assert answer(capsys, *call, "--group", "there.csv", "--group", "third.csv")["df"] == 10
    assert "needs --group" in refused(capsys, *call)
    # a group that was not randomized is told of, whether it is the first or the last
    Path("raw.csv").write_text("grade,sex,other\n" + "0,F,0\n" * 4000)
    for first, second in (("raw.csv", "here.csv"), ("here.csv", "raw.csv")):
        capsys.readouterr()
        assert run(["test", first, *CALL, "--test", "homogeneity", "--group", second]) == 0
        assert "does not look like data randomized by this design" in capsys.readouterr().err
    # groups with the same answers, and with fewer ones than the randomization alone is expected to make
    save_design(optrr.design({"a": 2}, 4.0), "few.json")
    Path("few.csv").write_text("a\n" + "0\n" * 986 + "1\n" * 14)
    Path("alike.csv").write_text("a\n" + "1\n" * 14 + "0\n" * 986)
    same = ["test", "few.csv", "--design", "few.json", "--attributes", "a", "--test", "homogeneity"]
    same += ["--group", "alike.csv"]
    assert answer(capsys, *same)["p_value"] == 1
    assert run(same) == 0 and "rejects at most α of the time" in capsys.readouterr().out
    assert "is for --test homogeneity" in refused(capsys, "test", "here.csv", *CALL, "--group", "there.csv")
    assert "is for --test goodness-of-fit" in refused(capsys, *call, "--group", "there.csv", "--proportions", SHARES)


@pytest.fixture
def few_surveys(monkeypatch):
    """Powers of few drawn surveys: enough where the command is held against the functions."""
    monkeypatch.setattr(drawn_power, "_MOST_SURVEYS", 2000)


@pytest.mark.slow
@pytest.mark.usefixtures("few_surveys")
@pytest.mark.parametrize("name", ["independence", "trend"])
def test_power(place, capsys, name):
    kernel = place.mechanism.kernel(("grade", "sex"))
    effect = alternative_of(name, TRUTH, kernel, domain=place.domain.subset(["grade", "sex"]))  # type: ignore[arg-type]
    call = ("power", *CALL, "--proportions", SHARES, "--test", name)
    printed = answer(capsys, *call, "--n", "500", "--power", "0.9", "--level", "0.01")
    assert printed["required_n"] == required_records(effect, 0.9, 0.01)
    own = predicted_power(effect, 500, 0.01)
    assert (printed["power"], printed["power_source"]) == (own.power, own.source) == (power(effect, 500, 0.01), "drawn")
    assert printed["power_standard_error"] == own.standard_error
    printed = answer(capsys, *call)
    assert printed["power"] is None
    assert printed["power_standard_error"] == predicted_power(effect, printed["required_n"]).standard_error
    assert run([*call, "--n", "500"]) == 0
    shown = capsys.readouterr().out
    assert "records for power 0.8" in shown
    assert f"standard error of this power {100 * predicted_power(effect, 500).standard_error:.2g} points" in shown


@pytest.mark.usefixtures("few_surveys")
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_power_beside_what_no_mechanism_keeps(place, capsys, epsilon):
    """Of one attribute, half of the people in each category, tanh²(ε/2) is kept, and sinh²(ε/2) is the bound."""
    assert run(["design", "--attribute", f"sex=2:{epsilon}", "-o", "one.json", "--json"]) == 0
    capsys.readouterr()
    call = ("power", "--design", "one.json", "--attributes", "sex", "--test", "goodness-of-fit")
    printed = answer(capsys, *call, "--proportions", "0.501,0.499", "--against", "0.5,0.5")
    assert printed["noncentrality_kept"] == pytest.approx(math.tanh(epsilon / 2) ** 2, rel=1e-6)
    assert printed["noncentrality_bound"] == pytest.approx(min(1.0, math.sinh(epsilon / 2) ** 2), rel=1e-12)


OTHER = np.array([[0.30, 0.20], [0.20, 0.15], [0.05, 0.10]])


@pytest.mark.slow
@pytest.mark.usefixtures("few_surveys")
def test_power_of_every_test_and_records_for_a_width(place, capsys):
    kernel = place.mechanism.kernel(("grade", "sex"))
    call = ("power", *CALL, "--proportions", SHARES)
    other = ",".join(str(x) for x in OTHER.ravel())
    shared = ("--against", other, "--shares", "0.3,0.7")
    for name, effect, options in (
        ("genotypic", alternative_of("genotypic", TRUTH, kernel), ()),
        ("likelihood-ratio", alternative_of("likelihood-ratio", TRUTH, kernel), ()),
        ("goodness-of-fit", goodness_alternative(TRUTH, OTHER, kernel), ("--against", other)),
        ("homogeneity", homogeneity_alternative([TRUTH, OTHER], kernel, [0.3, 0.7]), shared),
    ):
        printed = answer(capsys, *call, "--test", name, *options)
        assert (printed["required_n"], printed["df"]) == (required_records(effect), effect.df)
        assert 0 < printed["noncentrality_kept"] < printed["noncentrality_bound"]
    widths = IntervalWidths(place.domain.subset(["grade", "sex"]), place.mechanism, TRUTH, 0.9)
    printed = answer(capsys, *call, "--width", "0.05", "--confidence", "0.9")
    assert 0.0499 < widths.widest(printed["required_n"]) == printed["widest"] <= 0.05
    assert printed["checked_n"] == widths.checked(printed["required_n"])
    assert run([*call, "--width", "0.05"]) == 0
    said = capsys.readouterr().out
    assert "no 95% interval of a cell of grade × sex is wider than 0.05" in said and "so with more, tried up to" in said
    for wrong, said in (
        (("--power", "1.5"), "power = 1.5"),
        (("--n", "10", "--level", "2"), "level = 2"),
        (("--width", "2"), "width = 2.0; give"),
        (("--against", other), "--against is the hypothesis of goodness-of-fit"),
        (("--test", "homogeneity"), "another group's proportions of homogeneity"),
        (("--shares", "0.5,0.5"), "--shares is for homogeneity"),
        (("--test", "homogeneity", "--against", other, "--shares", "x"), "not a number"),
        (("--test", "homogeneity", "--against", other, "--shares", "1,1"), "positive ones that sum to 1"),
        (("--test", "common-trend"), "--given is for"),
    ):
        assert said in refused(capsys, *call, *wrong)
