"""Every command that reads records, on every place that records come from, gives what it gives on a plain file."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as pa_feather
import pyarrow.parquet as pq
import pytest

import optrr
from optrr.cli.main import run
from optrr.designs.dependence import dependences_from_randomized
from optrr.designs.design_file import load_design
from optrr.errors import InvalidInput
from optrr.records.observed import observed_domain
from optrr.records.reading.source import RecordsAt

N = 240
CODES = np.random.default_rng(3).integers(0, [2, 3, 2], (N, 3))
TABLE = pa.table(
    {
        "sex": pa.array(["F", "M"]).take(pa.array(CODES[:, 0])),
        "answer, if any": pa.array(["yes; sure", "no", "ü"]).take(pa.array(CODES[:, 1])),
        "smokes": pa.array(CODES[:, 2]),
    }
)
NAMES = TABLE.column_names


def csv_bytes(delimiter: str = ",") -> bytes:
    sink = io.BytesIO()
    pa_csv.write_csv(TABLE, sink, pa_csv.WriteOptions(delimiter=delimiter))
    return sink.getvalue()


def json_bytes() -> bytes:
    return "".join(json.dumps(row) + "\n" for row in TABLE.to_pylist()).encode()


def stream_bytes() -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return sink.getvalue()


def directory(place: Path) -> Path:
    place.mkdir()
    for k in range(3):
        pq.write_table(TABLE.slice(80 * k, 80), place / f"part-{k}.parquet")
    return place


def partitioned(place: Path) -> Path:
    for sex in ("F", "M"):
        (place / f"sex={sex}").mkdir(parents=True)
        chosen = TABLE.filter(pa.compute.equal(TABLE["sex"], sex)).drop_columns(["sex"])
        pa_csv.write_csv(chosen, place / f"sex={sex}" / "a.csv")
    return place


def duckdb_file(place: Path) -> str:
    with pytest.importorskip("duckdb").connect(str(place)) as connection:
        connection.register("frame", TABLE)
        connection.execute("CREATE TABLE people AS SELECT * FROM frame")
    return f"duckdb:{place}"


def sqlite_file(place: Path) -> str:
    pytest.importorskip("adbc_driver_sqlite")
    with sqlite3.connect(place) as connection:
        connection.execute('CREATE TABLE people (sex TEXT, "answer, if any" TEXT, smokes INTEGER)')
        connection.executemany("INSERT INTO people VALUES (?, ?, ?)", [tuple(r.values()) for r in TABLE.to_pylist()])
    connection.close()
    return f"sqlite:{place}"


def file(name: str, content: bytes, *options: str):
    def written(folder: Path) -> list[str]:
        (folder / name).write_bytes(content)
        return [str(folder / name), *options]

    return written


def piped(content: bytes):
    """Comes through standard input: bytes in place of arguments."""
    return lambda folder: content


QUERY = ("--query", "SELECT * FROM people;")
PLACES = {
    "parquet": lambda folder: [str(folder / "plain.parquet")],
    "csv.gz": file("a.csv.gz", gzip.compress(csv_bytes())),
    "csv.zst, semicolons": file("a.csv.zst", pa.compress(csv_bytes(";"), codec="zstd", asbytes=True)),
    "csv, said": file("a.txt", csv_bytes("|").decode().encode("latin-1"), "--format", "csv", "--encoding", "latin-1"),
    "tsv": file("a.tsv", csv_bytes("\t")),
    "jsonl": file("a.jsonl", json_bytes()),
    "arrow file": lambda folder: [pa_feather.write_feather(TABLE, folder / "a.feather") or str(folder / "a.feather")],
    "arrow stream": file("a.arrows", stream_bytes()),
    "directory": lambda folder: [str(directory(folder / "out.parquet"))],
    "pattern": lambda folder: [str(directory(folder / "d") / "part-*.parquet")],
    "several": lambda folder: [str(p) for p in sorted(directory(folder / "s").iterdir())],
    "partitioned": lambda folder: [str(partitioned(folder / "p"))],
    "duckdb": lambda folder: [duckdb_file(folder / "a.duckdb"), *QUERY],
    "sqlite": lambda folder: [sqlite_file(folder / "a.sqlite"), *QUERY],
    "pipe of csv": piped(csv_bytes()),
    "pipe of gzip": piped(gzip.compress(csv_bytes(";"))),
    "pipe of json": piped(json_bytes()),
    "pipe of arrow": piped(stream_bytes()),
}
PAIR = ("--attributes", "sex,answer,, if any")
COMMANDS = {
    "spec": ("spec",),
    "perturb": ("perturb", "--design", "design.json", "-o", "released.parquet"),
    "estimate": ("estimate", "--design", "design.json", *PAIR),
    "adjusted": ("estimate", "--design", "design.json", *PAIR, "--method", "adjusted"),
    "regress": ("regress", "--design", "design.json", "--formula", "sex ~ `answer, if any`"),
    "measure": ("measure", "--design", "design.json", *PAIR),
    "test": ("test", "--design", "design.json", *PAIR, "--random-state", "1"),
    "cluster": ("cluster", "--design", "design.json", "--max-combinations", "6", "--min-dependence", "0.1"),
}
# What each gives on the plain file, once it was asked.
EXPECTED: dict[str, dict] = {}
# What tells of the place, not of the records.
ASIDE = {"doubts", "output", "left_out"}


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A design that changes one value in 10^8, so that what is released can be compared with what was read."""
    folder = tmp_path_factory.mktemp("design")
    domain = observed_domain(TABLE, NAMES)
    optrr.save(optrr.design(domain, 20.0, method="kronecker"), folder / "design.json")
    return folder / "design.json"


