"""Every kind of column that people have: what it means, that it comes back, and that releases tell nothing by their types."""

import json
import math
import sqlite3
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise, product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from genotypes import cohort_of
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather

import optrr
from optrr import genomics
from optrr.allocation.sampled_tables import load_sampled_tables
from optrr.core.design.design_file import load_design
from optrr.core.domain.bins import Bins, bins_of
from optrr.core.domain.domain import Attribute, Domain, binned
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.mechanism import Mechanism, ReleaseOptions
from optrr.core.mechanisms.release import release_file
from optrr.core.provenance.accounting import Release
from optrr.core.provenance.provenance import Provenance
from optrr.core.records import frames
from optrr.core.records.counts import count
from optrr.core.records.observed import observed_domain
from optrr.core.records.reading import text_files
from optrr.core.records.reading.source import RecordsAt
from optrr.genomics.genotypes import MISSING
from optrr.genomics.layout import layout_of
from optrr.genomics.randomize import randomized_cohort, records_of
from optrr.genomics.writing import write_plink, write_records
from optrr.longitudinal.design import longitudinal
from optrr.longitudinal.rounds import Key, randomize_wave
from optrr_solvers.laws import ProductLaw

LEVELS = ["never", "often", "always"]  # not alphabetical


def unchanged(domain):
    """A mechanism that changes nothing: e^-1000 is 0."""
    return Mechanism(domain, ProductLaw(domain.sizes, np.full(domain.m, 1000.0)))


def codes(data, attribute, rows):
    """How often each category occurs, as a list of codes would say it."""
    table = count(data, Domain((attribute,)), [attribute.name]).table
    assert table.tolist() == np.bincount(rows, minlength=attribute.size).tolist()


def bin_by_hand(value, edges, closed):
    """The bin of one value by looking at one after the other."""
    for k, (low, high) in enumerate(pairwise(edges)):
        if (low <= value < high) if closed == "left" else (low < value <= high):
            return k
    return -1


@pytest.mark.slow
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=8, unique=True).map(sorted),
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20),
    st.sampled_from(["left", "right"]),
    st.booleans(),
)
@settings(derandomize=True, deadline=None, max_examples=200)
def test_bins_agree_with_comparing_one_by_one_and_with_pandas(edges, values, closed, open_ended):
    edges = [-math.inf, *edges, math.inf] if open_ended else edges
    values = [*values, *edges[1:-1]]
    bins = Bins(tuple(edges), closed)
    numbers = bins.codes(np.array(values)).tolist()
    assert numbers == [bin_by_hand(v, edges, closed) for v in values]
    if closed == "right":
        assert numbers == pd.cut(values, edges, labels=False, right=True).astype(float).tolist() or -1 in numbers
    assert bins_of(bins.record(), closed) == bins
    assert len(set(bins.labels)) == len(bins.labels) == len(edges) - 1


