"""Every place that records come from gives the same records to every function and command, or is refused with the remedy."""

import bz2
import gzip
import hashlib
import io
import json
import os
import sqlite3
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as pa_dataset
import pyarrow.feather as pa_feather
import pyarrow.parquet as pq
import pytest

import optrr
from optrr.cli.main import run
from optrr.core.design.design_file import load_design
from optrr.core.domain.domain import Attribute, Domain
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.mechanism import Mechanism, ReleaseOptions
from optrr.core.mechanisms.release import release_file
from optrr.core.protocols.dependence import dependences_from_randomized
from optrr.core.records.counts import count
from optrr.core.records.observed import observed_domain
from optrr.core.records.reading import text_files
from optrr.core.records.reading.registry import open_source
from optrr.core.records.reading.source import RecordsAt, Source
from optrr_solvers.laws import ProductLaw

SENT = Domain([Attribute("sex", ("f", "m")), Attribute("kids", (0, 1, None)), Attribute("ok", (True, False))])
DOMAIN = Domain.of({"sé": ["F", "M"], "answer, if any": ["no, never", "yes; sure"], "age": 3})
NAMES = list(DOMAIN.names)
N = 2_000
TABLE = pa.table(
    {
        "sé": [["F", "M"][k % 2] for k in range(N)],
        "answer, if any": [["yes; sure", "no, never"][k // 2 % 2] for k in range(N)],
        "age": [k % 3 for k in range(N)],
    }
)
EXPECTED = TABLE.to_pylist()


def read(data, domain=DOMAIN):
    """All records, with numbers as numbers."""
    source = data if isinstance(data, Source) else open_source(data, domain)
    rows = [r for batch in source.batches(DOMAIN.names) for r in batch.to_pylist()]
    return [r | {"age": int(r["age"])} for r in rows]


def csv_bytes(delimiter=",", encoding="utf-8"):
    rows = [DOMAIN.names, *([*map(str, r.values())] for r in EXPECTED)]
    lines = [delimiter.join(f'"{v}"' if k == 1 else v for k, v in enumerate(row)) for row in rows]
    return "\n".join([*lines, ""]).encode(encoding)


def ipc_bytes(make=pa.ipc.new_stream):
    sink = io.BytesIO()
    with make(sink, TABLE.schema) as writer:
        for batch in TABLE.to_batches(max_chunksize=300):
            writer.write_batch(batch)
    return sink.getvalue()


def json_bytes():
    return "".join(json.dumps(r) + "\n" for r in EXPECTED).encode()


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_dialects_of_csv_are_seen(tmp_path, delimiter, encoding):
    path = tmp_path / "a.csv"
    path.write_bytes(csv_bytes(delimiter, encoding))
    assert read(path) == EXPECTED
    # the same where no name is declared: the delimiter that splits the first line into most names
    assert open_source(path).schema.names == list(DOMAIN.names)


def directory(place):
    place.mkdir()
    for k in range(3):
        pq.write_table(TABLE.slice(700 * k, 700), place / f"part-{k}.parquet")
    return place


def partitioned(place):
    for sex in ("F", "M"):
        (place / f"sé={sex}").mkdir(parents=True)
        chosen = TABLE.filter(pa.compute.equal(TABLE["sé"], sex)).drop_columns(["sé"])
        pa_csv.write_csv(chosen, place / f"sé={sex}" / "a.csv")
    return place


def duckdb_file(place):
    with pytest.importorskip("duckdb").connect(str(place)) as connection:
        connection.register("frame", TABLE)
        connection.execute("CREATE TABLE people AS SELECT * FROM frame")
    return f"duckdb:{place}"


def sqlite_file(place):
    pytest.importorskip("adbc_driver_sqlite")
    with sqlite3.connect(place) as connection:
        connection.execute('CREATE TABLE people ("sé" TEXT, "answer, if any" TEXT, age INTEGER)')
        connection.executemany("INSERT INTO people VALUES (?, ?, ?)", [tuple(r.values()) for r in EXPECTED])
    connection.close()
    return f"sqlite:{place}"


def file(name, content, *options):
    return lambda folder: [(folder / name).write_bytes(content) and str(folder / name), *options]


def piped(content):
    """Comes through standard input: bytes in place of arguments."""
    return lambda folder: content


QUERY = ("--query", "SELECT * FROM people;")
# What a command is given; bytes come through standard input.
PLACES = {
    "parquet": lambda folder: [pq.write_table(TABLE, folder / "a.parquet") or str(folder / "a.parquet")],
    "csv.gz": file("a.csv.gz", gzip.compress(csv_bytes())),
    "csv.bz2": file("a.csv.bz2", bz2.compress(csv_bytes(";"))),
    "csv.zst": file("a.csv.zst", pa.compress(csv_bytes(";"), codec="zstd", asbytes=True)),
    "csv, said": file("a.txt", csv_bytes("|", "latin-1"), "--format", "csv", "--encoding", "latin-1"),
    "tsv": file("a.tsv", csv_bytes("\t")),
    "jsonl": file("a.jsonl", json_bytes()),
    "jsonl, said": file("a.data", json_bytes(), "--format", "jsonl"),
    "ndjson.gz": file("a.ndjson.gz", gzip.compress(json_bytes())),
    "arrow file": file("a.arrow", ipc_bytes(pa.ipc.new_file)),
    "arrow file, said": file("a.data", ipc_bytes(pa.ipc.new_file), "--format", "arrow"),
    "feather": lambda folder: [pa_feather.write_feather(TABLE, folder / "a.feather") or str(folder / "a.feather")],
    "arrow stream": file("a.arrows", ipc_bytes()),
    "arrows.zst": file("a.arrows.zst", pa.compress(ipc_bytes(), codec="zstd", asbytes=True)),
    "directory": lambda folder: [str(directory(folder / "out.parquet"))],
    "pattern": lambda folder: [str(directory(folder / "d") / "part-*.parquet")],
    "several": lambda folder: [str(p) for p in sorted(directory(folder / "s").iterdir())],
    "partitioned": lambda folder: [str(partitioned(folder / "p"))],
    "duckdb": lambda folder: [duckdb_file(folder / "a.duckdb"), *QUERY],
    "duckdb by its suffix": lambda folder: [duckdb_file(folder / "a.duckdb").removeprefix("duckdb:"), *QUERY],
    "sqlite": lambda folder: [sqlite_file(folder / "a.sqlite"), *QUERY],
    "pipe of csv": piped(csv_bytes()),
    "pipe of json": piped(json_bytes()),
    "pipe of arrow": piped(ipc_bytes()),
}


def standard_input(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))


@pytest.mark.parametrize("place", PLACES)
def test_every_place_gives_the_same_records(tmp_path, monkeypatch, place):
    at = PLACES[place](tmp_path)
    if isinstance(at, bytes):
        standard_input(monkeypatch, at)
        source = open_source("-", DOMAIN)
    else:
        files = [x for x in at if not x.startswith("--")]
        options = dict(zip(at[1::2], at[2::2], strict=True)) if len(at) > len(files) else {}
        named = {k.removeprefix("--"): v for k, v in options.items()}
        source = open_source(RecordsAt(files[0] if named or len(files) == 1 else files, **named), DOMAIN)
    rows = read(source)
    # directories named after a value are read one after another
    assert rows == (sorted(EXPECTED, key=lambda r: r["sé"]) if place == "partitioned" else EXPECTED)
    if isinstance(at, bytes):
        with pytest.raises(InvalidInput, match="only once"):
            read(source)


PAIR = ("--attributes", "sé,answer,, if any")


@pytest.fixture(scope="module")
def design(tmp_path_factory):
    """A design that changes one value in 10^8, so that what is released can be compared with what was read."""
    path = tmp_path_factory.mktemp("design") / "design.json"
    optrr.save(optrr.design(observed_domain(TABLE, NAMES), 20.0, method="kronecker"), path)
    return path


@pytest.mark.parametrize("place", ["csv, said", "several", "partitioned", "duckdb", "pipe of csv", "pipe of arrow"])
def test_a_command_reads_every_kind_of_place(tmp_path, monkeypatch, capsys, design, place):
    at = PLACES[place](tmp_path)
    if isinstance(at, bytes):
        standard_input(monkeypatch, at)
        at = ["-"]
    assert run(["estimate", *at, "--design", str(design), *PAIR, "--json"]) == 0
    expected = load_design(design).reports(TABLE).table(*NAMES[:2])
    assert json.loads(capsys.readouterr().out)["estimate"] == expected.estimate.tolist()


def test_a_command_reads_a_pipe_once_and_what_needs_it_twice_says_so(tmp_path, monkeypatch, capsys, design):
    (tmp_path / "file.csv").write_bytes(csv_bytes())
    asked = ["--design", str(design), *PAIR, "--method", "adjusted", "--json"]
    assert run(["estimate", str(tmp_path / "file.csv"), *asked]) == 0
    from_file = json.loads(capsys.readouterr().out)
    standard_input(monkeypatch, csv_bytes())
    # what lies beside a file called - says nothing of a pipe
    monkeypatch.chdir(tmp_path)
    Path("-.optrr.json").write_text("{")
    assert run(["estimate", "-", *asked]) == 0
    piped = json.loads(capsys.readouterr().out)
    assert piped["estimate"] == from_file["estimate"]
    assert "if standard input was not randomized by this design" in piped["doubts"][0]
    standard_input(monkeypatch, csv_bytes())
    reports = load_design(design).reports(RecordsAt(Path("-"), format="csv"))
    assert reports.table("sé").n == N
    with pytest.raises(InvalidInput, match="standard input can be read only once; write it to a file"):
        reports.table("answer, if any")


LIVE = {
    "LazyFrame": lambda: pl.LazyFrame(TABLE),
    "lazy CSV": lambda: pl.scan_csv(io.BytesIO(csv_bytes())),
    "iterator": lambda: iter(TABLE.to_batches(max_chunksize=50)),
    "list of batches": lambda: TABLE.to_batches(max_chunksize=50),
    "reader": TABLE.to_reader,
    "relation": lambda: pytest.importorskip("duckdb").from_arrow(TABLE),
    "pandas": TABLE.to_pandas,
    "polars": lambda: pl.DataFrame(TABLE),
}


@pytest.mark.parametrize("kind", LIVE)
def test_every_function_on_what_is_in_memory(tmp_path, design, kind):
    made, records = load_design(design), LIVE[kind]
    mechanism, names = made.mechanism, ["sé", "age"]
    assert read(records()) == EXPECTED
    expected = count(TABLE, made.domain, names)
    assert np.array_equal(count(records(), made.domain, names).table, expected.table)
    assert observed_domain(records(), NAMES) == made.domain
    assert optrr.Specification.from_frame(records(), epsilon=1.0).domain.names == tuple(NAMES)
    assert release_file(records(), mechanism, tmp_path / "r.csv").records == N
    assert np.array_equal(count(tmp_path / "r.csv", made.domain, names).table, expected.table)
    assert np.array_equal(made.reports(records()).table(*names).estimate, made.reports(TABLE).table(*names).estimate)
    learned = dependences_from_randomized(records(), mechanism)
    assert np.array_equal(learned.matrix, dependences_from_randomized(TABLE, mechanism).matrix)


class Pipe(io.RawIOBase):
    """Hands out no more at once than a pipe holds."""

    def __init__(self, content):
        self.content = io.BytesIO(content)

    def readable(self):
        return True

    def readinto(self, buffer):
        return self.content.readinto(memoryview(buffer)[: 1 << 16])


@pytest.mark.parametrize("form", ["sex,other\n{},{}\n", '{{"sex":"{}","other":"{}"}}\n'])
def test_a_pipe_may_be_longer_than_what_comes_at_once(monkeypatch, form):
    head, record = form.splitlines(keepends=True) if "\n{" in form else ("", form)
    others = (hashlib.sha256(b"%d" % k).hexdigest() for k in range(8000))
    content = (head + "".join(record.format("FM"[k % 2], other) for k, other in enumerate(others))).encode()
    assert len(content) > 4 << 16
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Pipe(content))))
    assert count("-", Domain.of({"sex": ["F", "M"]}), "sex", allow_extra=True).table.tolist() == [4000, 4000]


