"""Columns with several answers in a cell are read as one attribute for each declared option, from whatever holds them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import optrr
from optrr.cli.main import run
from optrr.core.design.infer import Proposing, propose
from optrr.core.design.specification import Specification, read_specification
from optrr.core.domain.domain import Attribute, Domain
from optrr.core.errors import InvalidInput

OPTIONS = ("apples", "pears", "plums, dried")


def option(name, column="fruit", separator=";", **how):
    return Attribute(f"{column}: {name}", multi_select=(column, separator, name), **how)


DOMAIN = Domain((Attribute("sex", ("F", "M")), *map(option, OPTIONS)))
SURE = optrr.design(DOMAIN, 40.0, method="kronecker")


def chosen(n=400, seed=3):
    rng = np.random.default_rng(seed)
    return [[o for o in OPTIONS if rng.random() < 0.4] for _ in range(n)]


def frame_of(answers):
    return pd.DataFrame({"fruit": [";".join(a) for a in answers], "sex": ["FM"[k % 2] for k in range(len(answers))]})


def write(kind, answers, folder):
    frame = frame_of(answers)
    lists = pa.table({"fruit": pa.array(answers, pa.list_(pa.string())), "sex": frame["sex"].to_list()})
    if kind == "csv":
        # several CSV dialects; the separator of answers is not that of columns
        frame.to_csv(folder / "a.csv", index=False, sep="|")
    elif kind == "xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(folder / "a.xlsx", index=False)
    elif kind == "parquet":
        pq.write_table(lists, folder / "a.parquet")
    elif kind == "jsonl":
        (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lists.to_pylist()))
    return {
        "pandas": frame,
        "polars": pl.DataFrame(frame),
        "arrow": pa.table(frame).cast(pa.schema([("fruit", pa.large_string()), ("sex", pa.string())])),
        "coded": frame.astype("category"),
    }.get(kind, folder / f"a.{kind}")


@pytest.mark.parametrize("kind", ["csv", "xlsx", "parquet", "jsonl", "pandas", "polars", "arrow", "coded"])
def test_every_source_is_split_as_python_splits_it(tmp_path, monkeypatch, kind):
    """Counts of true records and of those randomized at an ε that changes nothing, in batches of 70."""
    monkeypatch.setattr("optrr.core.records.reading.source.RECORDS", 70)
    monkeypatch.setattr("optrr.core.records.frames.RECORDS", 70)
    answers = chosen()
    data, pair = write(kind, answers, tmp_path), ["fruit: pears", "sex"]
    expected = np.zeros((2, 2), dtype=int)
    for k, each in enumerate(answers):
        expected[int("pears" in each), k % 2] += 1
    assert optrr.count(data, DOMAIN, pair).table.tolist() == expected.tolist()
    released = tmp_path / "released.parquet" if isinstance(data, Path) else None
    out = SURE.randomize(data, released) if released else SURE.randomize(data)
    names = list(pq.read_schema(released).names if released else pa.table(out).schema.names)
    assert sorted(names) == sorted(DOMAIN.names)
    again = released or out
    assert optrr.reports(again, SURE).counts(pair)[0].table.tolist() == expected.tolist()
    assert optrr.count(again, DOMAIN, "fruit: plums, dried").table[1] == sum("plums, dried" in each for each in answers)


@pytest.mark.parametrize(
    ("how", "expected"),
    [({}, [3, 1]), ({"missing": ("NA",)}, [1, 1, 3]), ({"categories": ("no", "yes", None)}, [1, 1, 2])],
)
def test_an_empty_cell_is_missing_where_that_is_declared(how, expected):
    cells = ["apples", "pears", "", None] + (["NA"] if "missing" in how else [])
    domain = Domain((option("apples", **how), option("pears", **how)))
    table = optrr.count(pd.DataFrame({"fruit": cells}), domain, "fruit: apples").table
    assert table.tolist() == expected


def test_undeclared_options_are_refused_without_their_text_or_taken_by_the_rest():
    frame = frame_of([["apples"]] * 300 + [["secret", "pears"]])
    for data in (frame, pl.DataFrame(frame)):
        with pytest.raises(InvalidInput, match="column 'fruit', record 301: an option that is not declared") as refused:
            SURE.randomize(data)
        assert "secret" not in str(refused.value)
    # a wrong separator is such an option, too
    with pytest.raises(InvalidInput, match="separated by ';'"):
        optrr.count(pd.DataFrame({"fruit": ["apples,pears"], "sex": ["F"]}), DOMAIN, "fruit: pears")
    domain = Domain((*DOMAIN.attributes, option("other", rest="yes")))
    assert optrr.count(frame, domain, "fruit: other").table.tolist() == [300, 1]


def test_two_attributes_may_ask_for_one_option():
    domain = Domain((*DOMAIN.attributes, Attribute("likes pears", multi_select=("fruit", ";", "pears"))))
    frame = frame_of(chosen())
    table = optrr.count(frame, domain, ["fruit: pears", "likes pears"]).table
    assert table[0, 1] == table[1, 0] == 0 and table[1, 1] == sum("pears" in each for each in chosen())


def test_the_true_column_never_goes_through():
    frame = frame_of(chosen(20))
    with pytest.raises(InvalidInput, match="'fruit' cannot be public: it is an attribute"):
        optrr.design(DOMAIN, 2.0, public={"group": ["fruit"]}).randomize(frame)
    with pytest.raises(InvalidInput, match="the index has the name of attribute 'fruit'"):
        SURE.randomize(frame.set_index("fruit", drop=False))
    both = frame.assign(**dict.fromkeys(DOMAIN.names[1:], "no"))
    with pytest.raises(InvalidInput, match="column 'fruit' is not an attribute"):
        SURE.randomize(both)


TWO = Domain((option("a"), option("b", separator=",")))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: option("x", separator=""), "give three texts"),
        (lambda: Attribute("a", multi_select=("fruit", ";")), "give three texts"),
        (
            lambda: optrr.count(frame_of(chosen(9))[["fruit"]], TWO, "fruit: a"),
            "two separators",
        ),
        (
            lambda: optrr.count(pa.table({"fruit": [{"a": 1}]}), Domain((option("a"),)), "fruit: a"),
            "which cannot be a category",
        ),
        (lambda: SURE.randomize(pa.table({"fruit": [{"a": 1}], "sex": ["F"]})), "give texts, or lists of texts"),
        (lambda: Attribute("a", (0, 1), multi_select=("fruit", ";", "x")), "its categories are"),
        (lambda: propose(frame_of(chosen(9)), Proposing(multi_select={"fruit": ""})), "the separator is empty"),
        (lambda: propose(frame_of(chosen(9)), Proposing(multi_select={"frut": ";"})), "did you mean 'fruit'"),
    ],
)
def test_wrong_declarations_are_one_line(make, message):
    with pytest.raises(InvalidInput, match=message) as refused:
        make()
    assert "\n" not in str(refused.value)


def test_from_the_command_to_a_release(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    answers = [*chosen(), ["rare one"]]
    frame_of(answers).to_csv("a.csv", index=False)
    spec = ["spec", "a.csv", "--multi-select", "fruit=;", "--rare", "2", "--epsilon", "40", "-o", "s.toml"]
    assert run(spec) == 0
    made = read_specification("s.toml")
    assert [a.multi_select for a in made.domain] == [("fruit", ";", o) for o in (*OPTIONS, "other")] + [None]
    assert made.domain["fruit: other"].rest == "yes"
    Path("again.toml").write_text(Specification(made.domain, made.epsilons).to_toml())
    assert [vars(a)["multi_select"] for a in read_specification("again.toml").domain] == [
        a.multi_select for a in made.domain
    ]
    assert run(["design", "s.toml", "--method", "kronecker", "-o", "d.json"]) == 0
    assert run(["randomize", "a.csv", "--design", "d.json", "-o", "r.csv"]) == 0
    assert "which categories occur at least 2 times in 'fruit', 'sex'" in capsys.readouterr().err
    reports = optrr.reports("r.csv", optrr.load("d.json"))
    assert reports.counts("fruit: apples")[0].table[1] == sum("apples" in a for a in answers)
    assert reports.counts("fruit: other")[0].table[1] == 1