COLUMNS = {
    "int64": pa.array([5, 17, 18, 64, 65, 99]),
    "int8": pa.array([5, 17, 18, 64, 65, 99], pa.int8()),
    "float": pa.array([5.5, 17.999, 18.0, 64.0, 65.0, 99.5]),
    "float16": pa.array(np.array([5.5, 17, 18.0, 64.0, 65.0, 99.5], np.float16)),
    "decimal": pa.array([Decimal(text) for text in ("5.50", "17.99", "18", "64", "65", "99")]),
    "text": pa.array(["5", "17.9", "18.0", "64", "65", "9.9e1"]),
    "coded": pa.array([5, 17, 18, 64, 65, 99]).dictionary_encode(),
    "labels": pa.array(["< 18", "< 18", "[18, 65)", "[18, 65)", ">= 65", ">= 65"]),
    "pandas floats": pa.array(["[-inf, 18.0)", "< 18", "[18.0, 65.0)", "64", "65.0", "[65.0, inf)"]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_numbers_are_put_into_bins(kind):
    age = binned("age", Bins((-math.inf, 18, 65, math.inf)))
    table = pa.table({"age": COLUMNS[kind]})
    codes(table, age, [0, 0, 1, 1, 2, 2])
    released = unchanged(Domain((age,))).randomize(table)
    assert released["age"].cast(pa.string()).to_pylist() == ["< 18"] * 2 + ["[18, 65)"] * 2 + [">= 65"] * 2
    codes(released, age, [0, 0, 1, 1, 2, 2])


DATES = [date(1999, 12, 31), date(2000, 1, 1), date(2004, 2, 29), date(2010, 1, 1)]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(DATES),
        pa.array(DATES, pa.date64()),
        pa.array(DATES).cast(pa.timestamp("s")),
        pa.array(DATES).cast(pa.timestamp("ns")).cast(pa.timestamp("ns", tz="UTC")),
        pa.array([d.isoformat() for d in DATES]),
        pa.array([f"{d.isoformat()} 00:00:00" for d in DATES]),
    ],
    ids=str,
)
def test_dates_are_put_into_bins(column):
    born = binned("born", bins_of([-math.inf, date(2000, 1, 1), "2010-01-01", math.inf]))
    assert born.categories == ("< 2000-01-01", "[2000-01-01, 2010-01-01)", ">= 2010-01-01")
    codes(pa.table({"born": column}), born, [0, 1, 1, 2])


def test_times_of_day_lie_between_edges():
    at = binned("at", bins_of(["2024-01-01", "2024-01-01 12:00:00", "2024-01-02"]))
    assert at.categories == ("[2024-01-01, 2024-01-01 12:00:00)", "[2024-01-01 12:00:00, 2024-01-02)")
    moments = pa.array([datetime(2024, 1, 1, 11, 59, 59, 999000), datetime(2024, 1, 1, 12)])
    codes(pa.table({"at": moments}), at, [0, 1])


def test_labels_of_ones_own_and_missing_values_in_bins(tmp_path):
    age = Attribute("age", ("minor", "adult"), bins=Bins((0, 18, 130)), missing=("99.5", "NA"))
    assert age.categories == ("minor", "adult", None)
    codes(pa.table({"age": [3.0, 99.5, None, math.nan, 20.0]}), age, [0, 2, 2, 2, 1])
    codes(pa.table({"age": ["3", "NA", None, "adult", "[18, 130)", "[0.0, 18.0)"]}), age, [0, 2, 2, 1, 1, 0])
    (tmp_path / "a.csv").write_text("age\n3\nNA\n\n20\n")
    release_file(
        tmp_path / "a.csv", unchanged(Domain((age,))), tmp_path / "b.parquet", options=ReleaseOptions(keep_order=True)
    )
    assert pq.read_table(tmp_path / "b.parquet")["age"].to_pylist() == ["minor", None, None, "adult"]


@pytest.mark.parametrize("values", [[-1.0, 5.0], ["5", "130"], [date(2000, 1, 1)] * 2, [True, False]])
def test_what_lies_in_no_bin_is_refused_without_its_value(values):
    age = binned("age", Bins((0, 18, 130)))
    why = "(outside the bins|and the bins are of|unknown category)"
    with pytest.raises(InvalidInput, match=rf"column 'age', record \d: .*{why}") as caught:
        count(pa.table({"age": values}), Domain((age,)), ["age"])
    assert "-1" not in str(caught.value) and "2000" not in str(caught.value)