def test_json_values_of_any_type_meet_their_category_by_its_text(tmp_path, monkeypatch):
    """Independent reference: each value as Python writes it; blank lines and a mark of byte order are passed over."""
    monkeypatch.setattr(text_files, "_BLOCK", 64)
    values = [None, "1", 1, 1.0, 1.5, "1.5", True, "true", False, "2024-01-01"]
    domain = Domain.of({"x": [None, "1", "1.5", True, False, "2024-01-01"]})
    rows = [json.dumps({"more": [{"a": k}], "x": value}) for k, value in enumerate(values)]
    (tmp_path / "a.jsonl").write_text("\ufeff" + "\n\n".join(rows))
    assert count(tmp_path / "a.jsonl", domain, "x", allow_extra=True).table.tolist() == [1, 3, 2, 2, 1, 1]


def test_a_fault_of_json_lines_is_named_by_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "_BLOCK", 64)
    text = '{"sex": "F"}\n' * 20 + '{"sex": "F"\n'
    standard_input(monkeypatch, text.encode())
    with pytest.raises(InvalidInput, match="standard input: line 21 is not one whole JSON object"):
        list(open_source("-").batches(["sex"]))


def test_a_pipe_with_a_name_is_to_be_standard_input_which_may_be_closed(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(InvalidInput, match=r"a pipe, .*; give it as standard input \(-\)"):
        open_source(tmp_path / "a.csv")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InvalidInput, match="standard input is closed"):
        open_source("-", DOMAIN)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
