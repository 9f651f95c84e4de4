"""Files of Excel, SPSS and Stata are read as pandas and pyreadstat wrote them, or refused in one line."""

import datetime as dt
import sys

import numpy as np
import pandas as pd
import pytest

import optrr
from optrr.cli.main import run
from optrr.core.errors import InvalidInput
from optrr.core.records.reading.registry import open_source

pyreadstat = pytest.importorskip("pyreadstat")
pytest.importorskip("openpyxl")

SUFFIXES = (".xlsx", ".sav", ".dta")
SEX = {1: "female", 2: "male"}


def frame_of(seed, n=300):
    """Codes with labels and gaps, whole numbers, fractions, dates with gaps, texts in any script; no row is blank."""
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 20_000, n)
    return pd.DataFrame(
        {
            "sex": rng.choice([1.0, 2.0, np.nan], n),
            "kids": rng.integers(0, 12, n),
            "share": rng.choice([0.1, 0.25, 1 / 3, 7.0], n),
            "born": [None if d % 7 == 0 else dt.date(1950, 1, 1) + dt.timedelta(int(d)) for d in days],
            "town": rng.choice(["Köln", "東京", "a b", "7"], n),
            "open": rng.choice(["", "x"], n),
        }
    )


def write(frame, path):
    if path.suffix == ".xlsx":
        frame.assign(sex=frame["sex"].map(SEX)).to_excel(path, index=False)
    elif path.suffix == ".sav":
        pyreadstat.write_sav(frame, path, variable_value_labels={"sex": SEX})
    else:
        labelled = frame.assign(
            born=pd.to_datetime(frame["born"]),
            share=frame["share"].astype(np.float32),
            sex=frame["sex"].astype("Float64"),
        )
        labelled.to_stata(path, write_index=False, version=118, value_labels={"sex": SEX}, convert_dates={"born": "td"})
    return path


def texts_of(frame):
    """The same values as CSV would hold them."""
    missing = frame.isna() | (frame == "")
    as_text = {
        "sex": frame["sex"].map(SEX),
        "kids": frame["kids"].map(str),
        "share": frame["share"].map(lambda value: "7" if value == 7 else repr(float(value))),
        "born": frame["born"].map(str),
        "town": frame["town"],
        "open": frame["open"],
    }
    return {name: [None if gap else v for v, gap in zip(as_text[name], missing[name], strict=True)] for name in as_text}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("seed", range(4))
def test_every_value_is_read_as_its_text_or_label(tmp_path, monkeypatch, suffix, seed):
    """Independent reference: the frame that pandas or pyreadstat wrote."""
    frame = frame_of(seed)
    expected = texts_of(frame)
    if suffix == ".dta":
        expected["share"] = [str(np.float32(v)).removesuffix(".0") for v in frame["share"]]
    monkeypatch.setattr("optrr.core.records.reading.program_files.RECORDS", 70)
    source = open_source(write(frame, tmp_path / f"a{suffix}"))
    assert source.schema.names == list(frame) and source.rows in (None, len(frame))
    for columns in (list(frame), ["town", "sex"]):
        batches = [batch.to_pydict() for batch in source.batches(columns)]
        assert len(batches) == 5
        assert {name: [v for b in batches for v in b[name]] for name in columns} == {n: expected[n] for n in columns}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_from_a_specification_to_an_estimate(tmp_path, monkeypatch, capsys, suffix):
    monkeypatch.chdir(tmp_path)
    write(frame_of(9), tmp_path / f"true{suffix}")
    columns = [f for name in ("sex", "town", "born") for f in ("--column", name)]
    assert run(["spec", f"true{suffix}", *columns, "--bins", "born=3", "--epsilon", "30", "-o", "spec.toml"]) == 0
    assert run(["design", "spec.toml", "--method", "kronecker", "-o", "design.json"]) == 0
    randomize = ["randomize", f"true{suffix}", "--design", "design.json", "--drop-undeclared", "-o"]
    assert run([*randomize, "released.parquet"]) == 0
    capsys.readouterr()
    counted = optrr.reports("released.parquet", optrr.load("design.json")).counts(("sex", "town"))[0]
    frame = frame_of(9)
    expected = pd.crosstab(frame["sex"].map(SEX).fillna("none"), frame["town"])
    assert counted.table.sum() == 300
    for i, sex in enumerate(counted.domain["sex"].texts):
        for j, town in enumerate(counted.domain["town"].texts):
            assert counted.table[i, j] == expected.loc[sex or "none", town]


def test_values_that_spss_declares_missing_are_missing_and_labels_differ(tmp_path):
    frame = pd.DataFrame({"x": [1.0, 2.0, 98.0, 99.0], "y": [1.0, 2.0, 1.0, 2.0]})
    labels = {"x": {98: "no answer", 99: "no answer"}, "y": {1: "same", 2: "same"}}
    pyreadstat.write_sav(frame, tmp_path / "a.sav", variable_value_labels=labels, missing_ranges={"x": [98, 99]})
    source = open_source(tmp_path / "a.sav")
    assert next(source.batches(["x"])).to_pydict() == {"x": ["1", "2", None, None]}
    with pytest.raises(InvalidInput, match="column 'y' gives two values one label"):
        list(source.batches(["y"]))


def test_a_sheet_is_the_first_and_may_mix_numbers_and_texts(tmp_path):
    """Blank rows at its end are no records, and columns without a name no columns; a domain may declare the empty text."""
    with pd.ExcelWriter(tmp_path / "a.xlsx") as book:
        cells = [
            ["x", None, "y"],
            [1, "note", True],
            [None, None, None],
            ["2+", None, None],
            [2.5, None, dt.time(7)],
            [None] * 3,
        ]
        # pandas writes None as a blank cell
        pd.DataFrame(cells, dtype=object).to_excel(book, sheet_name="data", index=False, header=False)
        pd.DataFrame({"z": [1]}).to_excel(book, sheet_name="more", index=False)
    (batch,) = open_source(tmp_path / "a.xlsx").batches(["x", "y"])
    assert batch.to_pydict() == {"x": ["1", None, "2+", "2.5"], "y": ["true", None, None, "07:00:00"]}
    domain = optrr.Domain.of({"y": ["true", "", "07:00:00"]})
    assert optrr.count(tmp_path / "a.xlsx", domain, "y", allow_extra=True).table.tolist() == [1, 2, 1]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_cannot_be_read_is_refused_in_one_line(tmp_path, monkeypatch, suffix):
    whole = write(frame_of(1), tmp_path / f"a{suffix}").read_bytes()
    (tmp_path / f"b{suffix}").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidInput, match="it is damaged") as refused:
        source = open_source(tmp_path / f"b{suffix}")
        list(source.batches(source.column_names()))
    assert "\n" not in str(refused.value)
    for library in ("openpyxl", "pyreadstat"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InvalidInput, match=r"which is not installed: pip install 'optrr\[files\]'"):
        open_source(tmp_path / f"a{suffix}")


@pytest.mark.parametrize("kind", ["excel", "spss", "stata", "parquet"])
def test_what_is_not_read_from_start_to_end_cannot_come_through_a_pipe(kind):
    with pytest.raises(InvalidInput, match="cannot come through a pipe"):
        open_source(optrr.RecordsAt("-", format=kind))