PLAIN = {
    "texts": (["a", "b", "c"], pd.Series(["c", "a", "b"]), ["c", "a", "b"]),
    "objects": (["a", "b", None], pd.Series(["b", None, "a"], dtype=object), ["b", None, "a"]),
    "categories": (["a", "b", "c"], pd.Series(pd.Categorical(["c", "a"], categories=["c", "b", "a"])), ["c", "a"]),
    "Arrow's texts": (["a", "b"], pd.Series(pd.array(["b", "a"], dtype=pd.ArrowDtype(pa.string()))), ["b", "a"]),
    "narrow integers": ([0, 1, 2], pd.Series([2, 0, 1], dtype=np.int8), ["2", "0", "1"]),
    "nullable booleans": ([True, False, None], pd.Series(pd.array([None, True], dtype="boolean")), [None, "true"]),
    "integers with a gap": ([1, 2, 3, None], pd.Series([3.0, 1.0, np.nan]), ["3", "1", None]),
    "nullable integers": ([1, 2, 3, None], pd.Series(pd.array([3, 1, None], dtype="Int64")), ["3", "1", None]),
    "halves": ([0.5, 2.5, 6], pd.Series([2.5, 0.5, 6.0]), ["2.5", "0.5", "6"]),
    "tenths in single precision": ([0.1, 0.2], pd.Series([0.2, 0.1, 0.1], dtype=np.float32), ["0.2", "0.1", "0.1"]),
    "booleans": ([True, False], pd.Series([False, True, True]), ["false", "true", "true"]),
    "dates": (DATES[:3], pd.Series(DATES[2::-1]), [d.isoformat() for d in DATES[2::-1]]),
    "moments": (DATES[:3], pd.Series(pd.to_datetime(DATES[2::-1])), [d.isoformat() for d in DATES[2::-1]]),
    "intervals": (["(0, 18]", "(18, 65]"], pd.Series(pd.cut([20, 3], [0, 18, 65])), ["(18, 65]", "(0, 18]"]),
    "plain intervals": (
        ["[0, 0.5)", "[0.5, 1)"],
        pd.Series(pd.IntervalIndex.from_breaks([0, 0.5, 1.0], closed="left").take([1, 0])),
        ["[0.5, 1)", "[0, 0.5)"],
    ),
    "quarters": (["2023Q4", "2024Q1"], pd.Series(pd.PeriodIndex(["2024Q1", "2023Q4"], freq="Q")), ["2024Q1", "2023Q4"]),
}


@pytest.mark.parametrize("kind", PLAIN)
def test_pandas_columns_go_through_frames_csv_and_parquet_and_back(tmp_path, kind):
    categories, series, texts = PLAIN[kind]
    attribute = Attribute("x", tuple(categories))
    domain, frame = Domain((attribute,)), pd.DataFrame({"x": series})
    rows = [attribute.codes[t] for t in texts]
    codes(frame, attribute, rows)
    released = unchanged(domain).randomize(frame)
    codes(released, attribute, rows)
    values = [None if pd.isna(v) else v for v in released["x"]]
    assert values == [attribute.categories[k] for k in rows]
    frame.to_csv(tmp_path / "a.csv", index=False)
    codes(tmp_path / "a.csv", attribute, rows)
    if not any(word in kind for word in ("intervals", "quarters")):  # Parquet has no such types
        frame.to_parquet(tmp_path / "a.parquet")
        codes(tmp_path / "a.parquet", attribute, rows)
    for suffix in ("csv", "parquet"):
        release_file(
            tmp_path / "a.csv", unchanged(domain), tmp_path / f"b.{suffix}", options=ReleaseOptions(keep_order=True)
        )
        codes(tmp_path / f"b.{suffix}", attribute, rows)