@pytest.mark.parametrize("dictionary_pages", [True, False])
def test_text_of_parquet_is_read_by_its_dictionary(tmp_path, kind, dictionary_pages):
    """Several row groups with dictionaries of their own, a gap, a dot in a name; types come out as they went in."""
    answers = ["b", None, "a", "ä", "b"] * 400
    table = pa.table({"a.b": pa.array(answers).cast(kind), "n": [k % 2 for k in range(2_000)]})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=333, use_dictionary=dictionary_pages)
    domain = Domain.of({"a.b": ["a", "b", "ä", None], "n": 2})
    assert count(path, domain, ["a.b", "n"]).table.tolist() == count(table, domain, ["a.b", "n"]).table.tolist()
    # a value changes with a chance of e^-40
    unchanged = Mechanism(domain, ProductLaw(domain.sizes, np.full(2, 40.0)))
    release_file(path, unchanged, tmp_path / "r.parquet", 1, options=ReleaseOptions(keep_order=True))
    released = pq.read_table(tmp_path / "r.parquet")
    assert released.schema.remove_metadata().equals(unchanged.randomize(table, random_state=1).schema.remove_metadata())
    assert released.to_pylist() == table.to_pylist()
    with pytest.raises(InvalidInput, match=r"column 'a\.b', record 4: unknown category"):
        count(path, Domain.of({"a.b": ["a", "b", None]}), ["a.b"], allow_extra=True)


