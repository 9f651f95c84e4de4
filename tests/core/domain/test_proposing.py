"""Specifications from data: what is proposed, what is said of it, and that the file says it again."""

import json
import math
import time
import tomllib
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optrr
from optrr.cli.main import run
from optrr.core.design.infer import Proposing, propose
from optrr.core.design.specification import Specification, read_specification
from optrr.core.domain.bins import Bins
from optrr.core.domain.domain import Attribute, Domain, binned, category_text
from optrr.core.errors import InvalidInput
from optrr.core.records.counts import count

N = 600
FRAME = pd.DataFrame(
    {
        "level": pd.Categorical.from_codes([0, 1, 2] * 200, ["never", "often", "always"], ordered=True),
        "married": [True, False] * 300,
        "kids": [0.0, 1.0, np.nan, 2.0] * 150,
        "rate": [0.5, 2.5, 6.0] * 200,
        "age": [18 + k % 70 for k in range(N)],
        "born": [date(1950 + k % 60, 1 + k % 12, 1) for k in range(N)],
        "city": ["Rome"] * 400 + ["Oslo"] * 190 + [f"village {k}" for k in range(10)],
        "answer": ["yes", "no", "NA", "."] * 150,
        "id": [f"person {k}" for k in range(N)],
        "constant": ["x"] * N,
    }
)
WANTED = Proposing(bins={"age": 4, "born": [date(1970, 1, 1), "1990-01-01", "2100-01-01"]}, missing=["NA", "."], rare=5)


def test_columns_of_a_sample_are_pointed_to(tmp_path, capsys):
    data = pd.DataFrame({"w": np.arange(99) / 7, "strata": ["a", "b", "c"] * 33})
    data.to_csv(tmp_path / "p.csv", index=False)
    assert run(["spec", str(tmp_path / "p.csv")]) == 0
    out, err = capsys.readouterr()
    assert "give it --bins w=5, or, if it is a survey weight, --public weight=w\n" in err
    assert "if this is a sampling column, give --public stratum=strata instead\n" in out and "``" not in out


def test_what_is_proposed():
    proposal = propose(FRAME, WANTED)
    domain = proposal.domain
    assert domain["level"] == Attribute("level", ("never", "often", "always"), ordered=True)
    assert domain["married"].categories == (False, True)
    assert domain["kids"].categories == (0, 1, 2, None)
    assert domain["rate"].categories == (0.5, 2.5, 6)
    assert domain["answer"] == Attribute("answer", ("no", "yes", None), missing=("NA", "."))
    assert domain["city"] == Attribute("city", ("Oslo", "Rome", "other"), rest="other")
    assert domain["born"].size == 2
    assert set(proposal.left_out) == {"id", "constant"}
    bins = domain["age"].bins
    assert bins is not None and (bins.edges[0], bins.edges[-1]) == (-math.inf, math.inf)
    shares = count(FRAME, domain, ["age"], allow_extra=True).proportions
    assert np.all(np.abs(shares - 0.25) < 0.03)
    said = " ".join(proposal.disclosed)
    for word in (
        "not private",
        "occur at least 5 times",
        "quantiles of 'age'",
        "some records have no 'kids', 'answer'",
    ):
        assert word in said
    assert all(note.startswith("confirm: ") for note in proposal.notes.values())


def test_marks_of_missing_values_are_pointed_at_and_not_taken_for_granted():
    proposal = propose(FRAME[["answer"]], Proposing())
    assert proposal.domain["answer"].categories == (".", "NA", "no", "yes")
    assert "may mean a missing value" in proposal.notes["answer", "categories"]


@pytest.mark.parametrize(
    ("data", "wanted", "message"),
    [
        (FRAME, Proposing(columns=["nope"]), "column 'nope' is missing"),
        (FRAME, Proposing(bins={"aged": 3}), "column 'aged' is missing; .*did you mean 'age'"),
        (FRAME, Proposing(bins={"city": 3}), "column 'city' is not one of numbers such as 1.5 or dates"),
        (FRAME, Proposing(bins={"age": 1}), "give two or more"),
        (FRAME, Proposing(bins={"kids": 9}), "too few different values for 9 bins|each edge once"),
        (FRAME[["id"]], Proposing(), "no column can be an attribute; column 'id' has 600 different texts"),
        (FRAME[:0], Proposing(), "contains no records"),
    ],
)
def test_what_cannot_be_proposed(data, wanted, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        propose(data, wanted)
    assert "person" not in str(caught.value)


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=5)
CATEGORY = st.one_of(TEXT, st.integers(-(10**6), 10**6), st.booleans(), st.floats(-1e3, 1e3))


@st.composite
def attributes(draw):
    """An attribute that TOML can say: the missing value last."""
    name = draw(TEXT)
    if draw(st.booleans()):
        edges = sorted(draw(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=6, unique=True)))
        closed, marks = draw(st.sampled_from(["left", "right"])), draw(st.sampled_from([(), ("NA",)]))
        return binned(name, Bins(tuple(edges), closed), marks)
    categories = draw(st.lists(CATEGORY, min_size=2, max_size=6, unique_by=category_text))
    texts = optrr.Attribute("x", tuple(categories)).texts
    missing = tuple(m for m in draw(st.sampled_from([(), ("NA", ".")])) if m not in texts)
    rest = draw(st.sampled_from([None, *(c for c in categories if isinstance(c, str))]))
    gap = [None] if draw(st.booleans()) or missing else []
    return Attribute(name, (*categories, *gap), draw(st.booleans()), None, missing, rest)