def test_missing_marks_are_declared_and_never_guessed(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,99\nNA,1\n.,2\n")
    plain = Domain.of({"x": [1, 2], "y": [1, 2, None]})
    with pytest.raises(InvalidInput, match=r"column 'x', record 2: .*declare missing = \[\"NA\"\]"):
        count(tmp_path / "a.csv", plain, ["x"])
    told = Domain((Attribute("x", (1, 2), missing=("NA", ".")), Attribute("y", (1, 2), missing=("99",))))
    assert count(tmp_path / "a.csv", told, ["x", "y"]).table.tolist() == [[0, 0, 1], [0, 0, 0], [1, 1, 0]]
    codes(pa.table({"y": [99, 1, None]}), told["y"], [2, 0, 2])
    with pytest.raises(InvalidInput, match="among the marks of a missing value and among its categories"):
        Attribute("x", (1, 2), missing=("2",))


FRAMES = {
    "pandas": lambda v: pd.DataFrame({"x": pd.Categorical(v, categories=LEVELS, ordered=True)}),
    "polars": lambda v: pl.DataFrame({"x": pl.Series(v, dtype=pl.Enum(LEVELS))}),
    "arrow": lambda v: pa.table(
        {"x": pa.DictionaryArray.from_arrays(list(map(LEVELS.index, v)), LEVELS, ordered=True)}
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_order_survives(tmp_path, kind):
    values = ["always", "never", "often", "often"]
    frame = FRAMES[kind](values)
    domain = observed_domain(frame, ["x"])
    assert domain["x"].categories == tuple(LEVELS)
    assert domain["x"].ordered
    codes(frame, domain["x"], [2, 0, 1, 1])
    released = unchanged(domain).randomize(frame)
    assert observed_domain(released, ["x"]) == domain
    if kind == "polars":
        frame.write_parquet(tmp_path / "a.parquet")
    else:
        pq.write_table(pa.table(frame), tmp_path / "a.parquet")
    assert observed_domain(tmp_path / "a.parquet", ["x"]) == domain
    release_file(tmp_path / "a.parquet", unchanged(domain), tmp_path / "b.parquet")
    assert observed_domain(tmp_path / "b.parquet", ["x"]) == domain
    pa_csv.write_csv(pa.table({"x": values}), tmp_path / "a.csv")
    codes(tmp_path / "a.csv", domain["x"], [2, 0, 1, 1])


@pytest.mark.parametrize("kind", FRAMES)
def test_an_order_that_contradicts_the_declaration_is_refused(kind):
    frame = FRAMES[kind](["always", "never"])
    with pytest.raises(InvalidInput, match="is ordered 'never', 'often', 'always' and declared in the order 'always'"):
        count(frame, Domain.of({"x": sorted(LEVELS)}), ["x"])


def test_declarations_travel_in_design_files(tmp_path):
    domain = Domain(
        (
            binned("age", Bins((-math.inf, 18, 65.5, math.inf), "right"), missing=["NA"]),
            binned("born", bins_of(["-inf", "2000-01-01", "2010-06-15 12:30:00", "inf"])),
            Attribute("level", tuple(LEVELS), ordered=True),
            Attribute("half", (0.5, 1, 2.5)),
            Attribute("plain", ("a", "b")),
        )
    )
    optrr.save(optrr.design(domain, 1.0, method="kronecker"), tmp_path / "design.json")
    assert load_design(tmp_path / "design.json").domain == domain
    text = (tmp_path / "design.json").read_text()
    assert text.count('"ordered"') == 1 and text.count('"bins"') == 2 and text.count('"missing"') == 1
    asking = optrr.SampledTables(domain, (("age", "level"), ("born",)), np.array([0.5, 0.5]), 1.0)
    optrr.save(asking, tmp_path / "asking.json")
    assert load_sampled_tables(tmp_path / "asking.json").domain == domain


def test_bins_are_refused_in_one_line():
    for make, message in [
        (lambda: Bins((0, 1)), "three or more"),
        (lambda: Bins((0, 2, 1)), "from the lowest to the highest"),
        (lambda: Bins((0, math.inf, 3)), "from the lowest to the highest"),
        (lambda: Bins((0, date(2000, 1, 1), 3)), "all numbers or all dates"),
        (lambda: Bins((-math.inf, math.inf, math.inf)), "all numbers or all dates"),
        (lambda: Bins((0, math.nan, 3)), "edge nan"),
        (lambda: Bins((0, "x", 3)), "edge 'x'"),
        (lambda: bins_of([0, "x", 3]), "edge 'x'"),
        (lambda: Bins((0, 1, 2), "both"), "closed 'both'"),
        (lambda: Attribute("a", ("x", "y", "z"), bins=Bins((0, 1, 2))), "2 bins and 3 categories"),
    ]:
        with pytest.raises(InvalidInput, match=message) as caught:
            make()
        assert "\n" not in str(caught.value)


DOMAIN = Domain(
    (
        Attribute("kids", (0, 1, 2), missing=("NA",)),
        Attribute("works", (True, False, None)),
        Attribute("share", (0.5, 2, None)),
        Attribute("level", ("low", "high", None), ordered=True),
        Attribute("sex", ("F", "M", None)),
    )
)
REST = [(1, True, 0.5, "low", "F"), (0, False, 2, "high", "M")]
NEIGHBOURS = [[record, *REST] for record in product(*(a.categories for a in DOMAIN))]
# One of each kind of change, and everybody without any answer.
FEW = [
    [(0, True, 0.5, "low", "F"), *REST],
    *([tuple(None if k == i else v for k, v in enumerate(REST[0])), *REST] for i in range(DOMAIN.m)),
    [(None,) * DOMAIN.m, *REST],
    [(None,) * DOMAIN.m] * 3,
]


class Constant(Mechanism):
    """Releases the codes 0, 1, 2, 0, … of every attribute, whatever is true."""

    def randomize_in_place(self, codes, source):
        codes[:] = np.arange(len(codes))[:, None] % self.domain.sizes


MECHANISM = Constant(DOMAIN, ProductLaw(DOMAIN.sizes, np.ones(DOMAIN.m)))


def _columns(records):
    return {a.name: list(column) for a, column in zip(DOMAIN, zip(*records, strict=True), strict=True)}


def _arrow(records):
    return pa.table(_columns(records))


def _categorical(records):
    frame = pd.DataFrame(_columns(records))
    return frame.assign(sex=frame["sex"].astype("category"), level=frame["level"].astype("category"))


def _coded(records):
    return pa.table([column.combine_chunks().dictionary_encode() for column in _arrow(records)], list(DOMAIN.names))


MADE = {
    "pandas": lambda records: pd.DataFrame(_columns(records)),
    "pandas objects": lambda records: pd.DataFrame(_columns(records), dtype=object),
    "pandas categories": _categorical,
    "pandas nullable": lambda records: pd.DataFrame(_columns(records)).convert_dtypes(),
    "polars": lambda records: pl.DataFrame(_columns(records), strict=False),
    "arrow": _arrow,
    "arrow dictionaries": _coded,
    "batch": lambda records: _arrow(records).to_batches()[0],
}


def _bytes(frame):
    """Everything that a frame holds, as bytes."""
    if isinstance(frame, pl.DataFrame):
        return repr(frame.schema), frame.write_ipc(None).getvalue()
    index = (repr(frame.index), repr(frame.columns)) if isinstance(frame, pd.DataFrame) else ()
    table = pa.Table.from_pandas(frame) if isinstance(frame, pd.DataFrame) else frame
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write(table)
    return *index, sink.getvalue().to_pybytes()


@pytest.mark.slow
@pytest.mark.parametrize("kind", MADE)
def test_frames_of_neighbours_are_alike(kind):
    released = [MECHANISM.randomize(MADE[kind](records), random_state=1) for records in (*NEIGHBOURS, *FEW)]
    assert len({_bytes(frame) for frame in released}) == 1


def _jsonl(records, path):
    rows = [dict(zip(DOMAIN.names, record, strict=True)) for record in records]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _sqlite(records, path):
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE people ({', '.join(DOMAIN.names)})")
        connection.executemany(f"INSERT INTO people VALUES ({', '.join('?' * DOMAIN.m)})", records)
    connection.close()


LABELS = {"works": {1: "true", 0: "false"}, "level": {1: "low", 2: "high"}, "sex": {1: "F", 2: "M", 3: "never told"}}
NUMBERS = {"works": {True: 1, False: 0}, "level": {"low": 1, "high": 2}, "sex": {"F": 1, "M": 2}}


def _numbered(records):
    """Numbers for what LABELS gives a label."""
    columns = {n: [NUMBERS[n].get(v) if n in NUMBERS else v for v in values] for n, values in _columns(records).items()}
    return pd.DataFrame(columns, dtype="float64")


def _stata(records, path):
    _numbered(records).to_stata(path, write_index=False, value_labels=LABELS)


def _spss(records, path):
    pytest.importorskip("pyreadstat").write_sav(_numbered(records), path, variable_value_labels=LABELS)


FILES = {
    "a.csv": lambda records, path: pa_csv.write_csv(_arrow(records), path),
    "a.jsonl": _jsonl,
    "a.parquet": lambda records, path: pq.write_table(_arrow(records), path),
    "b.parquet": lambda records, path: _categorical(records).to_parquet(path),
    "c.parquet": lambda records, path: pd.DataFrame(_columns(records)).to_parquet(path),
    "a.feather": lambda records, path: feather.write_feather(_arrow(records), path),
    "a.xlsx": lambda records, path: pd.DataFrame(_columns(records), dtype=object).to_excel(path, index=False),
    "a.dta": _stata,
    "a.sav": _spss,
}
# blank rows at the end of a sheet are no records
WRITTEN = [
    (*file, records) for file, records in product(FILES.items(), FEW) if (file[0], records) != ("a.xlsx", FEW[-1])
]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_of_neighbours_are_alike_whatever_they_are_read_from(tmp_path, suffix):
    released = set()
    for name, write, records in WRITTEN:
        write(records, tmp_path / name)
        release_file(tmp_path / name, MECHANISM, tmp_path / f"released{suffix}", 1)
        released.add((tmp_path / f"released{suffix}").read_bytes())
    assert len(released) == 1


def test_files_of_neighbours_in_a_database_are_alike(tmp_path):
    """SQLite has no booleans, so that they are declared as numbers here."""
    pytest.importorskip("adbc_driver_sqlite")
    numbers = Domain(tuple(Attribute(a.name, (1, 0, None)) if a.name == "works" else a for a in DOMAIN))
    released = set()
    for k, records in enumerate(FEW):
        _sqlite(records, tmp_path / f"{k}.sqlite")
        where = RecordsAt(f"sqlite:{tmp_path / f'{k}.sqlite'}", query="SELECT * FROM people")
        release_file(where, Constant(numbers, MECHANISM.law), tmp_path / "released.parquet", 1)
        released.add((tmp_path / "released.parquet").read_bytes())
    assert len(released) == 1


@pytest.mark.parametrize("kind", ["csv", "jsonl", "arrow"])
@pytest.mark.parametrize("keep_order", [False, True])
def test_the_sizes_of_row_groups_do_not_follow_the_lengths_of_true_values(tmp_path, monkeypatch, kind, keep_order):
    """Readers of text take so many bytes at once, and so fewer records where true values are long."""
    monkeypatch.setattr(frames, "RECORDS", 300)
    monkeypatch.setattr(text_files, "BLOCK", 1 << 14)
    monkeypatch.setattr(text_files, "_BLOCK", 1 << 14)
    domain = Domain.of({"x": ["a", "b" * 200]})
    same = Constant(domain, ProductLaw(domain.sizes, np.ones(1)))
    released = set()
    for text in domain["x"].categories:
        table = pa.table({"x": [text] * 1000})
        if kind == "csv":
            pa_csv.write_csv(table, tmp_path / "a.csv")
        elif kind == "jsonl":
            (tmp_path / "a.jsonl").write_text(f'{{"x": "{text}"}}\n' * 1000)
        else:
            feather.write_feather(table, tmp_path / "a.arrow", chunksize=7 + len(text), compression="uncompressed")
        release_file(
            tmp_path / f"a.{kind}", same, tmp_path / "b.parquet", 1, options=ReleaseOptions(keep_order=keep_order)
        )
        index = pq.ParquetFile(tmp_path / "b.parquet").metadata
        assert [index.row_group(k).num_rows for k in range(index.num_row_groups)] == [300, 300, 300, 100]
        released.add(tuple(pq.read_schema(tmp_path / "b.parquet")))
    assert len(released) == 1


def test_chunks_of_a_table_do_not_follow_those_of_the_true_one(monkeypatch):
    monkeypatch.setattr(frames, "RECORDS", 4)
    released = set()
    for sizes in ([10], [1, 9], [3, 3, 4]):
        table = pa.concat_tables([_arrow([REST[0]] * n) for n in sizes])
        released.add(_bytes(MECHANISM.randomize(table, random_state=1)) if len(sizes) == 1 else ())
        assert [len(chunk) for chunk in MECHANISM.randomize(table)["sex"].chunks] == [4, 4, 2]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_rounds_of_neighbours_have_one_schema(tmp_path, suffix):
    """Reports are drawn by a key from the true records here, so that values differ and all else is compared."""
    design = longitudinal(DOMAIN, [0.5] * DOMAIN.m, 3.0)
    key, seen = Key.new(), set()
    for records in FEW:
        rows = [dict(zip(DOMAIN.names, r, strict=True)) | {"person": k} for k, r in enumerate(records)]
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        target = tmp_path / f"b{suffix}"
        randomize_wave(tmp_path / "a.jsonl", design, target, key=key, wave="1", id_column="person")
        if suffix == ".parquet":
            seen.add(str(pq.read_schema(target)) + str(pq.read_metadata(target).num_row_groups))
        else:
            seen.add(target.read_text().partition("\n")[0])
            kids = pa_csv.read_csv(target)["kids"].to_pylist()
            # whole numbers, never 1.0
            assert set(kids) <= {0, 1, 2, None} and all(k is None or type(k) is int for k in kids)
    assert len(seen) == 1


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", ["r.bed", "r.csv", "r.parquet"])
def test_genotype_files_of_neighbours_are_alike(tmp_path, name, missing):
    """One person's calls and status are changed in every way, and the randomized codes are the same."""
    pytest.importorskip("bed_reader")
    made = genomics.genomic_design(genomics.Wanted(["rs0", "rs1", "rs2"], missing=missing), genomics.Budget(4.0))
    layout, known = layout_of(made.domain), Provenance(Release.drawn(made.mechanism, False))
    released = set()
    for *calls, status in product(*[[0, 1, 2, MISSING][: 3 + missing]] * 3, [0, 1]):
        true = cohort_of(np.array([calls, [0, 1, 2], [2, 2, 0]]), np.array([status, 0, 1]), names=layout.names)
        records = records_of(true, layout)
        records[:] = np.arange(3)[:, None] % made.domain.sizes
        if name.endswith(".bed"):
            write_plink(randomized_cohort(true, records, layout), tmp_path / name, known, random_state=1)
        else:
            write_records(records, made.domain, true.people, tmp_path / name, known, random_state=1)
        released.add(tuple(path.read_bytes() for path in sorted(tmp_path.iterdir())))
    assert len(released) == 1


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_answers_of_neighbours_have_one_schema(tmp_path, suffix):
    """Answers are drawn from the true records here, so that values differ and all else is compared."""
    asking = optrr.SampledTables(DOMAIN, (("kids", "works"), ("share", "level", "sex")), np.array([0.5, 0.5]), 1.0)
    seen = set()
    for name, write, records in WRITTEN:
        write(records, tmp_path / name)
        target = tmp_path / f"released{suffix}"
        asking.randomize(tmp_path / name, target, random_state=1)
        if suffix == ".parquet":
            index = pq.read_metadata(target)
            groups = [index.row_group(k).num_rows for k in range(index.num_row_groups)]
            seen.add((str(pq.read_schema(target)), str(groups)))
        else:
            seen.add(target.read_text().partition("\n")[0])
    assert len(seen) == 1