def test_hidden_files_are_no_parts_and_parts_are_alike(tmp_path):
    folder, part = directory(tmp_path / "out.parquet"), tmp_path / "0.csv"
    (folder / "_SUCCESS").write_text("")
    (folder / ".part-0.parquet.crc").write_bytes(b"x")
    assert read(folder) == read([folder]) == EXPECTED and open_source(folder).rows == N
    part.write_bytes(csv_bytes())
    assert read([part, folder / "part-0.parquet"], None) == EXPECTED + EXPECTED[:700]
    with pytest.raises(InvalidInput, match="there are no files"):
        open_source(str(tmp_path / "*.arrow"))


ANSWERS = [1, None, 3, 2]
TEXTS = pa.array(["x", "y", "x", "y"])


@pytest.mark.parametrize(
    ("column", "one", "other"),
    [
        ("q", pa.array(ANSWERS, pa.int64()), pa.array(ANSWERS, pa.int8())),
        ("q", pa.array([1, 2, 3, 2]), pa.array(ANSWERS, pa.float64())),
        ("q", pa.array(ANSWERS), pa.nulls(4)),
        ("q", pa.nulls(4), pa.array(ANSWERS, pa.float32())),
        ("a", TEXTS, TEXTS.cast(pa.large_string())),
        ("a", TEXTS, TEXTS.dictionary_encode()),
        ("a", TEXTS.dictionary_encode(), TEXTS.cast(pa.dictionary(pa.int8(), pa.large_string()))),
        ("more", pa.array(ANSWERS), TEXTS),
        ("more", TEXTS, None),
    ],
)
def test_parts_of_other_types_are_read_as_each_by_itself(tmp_path, column, one, other):
    domain = Domain.of({"q": [1, 2, 3, None], "a": ["x", "y"]})
    tables = []
    for k, values in enumerate((one, other)):
        columns = {"q": pa.array(ANSWERS), "a": TEXTS} | ({} if values is None else {column: values})
        tables.append(pa.table(columns))
        pq.write_table(tables[k], tmp_path / f"{k}.parquet")
    parts = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    together = count(parts, domain, ["q", "a"], allow_extra=True).table
    np.testing.assert_array_equal(together, sum(count(t, domain, ["q", "a"], allow_extra=True).table for t in tables))
    # a value changes with a chance of e^-40
    unchanged = Mechanism(domain, ProductLaw(domain.sizes, np.full(2, 40.0)))
    options = ReleaseOptions(drop_undeclared=True)
    release_file(parts, unchanged, tmp_path / "r.parquet", 1, options)
    np.testing.assert_array_equal(count(tmp_path / "r.parquet", domain, ["q", "a"]).table, together)
    if column == "more":
        with pytest.raises(InvalidInput, match=r"1.parquet differs from .*0.parquet in column 'more'"):
            list(open_source(parts, domain).batches(["more"]))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_columns_in_the_names_of_directories(tmp_path, kind):
    """As Arrow, Spark and Hive write them: escaped names, numbers, the missing value, two levels."""
    place = tmp_path / "by"
    table = TABLE.append_column("of what", pa.array([["a/b", "c", None][k % 3] for k in range(N)]))
    partitioning = pa_dataset.partitioning(pa.schema([("of what", pa.string()), ("age", pa.int64())]), flavor="hive")
    pa_dataset.write_dataset(table, place, format=kind, partitioning=partitioning)
    assert (place / "of what=a%2Fb").is_dir() or (place / "of%20what=a%2Fb").is_dir()
    domain = Domain((*DOMAIN.attributes, Attribute("of what", ("a/b", "c", None))))
    for names in (domain.names, ["of what", "answer, if any"], ["age"], ["sé"]):
        expected = count(table, domain, names, allow_extra=True).table
        for data in (place, f"{place}/*/age=*/*", [place]):
            assert np.array_equal(count(data, domain, names).table, expected)
    assert (
        release_file(
            place, Mechanism(domain, ProductLaw(domain.sizes, np.full(4, 40.0))), tmp_path / "r.parquet", 1
        ).records
        == N
    )
    assert np.array_equal(
        count(tmp_path / "r.parquet", domain, domain.names).table, count(table, domain, domain.names).table
    )
    one = next((place / "of%20what=c").rglob("*.*"), None) or next((place / "of what=c").rglob("*.*"))
    one.rename(place / one.name)
    with pytest.raises(InvalidInput, match=r"differs from .* in column 'age'; give files with the same columns"):
        count(place, domain, "age")