def output_of(command: str, folder: Path, place, monkeypatch, capsys) -> dict:
    name, *options = COMMANDS[command]
    at = place
    if isinstance(place, bytes):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(place)))
        at = ["-"]
    (folder / "released.parquet").unlink(missing_ok=True)
    assert run([name, *at, *options, "--json"]) == 0, capsys.readouterr().err
    printed = json.loads(capsys.readouterr().out)
    if command == "perturb":
        rows = pq.read_table(folder / "released.parquet").select(NAMES).to_pylist()
        printed["rows"] = sorted((r["sex"], r["answer, if any"], str(r["smokes"])) for r in rows)
    if command == "spec":
        # places that have no order of columns, or no types, say the same with other comments
        return {"records": printed["records"], "attributes": sorted(a["name"] for a in printed["attributes"])}
    return {key: value for key, value in printed.items() if key not in ASIDE}


def test_a_command_reads_a_pipe_once_and_what_needs_it_twice_says_so(tmp_path, monkeypatch, capsys, design):
    (tmp_path / "file.csv").write_bytes(csv_bytes())
    asked = ["--design", str(design), *PAIR, "--method", "adjusted", "--json"]
    assert run(["estimate", str(tmp_path / "file.csv"), *asked]) == 0
    from_file = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(csv_bytes())))
    # what lies beside a file called - says nothing of a pipe
    monkeypatch.chdir(tmp_path)
    Path("-.optrr.json").write_text("{")
    assert run(["estimate", "-", *asked]) == 0
    piped = json.loads(capsys.readouterr().out)
    assert piped["estimate"] == from_file["estimate"]
    assert piped["doubts"][0].startswith("standard input is not bound to a design")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(csv_bytes())))
    reports = load_design(design).reports(RecordsAt(Path("-"), format="csv"))
    assert reports.table("sex").n == 240
    with pytest.raises(InvalidInput, match="standard input can be read only once; write it to a file"):
        reports.table("answer, if any")


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_every_command_on_every_place(tmp_path, monkeypatch, capsys, design, place):
    monkeypatch.chdir(tmp_path)
    pq.write_table(TABLE, tmp_path / "plain.parquet")
    (tmp_path / "design.json").write_bytes(design.read_bytes())
    at = PLACES[place](tmp_path)
    for command in COMMANDS:
        if command == "adjusted" and isinstance(at, bytes):
            continue  # it needs the records twice, as test_what_needs_a_pipe_twice_says_so sees
        if command not in EXPECTED:
            EXPECTED[command] = output_of(command, tmp_path, [str(tmp_path / "plain.parquet")], monkeypatch, capsys)
        assert output_of(command, tmp_path, at, monkeypatch, capsys) == EXPECTED[command], command


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
    mechanism, names = made.mechanism, ["sex", "smokes"]
    expected = optrr.count(TABLE, made.domain, names)
    assert np.array_equal(optrr.count(records(), made.domain, names).table, expected.table)
    assert observed_domain(records(), NAMES) == made.domain
    assert optrr.Specification.from_frame(records(), epsilon=1.0).domain.names == tuple(NAMES)
    assert optrr.perturb(records(), mechanism, tmp_path / "r.csv") == N
    assert np.array_equal(optrr.count(tmp_path / "r.csv", made.domain, names).table, expected.table)
    assert np.array_equal(made.estimate(records(), names).proportions, made.estimate(TABLE, names).proportions)
    learned = dependences_from_randomized(records(), mechanism)
    assert np.array_equal(learned.matrix, dependences_from_randomized(TABLE, mechanism).matrix)