@pytest.mark.slow
@given(st.lists(attributes(), min_size=1, max_size=4, unique_by=lambda a: a.name), st.booleans())
@settings(derandomize=True, deadline=None, max_examples=150)
def test_toml_reads_back_the_same(tmp_path_factory, chosen, alike):
    domain = Domain(tuple(chosen))
    epsilons = np.full(domain.m, 1.0) if alike else np.linspace(0.1, 2, domain.m)
    path = tmp_path_factory.getbasetemp() / "again.toml"
    path.write_text(Specification(domain, epsilons).to_toml(), encoding="utf-8")
    again = read_specification(path)
    assert again.domain == domain
    np.testing.assert_array_equal(again.epsilons, epsilons)


def test_a_size_of_numbers_stays_a_size(tmp_path):
    path = tmp_path / "sizes.toml"
    path.write_text('epsilon = 1.0\n\n[[attributes]]\nname = "a"\nsize = 9\nmissing = true\n', encoding="utf-8")
    assert read_specification(path).to_toml() == path.read_text()
    domain = Domain((Attribute("a", (*map(bool, range(2)), *range(2, 9))), Attribute("b", tuple(map(str, range(9))))))
    path.write_text(Specification(domain, np.ones(2)).to_toml(), encoding="utf-8")
    assert "size" not in path.read_text()
    assert read_specification(path).domain == domain


def test_many_categories_take_time_in_proportion(tmp_path):
    names = Domain.of({"town": [f'no. {k} "{k % 7}"\\\t\x7f' for k in range(30_000)], "number": 10**6})
    path = tmp_path / "many.toml"
    began = time.process_time()
    text = Specification(names, np.ones(2)).to_toml()
    # a twentieth of a second; it took minutes when each category was looked up among those before it
    assert time.process_time() - began < 5
    assert text.endswith('name = "number"\nsize = 1000000\n')
    path.write_text(text.replace("size = 1000000", "size = 9"), encoding="utf-8")
    assert read_specification(path).domain["town"] == names["town"]


def test_infinity_in_words_is_a_text(tmp_path):
    path = tmp_path / "limits.csv"
    path.write_text("limit,count\ninf,1\n2,2\ninf,3\n", encoding="utf-8")
    assert propose(path, Proposing()).domain["limit"].categories == ("2", "inf")


def test_the_command(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("d.csv", index=False, sep=";", encoding="latin-1")
    call = ["spec", "d.csv", "--bins", "age=4", "--bins", "born=1970-01-01,1990-01-01,2100-01-01", "--rare", "5"]
    call += ["--missing", "NA", "--missing", "."]
    assert run([*call, "-o", "d.toml"]) == 0
    err = capsys.readouterr().err
    assert "not private" in err and "column 'id' is left out" in err
    text = Path("d.toml").read_text()
    keys = [x for x in text.splitlines() if "=" in x and not x.startswith(("#", "name", "ordered", "closed"))]
    assert keys and all("# confirm: " in line for line in keys)
    tomllib.loads(text)
    # CSV knows no order and no categories that do not occur; all else is as from the frame
    expected = {a.name: a for a in propose(FRAME, WANTED).domain}
    for a in read_specification("d.toml").domain:
        assert a == expected[a.name] or a.name == "level"
    assert run([*call, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["records"] == N and printed["discloses"]
    assert run([*call, "-o", "d.json"]) == 2
    assert run(["spec", "d.csv", "--bins", "age=x"]) == 2


@pytest.mark.parametrize("offset", [0, 1_950, 16_436, -700])
@pytest.mark.parametrize("spread", [8, 31, 400, 20_000])
@pytest.mark.parametrize("kind", ["dates", "whole", "fractions", "skewed"])
def test_quantiles_far_from_zero_part_the_values_evenly(offset, spread, kind):
    """Four bins of dates, years and measures: each holds a quarter, up to the values that share an edge."""
    rng = np.random.default_rng(3)
    whole = offset + rng.integers(0, spread, 4_000)
    values = {
        "dates": pd.Timestamp("1970-01-01") + pd.to_timedelta(whole, unit="D"),
        "whole": whole,
        "fractions": offset + spread * rng.random(4_000),
        "skewed": offset + rng.lognormal(0, 1, 4_000) * spread,
    }[kind]
    frame = pd.DataFrame({"x": values})
    domain = Specification.from_frame(frame, Proposing(bins={"x": 4}), epsilon=0.5).domain
    shares = count(frame, domain, ["x"]).table / 4_000
    # a value that occurs is a share of 1/spread at most, and three digits of the spread another hundredth
    assert shares.size == 4 and np.all(np.abs(shares - 0.25) <= 2 / spread + 0.02 + (kind == "skewed") * 0.03)