def test_a_lazy_frame_is_read_again_and_an_iterator_is_not():
    lazy = open_source(pl.DataFrame(TABLE).lazy().filter(pl.col("age") == 1))
    for _ in range(2):  # a lazy frame is computed each time it is asked for
        assert sum(b.num_rows for b in lazy.batches(["age"])) == sum(r["age"] == 1 for r in EXPECTED)
    once = open_source(iter(TABLE.to_batches()))
    list(once.batches(["age"]))
    with pytest.raises(InvalidInput, match="can be read only once"):
        list(once.batches(["age"]))
    mixed = iter([*TABLE.to_batches(), pa.record_batch({"other": [1]})])
    with pytest.raises(InvalidInput, match="batches of different columns"):
        list(open_source(mixed).batches(["age"]))


def test_a_database_needs_a_query(tmp_path):
    path = duckdb_file(tmp_path / "people.duckdb").removeprefix("duckdb:")
    with pytest.raises(InvalidInput, match="select records with ``query="):
        open_source(path, DOMAIN)
    with pytest.raises(InvalidInput, match="check the database and the query"):
        open_source(RecordsAt(path, query="SELECT nothing FROM nowhere"), DOMAIN)


@pytest.mark.parametrize("place", ["sqlite:{}/owm.db", "sqlite:file:{}/owm.db?mode=rwc", "duckdb:{}/owm.db"])
def test_reading_creates_no_database(place, tmp_path):
    with pytest.raises(InvalidInput, match="there is no such file; check its name"):
        open_source(RecordsAt(place.format(tmp_path), query="SELECT 1"), DOMAIN)
    assert not list(tmp_path.iterdir())


