"""Results as text: whole numbers and names at every width, the same digits in a column, and columns left out by name."""

import io
import sys

import numpy as np
import pyarrow as pa
import pytest

import optrr
from optrr.core.display import Table, number_format, table_text
from optrr.core.display.result import Result, TableResult

COLUMNS = ["way", "standard error", "records", "what it says of the people who were asked"]
ROWS = [
    ("sampling", 0.012345, 20_000, "everybody answers about one attribute"),
    ("a name of several words", 0.5, 3, "all answer"),
    ("東京", None, 12, ""),
]


def lines(monkeypatch, width, table):
    monkeypatch.setenv("COLUMNS", str(width))
    return table_text(table).splitlines()


@pytest.mark.parametrize("width", [30, 45, 60, 80, 120, 400])
def test_a_table_keeps_numbers_and_words_whole_and_names_columns_that_it_leaves_out(monkeypatch, width):
    text = lines(monkeypatch, width, Table(COLUMNS, ROWS, "The ways", "* the best", strong=[0]))
    assert text[0] == "The ways" and text[-1] == "* the best"
    assert all(len(line) + line.count("東") + line.count("京") <= width for line in text if "left out" not in line)
    left_out = [line for line in text if line.startswith("left out")]
    gone = left_out[0].partition(": ")[2].split(", ") if left_out else []
    assert gone == COLUMNS[len(COLUMNS) - len(gone) :] and (width < 60) == bool(gone)
    words = " ".join(text).split()
    shown = [k for k, name in enumerate(COLUMNS) if name not in gone]
    expected = {0: "sampling several words 東京", 1: "0.0123 0.5000", 2: "20000 3 12", 3: "everybody attribute all"}
    assert all(word in words for k in shown for word in expected[k].split())
    assert sum(line.startswith("* ") for line in text[:-1]) == 1


def test_numbers_stand_to_the_right_below_one_another(monkeypatch):
    text = lines(
        monkeypatch, 100, Table(["a", "estimate", "n"], [("x", -0.5, 7), ("y", 0.25, 1000), ("z", np.nan, None)])
    )
    assert text[2:] == ["x   -0.5000     7", "y    0.2500  1000", "z"]


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ([0.25, 0.0], ["0.2500", "0.0000"]),
        ([0.25, -0.00031], ["0.25000", "-0.00031"]),
        ([0.25, 3e-12], ["0.2500", "3.000e-12"]),
        ([1.1126463362852278e22, 236.0163], ["1.113e+22", "236.0"]),
        ([12345.678, 236.0163], ["12345.7", "236.0"]),
        ([np.inf, 0.5], ["inf", "0.5000"]),
    ],
)
def test_the_numbers_of_a_column_have_the_same_digits(numbers, shown):
    assert [format(x, number_format(numbers)) for x in numbers] == shown


def test_a_line_is_as_wide_as_columns_says_or_120(monkeypatch):
    widths = {}
    for columns in ("", "60", "nonsense"):
        monkeypatch.setenv("COLUMNS", columns)
        widths[columns] = max(map(len, table_text(Table(["sentence"], [("a word " * 28,)])).splitlines()))
    assert {key: (width - 1) // 10 for key, width in widths.items()} == {"": 11, "60": 5, "nonsense": 11}


def test_a_result_prints_its_headline_then_its_tables_then_its_sentences(monkeypatch):
    class Found(Result):
        def headline(self):
            return "three found"

        def tables_shown(self, most=None):
            return [Table(["a"], [(1,)]), Table(["b"], [(2,)])]

        def sentences(self):
            return ["first", "second"]

    assert str(Found()) == "three found\n\na\n─\n1\n\nb\n─\n2\n\nfirst\nsecond"
    assert repr(Found()) == "<Found: three found>"
    page = Found()._repr_html_()
    assert page.index("three found") < page.index("<table") < page.index("first")


def test_printing_shows_the_numbers():
    made = optrr.design({"a": 2, "b": 3}, 1.0)
    out = io.StringIO()
    print(made, file=out)
    assert "1.0000" in out.getvalue() and out.getvalue() == f"{made}\n" and "rich" not in sys.modules


def test_an_epsilon_in_a_table_is_never_below_what_is_spent():
    class Spent(TableResult):
        def headline(self):
            return "spent"

        def to_arrow(self):
            return pa.table(
                {"what": ["a", "b"], "epsilon": [0.12341, 1.0], "conditional_epsilon": [2.00000001, np.inf]}
            )

    assert Spent().shown().cells == [["a", "0.1235", "2.0001"], ["b", "1.0000", "inf"]]