def test_sqlite_columns_whose_type_changes(tmp_path):
    """Its driver takes types from the first rows; what a later row holds is in no message."""
    pytest.importorskip("adbc_driver_sqlite")
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (x)")
        connection.executemany("INSERT INTO people VALUES (?)", [(k % 2,) for k in range(2_000)] + [("secret",)])
    connection.close()
    place = RecordsAt(f"sqlite:{path}", query="SELECT x FROM people")
    with pytest.raises(InvalidInput, match="CAST it in the query") as refused:
        count(place, Domain.of({"x": 2}), ["x"])
    assert "secret" not in str(refused.value)
    cast = RecordsAt(f"sqlite:{path}", query="SELECT CAST(x AS TEXT) AS x FROM people LIMIT 2000")
    assert count(cast, Domain.of({"x": 2}), ["x"]).table.tolist() == [1_000, 1_000]
    other = RecordsAt(f"sqlite:{path}", query="SELECT CAST(x'ff41' AS TEXT) AS x FROM people")
    with pytest.raises(InvalidInput, match="text that is not UTF-8"):
        count(other, Domain.of({"x": 2}), ["x"])


def test_batches_of_another_type_than_the_first_are_read_by_their_texts(tmp_path):
    batches = [pa.record_batch({"x": pa.array([0, 1])}), pa.record_batch({"x": pa.array(["1"])})]
    domain = Domain.of({"x": 2})
    assert count(iter(batches), domain, "x").table.tolist() == [1, 2]
    other = pa.record_batch({"x": pa.array(["secret"])})
    with pytest.raises(InvalidInput, match="column 'x', record 4: unknown category") as refused:
        count(iter([*batches, other]), domain, "x")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("place", ["somebody:secret@nowhere", "somebody:se:secret@nowhere", "nowhere/?password=secret"])
def test_a_password_is_not_shown(place):
    pytest.importorskip("adbc_driver_postgresql")
    where = RecordsAt(f"postgresql://{place}.invalid", query="SELECT 1")
    with pytest.raises(InvalidInput, match=r"postgresql://(somebody:…@)?nowhere") as caught:
        open_source(where)
    assert "secret" not in str(caught.value)


def test_progress_tells_the_share(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "BLOCK", 1 << 12)
    (tmp_path / "a.csv").write_bytes(csv_bytes())
    pq.write_table(TABLE, tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        seen = []
        where = RecordsAt(tmp_path / name, watch=lambda done, share, seen=seen: seen.append((done, share)))
        count(where, DOMAIN, ["age"])
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert seen[-1] == (N, 1.0)
        assert all(0 < share <= 1 for _, share in seen)


REFUSED = {
    "no header": ("a.csv", b"F,yes,1\nM,no,2\n", "holds none of the names 'sé'", "yes"),
    "ragged": (
        "a.csv",
        csv_bytes() + b"F," + b"Z" * 140_000 + b",1\nF,1\n",
        f"record {N + 2} has 2 fields and the first",
        "Z",
    ),
    "ragged and cut off": ("a.csv", csv_bytes() + b"F,\xc3", f"record {N + 1} has 2 fields and the first line 3", "Ã"),
    "utf-8 too late": ("a.csv", csv_bytes() + b"F,no\n" * 300_000 + b"\xff,no,1\n", "record 2001 has 2 fields", "ÿ"),
    "json that is no object": ("a.jsonl", b"null\n", "line 1 is not one whole JSON object", None),
    "json of lists": ("a.jsonl", b'["Z"]\n', "line 1 is not one whole JSON object", "Z"),
    "json of objects": (
        "a.jsonl",
        json_bytes() + b'{"age": {"Z": 1}}\n',
        "column 'age' contains values other than",
        "Z",
    ),
    "empty json": ("a.jsonl", b" \n", "is empty; give one JSON object per line", None),
    "arrow cut off": ("a.arrow", ipc_bytes(pa.ipc.new_file)[:-200], "not a whole Arrow file", None),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read(tmp_path, case):
    name, content, message, hidden = REFUSED[case]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=message) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    assert hidden is None or hidden not in str(caught.value).replace(str(path), "").split(";")[0].replace(message, "")


def test_arrow_s_own_formats_are_looked_through_before_they_are_used(tmp_path):
    """An offset that points far outside the text: whoever follows it reads other memory."""
    texts = pa.array(["F", "M", "F"])
    path = tmp_path / "a.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, pa.schema([("sex", pa.string())])) as writer:
        writer.write(pa.record_batch([texts], names=["sex"]))
    raw = path.read_bytes()
    at = raw.rindex(np.array([0, 1, 2, 3], dtype=np.int32).tobytes())
    path.write_bytes(raw[: at + 12] + np.int32(1 << 29).tobytes() + raw[at + 16 :])
    with pytest.raises(InvalidInput, match="a column does not match its declared type"):
        count(path, Domain.of({"sex": ["F", "M"]}), "sex")


def test_records_come_in_through_a_pipe(tmp_path, monkeypatch):
    """Randomized at an ε that changes nothing, a table comes out as it went in; of a refused one nothing is written."""
    monkeypatch.chdir(tmp_path)
    optrr.save(optrr.design({"a": 2, "b": 3}, 40.0, method="kronecker"), "d.json")
    rows = [f"{k % 2},{k % 3}" for k in range(300)]
    for text, code in (("\n".join(["a,b", *rows, ""]), 0), ("a,b\n0,7\n", 2)):
        standard_input(monkeypatch, text.encode())
        assert run(["randomize", "-", "--design", "d.json", "-o", f"{code}.csv", "--keep-order"]) == code
    # the default draws differ each time: at ε 40 each of 600 cells changes with chance below e^-30
    assert (tmp_path / "0.csv").read_text().replace('"', "").split() == ["a,b", *rows]
    assert not (tmp_path / "2.csv").exists()


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """A design, its reports as clients send them, one of them twice, and places that hold them."""
    folder, rng = tmp_path_factory.mktemp("sent"), np.random.default_rng(3)
    design = optrr.design(SENT, 3.0)
    codes = [rng.integers(0, int(r), 400) for r in SENT.sizes]
    shown = [
        {"format": "optrr-report/1", "design": design.digest.partition(":")[2], "id": f"{k:032x}"} for k in range(400)
    ]
    for k, report in enumerate(shown):
        report["values"] = [a.texts[column[k]] for a, column in zip(SENT, codes, strict=True)]
    shown.insert(300, shown[7])
    lines = [json.dumps(report) for report in shown]
    (folder / "r.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "parts").mkdir()
    (folder / "parts" / "a.jsonl").write_text("\n".join(lines[:200]))
    (folder / "parts" / "b.jsonl").write_text("\n".join(lines[200:]))
    pq.write_table(pa.Table.from_pylist(shown), folder / "columns.parquet")
    stored = pa.table({"at": list(range(401)), "body": lines})
    pq.write_table(stored, folder / "texts.parquet")
    pa_csv.write_csv(stored, folder / "texts.csv")
    with sqlite3.connect(folder / "s.sqlite") as database:
        database.execute("create table sent (body text)")
        database.executemany("insert into sent values (?)", [(line,) for line in lines])
    duckdb = pytest.importorskip("duckdb").connect(str(folder / "d.duckdb"))
    duckdb.execute("create table sent (body json)")
    duckdb.executemany("insert into sent values (?)", [(line,) for line in lines])
    duckdb.close()
    places = [folder / name for name in ("r.jsonl", "parts", "columns.parquet", "texts.parquet", "texts.csv")]
    places += [
        RecordsAt(f"{kind}", query="select body from sent")
        for kind in (f"sqlite:{folder}/s.sqlite", folder / "d.duckdb")
    ]
    places += [pl.read_ndjson(folder / "r.jsonl"), pl.read_ndjson(folder / "r.jsonl").to_pandas()]
    return design, shown, codes, places


@pytest.mark.parametrize("which", range(9))
def test_reports_of_devices_are_records_once_each(sent, which):
    """Columns of JSON lines, Parquet and frames, and texts in Parquet, CSV and databases; their design is known."""
    design, _, codes, places = sent
    reports = design.reports(places[which])
    (counts,) = reports.counts(("kids", "sex"))
    expected = np.zeros((3, 2), dtype=np.int64)
    np.add.at(expected, (codes[1], codes[0]), 1)
    np.testing.assert_array_equal(counts.table, expected)
    assert reports.doubts == [] and counts.n == 400
    with pytest.raises(InvalidInput, match="another design"):
        optrr.design(SENT, 2.0).reports(places[which]).table("sex")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"design": "0" * 64}, "a report is of another design"),
        ({"id": None}, "a report has no id"),
        ({"values": ["f", "0"]}, "does not have the 3 values"),
        ({"values": None}, "does not have the 3 values"),
        ({"values": ["f", "secret", "true"]}, "column 'kids', record 401: unknown category"),
    ],
)
@pytest.mark.parametrize("as_text", [False, True])
def test_a_wrong_report_of_a_device_is_refused_without_its_values(sent, tmp_path, wrong, said, as_text):
    design, shown, _, _ = sent
    given = [*shown, {**shown[0], "id": "f" * 32} | wrong]
    place = tmp_path / ("r.csv" if as_text else "r.jsonl")
    if as_text:
        pa_csv.write_csv(pa.table({"body": [json.dumps(each) for each in given]}), place)
    else:
        place.write_text("\n".join(map(json.dumps, given)))
    with pytest.raises(InvalidInput, match=said) as refused:
        design.reports(place).table("kids")
    assert "secret" not in str(refused.value)
    if not as_text:
        place.write_text("\n".join(json.dumps({**each, "id": [each["id"]]}) for each in shown))
        with pytest.raises(InvalidInput, match="a report has no id that is a text"):
            design.reports(place).table("kids")
        place.write_text("\n".join(json.dumps({"table": 1, "cells": "0", **each, "values": None}) for each in shown))
        with pytest.raises(InvalidInput, match="does not have the 3 values"):
            design.reports(place).table("kids")
    else:
        place.write_text(place.read_text() + "oops\n")
        with pytest.raises(InvalidInput, match="holds a text that is not a report"):
            design.reports(place).table("kids")
